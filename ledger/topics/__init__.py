"""Topics: their names at both sides, who may write to them, how a target's follow its source's."""
