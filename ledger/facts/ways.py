"""From which cluster to which one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Direction:
    """From which cluster to which one, by alias, records are mirrored and applications move."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"from {self.source} to {self.target}"
