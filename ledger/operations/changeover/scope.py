"""What one change of direction is about: one value, from which each of its parts takes what is its own.

Only what is fenced, drained and counted may change sides: topics that a flow copies, of the plan. Groups that move
leave the former source with all that they read there, so their other places are asked about too: they are set where
nobody writes at the former source who is not fenced, because it is a mirror that writes there. Everything else that the
ledger has a map of is copied by nobody any more: what lies beyond the map would stay behind in silence.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ledger.domain.changeover.plans import Choices, Plan, PlannedTopic
from ledger.operations.changeover.seen import Row, every_group
from ledger.operations.directions import Pair

NOT_COPIED_ANY_MORE = "not_copied_any_more"
"""Status of an answer that has a place, and would be set there though nothing copies to it."""
TopicPair = tuple[str, str]
"""A topic of the former source, and the one at the target where its groups continue."""


def promoted_pair(plan: Plan) -> Pair:
    """What carrying a plan out promotes: its topics; where it is about all of the pair those too that come later, less
    what it leaves out by name."""
    choices = plan.choices
    topics = plan.target_names
    return Pair(
        plan.to_cluster,
        plan.from_cluster,
        topics,
        later=choices.topics is None,
        left_out=choices.left_out,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMap:
    """Topics that a flow of the ledger has paired; clusters by the aliases that it was claimed with.

    `is_copied`: whether an enabled flow copies the one to the other. `is_held`: it may not, because of a direction.
    """

    flow: str
    source: str
    target: str
    source_topic: str
    source_topic_id: str
    topic: str
    topic_id: str
    is_copied: bool
    is_held: bool = False


def from_elsewhere(maps: Collection[KnownMap], source: str, target: str) -> frozenset[TopicPair]:
    """Pairs of which a mirror writes the one at the former source: what comes there from the target, and what both
    clusters get from one origin. No topic that was copied from the source to the target is among them.
    """
    away = {(one.source_topic, one.topic) for one in maps if (one.source, one.target) == (source, target)}
    home = {
        (one.topic, one.source_topic)
        for one in maps
        if (one.source, one.target) == (target, source) and not one.is_held
    }
    origins: dict[tuple[str, str], set[str]] = {}
    for one in maps:
        if one.target == target and one.is_copied:
            origins.setdefault((one.source, one.source_topic), set()).add(one.topic)
    of_one_origin = {
        (one.topic, there)
        for one in maps
        if one.target == source
        for there in origins.get((one.source, one.source_topic), ())
    }
    return frozenset((home | of_one_origin) - away)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`elsewhere`: as `from_elsewhere` finds them. `records_group`: whether recorders of the former source keep a group
    of this name recorded.
    """

    topics: tuple[PlannedTopic, ...]
    choices: Choices
    elsewhere: Collection[TopicPair] = frozenset()
    records_group: Callable[[str], bool] = field(default=every_group)

    @property
    def source_topics(self) -> frozenset[str]:
        return frozenset(one.source_topic for one in self.topics)

    def losses(self, rows: Iterable[Row]) -> list[Row]:
        """Of rows of a flow and its source topic those that it is about."""
        mine = {(one.flow, one.source_topic) for one in self.topics}
        return [row for row in rows if (row["flow"], row["source_topic"]) in mine]

    # -- groups ----------------------------------------------------------------------------------

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """The answers of `group_translation` that it is about, those of groups that do not move among them.

        One whose place may not be set has none here.
        """
        return [
            self._judged(row)
            for row in rows
            if self._is_of_topics(row) and self._is_chosen(row) and not _is_over(row)
        ]

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

    def without_place(self, rows: Sequence[Row]) -> dict[str, frozenset[str]]:
        """By topic of the target that is left out, the groups that move and read what is copied to it."""
        moving = {row["group_id"] for row in self.moving(rows)} - {None}
        found: dict[str, frozenset[str]] = {}
        for row in rows:
            name = _target_name(row)
            if name in self.choices.left_out and row["group_id"] in moving:
                found[name] = found.get(name, frozenset()) | {str(row["group_id"])}
        return found

    def _judged(self, row: Row) -> Row:
        if row["group_id"] is not None and not self.records_group(str(row["group_id"])):
            row = {**row, "is_recorded": False}
        if row["target_topic"] is None or row["target_offset"] is None or self._may_be_set(row):
            return row
        return {**row, "target_offset": None, "status": NOT_COPIED_ANY_MORE}

    def _may_be_set(self, row: Row) -> bool:
        way = str(row["source_topic"]), str(row["target_topic"])
        return way in self.elsewhere or any((one.source_topic, one.topic) == way for one in self.topics)

    def _is_of_topics(self, row: Row) -> bool:
        if _target_name(row) in self.choices.left_out:
            return False
        if self.choices.topics is None:
            return True
        topics = {one.topic for one in self.topics}
        return row["source_topic"] in self.source_topics or row["target_topic"] in topics

    def _is_chosen(self, row: Row) -> bool:
        return self.choices.groups is None or row["group_id"] in self.choices.groups


def _target_name(row: Row) -> str:
    """What is copied nowhere has the same name there: so people leave it out."""
    return str(row["target_topic"] or row["source_topic"])


def _is_over(row: Row) -> bool:
    """Whether nobody reads there any more, and nothing is copied either: a topic that was deleted, mostly."""
    return row["target_topic"] is None and row.get("absence") is not None
