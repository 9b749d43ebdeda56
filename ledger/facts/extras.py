"""What was decided about extras: records that a cluster has, and that no flow has brought to another one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from ledger.facts.group_offsets import STAY_LOCAL, ExtrasDecided
from ledger.facts.syncs import OffsetRange, TopicPartition, joined, without
from ledger.facts.tables import Row

PartitionKey = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class DecidedExtras:
    """By partition the ranges about which something was decided last, ascending; `local`: those that stay there."""

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
                decided[key] = _with(decided.get(key, ()), whole)
                local[key] = (
                    _with(local.get(key, ()), whole)
                    if one.policy in STAY_LOCAL
                    else _less(local.get(key, ()), whole)
                )
        return cls(decided, local)

    def kept_local(self, partition: TopicPartition) -> tuple[OffsetRange, ...]:
        """Offsets of a partition that are copied nowhere."""
        return self.local.get((partition.topic_id, partition.partition), ())


def _with(ranges: Iterable[OffsetRange], added: OffsetRange) -> tuple[OffsetRange, ...]:
    return tuple(joined(sorted((*ranges, added))))


def _less(ranges: Iterable[OffsetRange], taken: OffsetRange) -> tuple[OffsetRange, ...]:
    return tuple(left for whole in ranges for left in without(whole, [taken]))
