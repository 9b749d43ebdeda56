"""Where a flow stood before its partition was settled, by what is recorded."""

import random
from typing import cast

import pytest

from ledger.facts.operations import Settled, SettledByEpoch
from ledger.facts.state import LedgerState
from ledger.facts.syncs import (
    OffsetSync,
    PartitionPair,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicPartition,
)
from ledger.mirror.starts import Settlements

SOURCE, TARGET = TopicPartition("orders", "S", 0), TopicPartition("orders", "T", 0)
PAIR = PartitionPair(SOURCE, TARGET)
AT = Position(source_offset=40, target_offset=50, next_sequence=45)


def settled(target_start: int, *, producer_id: int | None = None, first_sequence: int = 30) -> Settled:
    return Settled(
        topic="orders",
        topic_id="S",
        partition=0,
        target_topic="orders",
        target_topic_id="T",
        source_start=40,
        target_start=target_start,
        target_end=target_start + 10,
        first_sequence=first_sequence,
        producer_id=producer_id,
        records=10,
        others=0,
        others_start=None,
    )


def row(
    epoch: int,
    target_end: int,
    kind: SyncKind = SyncKind.UNPAIRED,
    cause: SyncCause | None = SyncCause.LOST_SOURCE,
    source: TopicPartition = SOURCE,
) -> RecordedSync:
    sync = OffsetSync(
        source=source,
        target=TARGET,
        source_leader_epoch=None,
        source_start=40,
        source_end=40,
        target_start=target_end - 10,
        target_end=target_end,
        first_sequence=0,
        kind=kind,
        cause=cause,
    )
    return RecordedSync(epoch, 1, sync)


class Recorded:
    """What a driver asks the ledger for."""

    def __init__(self, rows: list[RecordedSync], by_epoch: SettledByEpoch) -> None:
        self._rows = rows
        self._by_epoch = by_epoch

    def settlements(self, _flow: str) -> dict[tuple[str, int], SettledByEpoch]:
        return {("S", 0): self._by_epoch}

    def recorded_syncs(self, _flow: str, _topic: str, _partition: int) -> list[RecordedSync]:
        return random.Random(1).sample(self._rows, len(self._rows))


def before(
    rows: list[RecordedSync], by_epoch: SettledByEpoch, *, producer_id: int = 7, at: Position = AT
) -> Position | None:
    state = cast("LedgerState", Recorded(rows, by_epoch))
    return Settlements("f", state, producer_id).before(PAIR, at)


COPIED = row(1, 30, SyncKind.COPIED, None)


def test_it_is_where_the_first_of_the_last_settlements_found_it() -> None:
    rows = [COPIED, row(2, 40), row(3, 50), row(4, 60, source=TopicPartition("orders", "another", 0))]
    found = before(rows, {2: settled(30), 3: settled(40, first_sequence=40)})
    assert found == Position(source_offset=40, target_offset=30, next_sequence=30)


@pytest.mark.parametrize(
    ("since", "by_epoch"),
    [
        (row(4, 50, SyncKind.UNPAIRED, SyncCause.ACCEPTED), {2: settled(30), 3: settled(40)}),
        (row(4, 50, SyncKind.SUPERSEDED, SyncCause.SETTLED), {2: settled(30), 3: settled(40)}),
        (row(4, 50), {2: settled(30), 3: settled(40)}),
        (row(3, 40, SyncKind.COPIED, None), {}),
    ],
)
def test_what_was_recorded_since_counts(since: RecordedSync, by_epoch: SettledByEpoch) -> None:
    assert before([COPIED, row(2, 40), row(3, 50), since], by_epoch) is None


def test_a_position_that_is_another_one_reads_no_rows() -> None:
    elsewhere = Position(source_offset=41, target_offset=50, next_sequence=45)
    behind = Position(source_offset=40, target_offset=30, next_sequence=45)
    rows = [COPIED, row(2, 40)]
    assert [before(rows, {2: settled(30)}, at=at) for at in (elsewhere, behind)] == [None, None]


@pytest.mark.parametrize(
    ("cause", "may_be_deleted"), [(SyncCause.RESYNC, True), (SyncCause.TARGET_TRUNCATED, False)]
)
def test_what_it_knew_of_its_source_it_knows_again(cause: SyncCause, may_be_deleted: bool) -> None:
    """Own records whose source may be lost are explained by what was recorded before, as if nobody had settled."""
    found = before([row(1, 30, SyncKind.SUPERSEDED, cause), row(2, 40)], {2: settled(30)})
    assert found is not None
    assert found.source_may_be_deleted is may_be_deleted


def test_a_flow_with_another_producer_id_by_now_has_written_nothing_with_it() -> None:
    found = before([COPIED, row(2, 40)], {2: settled(30, producer_id=7)}, producer_id=9)
    assert found is not None
    assert (found.next_sequence, found.former_sequence) == (0, (7, 30))
