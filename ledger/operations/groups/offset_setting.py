"""Setting groups' offsets at a target: what is to be set, compared with what the target has, and the result.

Nothing is set for a group with members, in a topic that is not the one that the answer is about, or over a commit
that lies beyond the answer, unless the operator allows it. Partitions of a group are judged one by one, right before
they are set: a commit replaces only the one that it was judged by, and none lies below the log start that the target
has then. What is set is read back. Who does it again, after a crash too, comes to the same end: what is set already
stays.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.groups import SHARE, has_members
from ledger.domain.offsets.offset_map import TranslationStatus
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
from ledger.operations.groups.receipts import NO_ATTEMPTS, EarlierAttempts, Why, intentions, results
from ledger.ports.clusters import ClusterAdmin, GroupListing
from ledger.ports.ledger import OperationLog
from ledger.recording.operation_log import random_id

_GROUPS_AT_ONCE = 100
_SET_AT_ONCE = 25
"""Groups; who is followed by another process meanwhile sets no others."""


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


def not_below_log_start(answers: Sequence[Row], target: ClusterAdmin) -> list[Row]:
    """The answers, where the log of the target begins behind one with that log start: what lay before it was deleted.

    Such an answer has to be accepted as one that the ledger knows as `expired_on_target`.
    """
    places = {place_of(row)[1:] for row in answers if row["target_offset"] is not None}
    ends = target.ends(sorted(places)) if places else {}

    def now(row: Row) -> Row:
        found = ends.get((row["target_topic"], row["target_partition"]))
        if row["target_offset"] is None or found is None or row["target_offset"] >= found.log_start:
            return row
        gone = found.log_start - row["target_offset"]
        status = row["status"] if row["status"] in _FIRST else str(TranslationStatus.EXPIRED_ON_TARGET)
        expired = (row.get("expired") or 0) + gone
        return {**row, "target_offset": found.log_start, "status": status, "expired": expired}

    return [now(row) for row in answers]


_FIRST = (TranslationStatus.BEFORE_FIRST, TranslationStatus.LOST)
"""Statuses that come before `expired_on_target`, and are to be accepted beside it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator allows, and what has to be accepted about an answer (`oddities`).

    `synced`: what drivers have committed for groups at the target, which tells of nobody who has read there.
    """

    choice: Choice
    oddities: Callable[[Row], Collection[str]]
    synced: Mapping[Place, Collection[int]] = field(default_factory=dict)

    def judged(self, answers: Iterable[Row], target: TargetGroups) -> list[Setting]:
        """What is to be set, and why the rest is not."""
        answers = list(answers)
        offsets: dict[Place, set[int]] = defaultdict(set)
        for answer in answers:
            if answer["target_offset"] is not None:
                offsets[place_of(answer)].add(answer["target_offset"])
        several = {place for place, found in offsets.items() if len(found) > 1}
        found = []
        for answer in answers:
            former = target.committed.get(place_of(answer))
            is_synced = former in self.synced.get(place_of(answer), ())
            lacking = set(self.oddities(answer)) - set(self.choice.accepted)
            if lacking == _EXPIRED and former == answer["target_offset"] and not is_synced:
                lacking = set()  # it stands there: somebody has accepted it
            one = _planned(Setting(answer, former, Outcome.TO_BE_SET), target, self.choice, lacking, several)
            found.append(_unread(one) if is_synced else one)
        return found


_EXPIRED = {str(TranslationStatus.EXPIRED_ON_TARGET)}


def _unread(one: Setting) -> Setting:
    """What a driver has committed is set all the same: beyond the answer, where the group was put back since, and at
    the answer, so that it is recorded that the group has moved and not only been followed."""
    is_there = one.outcome in (Outcome.NEWER, Outcome.ALREADY_SET)
    return replace(one, outcome=Outcome.TO_BE_SET) if is_there else one


def _planned(
    one: Setting, target: TargetGroups, choice: Choice, lacking: Collection[str], several: Collection[Place]
) -> Setting:
    """`lacking`: what is to be accepted about the answer, and is not."""
    answer, former = one.answer, one.former
    group, offset = one.group_id, answer["target_offset"]
    if offset is None:
        is_left = answer["status"] in WITHOUT_OFFSET and answer["status"] in choice.accepted
        outcome = Outcome.LEFT if is_left else Outcome.NO_ANSWER
    elif one.place in several:
        outcome = Outcome.SEVERAL_ANSWERS
    elif lacking:
        outcome = Outcome.NOT_ACCEPTED
    elif group in target.denied:
        outcome = Outcome.GROUP_DENIED
    elif target.is_of_other_type(one):
        outcome = Outcome.OTHER_TYPE
    elif target.has_members(group):
        outcome = Outcome.HAS_MEMBERS
    elif target.topic_ids.get(answer["target_topic"]) != answer["target_topic_id"]:
        outcome = Outcome.OTHER_TOPIC
    elif former == offset:
        outcome = Outcome.ALREADY_SET
    elif former is not None and former > offset and not choice.overwrite_newer:
        outcome = Outcome.NEWER
    else:
        outcome = Outcome.TO_BE_SET
    return replace(one, outcome=outcome)


# Setting ----------------------------------------------------------------------------------------


def nothing_taken_over() -> None:
    """Nobody else could have taken over."""


@dataclass(frozen=True, slots=True)
class Record:
    """Where it is recorded what is about to be set, and what became of it; of one operation."""

    operations: OperationLog
    target: str
    why: Why
    operation_id: str

    def intend(self, settings: Sequence[Setting]) -> None:
        self._add(intentions(settings, target_cluster=self.target, why=self.why))

    def add_results(self, settings: Sequence[Setting]) -> None:
        self._add(results(settings))

    def _add(self, contents: Sequence[OperationContent]) -> None:
        if contents:
            why = self.why
            self.operations.record_parts(
                contents, operation_id=self.operation_id, flow=why.flow, reason=why.reason, ticket=why.ticket
            )


def set_and_record(
    target: ClusterAdmin,
    settings: Sequence[Setting],
    operations: OperationLog,
    why: Why,
    rules: Rules,
    *,
    operation_id: str | None = None,
    attempts: EarlierAttempts = NO_ATTEMPTS,
    require_own: Callable[[], None] = nothing_taken_over,
) -> tuple[str | None, list[Setting]]:
    """Set what is to be set; returns the operation id, None when that is nothing, and what became of each partition.

    Of every hundred groups it is recorded what is about to be set, and behind it what became of it, under one operation
    id: a new one unless given. So where there is an intention without a result, the target may have either commit. With
    what was begun under the given id and has no result (`attempts`), it gets its result now where it was set.
    `require_own`: asked before each request, raises where another process has taken over.
    """
    settings = [_finished(one, attempts.begun) for one in settings]
    if not any(one.outcome in (Outcome.TO_BE_SET, Outcome.SET) for one in settings):
        return None, list(settings)
    record = Record(operations, target.alias, why, operation_id or random_id())
    setting = _Groups(target, record, rules, attempts, require_own)
    done: list[Setting] = []
    for part in _in_parts(settings):
        done += setting.carry_out(part)
    return record.operation_id, done


def _finished(one: Setting, begun: Mapping[Place, int]) -> Setting:
    """What an earlier attempt had set, and had not recorded yet."""
    if one.outcome is Outcome.ALREADY_SET and begun.get(one.place) == one.answer["target_offset"]:
        return replace(one, outcome=Outcome.SET)
    return one


def reading_on(one: Setting, set_before: Mapping[Place, int]) -> Setting:
    """Where an earlier attempt had put it, and the group has committed that or more since: it is where it shall be."""
    put = set_before.get(one.place)
    if (
        put is not None
        and one.outcome is Outcome.TO_BE_SET
        and put == one.former == one.answer["target_offset"]
    ):
        return replace(one, outcome=Outcome.ALREADY_SET)
    is_hindered = one.outcome in (Outcome.NEWER, Outcome.HAS_MEMBERS)
    if put is None or not is_hindered or one.former is None or one.former < put:
        return one
    return replace(one, answer={**one.answer, "target_offset": put}, outcome=Outcome.READS_ON)


def _in_parts(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """Whole groups, so many that little is unknown when the target fails."""
    groups = list(by_group(settings).values())
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        yield [one for group in groups[start : start + _GROUPS_AT_ONCE] for one in group]


@dataclass(frozen=True, slots=True)
class _Groups:
    target: ClusterAdmin
    record: Record
    rules: Rules
    attempts: EarlierAttempts
    require_own: Callable[[], None]

    def carry_out(self, settings: Sequence[Setting]) -> list[Setting]:
        """Set what is to be set, and read all of it back; all others stay as they are. What somebody has committed
        since it was judged is judged by that, once."""
        settings = self._above_log_starts(settings)
        self.record.intend(settings)
        refused = self._commit(settings)
        if moved := {place for place, why in refused.items() if why is CommitRefusal.MOVED}:
            settings = self._judged_again(settings, moved)
            again = [one for one in settings if one.place in moved]
            self.record.intend(again)
            refused = {**_without(refused, moved), **self._commit(again)}
        done = self._read_back(settings, refused)
        self.record.add_results(done)
        return done

    def _above_log_starts(self, settings: Sequence[Setting]) -> list[Setting]:
        """What lies below the log start by now is judged again, as an answer that has expired there."""
        to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
        answers = not_below_log_start([one.answer for one in to_set], self.target)
        expired = {one.place for one, now in zip(to_set, answers, strict=True) if now is not one.answer}
        return self._judged_again(settings, expired) if expired else list(settings)

    def _commit(self, settings: Sequence[Setting]) -> dict[Place, CommitRefusal]:
        """What was refused. Many groups that commit are set at once, share groups one after the other."""
        to_set = by_group([one for one in settings if one.outcome is Outcome.TO_BE_SET])
        shared: dict[str, list[NewCommit]] = {}
        committing: dict[str, list[NewCommit]] = {}
        for group, of_group in sorted(to_set.items()):
            of_kind = shared if of_group[0].is_of_share_group else committing
            of_kind[group] = [one.commit for one in of_group]
        answers: dict[str, dict[tuple[str, int], CommitRefusal]] = {}
        names = list(committing)
        for start in range(0, len(names), _SET_AT_ONCE):
            self.require_own()
            some = {group: committing[group] for group in names[start : start + _SET_AT_ONCE]}
            answers |= self.target.set_commits_of_groups(some)
        for group, offsets in shared.items():
            self.require_own()
            answers[group] = self.target.set_share_offsets(group, offsets)
        return {
            (group, *at): refusal for group, refused in answers.items() for at, refusal in refused.items()
        }

    def _judged_again(self, settings: Sequence[Setting], places: Collection[Place]) -> list[Setting]:
        """Of these places, by what the target has now."""
        about = [one for one in settings if one.outcome is Outcome.TO_BE_SET and one.place in places]
        there = _read(self.target, about)
        answers = not_below_log_start([one.answer for one in about], self.target)
        judged = [reading_on(one, self.attempts.done) for one in self.rules.judged(answers, there)]
        now = {id(one): found for one, found in zip(about, judged, strict=True)}
        return [now.get(id(one), one) for one in settings]

    def _read_back(
        self, settings: Sequence[Setting], refused: Mapping[Place, CommitRefusal]
    ) -> list[Setting]:
        to_set = [one for one in settings if one.outcome is Outcome.TO_BE_SET]
        there = _read(self.target, to_set) if to_set else None
        return [
            replace(one, outcome=_became(one, refused.get(one.place), there))
            if one.outcome is Outcome.TO_BE_SET and there is not None
            else one
            for one in settings
        ]


def _without(refused: Mapping[Place, CommitRefusal], places: Collection[Place]) -> dict[Place, CommitRefusal]:
    return {place: why for place, why in refused.items() if place not in places}


def _read(target: ClusterAdmin, settings: Sequence[Setting]) -> TargetGroups:
    """What the target tells of their groups now."""
    shared = {one.group_id for one in settings if one.is_of_share_group}
    return TargetGroups.read(target, {one.group_id for one in settings} - shared, shared)


_REFUSED = {
    CommitRefusal.GROUP_DENIED: Outcome.GROUP_DENIED,
    CommitRefusal.TOPIC_DENIED: Outcome.TOPIC_DENIED,
    CommitRefusal.HAS_MEMBERS: Outcome.HAS_MEMBERS,
    CommitRefusal.MOVED: Outcome.MOVED_BY_OTHERS,
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
