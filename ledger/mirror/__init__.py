"""The copy task, its reconciliation with the target, and the rounds of a flow."""
