"""What is recorded of groups whose offsets are set: where they come from, what is about to be, what became of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ledger.domain.groups import SHARE
from ledger.domain.operations.group_offsets import (
    CommitResult,
    IntendedCommit,
    OffsetsSet,
    OffsetsSetResult,
    SeenAppend,
)
from ledger.domain.tables.cuts import Cut
from ledger.domain.writer_roles import recorder_of
from ledger.operations.groups.outcomes import Outcome, Place, Row, Setting, by_group
from ledger.schema import CHECKPOINTS, GROUP_SYNCS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCommit:
    """What is known of a group's commit on a partition of the source, beside its offset.

    `made_after_ms`: when the group was last seen with another one, or with none. None: unknown.
    """

    topic_id: str | None
    leader_epoch: int | None = None
    made_after_ms: int | None = None


def answered_commit(answer: Row, last: SourceCommit) -> SourceCommit:
    """What is known of the commit that an answer is about: of one before the last one not when it was made."""
    is_earlier = answer.get("last_committed_offset") is not None
    return SourceCommit(topic_id=last.topic_id) if is_earlier else last


@dataclass(frozen=True)
class SourceCommits:
    """Where groups come from: the cluster, and by group, topic and partition the last known commit there."""

    cluster: str
    last: Mapping[tuple[str, str, int], SourceCommit]

    @cached_property
    def _topic_ids(self) -> Mapping[tuple[str, str], set[str | None]]:
        """By group and topic the ids that its commits there are of."""
        found: dict[tuple[str, str], set[str | None]] = defaultdict(set)
        for (group, topic, _), one in self.last.items():
            found[group, topic].add(one.topic_id)
        return found

    def of(self, answer: Row) -> SourceCommit:
        """The commit that an answer is about; without one its topic id is that of the group's others on the topic."""
        group, topic = str(answer["group_id"]), answer["source_topic"]
        if answer["committed_offset"] is not None:
            return answered_commit(answer, self.last[group, topic, answer["source_partition"]])
        others = self._topic_ids.get((group, topic), set())
        return SourceCommit(topic_id=next(iter(others)) if len(others) == 1 else None)


@dataclass(frozen=True, slots=True)
class Why:
    """What is recorded with an operation: the cut of the answers, what was left, the operator's words.

    `flow`: the one whose map answered; None: all between two clusters. `seen`: what of the cut tells these moves from
    what comes behind them.
    """

    flow: str | None
    cut: str
    left: SourceCommits
    reason: str | None = None
    ticket: str | None = None
    seen: tuple[SeenAppend, ...] | None = None


def seen_at(cut: Cut, target_cluster: str) -> tuple[SeenAppend, ...]:
    """What of a cut tells a move from what comes behind it: where groups stood at the target, and were synced."""
    found = [
        *(one for one in cut.of_table(CHECKPOINTS.name) if one.writer == recorder_of(target_cluster)),
        *cut.of_table(GROUP_SYNCS.name),
    ]
    return tuple(
        SeenAppend(table=one.table, writer=one.writer, epoch=one.epoch, round=one.round) for one in found
    )


def intentions(settings: Sequence[Setting], *, target_cluster: str, why: Why) -> list[OffsetsSet]:
    """One for each group of which something is about to be set."""
    to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
    return [
        OffsetsSet(
            group=group,
            source_cluster=why.left.cluster,
            target_cluster=target_cluster,
            group_type=SHARE if of_group[0].is_of_share_group else None,
            cut=why.cut,
            commits=tuple(_intended(one, why.left.of(one.answer)) for one in of_group),
            seen=why.seen,
        )
        for group, of_group in by_group(to_set).items()
    ]


def _intended(one: Setting, left: SourceCommit) -> IntendedCommit:
    return IntendedCommit(
        topic=one.answer["target_topic"],
        topic_id=one.answer["target_topic_id"],
        partition=one.answer["target_partition"],
        former=one.former,
        to=one.answer["target_offset"],
        source_topic=one.answer["source_topic"],
        source_topic_id=left.topic_id,
        source_partition=one.answer["source_partition"],
        source_offset=one.answer["committed_offset"],
        source_leader_epoch=left.leader_epoch,
        source_made_after_ms=left.made_after_ms,
        status=one.answer["status"],
    )


def results(settings: Sequence[Setting]) -> list[OffsetsSetResult]:
    """One for each group: what became of each of its partitions."""
    return [
        OffsetsSetResult(group=group, results=tuple(map(_result, of_group)))
        for group, of_group in by_group(settings).items()
    ]


def _result(one: Setting) -> CommitResult:
    return CommitResult(
        source_topic=one.answer["source_topic"],
        source_partition=one.answer["source_partition"],
        topic=one.answer["target_topic"],
        partition=one.answer["target_partition"],
        former=one.former,
        to=one.answer["target_offset"],
        result=one.outcome.value,
    )


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """What attempts under one operation id came to, by place: `begun` is what was about to be set and has no result,
    `done` what was set."""

    begun: Mapping[Place, int]
    done: Mapping[Place, int]

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> "EarlierAttempts":
        """From rows of `operations` of that operation, in the order of their stamps."""
        begun: dict[Place, int] = {}
        done: dict[Place, int] = {}
        for row in rows:
            if row["kind"] == OffsetsSet.kind:
                intended = OffsetsSet.of_row(row)
                begun |= {(intended.group, one.topic, one.partition): one.to for one in intended.commits}
            elif row["kind"] == OffsetsSetResult.kind:
                for place, result in _placed(OffsetsSetResult.of_row(row)):
                    begun.pop(place, None)
                    if result.result == Outcome.SET and result.to is not None:
                        done[place] = result.to
                    elif result.result in (Outcome.NOT_KEPT, Outcome.MOVED_BY_OTHERS):
                        done.pop(place, None)
        return cls(begun, done)


def _placed(done: OffsetsSetResult) -> Iterator[tuple[Place, CommitResult]]:
    """The results that are about a place at the target."""
    for result in done.results:
        if result.topic is not None and result.partition is not None:
            yield (done.group, result.topic, result.partition), result


NO_ATTEMPTS = EarlierAttempts({}, {})
