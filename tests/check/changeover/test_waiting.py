"""Steps that wait: for copies, for groups at rest, for groups at work again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ledger.domain.changeover.plans import PlannedTopic
from ledger.domain.facts import Checkpoint
from ledger.domain.offsets.position import Position
from ledger.errors import PreconditionError
from ledger.operations.changeover.waiting import GroupsAtRest, Patience, drain, first_progress, still_drained
from ledger.ports.clusters import PartitionEnds
from ledger.ports.ledger import FlowPosition
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.fakes import FakeClock


@dataclass
class Room:
    """A cluster with a topic of two partitions, and what happens while somebody sleeps."""

    clock: FakeClock = field(default_factory=FakeClock)
    said: list[str] = field(default_factory=list)
    happens: list[Callable[[], None]] = field(default_factory=list)
    cluster: MemoryCluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = MemoryCluster("east", self.clock)
        self.cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})

    def sleep(self, seconds: float) -> None:
        self.clock.now_s += seconds
        if self.happens:
            self.happens.pop(0)()

    def patience(self, seconds: float = 5.0) -> Patience:
        return Patience(self.clock, self.sleep, seconds)

    @property
    def topic(self) -> PlannedTopic:
        topic_id = self.cluster.topic_by_name["orders"].topic_id
        return PlannedTopic(
            flow="flow", source_topic="orders", source_topic_id=topic_id, topic="orders", topic_id="W"
        )

    def at(self, partition: int, offset: int) -> FlowPosition:
        return FlowPosition(
            source_topic="orders",
            source_topic_id=self.topic.source_topic_id,
            partition=partition,
            target_topic="orders",
            target_topic_id="W",
            position=Position(source_offset=offset, target_offset=offset, next_sequence=offset),
        )

    def write(self, partition: int) -> None:
        batch = application_batch([content(b"k", b"v")] * 3, [1] * 3)
        self.cluster.log("orders", partition).append(batch, now_ms=1)


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


def at_rest(room: Room, recorded: Callable[[], list[Checkpoint]]) -> GroupsAtRest:
    return GroupsAtRest(room.cluster, frozenset({"orders"}), None, recorded)


def test_groups_are_at_rest_without_members_and_with_their_commits_recorded() -> None:
    room = Room()
    room.cluster.committed[("billing", "orders", 0)] = 2
    room.cluster.committed[("other", "elsewhere", 0)] = 2
    room.cluster.members |= {"billing", "other"}
    recorded: list[Checkpoint] = []

    def sweep() -> None:
        listed = room.cluster.groups()
        recorded[:] = room.cluster.commits(listed, topic_ids={})

    room.happens = [room.cluster.members.clear, sweep]
    result = at_rest(room, lambda: recorded).wait(room.patience(), room.said.append)
    assert room.said == ["1 group with members at east: billing", "1 commit of east not recorded yet"]
    assert result.read_back == {"groups": ["billing"]}


def test_a_commit_that_moved_since_it_was_recorded_is_waited_for() -> None:
    room = Room()
    room.cluster.committed[("billing", "orders", 0)] = 2
    recorded = room.cluster.commits(room.cluster.groups(), topic_ids={})
    room.cluster.committed[("billing", "orders", 0)] = 3
    with pytest.raises(PreconditionError, match="1 commit of east not recorded yet"):
        at_rest(room, lambda: recorded).wait(room.patience(), room.said.append)


def test_progress_is_the_first_commit_behind_what_was_set() -> None:
    room = Room()
    sheet = {("billing", "orders", 0): 2, ("idle", "orders", 0): 2}
    room.cluster.committed.update(sheet)
    room.happens = [
        lambda: None,
        lambda: room.cluster.committed.update({("billing", "orders", 0): 3}),
    ]
    result = first_progress(room.cluster, sheet, room.patience(4.0), room.said.append)
    assert result.read_back == {
        "seconds_to_first_commit": {"billing": 2.0},
        "first_commit_at_ms": {"billing": 1_002_000},
        "not_seen_at_work": ["idle"],
    }
    assert "not seen at work within 4 s: idle" in result.words
