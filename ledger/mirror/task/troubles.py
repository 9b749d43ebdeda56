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
        self._throttled_ms: dict[Side, int] = {}

    @property
    def trouble(self) -> str | None:
        """What keeps the partition from getting on; one side's success says nothing about the other."""
        throttled = (f"the {side} throttles this client by a quota" for side in self._throttled_ms)
        return next(iter([*self._troubles.values(), *throttled]), None)

    @property
    def unreached(self) -> tuple[tuple[Side, str], ...]:
        """By side what keeps it from reading or writing there at present."""
        sides = {Side.SOURCE: Side.SOURCE, Side.TARGET: Side.TARGET, WRITING: Side.TARGET}
        found = {sides[at]: trouble for at, trouble in self._troubles.items() if at in sides}
        return tuple(found.items())

    @property
    def throttled_ms(self) -> tuple[tuple[Side, int], ...]:
        """By side the longest time for which a broker held an answer back, of this task."""
        return tuple(self._throttled_ms.items())

    def throttle(self, side: Side, throttle_ms: int) -> None:
        """A quota made a broker hold back."""
        self._throttled_ms[side] = max(throttle_ms, self._throttled_ms.get(side, 0))

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
