"""Groups that a plan would move: what stands against it because of them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ledger.domain.changeover.blockers import Blocker, BlockerCode
from ledger.domain.changeover.plans import Choices, PlannedTopic
from ledger.domain.changeover.steps import ChangeoverKind
from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.words.count_words import counted
from ledger.operations.changeover.scope import NOT_COPIED_ANY_MORE
from ledger.operations.changeover.seen import Row, Seen
from ledger.operations.groups.outcomes import ADVICE, place_of
from ledger.operations.groups.position_sheet import unread_words

CHANGELOG = "changelog"
"""What is accepted by name of state that does not belong to the commits."""
Oddities = Callable[[Row], Collection[str]]
"""What has to be accepted by name about a translation."""
_AS_IT_HAS_TO_BE: Mapping[ChangeoverKind, Collection[str]] = {
    ChangeoverKind.SWITCHOVER: (TranslationStatus.AHEAD, TranslationStatus.NOT_YET_COPIED),
    ChangeoverKind.FAILOVER: (TranslationStatus.AHEAD,),
}
"""What a group at work at the source has read and the target lacks: a switchover copies it before the group moves, and
its step `move_groups` accepts neither of itself. A failover loses it, which the forecast says."""


def accepted_when_moved(kind: ChangeoverKind, choices: Choices) -> tuple[str, ...]:
    """Statuses with which groups are set: those that were accepted by name, and what no failover is without."""
    of_itself = _AS_IT_HAS_TO_BE[kind] if kind is ChangeoverKind.FAILOVER else ()
    return tuple(dict.fromkeys((*choices.accepted, *map(str, of_itself))))


def group_blockers(
    kind: ChangeoverKind, seen: Seen, choices: Choices, places: Sequence[Row], oddities: Oddities
) -> Iterator[Blocker]:
    """No place, or one that is not certain; what the target has against it; groups of which nobody knows.

    `places`: answers about groups that move (`Scope.moving`).
    """
    accepted = {*choices.accepted, *_AS_IT_HAS_TO_BE[kind]}
    groups = {row["group_id"] for row in places} - {None}
    if choices.groups is not None and (unknown := set(choices.groups) - groups):
        yield Blocker(
            BlockerCode.GROUP_WITHOUT_PLACE,
            f"the ledger has no committed offset of {', '.join(map(repr, sorted(unknown)))} at {seen.source.alias}",
        )
    yield from _of_nothing_copied(seen, places)
    for row in places:
        if row["group_id"] is None or row["status"] == NOT_COPIED_ANY_MORE:
            continue
        at = f"{row['group_id']} at {row['source_topic']} partition {row['source_partition']}"
        if row["target_offset"] is None and row["status"] in choices.accepted:
            continue
        if row["target_offset"] is None:
            yield Blocker(BlockerCode.GROUP_WITHOUT_PLACE, f"{at}: {row['status']}", cause=row["status"])
        elif left := sorted(set(oddities(row)) - accepted):
            why = f"{', '.join(left)} is not accepted"
            yield Blocker(BlockerCode.GROUP_WITHOUT_PLACE, f"{at}: {why}", cause=why)
        elif (hindrance := seen.hindered.get(place_of(row))) is not None:
            yield Blocker(
                BlockerCode.GROUP_HINDERED_AT_TARGET,
                f"{row['group_id']} at {row['target_topic']} partition {row['target_partition']}: {hindrance}, "
                f"{ADVICE[hindrance]}",
                cause=str(hindrance),
            )
    if at_work := sorted(groups & seen.active):
        yield Blocker(
            BlockerCode.GROUP_ACTIVE_AT_TARGET,
            f"{counted(len(at_work), 'group')} with members at {seen.target.alias}: "
            f"{', '.join(map(repr, at_work))}",
        )
    untold = {
        group: status
        for group, status in seen.untold.items()
        if status not in choices.accepted and (choices.groups is None or group in choices.groups)
    }
    for words in unread_words(untold):
        yield Blocker(BlockerCode.GROUPS_UNKNOWN, words.replace("_", " "))


def _of_nothing_copied(seen: Seen, places: Sequence[Row]) -> Iterator[Blocker]:
    """Of topics that groups read there and that reach the target by no flow of the pair, where the ledger has a place
    for them all the same: through other clusters, or by a flow that is no more."""
    readers: dict[tuple[str, str], set[str]] = {}
    for row in places:
        if row["status"] == NOT_COPIED_ANY_MORE and row["group_id"] is not None:
            readers.setdefault((row["source_topic"], row["target_topic"]), set()).add(row["group_id"])
    told = {(one.source_topic, one.topic) for one in seen.not_copied}
    for (source_topic, topic), groups in sorted(readers.items()):
        if (source_topic, topic) not in told:
            yield Blocker(
                BlockerCode.NOT_COPIED_ANY_MORE,
                f"no enabled flow copies {source_topic} of {seen.source.alias} to {topic} of {seen.target.alias}, "
                f"where {counted(len(groups), 'group')} would continue: {', '.join(map(repr, sorted(groups)))}",
            )


def changelog_blockers(topics: Sequence[PlannedTopic], places: Sequence[Row]) -> Iterator[Blocker]:
    """A Kafka Streams application restores its state from changelogs, named after its group, and reads on from its
    commits. Copied up to different instants they are no state that it ever had; only a drained source has that."""
    groups = sorted({row["group_id"] for row in places} - {None})
    for one in topics:
        owner = next((group for group in groups if one.source_topic.startswith(f"{group}-")), None)
        if owner is not None and one.source_topic.endswith("-changelog"):
            yield Blocker(
                BlockerCode.CHANGELOG,
                f"{one.source_topic} is state of {owner!r}, and was not copied up to the instant of its commits",
            )
