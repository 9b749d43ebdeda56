"""Steps that wait: for copies, and for groups at work again."""

from collections.abc import Sequence

import pytest

from ledger.changeover.groups import MovedCommit
from ledger.changeover.waiting import drain, first_progress, still_drained
from ledger.errors import PreconditionError
from ledger.kafka.cluster import PartitionEnds
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.waiting_rooms import Room


def test_it_is_drained_when_the_maps_reach_the_ends() -> None:
    room = Room()
    room.write(0)
    reached = [room.at(0, 1), room.at(1, 0)]
    room.happens = [lambda: reached.__setitem__(0, room.at(0, 3))]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.said == ["2 offsets to copy at orders partition 0"]
    assert result.read_back == {"high_watermarks": {"orders-0": 3, "orders-1": 0}}


def test_a_partition_that_was_added_and_never_copied_is_not_drained() -> None:
    room = Room()
    room.cluster.add_partitions("orders", total=3)
    room.write(2)
    reached = [room.at(0, 0), room.at(1, 0)]
    with pytest.raises(PreconditionError, match=r"not within 5 s: 3 offsets to copy at orders partition 2"):
        drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.clock.now_s == 1005.0


def test_an_empty_partition_that_no_flow_has_begun_with_is_not_drained() -> None:
    room = Room()
    room.cluster.add_partitions("orders", total=3)
    reached = [room.at(0, 0), room.at(1, 0)]
    room.happens = [lambda: reached.append(room.at(2, 0))]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert room.said == ["orders partition 2 not begun with"]
    assert result.read_back == {"high_watermarks": {"orders-0": 0, "orders-1": 0, "orders-2": 0}}


def test_nobody_waits_for_what_comes_once_the_target_is_promoted() -> None:
    room = Room()
    room.write(0)
    room.cluster.add_partitions("orders", total=3)
    reached = [room.at(0, 3), room.at(1, 0)]
    still = still_drained(room.cluster, [room.topic], lambda _flow: reached, operation_id="op")
    assert still.read_back == {"high_watermarks": {"orders-0": 3, "orders-1": 0, "orders-2": 0}}
    room.write(1)
    with pytest.raises(PreconditionError, match=r"3 offsets of east came after .*mirror-ledger undo op"):
        still_drained(room.cluster, [room.topic], lambda _flow: reached, operation_id="op")


def ends_read(monkeypatch: pytest.MonkeyPatch, *readings: tuple[int, int]) -> None:
    """Last stable offset and high watermark of partition 0, one reading after the other; partition 1 is empty."""
    coming = iter(readings)

    def ends(_self: MemoryCluster, _asked: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        return {("orders", 0): PartitionEnds(0, *next(coming), 0), ("orders", 1): PartitionEnds(0, 0, 0, 0)}

    monkeypatch.setattr(MemoryCluster, "ends", ends)


def test_behind_an_open_transaction_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    ends_read(monkeypatch, (3, 7), (6, 9))
    with pytest.raises(PreconditionError, match="a transaction is open at orders partition 0"):
        drain(room.cluster, [room.topic], lambda _flow: [], room.patience(), room.said.append)
    assert room.said == []


def test_what_a_mirror_appends_while_ends_are_read_is_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    ends_read(monkeypatch, (3, 7), (7, 9))
    reached = [room.at(0, 7), room.at(1, 0)]
    result = drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)
    assert result.read_back == {"high_watermarks": {"orders-0": 7, "orders-1": 0}}


def test_what_another_incarnation_had_copied_does_not_count() -> None:
    room = Room()
    reached = [room.at(0, 9), room.at(1, 9)]
    room.cluster.recreate_topic("orders")
    room.write(0)
    with pytest.raises(PreconditionError, match="3 offsets to copy"):
        drain(room.cluster, [room.topic], lambda _flow: reached, room.patience(), room.said.append)


def test_a_topic_that_is_gone_is_no_drained_one() -> None:
    room = Room()
    topic = room.topic
    room.cluster.delete_topic("orders")
    with pytest.raises(PreconditionError, match="east has no topic orders"):
        drain(room.cluster, [topic], lambda _flow: [], room.patience(), room.said.append)


def moved(room: Room, group: str, *to: int) -> MovedCommit:
    return MovedCommit(
        group=group,
        is_of_share_group=False,
        topic="orders",
        topic_id=room.topic.source_topic_id,
        partition=0,
        former=None,
        to=to,
    )


def test_progress_is_the_first_commit_behind_what_was_set() -> None:
    room = Room()
    room.cluster.committed |= {(group, "orders", 0): 2 for group in ("billing", "idle", "again")}
    sheet = [moved(room, "billing", 2), moved(room, "idle", 2), moved(room, "again", 1, 2)]
    room.happens = [
        lambda: None,
        lambda: room.cluster.committed.update({("billing", "orders", 0): 3}),
    ]
    result = first_progress(room.cluster, sheet, room.patience(4.0), room.said.append)
    assert result.read_back == {
        "seconds_to_first_commit": {"billing": 2.0},
        "first_commit_at_ms": {"billing": 1_002_000},
        "not_seen_at_work": ["again", "idle"],
    }
    assert "1 group of 3 committed at east; billing after 2.0 s" in result.words
    assert "not seen at work within 4 s: again, idle" in result.words
    assert room.clock.now_s == 1_004.0


def test_progress_at_another_incarnation_is_none_and_all_at_work_end_the_wait() -> None:
    room = Room()
    sheet = [moved(room, "billing", 2)]
    room.cluster.committed[("billing", "orders", 0)] = 3
    assert first_progress(room.cluster, sheet, room.patience(), room.said.append).read_back[
        "seconds_to_first_commit"
    ] == {"billing": 0.0}
    assert room.clock.now_s == 1_000.0, "nobody is waited for"
    room.cluster.recreate_topic("orders")
    seen = first_progress(room.cluster, sheet, room.patience(1.0), room.said.append).read_back
    assert seen["not_seen_at_work"] == ["billing"]


def test_where_no_group_was_moved_nobody_is_waited_for() -> None:
    room = Room()
    assert first_progress(room.cluster, [], room.patience(), room.said.append).read_back == {
        "seconds_to_first_commit": {},
        "first_commit_at_ms": {},
        "not_seen_at_work": [],
    }
    assert room.clock.now_s == 1_000.0
