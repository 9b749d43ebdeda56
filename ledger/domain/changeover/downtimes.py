"""For how long applications have no cluster to write to: forecast step by step, and compared with what it was.

A step that an earlier apply between the same clusters has carried out takes as long as it took then. Else it is
estimated by the number of partitions and groups, for brokers that answer within a few milliseconds. What hooks and
people take is in neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.domain.changeover.plans import FenceChoice
from ledger.domain.changeover.steps import BY_PEOPLE, ChangeoverKind, StepName

_ORDER = tuple(StepName)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds: at least, more for a thousand partitions, more for a hundred groups."""

    least: float
    partitions: float = 0.0
    groups: float = 0.0

    def of(self, partitions: int, groups: int) -> float:
        return self.least + self.partitions * partitions / 1_000 + self.groups * groups / 100


_FENCES = {
    FenceChoice.CLOSED: _Cost(2.0, 0.5),
    FenceChoice.SHUT: _Cost(3.0, 0.5),
    FenceChoice.HOOK: _Cost(5.5, 0.5),
    FenceChoice.NONE: _Cost(0.1),
}
_COSTS = {
    StepName.CHECK: _Cost(2.0, 2.0),
    StepName.RECORD: _Cost(1.0, 0.5),
    StepName.DRAIN: _Cost(1.2, 0.5),
    StepName.STOP_GROUPS: _Cost(0.3, 0.0, 0.4),
    StepName.PROMOTE: _Cost(0.3, 0.3),
    StepName.SHUT_OUT: _Cost(1.5, 0.6),
    StepName.SETTLE: _Cost(1.0, 1.0),
    StepName.CUT: _Cost(0.4, 0.8),
    StepName.HAND_OVER: _Cost(0.5, 0.3),
    StepName.MOVE_GROUPS: _Cost(0.7, 0.5, 1.0),
    StepName.AUDIT: _Cost(0.5, 0.4),
}


def steps_without_a_cluster(kind: ChangeoverKind, steps: Sequence[StepName]) -> tuple[StepName, ...]:
    """Steps that applications wait for: behind the stop of producers, of a failover all until they are started."""
    begins = -1 if kind is ChangeoverKind.FAILOVER else _ORDER.index(StepName.STOP_PRODUCERS)
    ends = _ORDER.index(StepName.START_APPLICATIONS)
    return tuple(step for step in steps if begins < _ORDER.index(step) < ends)


def forecast_downtime(
    kind: ChangeoverKind,
    steps: Sequence[StepName],
    fence: FenceChoice,
    *,
    partitions: int,
    groups: int,
    measured: Mapping[str, float],
) -> dict[str, Any]:
    """Seconds of all steps together and of each; `measured`: what they took last between the same clusters."""
    found: dict[str, float] = {}
    known = []
    for step in steps_without_a_cluster(kind, steps):
        if step is StepName.STOP_PRODUCERS:
            continue
        if step in measured and step not in BY_PEOPLE:
            found[str(step)] = round(measured[step], 1)
            known.append(str(step))
        else:
            cost = _FENCES[fence] if step is StepName.FENCE else _COSTS[step]
            found[str(step)] = round(cost.of(partitions, groups), 1)
    return {
        "seconds": round(sum(found.values()), 1),
        "steps": found,
        "measured": known,
        "partitions": partitions,
        "groups": groups,
    }


def downtime_words(forecast: Mapping[str, Any]) -> str:
    """In a line, with the longest steps and what it rests on."""
    longest = sorted(forecast["steps"].items(), key=lambda found: -found[1])[:4]
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in longest)
    measured = len(forecast["measured"])
    basis = "by what it took last" if measured else "an estimate: nothing was measured between these clusters"
    if 0 < measured < len(forecast["steps"]) - 1:
        basis += f" ({measured} of {len(forecast['steps'])} steps)"
    seconds = f"about {forecast['seconds']:.0f} s"
    return f"{seconds} without a cluster to write to, hooks and people aside: {steps}, ...; {basis}"


def compared(forecast: Mapping[str, Any], took: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """By step what was forecast and what it took, as far as both are known."""
    return {
        step: {"forecast": seconds, "took": round(took[step], 1)}
        for step, seconds in forecast["steps"].items()
        if step in took and step not in BY_PEOPLE
    }


def compared_words(found: Mapping[str, Mapping[str, float]]) -> str:
    """In a line: both sums, and the steps that took longer than forecast by a second at least."""
    sums = {name: sum(one[name] for one in found.values()) for name in ("forecast", "took")}
    words = f"the steps between took {sums['took']:.1f} s, {sums['forecast']:.1f} s were forecast"
    longer = ", ".join(_longer(found))
    return f"{words}: {longer}" if longer else words


def _longer(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for step, one in found.items():
        if one["took"] - one["forecast"] >= 1.0:
            yield f"{step} {one['took']:.1f} s instead of {one['forecast']:.1f} s"
