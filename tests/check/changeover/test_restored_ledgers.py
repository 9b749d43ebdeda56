"""A change of direction is planned and applied on a ledger that was restored from an older copy of it.

What was copied and committed since the copy is in no row: the driver finds it at the target, recorders read it again.
"""

from collections.abc import Callable

import pytest

from ledger.changeover.plans import ChangeoverKind, Choices
from ledger.errors import PreconditionError
from ledger.facts.fences import EpochMarker
from ledger.facts.syncs import TopicPartition
from ledger.kafka.epoch_markers import MARKER_EPOCH
from ledger.mirror import run
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changing_pairs import FAILOVER, FORWARD, GROUPS, SWITCHOVER, TOPICS, ChangingPair, value_of
from tests.support.operator_processes import Seat

FIRST, SINCE, AT_WEST = 12, 6, 3
"""Records of the shop: before the copy, behind it, and where it continues."""
PLACES = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]


def restored(pair: ChangingPair) -> None:
    """The copy is of before six records and most commits."""
    copied = pair.ledger.latest()
    for number in range(SINCE):
        assert pair.produce(*PLACES[number % len(PLACES)])
    pair.until(lambda: pair.is_copied, "all is copied")
    for one in pair._consumers:
        one.poll(1)
    pair.recorders.record_all()
    known = len(pair.ledger.rows("offset_syncs"))
    pair.lose_ledger(copied)
    assert len(pair.ledger.rows("offset_syncs")) < known
    assert not pair.is_copied, "the ledger does not know it any more"


def require_once(pair: ChangingPair, *, records: int) -> None:
    at_west = {(*place, value) for place, values in pair.values(pair.west).items() for value in values}
    assert len(at_west) == records
    assert sum(len(values) for values in pair.values(pair.west).values()) == records, "none is there twice"
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_west), group


def test_before_groups_are_read_again_a_plan_is_blocked() -> None:
    pair = ChangingPair()
    restored(pair)
    assert "not_recorded is not accepted" in pair.blockers(("east", "west"))["group_without_place"]
    pair.go_on_with_restored()
    assert "group_without_place" not in pair.blockers(("east", "west"))
    pair.end()


@pytest.mark.parametrize("kind", [ChangeoverKind.SWITCHOVER, ChangeoverKind.FAILOVER])
def test_groups_continue_behind_what_they_have_read_and_miss_nothing(kind: ChangeoverKind) -> None:
    pair = ChangingPair()
    restored(pair)
    pair.go_on_with_restored()
    choices: Choices = SWITCHOVER
    if kind is ChangeoverKind.FAILOVER:
        choices = FAILOVER
        pair.lose_east(with_driver=False)
    plan = pair.plan(kind, choices)
    pair.apply(plan)
    require_once(pair, records=FIRST + SINCE + AT_WEST)
    pair.end()


# -- Markers against drivers of the lost ledger ----------------------------------------------------


def shut_out(pair: ChangingPair) -> None:
    state = MemoryLedgerState(pair.ledger)
    restored_by = state.restored_by()
    assert restored_by is not None
    with pair.outside.seen_by(pair.outside.process()):
        run._shut_out_former_drivers(pair.config, pair.config.flow(FORWARD), state, restored_by)  # type: ignore[arg-type]


def marked(pair: ChangingPair) -> list[EpochMarker]:
    """The markers that leaders hold against ids that the flow has had."""
    ids = {row["producer_id"] for row in pair.ledger.rows("writers") if row["flow"] == FORWARD} - {None}
    logs: list[tuple[tuple[str, int], PartitionLog]] = [(place, pair.west.log(*place)) for place in PLACES]
    return [
        EpochMarker(
            flow=FORWARD,
            producer_id=producer_id,
            producer_epoch=MARKER_EPOCH,
            topic=topic,
            topic_id=pair.west.topic_by_name[topic].topic_id,
            partition=number,
        )
        for producer_id in sorted(ids)
        for (topic, number), log in logs
        if (log.producer_epoch(producer_id) or 0) >= MARKER_EPOCH
    ]


def recorded(pair: ChangingPair) -> list[bool]:
    rows = (row for row in pair.ledger.rows("operations") if row["kind"] == "former_drivers_shut_out")
    return ['"is_done":true' in row["content"].replace(" ", "") for row in rows]


def refused_by(places: set[tuple[str, int]]) -> Callable[..., None]:
    """What leaders of these partitions do with markers: they do not take them, and do not say why."""
    write = Seat.write_abort_markers

    def writing(
        seat: Seat, partitions: list[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        taken = [at for at in partitions if (at.topic, at.partition) not in places]
        write(seat, taken, producer_id=producer_id, producer_epoch=producer_epoch)

    return writing


def test_where_some_leaders_refuse_markers_the_flow_starts_with_neither_producer_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = ChangingPair()
    restored(pair)
    with monkeypatch.context() as refusing:
        refusing.setattr(Seat, "write_abort_markers", refused_by({("orders", 1)}))
        for _ in range(2):
            with pytest.raises(
                PreconditionError, match=r"not shut out of all of west: 1 of 3 markers .* Start it again"
            ):
                shut_out(pair)
    assert {(one.topic, one.partition) for one in marked(pair)} == set(PLACES) - {("orders", 1)}
    assert recorded(pair) == [False, False]
    pair.go_on_with_restored()
    assert {(one.topic, one.partition) for one in marked(pair)} == set(PLACES)
    assert recorded(pair) == [False, False, False, True]
    shut_out(pair)
    assert len(recorded(pair)) == 4, "once is enough"
    at_west = {place: [value_of(one) for one in pair.west.log(*place).readable()] for place in PLACES}
    assert at_west == pair.values(pair.east)
    pair.end()


def test_where_all_leaders_refuse_markers_the_flow_continues_with_its_producer_id(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = ChangingPair()
    restored(pair)
    with monkeypatch.context() as refusing:
        refusing.setattr(Seat, "write_abort_markers", refused_by(set(PLACES)))
        pair.go_on_with_restored()
    assert marked(pair) == []
    assert recorded(pair) == [False, True]
    assert "a driver of the lost one that is still at work can write to west" in caplog.text
    assert pair.values(pair.west) == pair.values(pair.east), "each record once, in order"
    pair.end()
