"""Requests of one partition that are on their way, and whether their answers still count."""

from collections import Counter
from enum import StrEnum

from ledger.mirror.task.troubles import Side


class Asked(StrEnum):
    """What a request is for."""

    RECORDS = "records"
    TAIL = "tail"
    WRITE = "write"

    @property
    def side(self) -> Side:
        """Which cluster answers."""
        return Side.SOURCE if self is Asked.RECORDS else Side.TARGET


class OpenRequests:
    """P4: an attempt ends with a doubt. What was asked in an earlier one is waited for, and tells nothing any more."""

    def __init__(self) -> None:
        self._attempt = 0
        self._open = Counter[Asked]()

    @property
    def attempt(self) -> int:
        """Which attempt asks now; each has another number."""
        return self._attempt

    def is_open(self, asked: Asked) -> bool:
        """Such a request is on its way, of this attempt or an earlier one."""
        return self._open[asked] > 0

    def sent(self, asked: Asked) -> None:
        """One more is on its way."""
        self._open[asked] += 1

    def answered(self, asked: Asked, attempt: int) -> bool:
        """One is answered, or never will be; returns whether the answer counts."""
        self._open[asked] -= 1
        return attempt == self._attempt

    def begin_again(self) -> None:
        """Answers to what is on its way count no longer."""
        self._attempt += 1
