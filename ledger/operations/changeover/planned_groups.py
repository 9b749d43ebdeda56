"""Groups of a plan: which of them move, at which partitions, and what stands against it because of them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.changeover.blockers import Blocker, BlockerCode
from ledger.domain.changeover.plans import Choices, PlannedTopic
from ledger.domain.changeover.steps import ChangeoverKind
from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.words.count_words import counted
from ledger.operations.changeover.seen import Row, Seen
from ledger.operations.groups.outcomes import ADVICE, place_of
from ledger.operations.groups.position_sheet import unread_words

CHANGELOG = "changelog"
"""What is accepted by name of state that does not belong to the commits."""
Oddities = Callable[[Row], Collection[str]]
"""What has to be accepted by name about a translation."""
_DRAINED = (TranslationStatus.AHEAD, TranslationStatus.NOT_YET_COPIED)
"""What a group at work at the source has read and the target lacks is copied before the group moves: a switchover
drains between, and its step `move_groups` accepts neither of itself."""


@dataclass(frozen=True, slots=True)
class PlacesInScope:
    """What of the answers of `group_translation` a plan is about.

    Applications that move leave the former source with all that they read there: topics that a flow copies from it,
    topics that a flow copies into it (prefixed names both ways: `west.orders` there is `orders` here), and topics that
    both clusters get from one origin. A plan that names topics is about what they are at either cluster.
    """

    topics: frozenset[str]
    source_topics: frozenset[str]
    choices: Choices

    @classmethod
    def of(cls, topics: Sequence[PlannedTopic], choices: Choices) -> "PlacesInScope":
        """Of a plan that is about these topics."""
        return cls(
            frozenset(one.topic for one in topics), frozenset(one.source_topic for one in topics), choices
        )

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """The answers that the plan is about, those of groups that do not move among them."""
        return [row for row in rows if self._is_of_topics(row) and self._is_chosen(row) and not _is_over(row)]

    def moving(self, rows: Sequence[Row]) -> list[Row]:
        """The answers about groups that move: a group of which no topic is copied stays, unless it is chosen by name.

        One that reads other topics too moves, and what is copied nowhere keeps it from being moved whole.
        """
        found = self.among(rows)
        copied = {row["group_id"] for row in found if row["target_topic"] is not None}
        if self.choices.groups is not None:
            copied |= set(self.choices.groups)
        return [row for row in found if row["group_id"] in copied]

    def read_topics(self, rows: Sequence[Row]) -> frozenset[str]:
        """Topics of the former source whose readers move: none of them may be at work there when they do."""
        read = {str(row["source_topic"]) for row in self.moving(rows) if row["target_topic"] is not None}
        return self.source_topics | read

    def _is_of_topics(self, row: Row) -> bool:
        if self.choices.topics is None:
            return True
        return row["source_topic"] in self.source_topics or row["target_topic"] in self.topics

    def _is_chosen(self, row: Row) -> bool:
        return self.choices.groups is None or row["group_id"] in self.choices.groups


def _is_over(row: Row) -> bool:
    """Whether nobody reads there any more, and nothing is copied either: a topic that was deleted, mostly."""
    return row["target_topic"] is None and row.get("absence") is not None


# What stands against it ---------------------------------------------------------------------------


def group_blockers(
    kind: ChangeoverKind, seen: Seen, choices: Choices, places: Sequence[Row], oddities: Oddities
) -> Iterator[Blocker]:
    """No place, or one that is not certain; what the target has against it; groups of which nobody knows.

    `places`: answers about groups that move (`PlacesInScope.moving`).
    """
    accepted = {*choices.accepted, *(_DRAINED if kind is ChangeoverKind.SWITCHOVER else ())}
    groups = {row["group_id"] for row in places} - {None}
    if choices.groups is not None and (unknown := set(choices.groups) - groups):
        yield Blocker(
            BlockerCode.GROUP_WITHOUT_PLACE,
            f"the ledger has no committed offset of {', '.join(map(repr, sorted(unknown)))} at {seen.source.alias}",
        )
    for row in places:
        if row["group_id"] is None:
            continue
        at = f"{row['group_id']} at {row['source_topic']} partition {row['source_partition']}"
        if row["target_offset"] is None and row["status"] in choices.accepted:
            continue
        if row["target_offset"] is None:
            yield Blocker(BlockerCode.GROUP_WITHOUT_PLACE, f"{at}: {row['status']}")
        elif left := sorted(set(oddities(row)) - accepted):
            yield Blocker(BlockerCode.GROUP_WITHOUT_PLACE, f"{at}: {', '.join(left)} is not accepted")
        elif (hindrance := seen.hindered.get(place_of(row))) is not None:
            yield Blocker(
                BlockerCode.GROUP_HINDERED_AT_TARGET,
                f"{row['group_id']} at {row['target_topic']} partition {row['target_partition']}: {hindrance}, "
                f"{ADVICE[hindrance]}",
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
