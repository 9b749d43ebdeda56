"""The check of a failover: did a group read on the target exactly what it had not read at the source?

Records are compared by what travels (key, value, headers, time), because offsets differ by design.
Records of a workload carry serials, so no two are equal.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.sandbox.reading import Partition, PlacedRecord, Readings, Record


@dataclass(frozen=True, slots=True)
class Resumption:
    """What one group did with one source partition; `expected` is what it had left unread."""

    group_id: str
    partition: Partition
    read_at_source: int
    expected: int
    read_on_target: int
    skipped: int
    repeated: int
    is_in_order: bool

    @property
    def is_exact(self) -> bool:
        """None skipped, none repeated, and the same order."""
        return self.skipped == 0 and self.repeated == 0 and self.is_in_order

    def __str__(self) -> str:
        topic, number = self.partition
        return (
            f"{self.group_id} on {topic} partition {number}: {self.expected} records were unread, "
            f"{self.read_on_target} were read on the target, {self.skipped} skipped, {self.repeated} repeated"
            + ("" if self.is_in_order else ", out of order")
        )


def compare(
    group_id: str, survivors: Readings, read: Readings, resumed: Mapping[Partition, Sequence[PlacedRecord]]
) -> list[Resumption]:
    """One `Resumption` per partition that the group reads, by source partition.

    `survivors`: what the source still held when it was last seen; compaction may have taken records since
    the group had read them.
    """
    return [
        _compared(group_id, partition, survivors[partition], records, resumed.get(partition, ()))
        for partition, records in sorted(read.items())
    ]


def _compared(
    group_id: str,
    partition: Partition,
    survivors: Sequence[PlacedRecord],
    read: Sequence[PlacedRecord],
    resumed: Sequence[PlacedRecord],
) -> Resumption:
    seen = {placed.record for placed in read}
    expected = [placed.record for placed in survivors if placed.record not in seen]
    found = [placed.record for placed in resumed]
    skipped, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return Resumption(
        group_id=group_id,
        partition=partition,
        read_at_source=len(read),
        expected=len(expected),
        read_on_target=len(found),
        skipped=skipped.total(),
        repeated=surplus.total(),
        is_in_order=_in_order(expected, found),
    )


def _in_order(expected: Sequence[Record], found: Sequence[Record]) -> bool:
    """Whether what both hold comes in the same order, repeats aside."""
    wanted, there = set(expected), set(found)
    first_reads = dict.fromkeys(record for record in found if record in wanted)
    return list(first_reads) == [record for record in expected if record in there]
