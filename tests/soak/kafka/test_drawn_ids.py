"""Brokers of each release take a producer id that they have not given as one that they gave, also when it is fenced."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.doctor.checks import Verdict
from ledger.doctor.cluster import SENDS, compare_and_append
from ledger.doctor.probes import TargetProbe
from ledger.facts.identity import was_drawn
from ledger.kafka.leaders import KafkaFencing
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import ErrorCode
from ledger.sandbox import Sandbox
from ledger.sandbox.state import NEWEST
from tests.support.contracts.broker_rules import Broker
from tests.support.contracts.cluster_admin import Site
from tests.support.copies import config_of
from tests.support.releases import BEFORE_4, OLD, WITH_ZOOKEEPER, old_clusters
from tests.support.shops import KafkaApplications
from tests.support.waiting import eventually

HOLE, FENCED = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.fixture(params=[WITH_ZOOKEEPER, OLD, BEFORE_4, NEWEST])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """Cluster west of one broker of this release."""
    with old_clusters(tmp_path / "clusters", {"west": request.param}) as sandbox:
        yield sandbox


def test_a_drawn_id_is_kept_count_of_and_fenced_also_after_a_restart(sandbox: Sandbox) -> None:
    servers = sandbox.status()["west"].bootstrap_servers
    west = config_of("west", servers)
    with closing(KafkaFencing("west", west, SystemClock(), timeout_s=20.0)) as admin:
        site = Site(admin, KafkaApplications(servers))
        with closing(KafkaNetwork(west, west, request_timeout_s=10.0)) as network:
            broker = Broker(site, network)
            broker.make_topic()
            first = broker.producer_id
            assert [broker.produce(0), broker.produce(2), broker.produce(0)] == [(0, 0), (0, 2), (0, 0)]
            assert broker.produce(6)[0] == HOLE
            sandbox.stop("west")
            sandbox.start("west")
        with closing(KafkaNetwork(west, west, request_timeout_s=10.0)) as network:
            broker.network = network
            ready(broker)
            assert [broker.produce(2), broker.produce(4)] == [(0, 2), (0, 4)]
            assert broker.produce(8)[0] == HOLE

            admin.write_abort_markers([broker.at], producer_id=first, producer_epoch=1)
            assert broker.produce(6)[0] == FENCED
            broker.producer_id = second = admin.draw_producer_id()
            assert [broker.produce(0), broker.produce(2), broker.produce(0)] == [(0, 7), (0, 9), (0, 7)]
            unwritten = admin.draw_producer_id()
            admin.write_abort_markers([broker.at], producer_id=unwritten, producer_epoch=1)
            assert all(map(was_drawn, (first, second, unwritten)))
            sandbox.stop("west")
            sandbox.start("west")
        with closing(KafkaNetwork(west, west, request_timeout_s=10.0)) as network:
            broker.network = network
            ready(broker)
            for fenced, sequence in ((first, 6), (unwritten, 0)):
                broker.producer_id = fenced
                assert broker.produce(sequence)[0] == FENCED
            broker.producer_id = second
            assert [broker.produce(2), broker.produce(4)] == [(0, 9), (0, 12)]
            assert broker.produce(8)[0] == HOLE


def test_the_probe_finds_that_a_drawn_id_is_taken(sandbox: Sandbox) -> None:
    west = config_of("west", sandbox.status()["west"].bootstrap_servers)
    with closing(KafkaFencing("west", west, SystemClock())) as admin:
        observed = TargetProbe(admin, SystemClock()).appends(SENDS)
    assert observed.takes_drawn
    assert compare_and_append("west", observed).verdict is Verdict.OK


def ready(broker: Broker) -> None:
    """The broker that was started again leads the partition, and answers reads of it."""
    eventually(lambda: broker.fetch(0).error == ErrorCode.NONE, "the broker serves the partition again")
