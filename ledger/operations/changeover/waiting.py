"""Steps that wait for something at a cluster or in the ledger: drained, and at work again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.changeover.plans import PlannedTopic
from ledger.domain.words.count_words import counted
from ledger.domain.words.partition_names import by_topic
from ledger.errors import PreconditionError
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.moved_groups import MovedCommit, read_groups
from ledger.operations.groups.commit_watch import Watch
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FlowPosition

_ASK_EVERY_S = 1.0

Positions = Callable[[str], Sequence[FlowPosition]]
"""Where a flow stands by now."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a step waits, by whose clock."""

    clock: Clock
    sleep: Callable[[float], None]
    seconds: float

    def until(self, left: Callable[[], str | None], waits: Waits, *, advice: str) -> None:
        """Until nothing is left; raises `PreconditionError` with what is left when the time is over."""
        deadline = self.clock.monotonic() + self.seconds
        while (words := left()) is not None:
            remaining_s = deadline - self.clock.monotonic()
            if remaining_s <= 0:
                raise PreconditionError(f"not within {self.seconds:g} s: {words}. {advice}")
            waits(words)
            self.sleep(min(_ASK_EVERY_S, remaining_s))

    def watch(self, quiet_s: float, waits: Waits) -> Watch:
        """Commits are watched for as long as the step may wait, and not for less than they have to stand still."""
        said = ["commits are watched"]

        def sleep(seconds: float) -> None:
            waits(said[-1])
            self.sleep(seconds)

        limit_s = max(self.seconds, quiet_s)
        return Watch(self.clock, sleep, quiet_s, limit_s, min(_ASK_EVERY_S, quiet_s / 5), said.append)


def partitions_of(cluster: ClusterAdmin, topics: Iterable[str]) -> list[tuple[str, int]]:
    """All partitions that these topics have now; raises `PreconditionError` for one that is not there."""
    there = cluster.topics()
    names = sorted(set(topics))
    if missing := [name for name in names if name not in there]:
        raise PreconditionError(f"{cluster.alias} has no topic {', '.join(missing)}, or does not show it")
    return [(name, partition) for name in names for partition in range(there[name].partitions)]


def ends_of(cluster: ClusterAdmin, topics: Iterable[str]) -> Mapping[tuple[str, int], PartitionEnds]:
    """The ends of all their partitions; raises `PreconditionError` where one has no leader."""
    partitions = partitions_of(cluster, topics)
    ends = cluster.ends(partitions)
    if silent := [one for one in partitions if one not in ends]:
        raise PreconditionError(f"{cluster.alias}: {by_topic(silent)} has no leader")
    return ends


def drain(
    source: ClusterAdmin,
    topics: Sequence[PlannedTopic],
    positions: Positions,
    patience: Patience,
    waits: Waits,
) -> StepResult:
    """Wait until the maps reach the ends that the source has once it is fenced.

    A partition that a flow has not begun with is not drained, though it be empty: the target may not have it yet, and
    no group gets a place there.
    """
    names = {topic.source_topic for topic in topics}
    ends = ends_of(source, names)
    if open_ones := _open(ends, ends_of(source, names)):
        raise PreconditionError(
            f"{source.alias}: a transaction is open at {by_topic(open_ones)}: what lies behind it cannot be copied; "
            "end or abort it (kafka-transactions.sh find-hanging), then continue"
        )

    def left() -> str | None:
        behind = _behind(ends, topics, positions)
        to_copy = {at: lacking for at, lacking in behind.items() if lacking}
        if to_copy:
            return f"{counted(sum(to_copy.values()), 'offset')} to copy at {by_topic(to_copy)}"
        return f"{by_topic(behind)} not begun with" if behind else None

    patience.until(
        left,
        waits,
        advice="A driver has to be at work (mirror-ledger status); then continue: mirror-ledger apply "
        "PLAN_ID --reason WHY",
    )
    return _drained(ends)


def still_drained(
    source: ClusterAdmin, topics: Sequence[PlannedTopic], positions: Positions, *, operation_id: str
) -> StepResult:
    """The same once the target is promoted, when nothing is copied any more: nothing has come since.

    A partition that was added since is empty, and stays at the source. Raises `PreconditionError` where it is not, or
    records were written: nobody waits for a mirror that has stopped.
    """
    ends = ends_of(source, {topic.source_topic for topic in topics})
    behind = _behind(ends, topics, positions)
    if late := {at: lacking for at, lacking in behind.items() if lacking}:
        raise PreconditionError(
            f"{counted(sum(late.values()), 'offset')} of {source.alias} came after the target was promoted, at "
            f"{by_topic(late)}: nothing copies them now. Undo it, and keep producers away: mirror-ledger undo "
            f"{operation_id} --reason WHY"
        )
    return _drained(ends)


def _drained(ends: Mapping[tuple[str, int], PartitionEnds]) -> StepResult:
    copied = {f"{topic}-{partition}": end.high_watermark for (topic, partition), end in sorted(ends.items())}
    return StepResult(f"{counted(len(ends), 'partition')} copied to the end", {"high_watermarks": copied})


def _open(
    before: Mapping[tuple[str, int], PartitionEnds], after: Mapping[tuple[str, int], PartitionEnds]
) -> list[tuple[str, int]]:
    """Partitions with an open transaction. Two readings tell: between both ends of one, mirrors may have appended."""
    return [
        at
        for at, end in before.items()
        if max(end.last_stable, after.get(at, end).last_stable) < end.high_watermark
    ]


def _behind(
    ends: Mapping[tuple[str, int], PartitionEnds], topics: Sequence[PlannedTopic], positions: Positions
) -> dict[tuple[str, int], int]:
    """How many offsets are not copied, of partitions where there are some; 0 where a flow has not begun."""
    reached = {
        (flow, one.source_topic_id, one.partition): one.position.source_offset
        for flow in {topic.flow for topic in topics}
        for one in positions(flow)
    }
    wanted = {(topic.flow, topic.source_topic): topic.source_topic_id for topic in topics}
    behind: dict[tuple[str, int], int] = {}
    for (flow, name), topic_id in wanted.items():
        for (topic, partition), end in ends.items():
            if topic == name:
                at = reached.get((flow, topic_id, partition))
                lacking = end.high_watermark - (end.log_start if at is None else at)
                if at is None or lacking > 0:
                    behind[topic, partition] = max(lacking, behind.get((topic, partition), 0))
    return behind


def first_progress(
    target: ClusterAdmin, moved: Sequence[MovedCommit], patience: Patience, waits: Waits
) -> StepResult:
    """When each group that was moved first committed behind what was set, in seconds since this began.

    Those that did not within the time are named: whether their consumers work nobody knows.
    """
    started = patience.clock.monotonic()
    after_s: dict[str, float] = {}
    at_ms: dict[str, int] = {}
    groups = {one.group for one in moved}
    while moved:
        for group in _committed_behind(target, moved) - after_s.keys():
            after_s[group] = round(patience.clock.monotonic() - started, 3)
            at_ms[group] = patience.clock.now_ms()
        remaining_s = patience.seconds - (patience.clock.monotonic() - started)
        if groups <= after_s.keys() or remaining_s <= 0:
            break
        waits(f"{counted(len(groups) - len(after_s), 'group')} not at work yet")
        patience.sleep(min(_ASK_EVERY_S, remaining_s))
    still = sorted(groups - after_s.keys())
    words = f"{counted(len(after_s), 'group')} of {len(groups)} committed at {target.alias}"
    words += "".join(f"; {group} after {seconds:.1f} s" for group, seconds in sorted(after_s.items()))
    if still:
        words += f"; not seen at work within {patience.seconds:g} s: {', '.join(still)}"
    return StepResult(
        words, {"seconds_to_first_commit": after_s, "first_commit_at_ms": at_ms, "not_seen_at_work": still}
    )


def _committed_behind(target: ClusterAdmin, moved: Sequence[MovedCommit]) -> set[str]:
    there = read_groups(target, moved)
    return {
        one.group
        for one in moved
        if there.topic_ids.get(one.topic) == one.topic_id
        and there.committed.get(one.place, one.to[-1]) > one.to[-1]
    }
