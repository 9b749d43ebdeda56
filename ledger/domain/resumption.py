"""What a request to resume ends, and what resumes after it, in words.

The same words are used when it is asked for, from what the ledger knows, and in the driver's receipt.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.operations.requests import OperatorRequest, Pauses, pausing
from ledger.domain.words import partition_names

Place = tuple[str, int]
"""Source topic and partition."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A request to resume, and what had been asked of the flow before it."""

    request: OperatorRequest
    earlier: Sequence[OperatorRequest]

    @property
    def ended(self) -> list[OperatorRequest]:
        """The pauses that it ends."""
        left = pausing([*self.earlier, self.request])
        return [pause for pause in pausing(self.earlier) if pause not in left]

    def described(self, running: Collection[Place], stopped: Mapping[Place, str]) -> str:
        """Which pauses end, and what resumes.

        `running`: all that stands still for nothing but a pause, once the request is carried out. `stopped`: those of
        them that had stopped, with the cause.
        """
        before = Pauses.by(pausing(self.earlier))
        after = Pauses.by(pausing([*self.earlier, self.request]))
        held = {place for place in running if place in stopped or before.covers(place[0])}
        going = sorted(place for place in held if not after.covers(place[0]))
        waiting = sorted(place for place in held if place in stopped and after.covers(place[0]))
        words = [f"the pause of {pause.subject} ends (paused {pause.asked_in_words})" for pause in self.ended]
        if going:
            words.append(f"{_counted(going)}: {partition_names.by_topic(going)}")
        elif self.ended:
            words.append("no partition of it is known to resume")
        if tried := [place for place in going if place in stopped]:
            words.append(f"of these had stopped, and try again: {_with_causes(tried, stopped)}")
        if waiting:
            words.append(f"no longer stopped, but paused: {partition_names.by_topic(waiting)}")
        return "; ".join(words) or "nothing was paused or stopped any more"


def _counted(places: Sequence[Place]) -> str:
    return f"{len(places)} partitions resume" if len(places) > 1 else "1 partition resumes"


def _with_causes(places: Sequence[Place], causes: Mapping[Place, str]) -> str:
    by_cause: dict[str, list[Place]] = {}
    for place in places:
        by_cause.setdefault(causes[place], []).append(place)
    return "; ".join(f"{partition_names.by_topic(alike)} ({cause})" for cause, alike in by_cause.items())
