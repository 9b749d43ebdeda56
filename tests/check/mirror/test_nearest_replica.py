"""A source that is read from the replica of this rack: it brings records, and what there is the leader says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.kafka.requests import Fetched, FetchItem
from ledger.mirror.assignment import StopCause
from tests.simulation.kafka.cluster import MemoryCluster, Replica
from tests.support.copy_tasks import Bench, cause

RECORDS = 12


@dataclass
class Noting(MemoryCluster):
    """Says what is fetched of it: the node, the offset, how many bytes came. `before`: happens at each request."""

    fetched: list[tuple[int, int, int]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def fetch(self, node: int, items: Sequence[FetchItem], **asked: Any) -> tuple[Fetched, ...]:
        self.before()
        answers = super().fetch(node, items, **asked)
        self.fetched += [
            (node, item.offset, len(answer.records)) for item, answer in zip(items, answers, strict=True)
        ]
        return answers


@dataclass
class Racked:
    """A topic of twelve records whose leader sends the mirror to another node."""

    behind: int = 0

    def __post_init__(self) -> None:
        self.bench = Bench()
        self.source = self.bench.source = Noting("east", self.bench.schedule)
        self.source.create_topic("orders", partitions=2, replication_factor=1, configuration={})
        self.bench.write(*[2] * (RECORDS // 2))
        leader = self.source.topic_by_name["orders"].leaders[0]
        assert leader is not None
        self.leader, self.near = leader, next(node for node in self.source.nodes if node != leader)
        self.source.replicas["orders", 0] = Replica(self.near, self.behind)

    def brought(self) -> set[int]:
        """Nodes that records came from."""
        return {node for node, _, size in self.source.fetched if size}


def test_records_come_from_the_replica_that_the_leader_names() -> None:
    racked = Racked()
    [result] = racked.bench.run(racked.bench.assignment())
    assert racked.bench.is_copied()
    assert racked.brought() == {racked.near}
    assert racked.source.fetched[0] == (racked.leader, 0, 0), "the leader is asked first"
    assert result.source_ends == (RECORDS, RECORDS)


def test_what_a_replica_has_not_got_yet_is_waited_for_and_never_taken_for_the_end() -> None:
    """The end of the source is the leader's word, though the last answer was the replica's."""
    racked = Racked(behind=4)
    [result] = racked.bench.run(racked.bench.assignment(end_offset=RECORDS), seconds=1.0)
    assert (result.position.source_offset, result.source_ends) == (RECORDS - 4, (RECORDS, RECORDS))
    assert cause(result) is None


def test_an_offset_that_a_replica_has_not_is_fetched_from_the_leader() -> None:
    """Out of range of a replica is no word on the source's log."""
    racked = Racked(behind=8)
    replica = racked.source.replicas["orders", 0]

    def fall_behind() -> None:
        if len(racked.source.fetched) == 2:
            replica.behind = RECORDS

    racked.source.before = fall_behind
    [result] = racked.bench.run(racked.bench.assignment(), seconds=2.0)
    assert cause(result) is None
    assert racked.bench.is_copied()
    assert racked.brought() == {racked.near, racked.leader}


@pytest.mark.parametrize("is_of_replica", [True, False])
def test_that_the_log_went_back_is_believed_of_the_leader_alone(is_of_replica: bool) -> None:
    racked = Racked()
    [first] = racked.bench.run(racked.bench.assignment())
    racked.bench.write(2)
    log = racked.bench.source_log()

    def lose_end() -> None:
        if len(racked.source.fetched) == asked + is_of_replica and log.leader_epoch == 0:
            log.lose_end(RECORDS - 2)

    asked = len(racked.source.fetched)
    racked.source.before = lose_end
    assignment = racked.bench.assignment(end_offset=RECORDS + 2)
    assignment = replace(assignment, position=first.position)
    [result] = racked.bench.run(assignment, seconds=2.0)
    assert cause(result) is StopCause.SOURCE_TRUNCATED
    last = racked.source.fetched[-1]
    assert (last[0], last[2]) == (racked.leader, 0)


def test_a_replica_that_hangs_is_left() -> None:
    racked = Racked()
    racked.source.hang(racked.near)
    [result] = racked.bench.run(racked.bench.assignment(), seconds=40.0)
    assert racked.bench.is_copied()
    assert (cause(result), racked.brought()) == (None, {racked.leader})


def test_what_lies_at_the_target_already_is_held_against_the_leaders_log() -> None:
    """A task died before its records were told: whether the source has them a replica that is behind does not know."""
    racked = Racked()
    told = racked.bench.assignment()
    racked.bench.run(told)
    racked.source.replicas["orders", 0].behind = RECORDS
    racked.source.fetched.clear()
    [result] = racked.bench.run(told, seconds=2.0)
    assert cause(result) is None
    assert all(sync.recovered for sync in result.syncs)
    assert racked.brought() == {racked.leader}
