"""The mirror: the driver of a flow, its rounds and copy tasks, and what it does on requests of operators."""
