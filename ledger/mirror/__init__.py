"""The driver of a flow and its copy tasks: a room for each part, imports go down only."""
