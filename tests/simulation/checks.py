"""What must hold after every simulated run, judged by the logs of both clusters and the recorded facts.

The records of a partition are compared one by one: offset by offset at the source, offset by offset at
the target, in between the pairs that the recorded offset syncs claim.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ledger.adapters.memory.partition_log import PartitionLog
from ledger.domain.facts import GapCause, OffsetSync, SyncKind
from ledger.domain.offsets import OffsetMap
from ledger.mirror.assignments import StopCause
from tests.simulation.storm import FOREIGN_KEY
from tests.simulation.workload import SourcePartition, Truth

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Copied:
    """One partition after a run; `stop` is why it stands still, `stops_told` every stop there was.

    `own` are the target's records that are the flow's own, by offset.
    """

    source: SourcePartition
    source_log: PartitionLog
    target_log: PartitionLog
    syncs: tuple[OffsetSync, ...]
    stop: StopCause | None
    stops_told: frozenset[StopCause]
    is_exclusive: bool

    @property
    def own(self) -> Truth:
        return {
            record.offset: (record.timestamp, record.content)
            for record in self.target_log.readable()
            if FOREIGN_KEY not in record.content
        }

    @property
    def told_without_source(self) -> set[int]:
        """Target offsets of own records whose source records were cleaned before they could be paired."""
        return {
            offset
            for sync in self.syncs
            if sync.kind is SyncKind.UNPAIRED
            for offset in range(sync.target_start, sync.target_end)
        }

    @property
    def pairs(self) -> dict[int, int]:
        """Source offset to target offset, by walking each sync record by record."""
        return {source: target for sync in self.syncs for source, target in _walk(sync)}


def _walk(sync: OffsetSync) -> Iterable[tuple[int, int]]:
    target = sync.target_start
    missing = {offset for gap in sync.gaps for offset in range(gap.source_start, gap.source_end)}
    for offset in range(sync.source_start, sync.source_end):
        if offset not in missing:
            yield offset, target
            target += 1


def check(copied: Copied) -> None:
    """Every check; the first that fails says which records differ."""
    check_l1_tiling(copied)
    check_l2_order_and_l3_once(copied)
    check_records_are_the_same(copied)
    check_gaps_have_their_cause(copied)
    check_own_records_are_claimed(copied)
    check_foreign_records_were_noticed(copied)
    check_translation(copied)


def check_l1_tiling(copied: Copied) -> None:
    for before, after in pairwise(copied.syncs):
        assert before.source_end == after.source_start, ("L1", before, after)
    if copied.stop is None and copied.source_log.last_stable:
        assert copied.syncs, "nothing was recorded"
        assert copied.syncs[0].source_start == 0
        assert copied.syncs[-1].source_end >= copied.source_log.last_stable


def check_l2_order_and_l3_once(copied: Copied) -> None:
    targets = [copied.pairs[source] for source in sorted(copied.pairs)]
    assert all(before < after for before, after in pairwise(targets)), ("L2, L3", targets)
    sequence = 0
    for sync in copied.syncs:
        assert sync.first_sequence == sequence, sync
        assert sync.records == sync.target_end - sync.target_start
        sequence += sync.records


def check_records_are_the_same(copied: Copied) -> None:
    owed, own = copied.source.owed, copied.own
    different = {
        (source, target): (owed.get(source), own.get(target))
        for source, target in copied.pairs.items()
        if source not in owed or owed[source] != own.get(target)
    }
    assert different == {}


def check_gaps_have_their_cause(copied: Copied) -> None:
    """No record that is still to be read at the source is in a gap; what mirrors wrote is said to be so."""
    remaining = {record.offset for record in copied.source_log.readable()} & set(copied.source.owed)
    for sync in copied.syncs:
        for gap in sync.gaps:
            covered = set(range(gap.source_start, gap.source_end))
            assert covered & remaining == set(), ("a readable record is in a gap", sync, gap)
            if gap.cause is GapCause.MIRROR_WRITE:
                assert covered <= copied.source.mirror_written, gap
            elif gap.cause is not GapCause.COMPACTED:
                assert not covered & set(copied.source.owed), gap


def check_own_records_are_claimed(copied: Copied) -> None:
    """Exactly once: a record of the flow at the target that no sync claims was written twice, or lost its fact."""
    unclaimed = sorted(set(copied.own) - set(copied.pairs.values()) - copied.told_without_source)
    if copied.stop is not None:
        # What was under way when the partition had to stop lies after everything that is claimed.
        unclaimed = [offset for offset in unclaimed if offset < max(copied.pairs.values(), default=0)]
    assert unclaimed == [], [
        (s.kind, s.source_start, s.source_end, s.target_start, s.target_end, s.gaps) for s in copied.syncs
    ]


def check_foreign_records_were_noticed(copied: Copied) -> None:
    """An exclusive partition does not go on after somebody else's record without a stop; a restart resumes it."""
    foreign = [r.offset for r in copied.target_log.readable() if FOREIGN_KEY in r.content]
    if copied.is_exclusive and foreign and max(copied.pairs.values(), default=-1) > foreign[0]:
        assert StopCause.FOREIGN_WRITE in copied.stops_told, foreign


def check_translation(copied: Copied) -> None:
    if not any(sync.source_start < sync.source_end for sync in copied.syncs):
        return
    offset_map = OffsetMap.from_syncs("flow", copied.syncs)
    pairs = sorted(copied.pairs.items())
    for committed in range(offset_map.source_end + 2):
        following = [target for source, target in pairs if source >= committed]
        expected = following[0] if following else offset_map.target_end
        assert offset_map.translate(committed).target_offset == expected, committed
    for source, target in pairs:
        assert offset_map.reverse(target).source_offset == source
