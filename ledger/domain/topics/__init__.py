"""Topics: their names at both sides, which a flow takes, and how the target's follow the source's."""
