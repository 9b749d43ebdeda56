"""Real clusters keep the contracts that simulated ones are held to."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.network import KafkaNetwork
from ledger.sandbox import SandboxCluster
from tests.support.contracts.broker_rules import Broker, BrokerContract
from tests.support.contracts.cluster_admin import ClusterAdminContract, Site
from tests.support.contracts.network import Far, NetworkContract
from tests.support.contracts.share_offsets import ShareOffsetsContract
from tests.support.copies import config_of
from tests.support.forwarder import Forwarder
from tests.support.shops import KafkaApplications


class TestKafkaAdmin(ClusterAdminContract):
    """With the fixture `site` of `conftest.py`."""


class TestShareGroups(ShareOffsetsContract):
    """The same of share groups."""


@pytest.fixture(scope="module")
def network(east: ClusterConfig) -> Iterator[KafkaNetwork]:
    network = KafkaNetwork(east, east, request_timeout_s=10.0)
    yield network
    network.close()


class TestKafkaBroker(BrokerContract):
    @pytest.fixture
    def broker(self, site: Site, network: KafkaNetwork) -> Broker:
        return Broker(site, network)


@dataclass(frozen=True, slots=True)
class KafkaLine:
    """Implements `contracts.network.Line`: a forwarder before the broker."""

    forwarder: Forwarder

    def hang(self) -> None:
        self.forwarder.freeze()

    def wake(self) -> None:
        self.forwarder.thaw()

    def cut(self) -> None:
        self.forwarder.cut()

    def refuse(self) -> None:
        self.forwarder.refuse()

    def accept(self) -> None:
        self.forwarder.accept()


@pytest.fixture(scope="module")
def target(broker_pair: Mapping[str, SandboxCluster]) -> Iterator[Site]:
    servers = broker_pair["west"].bootstrap_servers
    with closing(KafkaAdmin("west", config_of("west", servers), SystemClock())) as admin:
        yield Site(admin, KafkaApplications(servers))


@pytest.mark.fault(8)
class TestKafkaNetwork(NetworkContract):
    @pytest.fixture
    def far(
        self, site: Site, target: Site, east: ClusterConfig, lines: Mapping[str, Forwarder]
    ) -> Iterator[Far]:
        west = config_of("west", lines["target"].address)
        own = Site(target.admin, target.applications)  # with a name of its own
        with closing(KafkaNetwork(east, west, request_timeout_s=1.5)) as network:
            yield Far(network, KafkaLine(lines["target"]), site, own)
