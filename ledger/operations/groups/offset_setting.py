"""Setting groups' offsets at a target: what is to be set, compared with what the target has, and the result.

Nothing is set for a group with members, in a topic that is not the one that the answer is about, or over a commit
that lies beyond the answer, unless the operator allows it. Partitions of a group are judged one by one. What is set
is read back. Who does it again, after a crash too, comes to the same end: what is set already stays.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ledger.domain.group_commits import CommitRefusal
from ledger.domain.groups import SHARE, has_members
from ledger.domain.operations.content import OperationContent
from ledger.errors import PreconditionError
from ledger.operations.groups.outcomes import (
    WITHOUT_OFFSET,
    Choice,
    Outcome,
    Place,
    Row,
    Setting,
    by_group,
    place_of,
)
from ledger.operations.groups.receipts import Why, intentions, results
from ledger.ports.clusters import ClusterAdmin, GroupListing
from ledger.ports.ledger import OperationLog

_GROUPS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """What the target tells of groups: listings, commits, topic ids; `denied`: groups that it does not show."""

    listed: Mapping[str, GroupListing]
    denied: frozenset[str]
    topic_ids: Mapping[str, str]
    committed: Mapping[tuple[str, str, int], int]

    @classmethod
    def read(
        cls, target: ClusterAdmin, groups: Collection[str], share_groups: Collection[str] = ()
    ) -> "TargetGroups":
        """Of groups that commit, and of share groups."""
        wanted = {*groups, *share_groups}
        listed = {group.group_id: group for group in target.groups() if group.group_id in wanted}
        unlisted = sorted(wanted - listed.keys())
        topic_ids = {name: topic.topic_id for name, topic in target.topics().items()}
        sharing = {name for name, group in listed.items() if group.group_type == SHARE}
        committing = [group for name, group in listed.items() if name in groups and name not in sharing]
        commits = target.commits(committing, topic_ids=topic_ids) if committing else []
        committed = {(one.group_id, one.topic, one.partition): one.committed_offset for one in commits}
        started = _share_offsets(target, sorted(sharing & set(share_groups)))
        return cls(
            listed,
            frozenset(unlisted) - target.dead_groups(unlisted),
            topic_ids,
            {place: offset for place, offset in {**committed, **started}.items() if offset is not None},
        )

    def is_of_other_type(self, one: Setting) -> bool:
        """Whether the group at the target, if there is one, takes no offsets of this kind."""
        listed = self.listed.get(one.group_id)
        if listed is None or listed.group_type is None:
            return False
        return self.is_share_group(one.group_id) is not one.is_of_share_group

    def is_share_group(self, group: str) -> bool:
        return group in self.listed and self.listed[group].group_type == SHARE

    def has_members(self, group: str) -> bool:
        """Also where the cluster does not say."""
        return group in self.listed and has_members(self.listed[group].group_state) is not False


def _share_offsets(target: ClusterAdmin, groups: Sequence[str]) -> dict[Place, int | None]:
    if not groups:
        return {}
    answer = target.share_offsets(groups)
    for group, why in answer.refused.items():
        raise PreconditionError(
            f"cluster {target.alias} does not tell the share-partition start offsets of group {group}: "
            f"{why.reason}; nothing was set"
        )
    return {(one.group_id, one.topic, one.partition): one.start_offset for one in answer.read}


def planned(
    answers: Iterable[Row],
    target: TargetGroups,
    choice: Choice,
    oddities: Callable[[Row], Collection[str]],
    *,
    synced: Mapping[Place, Collection[int]] = MappingProxyType({}),
) -> list[Setting]:
    """What is to be set; `oddities`: what has to be accepted about an answer.

    `synced`: what drivers have committed there for groups, which tells of nobody who has read there.
    """
    answers = list(answers)
    offsets: dict[Place, set[int]] = defaultdict(set)
    for answer in answers:
        if answer["target_offset"] is not None:
            offsets[place_of(answer)].add(answer["target_offset"])
    several = {place for place, found in offsets.items() if len(found) > 1}
    settings = [_planned(answer, target, choice, oddities(answer), several) for answer in answers]
    return [_unread(one, synced) for one in settings]


def _unread(one: Setting, synced: Mapping[Place, Collection[int]]) -> Setting:
    """What a driver has committed is set all the same: beyond the answer, where the group was put back since, and at
    the answer, so that it is recorded that the group has moved and not only been followed."""
    is_synced = one.former in synced.get(one.place, ())
    is_there = one.outcome in (Outcome.NEWER, Outcome.ALREADY_SET)
    return replace(one, outcome=Outcome.TO_BE_SET) if is_there and is_synced else one


def _planned(
    answer: Row, target: TargetGroups, choice: Choice, oddities: Collection[str], several: Collection[Place]
) -> Setting:
    group, offset = str(answer["group_id"]), answer["target_offset"]
    one = Setting(answer, None, Outcome.TO_BE_SET)
    topic, partition = answer["target_topic"], answer["target_partition"]
    former = target.committed.get((group, topic, partition))
    if offset is None:
        is_left = answer["status"] in WITHOUT_OFFSET and answer["status"] in choice.accepted
        outcome = Outcome.LEFT if is_left else Outcome.NO_ANSWER
    elif place_of(answer) in several:
        outcome = Outcome.SEVERAL_ANSWERS
    elif not set(oddities) <= set(choice.accepted):
        outcome = Outcome.NOT_ACCEPTED
    elif group in target.denied:
        outcome = Outcome.GROUP_DENIED
    elif target.is_of_other_type(one):
        outcome = Outcome.OTHER_TYPE
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
    return replace(one, former=former, outcome=outcome)


def set_and_record(
    target: ClusterAdmin,
    settings: Sequence[Setting],
    operations: OperationLog,
    why: Why,
    *,
    operation_id: str | None = None,
    begun: Mapping[Place, int] = MappingProxyType({}),
) -> tuple[str | None, list[Setting]]:
    """Set what is to be set; returns the operation id, None when that is nothing, and what became of each partition.

    What is about to be set is recorded before, what became of it behind every hundred groups, under one operation id:
    a new one unless given. So where there is an intention without a result, the target may have either commit. With
    what was `begun` under the given id and has no result (`EarlierAttempts`), it gets its result now where it was set.
    """
    settings = [_finished(one, begun) for one in settings]
    intended = intentions(settings, target_cluster=target.alias, why=why)
    finished = any(one.outcome is Outcome.SET for one in settings)
    if not intended and not finished:
        return None, list(settings)

    def record(contents: Sequence[OperationContent], operation_id: str | None = None) -> str:
        return operations.record_parts(
            contents, operation_id=operation_id, flow=why.flow, reason=why.reason, ticket=why.ticket
        )

    operation_id = record(intended, operation_id) if intended else operation_id
    done: list[Setting] = []
    for part in _in_parts(settings):
        carried_out = carry_out(target, part)
        record(results(carried_out), operation_id)
        done += carried_out
    return operation_id, done


def _finished(one: Setting, begun: Mapping[Place, int]) -> Setting:
    """What an earlier attempt had set, and had not recorded yet."""
    if one.outcome is Outcome.ALREADY_SET and begun.get(one.place) == one.answer["target_offset"]:
        return replace(one, outcome=Outcome.SET)
    return one


def _in_parts(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Whole groups, so many that little is unknown when the target fails."""
    groups = list(by_group(settings).values())
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        yield [one for group in groups[start : start + _GROUPS_AT_ONCE] for one in group]


def carry_out(target: ClusterAdmin, settings: Sequence[Setting]) -> list[Setting]:
    """Set what is to be set, group by group, and read all of it back; all others stay as they are."""
    to_set = by_group(one for one in settings if one.outcome is Outcome.TO_BE_SET)
    refused: dict[Place, CommitRefusal] = {}
    for group, of_group in sorted(to_set.items()):
        set_all = target.set_share_offsets if of_group[0].is_of_share_group else target.set_commits
        answers = set_all(group, [one.commit for one in of_group])
        refused |= {(group, *at): refusal for at, refusal in answers.items()}
    share_groups = {group for group, of_group in to_set.items() if of_group[0].is_of_share_group}
    there = TargetGroups.read(target, to_set.keys() - share_groups, share_groups) if to_set else None
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
