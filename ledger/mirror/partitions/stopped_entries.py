"""Stopped partitions as an operator deals with them: those of one topic and one cause are one entry.

A command for a whole topic resumes every stopped partition of it, whatever stopped it. So an entry has one
command when all that stopped of its topic is in it; else one for each of its partitions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.domain.words import partition_names
from ledger.mirror.partitions.stop_advice import command


class Stopped(Protocol):
    """A partition that stands still: why, what was seen, and what to do in words."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def cause(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def next(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """Implements `Stopped`."""

    topic: str
    partition: int
    cause: str
    message: str
    next: str | None


@dataclass(frozen=True, slots=True)
class StoppedEntry:
    """`message`: what was seen at the first partition; `differing`: how many others stopped at other values.

    `commands` resume the partitions; empty when no single request does.
    """

    topic: str
    partitions: tuple[int, ...]
    cause: str
    message: str
    differing: int
    next: str | None
    commands: tuple[str, ...]

    @property
    def where(self) -> str:
        """The partitions, in few words."""
        return partition_names.of_topic(self.topic, self.partitions)

    @property
    def seen(self) -> str:
        """What was seen, in one line; of several partitions the first stands for those with other values."""
        if not self.differing:
            return self.message
        others = f"{self.differing} other{'s' if self.differing > 1 else ''}"
        return f"at partition {self.partitions[0]}: {self.message} (at {others}: the same with other values)"


def stopped_entries(flow: str, stopped: Iterable[Stopped]) -> list[StoppedEntry]:
    """One entry for each topic and cause, in the order of topics and of their first partitions."""
    by_topic: dict[str, dict[str, list[Stopped]]] = {}
    for one in sorted(stopped, key=lambda one: (one.topic, one.partition)):
        by_topic.setdefault(one.topic, {}).setdefault(one.cause, []).append(one)
    return [
        _entry(flow, alike, is_all_of_topic=len(causes) == 1)
        for causes in by_topic.values()
        for alike in causes.values()
    ]


def _entry(flow: str, stopped: Sequence[Stopped], *, is_all_of_topic: bool) -> StoppedEntry:
    first = stopped[0]
    numbers = tuple(one.partition for one in stopped)
    named: list[int | None] = [None] if is_all_of_topic and len(numbers) > 1 else [*numbers]
    found = (command(first.cause, flow=flow, topic=first.topic, partition=number) for number in named)
    return StoppedEntry(
        first.topic,
        numbers,
        first.cause,
        first.message,
        sum(one.message != first.message for one in stopped),
        first.next,
        tuple(command for command in found if command is not None),
    )
