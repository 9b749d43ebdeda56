"""Topics that were deleted by decision and created again: flows continue with the new ones as it was decided."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.tables import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreated(OperationContent):
    """A topic of a cluster that is back is deleted with what it alone has, and created again ("Extras").

    By `mirror-ledger mirror-back` and the step `mirror_back` of a failback, a row before it is deleted, and one when
    the new one is there. `flow` of the row is null.

    Keys: `cluster` (alias), `cluster_id`, `topic`, `former_id` (topic id of the one that is deleted), `topic_id` (of
    the new one; null: it is about to be made), `partitions`, `replication_factor`, `settings` (its own).
    """

    kind: ClassVar = OperationKind.TOPIC_RECREATED
    cluster: str
    cluster_id: str
    topic: str
    former_id: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recreations:
    """By former topic id what was recorded last of the one that takes its place."""

    rows: Mapping[str, TopicRecreated] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of this kind, in the order of their stamps."""
        return cls({one.former_id: one for one in map(TopicRecreated.of_row, rows)})

    def current(self, topic_id: str) -> str | None:
        """The id of the topic that has taken the place of one, itself where none has; None: it is about to be made."""
        found: str | None = topic_id
        while found is not None and found in self.rows:
            found = self.rows[found].topic_id
        return found

    def ids(self, cluster: str) -> dict[str, str]:
        """By topic of a cluster the id of the one that was made last."""
        made = (one for one in self.rows.values() if one.cluster == cluster and one.topic_id is not None)
        return {one.topic: one.topic_id or "" for one in made}

    def begun(self, cluster: str) -> dict[str, str]:
        """By topic of a cluster the id of the one that is deleted, or is about to be, while nothing takes its place."""
        left = (one for one in self.rows.values() if one.cluster == cluster and one.topic_id is None)
        return {one.topic: one.former_id for one in left}

    def is_new(self, topic_id: str) -> bool:
        """Whether a topic was made so."""
        return any(one.topic_id == topic_id for one in self.rows.values())

    def carried(self, row: Row) -> Row:
        """A row of `operations` as it counts since: what was done to a former topic by its name, or was given to it,
        the new one has as well. A topic id is in no other text."""
        content = row["content"]
        for former_id, one in self.rows.items():
            if one.topic_id is not None:
                content = content.replace(f'"{former_id}"', f'"{one.topic_id}"')
        return {**row, "content": content}
