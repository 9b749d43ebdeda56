"""Change detection, row by row, and when ends that stand still are confirmed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.facts.rows import TopicEvent
from ledger.facts.syncs import Absence, Checkpoint, HighWatermark, TopicState
from ledger.kafka.cluster import PartitionEnds
from ledger.recorders.changes import (
    OffsetKey,
    changed_high_watermarks,
    changed_offsets,
    high_watermarks_by_key,
    offsets_by_key,
    to_be_explained,
    topic_changes,
)
from ledger.recorders.recorder import ClusterRecorder, EndConfirmation
from tests.support.fakes import (
    SETTINGS,
    FakeClock,
    FakeCluster,
    FakeLedger,
    absent,
    checkpoint,
    recorder_of,
)

# -- Changes ---------------------------------------------------------------------------------------

keys = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 1))
reads = st.dictionaries(keys, st.integers(0, 3))


def by_key(offsets: dict[OffsetKey, int]) -> dict[OffsetKey, Checkpoint]:
    return offsets_by_key([checkpoint(*key, offset) for key, offset in offsets.items()])


def rows_of(
    recorded: dict[OffsetKey, Checkpoint], look: dict[OffsetKey, int], absence: Absence, at_ms: int
) -> list[Checkpoint]:
    read = by_key(look)
    missing = to_be_explained(recorded, read, was_read=lambda _: True)
    absences = dict.fromkeys(missing, absence)
    return changed_offsets(recorded, read, absences=absences, read_at_ms=at_ms)


@given(st.lists(st.tuples(reads, st.sampled_from(Absence)), max_size=5))
def test_replaying_the_rows_gives_what_was_read(
    looks: list[tuple[dict[OffsetKey, int], Absence]],
) -> None:
    recorded: dict[OffsetKey, Checkpoint] = {}
    for at_ms, (look, absence) in enumerate(looks):
        recorded |= offsets_by_key(rows_of(recorded, look, absence, at_ms))
        living = {
            key: row.committed_offset for key, row in recorded.items() if row.committed_offset is not None
        }
        assert living == look
        assert all((row.absence is None) == (key in look) for key, row in recorded.items())
        assert rows_of(recorded, look, absence, at_ms) == []


def test_a_vanished_commit_is_recorded_once() -> None:
    row = checkpoint("g", "t", 0, 5)
    last = offsets_by_key([row])
    assert rows_of(last, {}, Absence.GONE, 9) == [absent(row, Absence.GONE, 9)]
    last = offsets_by_key([absent(row, Absence.GONE, 9)])
    assert to_be_explained(last, {}, was_read=lambda _: True) == []


def test_that_a_transaction_is_pending_is_a_change_and_so_is_its_end() -> None:
    stable = replace(checkpoint("g", "t", 0, 5), transaction_pending=False)
    pending = replace(stable, transaction_pending=True)
    for last, now in ((stable, pending), (pending, stable)):
        recorded, read = offsets_by_key([last]), offsets_by_key([now])
        assert changed_offsets(recorded, read, absences={}, read_at_ms=9) == [now]


def test_of_a_commit_that_is_not_there_any_more_no_transaction_is_pending() -> None:
    pending = replace(checkpoint("g", "t", 0, 5), transaction_pending=True)
    [gone] = rows_of(offsets_by_key([pending]), {}, Absence.GONE, 9)
    assert (gone.committed_offset, gone.transaction_pending) == (None, None)


def test_a_hidden_commit_is_asked_for_until_it_is_known_to_be_gone() -> None:
    row = absent(checkpoint("g", "t", 0, 5), Absence.HIDDEN, 9)
    last = offsets_by_key([row])
    assert rows_of(last, {}, Absence.HIDDEN, 10) == []
    assert rows_of(last, {}, Absence.GONE, 10) == [absent(row, Absence.GONE, 10)]


def test_what_was_not_read_has_not_vanished() -> None:
    last = offsets_by_key([checkpoint("g", "t", 0, 5)])
    assert to_be_explained(last, {}, was_read=lambda key: key[0] != "g") == []


COMMIT = checkpoint("g", "t", 0, 5)


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        (replace(COMMIT, committed_offset=6), True),
        (replace(COMMIT, topic_id="id-2"), True),
        (replace(COMMIT, leader_epoch=1), True),
        (replace(COMMIT, metadata="m"), True),
        (replace(COMMIT, group_type="consumer"), True),
        (replace(COMMIT, group_state="Empty"), False),
        (replace(COMMIT, read_at_ms=2), False),
    ],
    ids=str,
)
def test_what_counts_as_a_changed_checkpoint(changed: Checkpoint, is_change: bool) -> None:
    rows = changed_offsets(offsets_by_key([COMMIT]), offsets_by_key([changed]), absences={}, read_at_ms=9)
    assert rows == ([changed] if is_change else [])


END = HighWatermark(
    cluster="east",
    topic="t",
    topic_id="id-1",
    partition=0,
    leader_epoch=0,
    log_start=0,
    last_stable=5,
    high_watermark=5,
    read_at_ms=1,
)


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        (replace(END, topic_id="id-2"), True),
        (replace(END, leader_epoch=1), True),
        (replace(END, log_start=1), True),
        (replace(END, last_stable=4), True),
        (replace(END, high_watermark=6), True),
        (replace(END, read_at_ms=2), False),
    ],
    ids=str,
)
def test_what_counts_as_a_changed_high_watermark(changed: HighWatermark, is_change: bool) -> None:
    rows = changed_high_watermarks(high_watermarks_by_key([END]), high_watermarks_by_key([changed]))
    assert rows == ([changed] if is_change else [])


def test_a_partition_that_is_not_read_yields_no_high_watermark() -> None:
    other = replace(END, partition=1)
    assert changed_high_watermarks(high_watermarks_by_key([END]), high_watermarks_by_key([other])) == [other]


def state(topic_id: str = "id-1", partitions: int = 1, rf: int = 1, **settings: str) -> TopicState:
    return TopicState(
        cluster="east",
        topic="t",
        topic_id=topic_id,
        partitions=partitions,
        replication_factor=rf,
        configuration=tuple(settings.items()),
    )


OTHER = replace(state(), topic="other")


@pytest.mark.parametrize(
    ("last", "now", "events"),
    [
        (None, state(), ["created"]),
        (state(), None, ["deleted"]),
        (state(), state(), []),
        (state(), state("id-2"), ["recreated"]),
        (state(), state("id-2", partitions=2, retention="1"), ["recreated"]),
        (state(), state(partitions=2), ["partitions_added"]),
        (state(), state(retention="1"), ["configuration_changed"]),
        (state(), state(partitions=2, retention="1"), ["partitions_added", "configuration_changed"]),
        (state(), state(rf=2), ["observed"]),
    ],
)
def test_topic_events(last: TopicState | None, now: TopicState | None, events: list[str]) -> None:
    before = {"other": OTHER} | ({"t": last} if last else {})
    after = {"other": OTHER} | ({"t": now} if now else {})
    changes = topic_changes(before, after)
    assert [change.event.value for change in changes] == events
    assert all(change.state == (last if change.event is TopicEvent.DELETED else now) for change in changes)


def test_the_first_look_observes() -> None:
    assert [change.event for change in topic_changes({}, {"t": state()})] == [TopicEvent.OBSERVED]


# -- Ends that stand still -------------------------------------------------------------------------


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
    assert len(signs(ledger)) == 3, "a full sweep, too"
    assert len({round_number for round_number, _ in signs(ledger)}) == 3


def reads_of(ledger: FakeLedger) -> list[tuple[object, object]]:
    """By round of ends: whether it speaks for the others, and when the read before began."""
    rows = {row["round"]: row for row in ledger.rows("high_watermarks")}
    return [(row["confirms_others"], row["previous_read_at_ms"]) for row in rows.values()]


def test_a_read_that_finds_a_change_confirms_the_others(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    """It says besides when nothing had come yet, whether or not that read left a row."""
    assert reads_of(ledger) == [(True, None)]
    clock.now_s += 10
    before_ms = clock.now_ms()
    recorder.record_due()
    clock.now_s += 10
    cluster.ends_now["orders", 1] = PartitionEnds(0, 6, 6, 0)
    assert recorder.record_due().rows["high_watermarks"] == 1
    assert reads_of(ledger) == [(True, None), (True, before_ms)]


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
    first, lacking, after = reads_of(ledger)
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
    cluster.ends_now |= {at: PartitionEnds(0, 9, 9, 0) for at in cluster.ends_now}
    recorder.record_once()
    assert {row["read_at_ms"] for row in ledger.rows("high_watermarks")[-2:]} == {began_ms}


def test_the_last_look_confirms_all_ends(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    recorder.record_once()
    assert signs(ledger) == []
    recorder.record_last()
    assert len(signs(ledger)) == 1
