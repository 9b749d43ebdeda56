"""What keeps a partition of a copy task from getting on at present, and how long it pauses before it tries again."""

from enum import StrEnum


class Side(StrEnum):
    """Which cluster of a copy."""

    SOURCE = "source"
    TARGET = "target"


LEDGER, WRITING = "ledger", "writing"
"""What, beside reading at the two sides, may fail."""


class Troubles:
    """The troubles of one partition, by side; knows no clock beyond the instants passed in."""

    def __init__(self) -> None:
        self.retry_at = 0.0
        self._failures: dict[str, int] = {}
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str | None:
        """What keeps the partition from getting on; one side's success says nothing about the other."""
        return next(iter(self._troubles.values()), None)

    def failures(self, side: Side) -> int:
        """Failures at one side since something worked there."""
        return self._failures.get(side, 0)

    def settle_trouble(self, side: str) -> None:
        """Something worked again."""
        self._failures.pop(side, None)
        self._troubles.pop(side, None)

    def note(self, side: Side, trouble: str) -> None:
        """Something is not as it should be; a reason that is known already stays."""
        self._troubles.setdefault(side, trouble)

    def trouble_writing(self, trouble: str) -> None:
        """Nothing can be written, whatever can be read there."""
        self._troubles[WRITING] = trouble

    def pause(self, side: str, trouble: str, *, now: float) -> None:
        """A read failed at a side or in the ledger: nothing is in doubt, try again after a pause."""
        failures = self._failures[side] = self._failures.get(side, 0) + 1
        self._troubles[side] = trouble
        self.retry_at = now + min(0.05 * 2 ** min(failures, 6), 2.0)
