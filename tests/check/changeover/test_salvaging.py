"""Where salvaging begins with a partition, and continues: after an earlier failover, a crash, another target topic."""

from dataclasses import replace
from typing import cast

import pytest

from ledger.changeover.bounded_copy import BoundedCopy
from ledger.changeover.salvaging import _state, _target_pairs, salvaging_flow
from ledger.config.values import FilterConfig, FlowConfig, TargetMode
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    FlowPosition,
    Gap,
    GapCause,
    OffsetSync,
    PartitionPair,
    Position,
    SyncCause,
    SyncKind,
    TopicPartition,
)
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.states import FlowProgress, PartitionState
from ledger.topics.naming import NamingKind
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content

OWN, APPLICATION = 7, 9
FLOW = salvaging_flow(
    FlowConfig(
        name="east-to-west",
        source="east",
        target="west",
        topics=("orders",),
        topic_naming=NamingKind.IDENTITY,
        opposite="west-to-east",
        filter=FilterConfig(exclude_keys=("test-.*",)),
    )
)
BEFORE = Position(source_offset=40, target_offset=3, next_sequence=3, leader_epoch=1)


class _Begun:
    """What a claim of the flow finds: its recorded positions, and what it writes with."""

    def __init__(self, *positions: FlowPosition) -> None:
        self.producer, self.flow = FlowProducer(OWN), FLOW
        self.progress = FlowProgress(positions, self.producer)


class _West(MemoryCluster):
    """With the topic that is salvaged to; of two writers so many records each, in this order."""

    def __init__(self, *written: tuple[int, int]) -> None:
        super().__init__("west", Schedule())
        self.create_topic("orders.salvaged", partitions=1, replication_factor=1, configuration={})
        for producer_id, count in written:
            batch = application_batch(
                [content(b"k", b"v")] * count, [0] * count, producer=Producer(producer_id, 0, 0)
            )
            self.log("orders.salvaged", 0).append(batch, now_ms=0)

    @property
    def pair(self) -> PartitionPair:
        topic = self.topics()["orders.salvaged"]
        target = TopicPartition(topic.name, topic.topic_id, 0)
        return PartitionPair(TopicPartition("orders", "E", 0), target)

    def begun(self, *positions: FlowPosition, start: int = 60) -> tuple[PartitionState, list[OffsetSync]]:
        ends: PartitionEnds = self.ends([("orders.salvaged", 0)])["orders.salvaged", 0]
        return _state(cast(BoundedCopy, _Begun(*positions)), self, ends, self.pair, start)

    def position(self, **changed: str) -> FlowPosition:
        found = FlowPosition("orders", "E", 0, "orders.salvaged", self.pair.target.topic_id, BEFORE)
        return replace(found, **changed)  # type: ignore[arg-type]


def test_the_internal_flow_copies_every_record_to_a_topic_that_others_may_write_to() -> None:
    assert (FLOW.name, FLOW.naming.target_name("orders")) == ("east-to-west.salvaged", "orders.salvaged")
    assert FLOW.filter.record_filter.keeps_all
    assert (FLOW.target_mode, FLOW.opposite) == (TargetMode.SHARED, None)


@pytest.mark.parametrize("had", [0, 1, 3])
def test_its_topic_has_the_partitions_of_the_source_and_keeps_all_that_comes_there(had: int) -> None:
    east, west = MemoryCluster("east", Schedule()), MemoryCluster("west", Schedule())
    compacted = {"cleanup.policy": "compact", "max.message.bytes": "2000000"}
    for cluster in (east, west):
        cluster.create_topic("orders", partitions=3, replication_factor=1, configuration=compacted)
    if had:
        west.create_topic("orders.salvaged", partitions=had, replication_factor=1, configuration={})
    source = [TopicPartition("orders", east.topics()["orders"].topic_id, number) for number in (0, 2)]
    pairs = _target_pairs(FLOW, east, west, source)
    topic = west.topics()["orders.salvaged"]
    assert topic.partitions == 3
    assert pairs == {
        at: PartitionPair(at, TopicPartition(topic.name, topic.topic_id, at.partition)) for at in source
    }
    own = west.configurations(["orders.salvaged"])["orders.salvaged"]
    wanted = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": "2000000"}
    assert {name: own.get(name) for name in wanted} == (dict.fromkeys(wanted) if had else wanted)


def test_it_begins_at_the_first_extra_behind_what_the_target_holds() -> None:
    state, [fact] = _West((APPLICATION, 2)).begun()
    assert (fact.kind, fact.cause) == (SyncKind.STARTED, SyncCause.EXTRAS)
    assert (state.position.source_offset, state.position.target_offset) == (60, 2)


def test_another_incarnation_of_the_source_continues_behind_the_former_one() -> None:
    west = _West((OWN, 3))
    state, [fact] = west.begun(west.position(source_topic_id="former"))
    assert fact.cause is SyncCause.EXTRAS
    assert state.position == replace(BEFORE, source_offset=60, leader_epoch=None)


def test_what_lies_before_further_extras_is_left_out_unread() -> None:
    west = _West((OWN, 3), (APPLICATION, 2))
    state, [fact] = west.begun(west.position())
    assert (fact.kind, fact.gaps, fact.records) == (
        SyncKind.COPIED,
        (Gap(40, 60, GapCause.FILTERED),),
        0,
    )
    assert state.position == replace(BEFORE, source_offset=60, leader_epoch=None)


@pytest.mark.parametrize("start", [30, 40])
def test_a_crash_in_the_middle_continues_where_it_was_recorded(start: int) -> None:
    west = _West((OWN, 3), (OWN, 2))
    state, facts = west.begun(west.position(), start=start)
    assert (state.position, facts) == (BEFORE, [])


def test_what_was_copied_and_not_recorded_may_have_lost_its_source() -> None:
    west = _West((OWN, 3), (OWN, 2))
    state, [fact] = west.begun(west.position())
    assert (fact.kind, fact.cause, fact.source_start, fact.source_end) == (
        SyncKind.LOST,
        SyncCause.RETENTION,
        40,
        60,
    )
    assert state.position.source_may_be_deleted


@pytest.mark.parametrize(("start", "from_there"), [(60, 40), (30, 30)])
def test_in_a_topic_that_was_created_again_these_extras_are_copied_once_more(
    start: int, from_there: int
) -> None:
    west = _West()
    state, [superseded, *passed] = west.begun(west.position(target_topic_id="former"), start=start)
    assert (superseded.kind, superseded.cause) == (SyncKind.SUPERSEDED, SyncCause.TARGET_RECREATED)
    assert (superseded.source_start, superseded.source_end) == (from_there, 40)
    assert [fact.gaps for fact in passed] == ([(Gap(40, 60, GapCause.FILTERED),)] if start > 40 else [])
    assert (state.position.source_offset, state.position.target_offset) == (start, 0)
    assert state.position.next_sequence == 0
