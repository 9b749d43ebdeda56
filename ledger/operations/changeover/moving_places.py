"""Which groups a change of direction moves, and at which partitions: one rule for plan, apply and export."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.changeover.plans import Choices, PlannedTopic
from ledger.operations.changeover.seen import Row


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
