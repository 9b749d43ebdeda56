"""Brokers that die, hang, move or fall out of sync while a copy runs: three brokers, acks=all."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from ledger.kafka.copying import Completion, answer_to
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import FetchItem
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import PlacedRecord, read_topics
from tests.support.copies import Pair
from tests.support.trio import QUICK, Trio, assert_others_go_on_while_one_hangs
from tests.support.waiting import eventually, leading_node

NODES = (1, 2, 3)


@pytest.fixture
def within(trio: Trio) -> Iterator[Pair]:
    """Source and target on the three brokers: what happens to a broker happens to both sides."""
    both = {"source": trio.servers, "target": trio.servers}
    with Pair(both, both, partitions=3, replicas={"source": 3, "target": 3}, limits=QUICK) as pair:
        yield pair


@contextmanager
def rounds(pair: Pair, *, seconds: float = 1.0) -> Iterator[list[str]]:
    """Copy in rounds beside the body, then to the end; gives the troubles that were told."""
    ended = threading.Event()
    troubles: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        network = pair.network()
        try:
            while not ended.is_set():
                results = pair.run(seconds=seconds, to_the_end=False, network=network)
                troubles.extend(str(result.trouble) for result in results if result.trouble)
                assert [result.stop for result in results if result.stop] == []
                if not network.is_idle:  # as a worker does: nothing of it reaches the next round
                    network.close()
                    network = pair.network()
            pair.run(seconds=60, network=network)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            network.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield troubles
    finally:
        ended.set()
        thread.join()
    assert failures == []


class Load:
    """Records in small pieces, so that some are always on their way."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.written = pair, 0

    def write(self, count: int = 300) -> None:
        self.pair.produce(count, start=self.written, client={"batch.num.messages": 10})
        self.written += count

    def write_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.write(60)

    def arrives(self) -> None:
        eventually(lambda: sum(self.pair.ends("target").values()) == self.written, "all is copied")


@pytest.mark.fault(1, 2, 3)
def test_a_killed_leader_and_a_restart_of_all_others_of_both_sides_lose_and_double_nothing(
    trio: Trio, within: Pair
) -> None:
    """One broker after the other, as in a rolling restart, of which the first dies."""
    load, topics = Load(within), within.topics.values()
    with rounds(within):
        load.write_for(1)
        victim = trio.leader(within.topics["target"])
        trio.kill(victim)
        load.write_for(3)
        load.arrives()
        trio.start(victim)
        for node in (node for node in NODES if node != victim):
            eventually(lambda: all(trio.in_sync(t) == [*NODES] for t in topics), "all are in sync")
            trio.sandbox.stop("trio", node)
            load.write()
            trio.start(node)
            load.write()
    assert within.assert_same() == load.written


@pytest.mark.fault(8)
def test_partitions_of_other_brokers_go_on_while_one_hangs(trio: Trio) -> None:
    assert_others_go_on_while_one_hangs(trio, is_connected=False)


@pytest.mark.fault(9)
def test_too_few_replicas_in_sync_is_waited_for(
    trio: Trio, broker_pair: Mapping[str, SandboxCluster]
) -> None:
    near = {"source": broker_pair["east"].bootstrap_servers, "target": trio.servers}
    settings = {"target": {"min.insync.replicas": "3"}}
    with Pair(near, near, replicas={"source": 1, "target": 3}, settings=settings, limits=QUICK) as pair:
        load = Load(pair)
        follower = next(n for n in NODES if n != trio.leader(pair.topics["target"]))
        with rounds(pair, seconds=3.0) as troubles:  # longer than a busy broker takes to answer
            load.write()
            load.arrives()
            trio.kill(follower)
            eventually(lambda: len(trio.in_sync(pair.topics["target"])) == 2, "a replica is out of sync")
            load.write()
            eventually(lambda: any("NOT_ENOUGH_REPLICAS" in told for told in troubles), "the trouble is told")
            assert sum(pair.ends("target").values()) < load.written
            trio.start(follower)
            load.arrives()
        assert pair.assert_same() == load.written


UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


@pytest.fixture
def truncated(trio: Trio) -> Iterator[tuple[Pair, Pair, list[PlacedRecord]]]:
    """Two copies up to 150: one whose source, one whose target went back to 100 by an unclean election.

    Both logs then hold 50 other records from offset 100 on. The last value: what the source held before.
    """
    both = {"source": trio.servers, "target": trio.servers}
    with Pair(both, both) as of_source, Pair(both, both) as of_target:
        for pair, side, other in ((of_source, "source", "target"), (of_target, "target", "source")):
            pair.replace(side, lambda topic: trio.create(topic, [[1, 2]], UNCLEAN))
            pair.replace(other, lambda topic: trio.create(topic, [[3]], {"min.insync.replicas": "1"}))
            pair.produce(100)
            pair.run()
        before: list[PlacedRecord] = []

        def write() -> None:
            for pair in (of_source, of_target):
                pair.produce(50, start=100)
                assert pair.run()[0].position.source_offset == 150
            topic = of_source.topics["source"]
            before.extend(read_topics(trio.servers, [topic])[topic, 0])

        trio.lose_the_end([of_source.topics["source"], of_target.topics["target"]], 1, 2, write)
        yield of_source, of_target, before


@pytest.mark.fault(10, 11)
def test_an_unclean_election_reuses_offsets_and_stops_the_partition(
    trio: Trio, truncated: tuple[Pair, Pair, list[PlacedRecord]]
) -> None:
    of_source, of_target, before = truncated
    assert (of_source.ends("source"), of_target.ends("target")) == ({0: 100}, {0: 100}), "the logs went back"
    of_source.produce(50, start=500)
    topic = of_source.topics["source"]
    after = read_topics(trio.servers, [topic])[topic, 0]
    assert after[:100] == before[:100]
    assert [placed.offset for placed in after[100:]] == list(range(100, 150)), "offsets are used again"
    assert all(new != old for new, old in zip(after[100:], before[100:], strict=True))
    (stopped,) = of_source.run(seconds=10, to_the_end=False)
    assert stopped.stop is not None
    assert (str(stopped.stop.cause), stopped.position.source_offset) == ("source_truncated", 150)
    assert stopped.divergence is not None
    assert stopped.divergence.end == 100
    (stopped,) = of_target.run(seconds=10, to_the_end=False)
    assert stopped.stop is not None
    assert (str(stopped.stop.cause), stopped.position.source_offset) == ("target_out_of_range", 150)
    assert of_target.ends("target") == {0: 100}, "nothing was written"
    of_target.produce(60, side="target")
    (stopped,) = of_target.run(seconds=10, to_the_end=False)
    assert stopped.stop is not None
    assert str(stopped.stop.cause) == "target_out_of_range", "its end is past the recorded one again"
    assert "offset 149 holds a record of" in stopped.stop.message
    assert of_target.ends("target") == {0: 160}, "nothing was written"
    epochs = {header.base_offset < 100: header.leader_epoch for header, _ in of_target.stored("target")}
    assert epochs[True] < epochs[False]
    for offset, end in ((159, 100), (101, 100), (100, None)):
        assert ended(of_target, offset, epochs[True]) == end, "what is asked by the epoch before has an end"


def ended(pair: Pair, offset: int, last_epoch: int) -> int | None:
    """Where the target says that a leader epoch ends, asked by a read from an offset on."""
    at = pair.at("target")
    with closing(pair.network()) as network:
        node = leading_node(network.target, at)
        asked = FetchItem(at, offset, 10**6, last_epoch)
        ticket = network.target.fetch(node, [asked], committed=False, max_wait_ms=0, max_bytes=10**6)
        [fetched] = answer_to(ticket, network).fetched
    assert fetched is not None
    assert (fetched.error, not fetched.records) == (0, fetched.diverging_end is not None)
    return fetched.diverging_end


class Brought:
    """Which nodes of the source the records of a network came from."""

    def __init__(self, network: KafkaNetwork) -> None:
        self._asked: dict[int, int] = {}
        self.nodes = set[int]()
        self._fetch, self._poll = network.source.fetch, network.poll
        network.source.fetch = self.fetch  # type: ignore[method-assign]
        network.poll = self.poll  # type: ignore[method-assign]

    def fetch(self, node: int, *asked: Any, **more: Any) -> int:
        ticket = self._fetch(node, *asked, **more)
        self._asked[ticket] = node
        return ticket

    def poll(self, timeout_s: float) -> list[Completion]:
        done = self._poll(timeout_s)
        self.nodes |= {
            self._asked[one.ticket]
            for one in done
            if one.ticket in self._asked and any(part is not None and part.records for part in one.fetched)
        }
        return done


def test_records_come_from_the_replica_of_the_rack_and_from_the_leader_when_it_is_gone(trio: Trio) -> None:
    both = {"source": trio.servers, "target": trio.servers}
    with Pair(both, both, replicas={"source": 3, "target": 3}) as pair:
        topic = pair.topics["source"]
        near = next(node for node in NODES if node != trio.leader(topic))
        pair.login = {"client.rack": f"rack-{near}"}
        pair.produce(300)
        eventually(lambda: trio.in_sync(topic) == [*NODES], "all are in sync")
        with closing(pair.network()) as network:
            brought = Brought(network)
            pair.run(network=network)
            assert brought.nodes == {near}
            trio.kill(near)
            pair.produce(100, start=300)
            brought.nodes.clear()
            pair.run(network=network)
            assert brought.nodes == {trio.leader(topic)}
        assert pair.assert_same() == 400
