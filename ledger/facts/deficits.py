"""What was decided about deficits: copies at one cluster of records that the cluster they came from holds no more."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self

from ledger.facts.extras import PartitionKey
from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.syncs import OffsetRange, TopicPartition, joined, without
from ledger.facts.tables import Row


class DeficitsPolicy(StrEnum):
    """What is to become of deficits."""

    RETURN = "return"  # they are copied back, in the order of the cluster that holds them
    KEEP = "keep"  # they stay where the copies are, at that side alone


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedRange:
    """Offsets `[return_start, return_end)` of a partition where the copies lie."""

    partition: int
    return_start: int
    return_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeficitsDecided(OperationContent):
    """What becomes of copies at `holder` of records that `cluster`, where they came from, holds no more ("Deficits").

    A row per topic; `flow` of the row is null, and `reason` says why.

    Keys: `cluster` (alias), `cluster_id`, `topic`, `topic_id` (there), `holder` (alias), `holder_id`, `held_topic`,
    `held_topic_id` (there), `policy` (`return`, `keep`), `ranges`: `partition`, `return_start`, `return_end` each,
    offsets of the held topic.
    """

    kind: ClassVar = OperationKind.DEFICITS_DECIDED
    cluster: str
    cluster_id: str | None
    topic: str
    topic_id: str
    holder: str
    holder_id: str | None
    held_topic: str
    held_topic_id: str
    policy: str
    ranges: tuple[ReturnedRange, ...]


@dataclass(frozen=True, slots=True)
class DecidedDeficits:
    """By the cluster that lacks them, and the partition where they lie: `ranges` are copied back though a mirror wrote
    them, about `decided` something is decided."""

    ranges: Mapping[tuple[str, PartitionKey], tuple[OffsetRange, ...]] = field(default_factory=dict)
    decided: Mapping[tuple[str, PartitionKey], tuple[OffsetRange, ...]] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of kind `deficits_decided`; a decision is not taken away by a later one."""
        found: dict[tuple[str, PartitionKey], list[OffsetRange]] = {}
        decided: dict[tuple[str, PartitionKey], list[OffsetRange]] = {}
        for one in map(DeficitsDecided.of_row, rows):
            for part in one.ranges:
                key, whole = (
                    (one.cluster, (one.held_topic_id, part.partition)),
                    (part.return_start, part.return_end),
                )
                decided.setdefault(key, []).append(whole)
                if one.policy == DeficitsPolicy.RETURN:
                    found.setdefault(key, []).append(whole)
        return cls(*({key: tuple(joined(sorted(of))) for key, of in one.items()} for one in (found, decided)))

    def returning(self, cluster: str, held: TopicPartition) -> tuple[OffsetRange, ...]:
        """Offsets of a partition that go back to a cluster, ascending and apart from each other."""
        return self.ranges.get((cluster, held.key), ())

    def kept(self, cluster: str, topic_id: str) -> dict[int, OffsetRange]:
        """By partition of a topic where copies lie the range from the first to the last that stays there."""
        found: dict[int, OffsetRange] = {}
        for key, decided in self.decided.items():
            left = [part for whole in decided for part in without(whole, self.ranges.get(key, ()))]
            if left and (key[0], key[1][0]) == (cluster, topic_id):
                found[key[1][1]] = left[0][0], left[-1][1]
        return found

    def known(self, cluster: str, held: TopicPartition) -> tuple[OffsetRange, ...]:
        """The same of all about which something is decided."""
        return self.decided.get((cluster, held.key), ())
