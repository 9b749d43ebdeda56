"""Rounds that follow each other within one job, so that no record waits until a job has ended and another begins.

A round is over in a task as if the task had ended: all that it sent is answered or given up, and what it came to stands
in its results. These the task hands over to the driver, and at once begins the next round where they leave each
partition. So all rules of an attempt hold for each round by itself (PROTOCOL.md, "Copying a partition").

Rules, by name
    H1  one after the other: a round begins when nothing of the last one is on its way, and reads the target first
    H2  two at most: a round is handed over, and another begun, only when all that were handed over before are recorded;
        else the task ends. So a driver that dies leaves two unrecorded, as with a job for each round
    H3  copying alone: a task continues only where every partition of it was copied and is to be copied further. What
        the driver has to decide on, it decides when no task has the partition
    H4  the last attempt: of several attempts of a share the last one counts, and begins behind all that the others had
        handed over; nothing is taken of these any more
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ledger.facts.syncs import from_offset
from ledger.mirror.assignment import Assignment, PartitionResult

Results = list[PartitionResult]


def continued(results: Sequence[PartitionResult]) -> list[Assignment] | None:
    """What a task copies in its next round; None where it is to end (H3)."""
    following = [_following(result) for result in results]
    found = [assignment for assignment in following if assignment is not None]
    return found if found and len(found) == len(following) else None


def _following(result: PartitionResult) -> Assignment | None:
    before, position = result.assignment, result.position
    has_met_something = (result.stop, result.divergence, result.target_lost_from, result.copied_again)
    is_decided = all(one is None for one in has_met_something) and before.pairs_below is None
    end = before.end_offset
    if not is_decided or (end is not None and position.source_offset >= end):
        return None
    return replace(
        before,
        position=position,
        tail=result.tail,
        adopted=from_offset(before.adopted, position.source_offset),
        kept_local=from_offset(before.kept_local, position.source_offset),
    )


# Tasks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """An attempt of a share of a job. `handed_over`: rounds that the attempts before it have."""

    index: int
    attempt: int
    assignments: tuple[Assignment, ...]
    handed_over: int


class Contact(Protocol):
    """What a task has of its driver."""

    def is_to_end(self) -> bool:
        """The driver wants the results of the round that is under way, or does not answer any more."""
        ...

    def hand_over(self, results: Results) -> bool:
        """Whether the driver has them and the task may begin another round (H2); else they are its last ones."""
        ...


def copy_in_rounds(
    assignments: Sequence[Assignment],
    contact: Contact,
    copy_round: Callable[[Sequence[Assignment]], Results],
) -> Results:
    """Round after round, as long as the task may continue; returns the results of the last one."""
    while True:
        results = copy_round(assignments)
        following = continued(results)
        if following is None or contact.is_to_end() or not contact.hand_over(results):
            return results
        assignments = following


# The driver's side ----------------------------------------------------------------------------------


class CopyJob(Protocol):
    """The tasks of a job, while they copy. `seconds`: how long a round of theirs takes."""

    @property
    def seconds(self) -> float: ...

    @property
    def shares(self) -> list[list[Assignment]]:
        """By task what it copies in the round that follows those which `next_round` has returned."""
        ...

    @property
    def is_over(self) -> bool:
        """No task is at work any more, and `next_round` has returned all that they did."""
        ...

    def next_round(self) -> Results:
        """Wait for a round of all tasks; raises what a task failed with, and its records are found in the next job."""
        ...

    def recorded(self) -> None:
        """All that `next_round` has returned is in the ledger (H2)."""
        ...

    def end(self) -> None:
        """Have the tasks end the round that they are at; `next_round` returns what it came to."""
        ...

    def abandon(self) -> None:
        """Wait until no task is at work any more, whatever they did: the next driver finds it."""
        ...


class RoundRunner(Protocol):
    """Runs the copy tasks of a flow."""

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> Results:
        """A single round; returns a result for every assignment."""
        ...

    def begin(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> CopyJob:
        """Round after round of so many seconds each."""
        ...


@dataclass(slots=True)
class _Share:
    """What one task has; `waiting`: rounds of it that nobody has taken yet."""

    assignments: tuple[Assignment, ...]
    attempt: int = 0
    handed_over: int = 0
    waiting: deque[Results] = field(default_factory=deque)


Last = tuple[int, int, Results]
"""Of a task that has ended: the index of its share, how many rounds of it were handed over before, the last results."""


class JobRounds:
    """Rounds of a job, as its tasks hand them over; safe to use from several threads.

    `recorded`: how many are. `is_to_end`: no task is to begin another one.
    """

    def __init__(self, tasks: Iterable[Sequence[Assignment]]) -> None:
        self._shares = [_Share(tuple(share)) for share in tasks]
        self._lock = threading.Lock()
        self.taken = 0
        self.recorded = 0
        self.is_to_end = False

    @property
    def shares(self) -> list[list[Assignment]]:
        """Of the round behind those that were taken; those that wait do not count yet."""
        with self._lock:
            return [
                [result.assignment for result in share.waiting[0]] if share.waiting else [*share.assignments]
                for share in self._shares
            ]

    @property
    def is_complete(self) -> bool:
        """A round of all shares waits to be taken."""
        with self._lock:
            return all(share.waiting for share in self._shares)

    def begin(self, index: int) -> Turn:
        """Another attempt of a share (H4)."""
        with self._lock:
            share = self._shares[index]
            share.attempt += 1
            return Turn(index, share.attempt, share.assignments, share.handed_over)

    def is_current(self, turn: Turn) -> bool:
        return self._shares[turn.index].attempt == turn.attempt

    def take(self, turn: Turn, results: Results) -> bool:
        """A round that an attempt hands over; False of one that does not count any more (H4)."""
        following = continued(results)
        assert following is not None, "H3"
        with self._lock:
            share = self._shares[turn.index]
            if share.attempt != turn.attempt:
                return False
            share.assignments = tuple(following)
            share.handed_over += 1
            share.waiting.append(results)
            return True

    def next(self) -> Results:
        """A round of all shares; once no task is at work any more also of some."""
        with self._lock:
            self.taken += 1
            return [result for share in self._shares if share.waiting for result in share.waiting.popleft()]

    @property
    def are_waiting(self) -> bool:
        """A round of any share waits to be taken."""
        with self._lock:
            return any(share.waiting for share in self._shares)

    def last(self, found: Iterable[Last]) -> Results:
        """What tasks came to that have ended; what of it had been handed over after all does not count twice."""
        with self._lock:
            return [
                result
                for index, handed_over, results in found
                if handed_over == self._shares[index].handed_over
                for result in results
            ]
