"""Setting groups' offsets at a target: what is to be set, compared with what the target has, and the result.

Nothing is set for a group with members, in a topic that is not the one that the answer is about, or over a commit
that lies beyond the answer, unless the operator allows it. Partitions of a group are judged one by one. What is set
is read back.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.group_offsets import CommitResult, IntendedCommit, OffsetsSet, OffsetsSetResult
from ledger.ports.clusters import ClusterAdmin, GroupListing
from ledger.ports.ledger import OperationLog

Row = Mapping[str, Any]
"""An answer of `offset_translation` or `uncommitted_partitions`."""

_GROUPS_AT_ONCE = 100
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


class Outcome(StrEnum):
    """What became of a partition of a group. The first that applies, in this order, is reported."""

    NO_ANSWER = "no_answer"  # the translation has no target offset
    NOT_ACCEPTED = "not_accepted"  # its status is to be accepted by name
    GROUP_DENIED = "group_denied"  # a permission on the group is missing
    HAS_MEMBERS = "has_members"  # consumers of the group are at work at the target
    OTHER_TOPIC = "other_topic"  # the target topic was deleted, is another one, or is not shown
    ALREADY_SET = "already_set"
    NEWER = "newer"  # the group has a commit at the target beyond the answer
    TO_BE_SET = "to_be_set"
    TOPIC_DENIED = "topic_denied"  # a permission on the topic is missing
    REFUSED = "refused"  # by the target, for another reason
    NOT_KEPT = "not_kept"  # another offset was read back
    SET = "set"

    @property
    def is_as_wanted(self) -> bool:
        return self in (Outcome.SET, Outcome.ALREADY_SET, Outcome.TO_BE_SET)


ADVICE: Mapping[Outcome, str] = {
    Outcome.NO_ANSWER: "choose the place by hand",
    Outcome.NOT_ACCEPTED: "--accept its status, and that of its absence",
    Outcome.GROUP_DENIED: "grant READ on the group to the mirror's principal at the target",
    Outcome.HAS_MEMBERS: "stop the group's consumers at the target",
    Outcome.OTHER_TOPIC: "the topic of that id is not at the target, or not shown to the mirror's principal",
    Outcome.NEWER: "the group has read on at the target: --overwrite-newer takes it back",
    Outcome.TOPIC_DENIED: "grant READ on the topic to the mirror's principal at the target",
    Outcome.REFUSED: "the target's log says why",
    Outcome.NOT_KEPT: "somebody else commits for the group: ask again",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A partition of a group: the answer, the commit that the target had, and what became of it."""

    answer: Row
    former: int | None
    outcome: Outcome

    @property
    def group_id(self) -> str:
        return str(self.answer["group_id"])

    @property
    def target(self) -> tuple[str, int]:
        return self.answer["target_topic"], self.answer["target_partition"]

    @property
    def commit(self) -> NewCommit:
        topic, partition = self.target
        return NewCommit(topic, partition, self.answer["target_offset"], self.answer["metadata"])


@dataclass(frozen=True, slots=True)
class Choice:
    """What the operator allows: statuses by name, and to overwrite commits that lie beyond the answer."""

    accepted: Collection[str] = ()
    overwrite_newer: bool = False


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """What the target tells of groups: listings, commits, topic ids; `denied`: groups that it does not show."""

    listed: Mapping[str, GroupListing]
    denied: frozenset[str]
    topic_ids: Mapping[str, str]
    committed: Mapping[tuple[str, str, int], int]

    @classmethod
    def read(cls, target: ClusterAdmin, groups: Collection[str]) -> "TargetGroups":
        listed = {group.group_id: group for group in target.groups() if group.group_id in groups}
        unlisted = sorted(set(groups) - listed.keys())
        topic_ids = {name: topic.topic_id for name, topic in target.topics().items()}
        commits = target.commits(list(listed.values()), topic_ids=topic_ids)
        return cls(
            listed,
            frozenset(unlisted) - target.dead_groups(unlisted),
            topic_ids,
            {
                (one.group_id, one.topic, one.partition): one.committed_offset
                for one in commits
                if one.committed_offset is not None
            },
        )

    def has_members(self, group: str) -> bool:
        return group in self.listed and self.listed[group].group_state not in _WITHOUT_MEMBERS


def planned(
    answers: Iterable[Row], target: TargetGroups, choice: Choice, oddities: Callable[[Row], Collection[str]]
) -> list[Setting]:
    """What is to be set; `oddities`: what has to be accepted about an answer."""
    return [_planned(answer, target, choice, oddities(answer)) for answer in answers]


def _planned(answer: Row, target: TargetGroups, choice: Choice, oddities: Collection[str]) -> Setting:
    group, offset = str(answer["group_id"]), answer["target_offset"]
    topic, partition = answer["target_topic"], answer["target_partition"]
    former = target.committed.get((group, topic, partition))
    if offset is None:
        outcome = Outcome.NO_ANSWER
    elif not set(oddities) <= set(choice.accepted):
        outcome = Outcome.NOT_ACCEPTED
    elif group in target.denied:
        outcome = Outcome.GROUP_DENIED
    elif target.has_members(group):
        outcome = Outcome.HAS_MEMBERS
    elif target.topic_ids.get(topic) != answer["target_topic_id"]:
        outcome = Outcome.OTHER_TOPIC
    elif former == offset:
        outcome = Outcome.ALREADY_SET
    elif former is not None and former > offset and not choice.overwrite_newer:
        outcome = Outcome.NEWER
    else:
        outcome = Outcome.TO_BE_SET
    return Setting(answer, former, outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCommit:
    """What is known of a group's commit on a partition of the source, beside its offset.

    `made_after_ms`: when the group was last seen with another one, or with none. None: unknown.
    """

    topic_id: str | None
    leader_epoch: int | None = None
    made_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SourceCommits:
    """Where groups come from: the cluster, and by group, topic and partition the last known commit there."""

    cluster: str
    last: Mapping[tuple[str, str, int], SourceCommit]

    def of(self, answer: Row) -> SourceCommit:
        """The commit that an answer is about; without one its topic id is that of the group's others on the topic."""
        group, topic = str(answer["group_id"]), answer["source_topic"]
        if answer["committed_offset"] is not None:
            return self.last[group, topic, answer["source_partition"]]
        others = {one.topic_id for at, one in self.last.items() if at[:2] == (group, topic)}
        return SourceCommit(topic_id=others.pop() if len(others) == 1 else None)


@dataclass(frozen=True, slots=True)
class Why:
    """What is recorded with an operation: the flow and the cut of the answers, what was left, the operator's words."""

    flow: str
    cut: str
    left: SourceCommits
    reason: str | None = None
    ticket: str | None = None


def set_and_record(
    target: ClusterAdmin, settings: Sequence[Setting], operations: OperationLog, why: Why
) -> tuple[str | None, list[Setting]]:
    """Set what is to be set; returns the operation id, None when that is nothing, and what became of each partition.

    What is about to be set is recorded before, what became of it behind every hundred groups, under one operation id.
    So where there is an intention without a result, the target may have either commit.
    """
    intended = intentions(settings, target_cluster=target.alias, why=why)
    if not intended:
        return None, list(settings)

    def record(contents: Sequence[OperationContent], operation_id: str | None = None) -> str:
        return operations.record_parts(
            contents, operation_id=operation_id, flow=why.flow, reason=why.reason, ticket=why.ticket
        )

    operation_id = record(intended)
    done: list[Setting] = []
    for part in _in_parts(settings):
        carried_out = carry_out(target, part)
        record(results(carried_out), operation_id)
        done += carried_out
    return operation_id, done


def _in_parts(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Whole groups, so many that little is unknown when the target fails."""
    groups = list(_by_group(settings).values())
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        yield [one for group in groups[start : start + _GROUPS_AT_ONCE] for one in group]


def carry_out(target: ClusterAdmin, settings: Sequence[Setting]) -> list[Setting]:
    """Set what is to be set, group by group, and read all of it back; all others stay as they are."""
    to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
    groups = sorted({one.group_id for one in to_set})
    refused: dict[tuple[str, str, int], CommitRefusal] = {}
    for group in groups:
        answers = target.set_commits(group, [one.commit for one in to_set if one.group_id == group])
        refused |= {(group, *at): refusal for at, refusal in answers.items()}
    there = TargetGroups.read(target, groups) if groups else None
    return [
        replace(one, outcome=_became(one, refused.get((one.group_id, *one.target)), there))
        if one.outcome is Outcome.TO_BE_SET and there is not None
        else one
        for one in settings
    ]


_REFUSED = {
    CommitRefusal.GROUP_DENIED: Outcome.GROUP_DENIED,
    CommitRefusal.TOPIC_DENIED: Outcome.TOPIC_DENIED,
    CommitRefusal.HAS_MEMBERS: Outcome.HAS_MEMBERS,
    CommitRefusal.NO_TOPIC: Outcome.OTHER_TOPIC,
    CommitRefusal.OTHER: Outcome.REFUSED,
}


def _became(one: Setting, refusal: CommitRefusal | None, there: TargetGroups) -> Outcome:
    topic, partition = one.target
    if refusal is not None:
        return _REFUSED[refusal]
    if there.topic_ids.get(topic) != one.answer["target_topic_id"]:
        return Outcome.OTHER_TOPIC
    is_kept = there.committed.get((one.group_id, topic, partition)) == one.answer["target_offset"]
    return Outcome.SET if is_kept else Outcome.NOT_KEPT


# What is recorded -------------------------------------------------------------------------------


def intentions(settings: Sequence[Setting], *, target_cluster: str, why: Why) -> list[OffsetsSet]:
    """One for each group of which something is about to be set."""
    by_group = _by_group([one for one in settings if one.outcome is Outcome.TO_BE_SET])
    return [
        OffsetsSet(
            group=group,
            source_cluster=why.left.cluster,
            target_cluster=target_cluster,
            cut=why.cut,
            commits=tuple(_intended(one, why.left.of(one.answer)) for one in of_group),
        )
        for group, of_group in by_group.items()
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
        for group, of_group in _by_group(settings).items()
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


def _by_group(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    by_group: dict[str, list[Setting]] = {}
    for one in settings:
        by_group.setdefault(one.group_id, []).append(one)
    return by_group


def result_row(one: Setting) -> dict[str, object]:
    """A row of the command's answer."""
    return {
        "group_id": one.group_id,
        "source_topic": one.answer["source_topic"],
        "source_partition": one.answer["source_partition"],
        "target_topic": one.answer["target_topic"],
        "target_partition": one.answer["target_partition"],
        "former_offset": one.former,
        "target_offset": one.answer["target_offset"],
        "status": one.answer["status"],
        "result": one.outcome.value,
    }
