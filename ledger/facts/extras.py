"""What was decided about extras: records that a cluster has, and that no flow has brought to another one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self

from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.syncs import OffsetRange, TopicPartition, joined, without
from ledger.facts.tables import Row


class ExtrasPolicy(StrEnum):
    """What is to become of extras."""

    KEEP_LOCAL = "keep_local"  # they stay where they are, and are copied nowhere
    SALVAGE = "salvage"  # they stay, and are copied to a topic of their own
    REPLICATE = "replicate"  # they are copied as all others
    RECREATE = "recreate"  # they are given up with their topic, which is created again
    SALVAGE_RECREATE = "salvage_recreate"  # the same, once they are copied to a topic of their own


RECREATING = frozenset({ExtrasPolicy.RECREATE, ExtrasPolicy.SALVAGE_RECREATE})
"""Policies by which the topic is deleted and created again, so that all comes back in the order of the other side."""

STAY_LOCAL = frozenset({ExtrasPolicy.KEEP_LOCAL, ExtrasPolicy.SALVAGE})
"""Policies by which extras come to no other side, so that no group has to read them there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRange:
    """Offsets `[extra_start, extra_end)` of a partition."""

    partition: int
    extra_start: int
    extra_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrasDecided(OperationContent):
    """What becomes of records that a cluster alone has, behind the end of the maps from it ("Extras").

    A row per topic and policy; `flow` of the row is null, and `reason` says why. Of markers of transactions that a
    driver of the way back comes behind, by that driver: they stay.

    Keys: `cluster` (alias), `cluster_id` (null: nobody has recorded it), `topic`, `topic_id`, `policy` (`keep_local`,
    `salvage`, `replicate`, `recreate`, `salvage_recreate`), `ranges`: `partition`, `extra_start`, `extra_end` each.
    """

    kind: ClassVar = OperationKind.EXTRAS_DECIDED
    cluster: str
    cluster_id: str | None
    topic: str
    topic_id: str
    policy: str
    ranges: tuple[ExtraRange, ...]


PartitionKey = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class DecidedExtras:
    """By partition the ranges about which something was decided last, ascending; `local`: those that stay there.

    What is given up with its topic is an extra as long as that topic is there: a process may have ended in between.
    """

    decided: Mapping[PartitionKey, tuple[OffsetRange, ...]] = field(default_factory=dict)
    local: Mapping[PartitionKey, tuple[OffsetRange, ...]] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of kind `extras_decided`. On each offset the last decision counts, and of two in
        one append one that keeps nothing local: as the view `decided_extras` has it."""
        decided: dict[PartitionKey, tuple[OffsetRange, ...]] = {}
        local: dict[PartitionKey, tuple[OffsetRange, ...]] = {}
        found = [(row["writer_epoch"], row["round"], ExtrasDecided.of_row(row)) for row in rows]
        for _, _, one in sorted(found, key=lambda at: (*at[:2], at[2].policy not in STAY_LOCAL)):
            for part in one.ranges:
                key, whole = (one.topic_id, part.partition), (part.extra_start, part.extra_end)
                for kept, change in (
                    (decided, _less if one.policy in RECREATING else _with),
                    (local, _with if one.policy in STAY_LOCAL else _less),
                ):
                    kept[key] = change(kept.get(key, ()), whole)
        return cls(decided, local)

    def kept_local(self, partition: TopicPartition) -> tuple[OffsetRange, ...]:
        """Offsets of a partition that are copied nowhere."""
        return self.local.get(partition.key, ())


def _with(ranges: Iterable[OffsetRange], added: OffsetRange) -> tuple[OffsetRange, ...]:
    return tuple(joined(sorted((*ranges, added))))


def _less(ranges: Iterable[OffsetRange], taken: OffsetRange) -> tuple[OffsetRange, ...]:
    return tuple(left for whole in ranges for left in without(whole, [taken]))
