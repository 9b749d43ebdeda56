"""Bad lines between the mirror and its brokers: long, narrow, cut, silent, and answers that get lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from ledger.clock import SystemClock
from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import Completion, answer_to
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import ErrorCode, FetchItem
from ledger.mirror.task import CopyTask
from tests.support.copies import Pair, limits
from tests.support.copy_tasks import writers
from tests.support.forwarder import Forwarder, cut_every
from tests.support.outages import assert_given_up_in_time, assert_lost_answers_are_made_up_for
from tests.support.refusing import Refusals
from tests.support.waiting import eventually

Lines = dict[str, Forwarder]
MBIT_PER_S = 125_000


@contextmanager
def after(seconds: float, *actions: object) -> Iterator[None]:
    """Do something while the body runs; an action that was not reached does not happen."""
    timer = threading.Timer(seconds, lambda: [action() for action in actions])  # type: ignore[operator]
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.fault(7)
def test_a_long_line_widens_the_window(far_copy: Pair, lines: Lines) -> None:
    """At 100 ms and five requests in flight, 400 batches would take 8 s: 4 s for each partition's."""
    far_copy.produce(4_000, client={"batch.num.messages": 10, "linger.ms": 100})
    for line in lines.values():
        line.slow(round_trip_s=0.1)
    with closing(far_copy.network()) as network:
        started = time.monotonic()
        results = far_copy.run(network=network)
        took = time.monotonic() - started
        assert network.target.produce_window(1) > 20
    assert [result.stop for result in results] == [None, None]
    assert far_copy.assert_same() == 4_000
    assert took < 6


@pytest.mark.fault(7)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_narrow_line_makes_progress_in_every_round(far_copy: Pair, lines: Lines, side: str) -> None:
    """3 Mbit/s: 1.5 MB take 4 s; nothing that was carried is carried a second time."""
    records = 1_500
    far_copy.produce(records, size=1_000, client={"batch.size": 100_000})
    lines[side].slow(bytes_per_s=3 * MBIT_PER_S)
    way = lines[side].down if side == "source" else lines[side].up
    with closing(far_copy.network()) as network:
        positions = [0]
        while positions[-1] < records:
            results = far_copy.run(seconds=2, network=network, limits=limits(request_timeout_ms=3_000))
            positions.append(sum(result.position.source_offset for result in results))
            assert positions[-1] > positions[-2], "a round without progress"
    assert far_copy.assert_same() == records
    assert way.carried < 1.3 * records * 1_020


@pytest.mark.fault(7, 28)
def test_a_line_that_is_cut_again_and_again_carries_everything_once(far_copy: Pair, lines: Lines) -> None:
    far_copy.produce(1_500, size=500, client={"batch.num.messages": 20})
    for line in lines.values():
        line.slow(round_trip_s=0.02, bytes_per_s=4 * MBIT_PER_S)
    with cut_every(lines["source"], 1.0), cut_every(lines["target"], 0.7):
        results = far_copy.run(seconds=60)
    assert [result.stop for result in results] == [None, None]
    assert far_copy.assert_same() == 1_500
    assert lines["target"].accepted > 4, "the line was not cut"


@pytest.mark.fault(8)
def test_a_half_open_connection_to_the_target_is_given_up_in_time(far_copy: Pair, lines: Lines) -> None:
    assert_given_up_in_time(far_copy, lines["target"])


@pytest.mark.fault(8)
def test_a_broker_that_is_silent_from_the_start_is_told_as_trouble(far_copy: Pair, lines: Lines) -> None:
    far_copy.produce(20)
    lines["source"].freeze()
    with closing(far_copy.network(request_timeout_s=2)) as network:
        results = far_copy.run(seconds=2, network=network, limits=limits(request_timeout_ms=2_000))
        assert all("no broker of" in str(result.trouble) for result in results)
        lines["source"].thaw()
        far_copy.run(network=network)
    assert far_copy.assert_same() == 20


@pytest.mark.fault(8)
def test_connecting_to_a_silent_broker_does_not_hold_up_the_loop(far_copy: Pair, lines: Lines) -> None:
    """The loop goes round many times a second although no connection gets through."""
    for line in lines.values():
        line.freeze()
    passes = CountingNetwork(far_copy)
    with closing(passes.network):
        CopyTask(far_copy.assignments(), passes, writers(), SystemClock(), limits()).run(seconds=2)
    assert passes.longest_s < 0.4
    assert passes.count > 10


class CountingNetwork:
    """A network that notes how often it is polled and how long the loop was away in between."""

    def __init__(self, pair: Pair) -> None:
        self.network: KafkaNetwork = pair.network()
        self.source, self.target = self.network.source, self.network.target
        self.count, self.longest_s = 0, 0.0
        self._since = time.monotonic()

    def poll(self, timeout_s: float) -> list[Completion]:
        self.count += 1
        self.longest_s = max(self.longest_s, time.monotonic() - self._since)
        completions = list(self.network.poll(timeout_s))
        self._since = time.monotonic()
        return completions


@pytest.mark.fault(28)
@pytest.mark.parametrize("batches", [1, 40])
def test_answers_that_get_lost_leave_no_duplicate_and_no_hole(
    far_copy: Pair, lines: Lines, batches: int
) -> None:
    """The broker takes so many batches whose answers nobody sees; it remembers the last five only."""
    assert_lost_answers_are_made_up_for(far_copy, lines["target"], batches)


@pytest.mark.fault(15)
def test_brokers_that_know_no_topic_ids_in_fetch_and_produce_are_copied_by_name(
    far_copy: Pair, lines: Lines
) -> None:
    for line in lines.values():
        line.refusals = Refusals(newest={0: 12, 1: 12})
    far_copy.produce(1_000)
    with closing(far_copy.network()) as network:
        far_copy.run(network=network)
        far_copy.delete("source")
        far_copy.create("source")
        far_copy.produce(500, size=50)
        results = far_copy.run(seconds=20, to_the_end=False, network=network)
    assert {str(result.stop and result.stop.cause) for result in results} == {"source_topic_gone"}
    assert {result.position.source_offset for result in results} == {500}, (
        "nothing of the new topic was copied"
    )


@pytest.mark.fault(15)
@pytest.mark.parametrize("newest", [{0: 12, 1: 12}, {}], ids=["by_name", "by_id"])
def test_nothing_of_a_recreated_topic_is_an_answer_about_the_one_before(
    far_copy: Pair, lines: Lines, newest: dict[int, int]
) -> None:
    """Asked at once after it, by a link that has not heard of it: the new topic has the same offsets."""
    for line in lines.values():
        line.refusals = Refusals(newest=newest)
    far_copy.produce(200)
    former = far_copy.at("source")
    with closing(far_copy.network()) as network:
        eventually(lambda: leader_of(network, former) is not None, "the source says who leads it")
        leader = leader_of(network, former)
        assert leader is not None
        assert fetched_at(network, leader, former) == (ErrorCode.NONE, True)
        far_copy.replace("source", lambda _name: far_copy.create("source"))
        far_copy.produce(200)
        assert fetched_at(network, leader, former) == (ErrorCode.UNKNOWN_TOPIC_ID, False)
        assert fetched_at(network, leader, far_copy.at("source")) == (ErrorCode.NONE, True)
        assert network.is_idle


def leader_of(network: KafkaNetwork, at: TopicPartition) -> int | None:
    """What the source says now; None: nobody leads it yet."""
    network.source.refresh([at.topic])
    return network.source.leader(at)


def fetched_at(network: KafkaNetwork, leader: int, at: TopicPartition) -> tuple[int, bool]:
    """The error of a fetch from the beginning, and whether it brought records."""
    item = FetchItem(at, 0, 1 << 20)
    ticket = network.source.fetch(leader, [item], committed=True, max_wait_ms=0, max_bytes=1 << 20)
    answer = answer_to(ticket, network)
    assert answer.failure is None
    [part] = answer.fetched
    assert part is not None
    return part.error, len(part.records) > 0
