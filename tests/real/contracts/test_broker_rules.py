"""A real broker, over the connections of a copy task, keeps the rules that the simulated ones are built on."""

from collections.abc import Iterator

import pytest

from ledger.config.values import ClusterConfig
from ledger.kafka.network import KafkaNetwork
from tests.support.contracts.broker_rules import Broker, BrokerContract
from tests.support.contracts.cluster_admin import Site


@pytest.fixture(scope="module")
def network(east: ClusterConfig) -> Iterator[KafkaNetwork]:
    network = KafkaNetwork(east, east, request_timeout_s=10.0)
    yield network
    network.close()


class TestKafkaBroker(BrokerContract):
    @pytest.fixture
    def broker(self, site: Site, network: KafkaNetwork) -> Broker:
        return Broker(site, network)
