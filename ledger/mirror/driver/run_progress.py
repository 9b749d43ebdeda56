"""How far a running flow is, as its driver knows from its own rounds: nothing is asked for it.

A task brings back where the source's log ended at its last answer. What lies between that and the flow's position is
not copied yet; how long at least, the first end tells that was seen beyond the position.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from ledger.mirror.driver.run_summary import RunSummary
from ledger.mirror.partitions.flow_progress import PartitionKey, key_of
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.task.assignments import PartitionResult

_KEPT_ENDS = 64


@dataclass(frozen=True, slots=True)
class Lag:
    """Source offsets that are not copied, over the partitions that are being copied.

    `age_seconds`: of the oldest end that it is from; None: of none, each is the end that the run is to reach.
    `behind_seconds`: for how long at least something waits, None: nothing does, or not known for how long. `unknown`:
    partitions whose end the source has not reported in this run; they are in no other figure.
    """

    offsets: int = 0
    partitions: int = 0
    behind_seconds: float | None = None
    age_seconds: float | None = None
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What a run has done so far, and how far it is; `stopped` (or blocked) and `paused` ones are not in the lag."""

    summary: RunSummary
    lag: Lag
    stopped: int
    paused: int
    stale_after_s: float

    @property
    def is_lag_known(self) -> bool:
        """Whether the lag was measured lately, at all partitions that are being copied."""
        return not self.lag.unknown and (self.lag.age_seconds or 0.0) <= self.stale_after_s


@dataclass(slots=True)
class _Seen:
    """The last end of a partition's source, and those beyond its position, with when they were seen."""

    end: int
    asked_at: float
    beyond: list[tuple[float, int]] = field(default_factory=list)

    def pass_to(self, position: int) -> None:
        self.beyond = [(at, end) for at, end in self.beyond if end > position]
        if len(self.beyond) > _KEPT_ENDS:
            self.beyond = self.beyond[::2]


@dataclass(slots=True)
class SourceEnds:
    """The ends of the source that the rounds of a run brought back."""

    _seen: dict[PartitionKey, _Seen] = field(default_factory=dict)

    def note(self, results: Iterable[PartitionResult], *, asked_at: float, now: float) -> None:
        """What a round brought that ended `now`; its answers are from `asked_at` or later."""
        for result in results:
            source = result.assignment.source
            key = (source.topic_id, source.partition)
            if result.source_ends is not None:
                end = result.source_ends[0]
                seen = self._seen.setdefault(key, _Seen(end, asked_at))
                seen.end, seen.asked_at = end, asked_at
                seen.beyond.append((now, end))
            if key in self._seen:
                self._seen[key].pass_to(result.position.source_offset)

    def lag(self, states: Iterable[PartitionState], *, now: float) -> Lag:
        """Of partitions that are being copied; to the end that the run is to reach, where there is one."""
        offsets = partitions = unknown = 0
        ages: list[float] = []
        waits: list[float] = []
        for state in states:
            seen = self._seen.get(key_of(state.pair))
            if state.end_offset is None and seen is None:
                unknown += 1
                continue
            partitions += 1
            end = state.end_offset
            if end is None and seen is not None:
                end = seen.end
                ages.append(now - seen.asked_at)
            behind = max(0, (end or 0) - state.position.source_offset)
            offsets += behind
            if behind and seen is not None and seen.beyond:
                waits.append(now - seen.beyond[0][0])
        return Lag(offsets, partitions, max(waits, default=None), max(ages, default=None), unknown)


def progress_of(
    summary: RunSummary,
    states: Sequence[PartitionState],
    ends: SourceEnds,
    *,
    is_paused: Callable[[str], bool],
    blocked: Container[str],
    now: float,
    stale_after_s: float,
) -> RunProgress:
    """`is_paused` and `blocked`: by source topic."""
    going = [state for state in states if state.stop is None and state.pair.source.topic not in blocked]
    active = [state for state in going if not is_paused(state.pair.source.topic)]
    return RunProgress(
        summary,
        ends.lag(active, now=now),
        stopped=len(states) - len(going),
        paused=len(going) - len(active),
        stale_after_s=stale_after_s,
    )
