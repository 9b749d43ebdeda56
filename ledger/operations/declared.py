"""What operators declare of clusters, as the commands tell it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Declared:
    """What was recorded, in words; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str
