"""When ends that stand still are confirmed, and how a recorder says so."""

from dataclasses import replace

import pytest

from ledger.kafka.cluster import PartitionEnds
from ledger.recorders.recorder import ClusterRecorder, EndConfirmation
from tests.support.fakes import SETTINGS, FakeClock, FakeCluster, FakeLedger, recorder_of, watched_cluster


@pytest.fixture
def cluster() -> FakeCluster:
    return watched_cluster()


@pytest.fixture
def recorder(cluster: FakeCluster, ledger: FakeLedger) -> ClusterRecorder:
    recorder = recorder_of(cluster, ledger, settings=replace(SETTINGS, heartbeat_seconds=20))
    recorder.take_role()
    recorder.record_due()
    return recorder


def confirmed_at(changes: set[int], *, until: int, every: int = 5) -> list[int]:
    """Seconds at which ends are confirmed, by looks of which some find changes."""
    confirmation = EndConfirmation(first_seconds=5, heartbeat_seconds=60)
    found = []
    for second in range(0, until + 1, every):
        if confirmation.is_due(second, changed=second in changes):
            confirmation.confirmed(second)
            found.append(second)
    return found


def test_a_cluster_at_rest_is_confirmed_ever_more_rarely_down_to_the_heartbeat() -> None:
    assert confirmed_at({0}, until=300) == [0, 10, 30, 70, 130, 190, 250]


def test_a_change_makes_the_next_standstill_known_soon() -> None:
    assert confirmed_at({0, 200}, until=250) == [0, 10, 30, 70, 130, 190, 205, 215, 235]


def test_while_others_change_there_is_a_confirmation_at_every_heartbeat() -> None:
    assert confirmed_at(set(range(0, 300, 5)), until=295) == [0, 60, 120, 180, 240]


def signs(ledger: FakeLedger) -> list[tuple[int, int]]:
    """Round and time of each sign of life."""
    return [
        (row["round"], row["recorded_at_ms"]) for row in ledger.rows("writers") if row["event"] == "alive"
    ]


def test_ends_that_did_not_change_are_confirmed_by_a_sign_of_life_at_every_heartbeat(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    for _ in range(5):
        clock.now_s += 10
        recorder.record_due()
    assert [at_ms % 100_000 for _, at_ms in signs(ledger)] == [
        clock.now_ms() % 100_000 - s for s in (30_000, 10_000)
    ]
    clock.now_s += 10
    recorder.record_due()
    assert len(signs(ledger)) == 2, "a full sweep confirms row by row"
    assert len({round_number for round_number, _ in signs(ledger)}) == 2


def reads(ledger: FakeLedger) -> list[tuple[object, object]]:
    """By round of ends: whether it speaks for the others, and when the read before began."""
    rows = {row["round"]: row for row in ledger.rows("high_watermarks")}
    return [(row["confirms_others"], row["previous_read_at_ms"]) for row in rows.values()]


def test_a_read_that_finds_a_change_confirms_the_others(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    """It says besides when nothing had come yet, whether or not that read left a row."""
    assert reads(ledger) == [(True, None)]
    clock.now_s += 10
    before_ms = clock.now_ms()
    recorder.record_due()
    clock.now_s += 10
    cluster.ends_now["orders", 1] = PartitionEnds(0, 6, 6, 0)
    assert recorder.record_due().rows["high_watermarks"] == 1
    assert reads(ledger) == [(True, None), (True, before_ms)]


def test_a_read_that_lacked_some_ends_confirms_none(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    left_out = cluster.ends_now.pop(("orders", 1))
    clock.now_s += 10
    cluster.ends_now["orders", 0] = PartitionEnds(0, 6, 6, 0)
    recorder.record_due()
    cluster.ends_now["orders", 1] = left_out
    clock.now_s += 10
    cluster.ends_now["orders", 0] = PartitionEnds(0, 7, 7, 0)
    recorder.record_due()
    first, lacking, after = reads(ledger)
    assert (first, lacking[0], after) == ((True, None), False, (True, None)), (
        "at the heartbeat all are recorded"
    )


def test_without_the_ends_of_a_partition_the_others_are_confirmed_row_by_row(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    """A sign of life would speak for the one without a leader, too; when it is back, its row comes first."""
    left_out = cluster.ends_now.pop(("orders", 1))
    found = []
    for seconds in (20, 20):
        clock.now_s += seconds
        found.append(recorder.record_due().rows.get("high_watermarks", 0))
        cluster.ends_now["orders", 1] = left_out
    assert found == [1, 2]
    assert signs(ledger) == []


def test_ends_are_dated_before_they_are_read(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    """What a flow recorded until then lies below them."""
    clock.now_s += 60
    began_ms = clock.now_ms()
    cluster.while_reading_ends = lambda: setattr(clock, "now_s", clock.now_s + 7)
    recorder.record_once()
    assert {row["read_at_ms"] for row in ledger.rows("high_watermarks")[-2:]} == {began_ms}


def test_the_last_look_confirms_all_ends(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    recorder.record_once()
    assert signs(ledger) == []
    recorder.record_last()
    assert len(signs(ledger)) == 1
