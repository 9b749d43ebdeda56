"""The brokers that simulations run on keep the rules of real ones."""

import pytest

from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.fenced_cluster import FencedCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.support.contracts.broker_rules import Broker, BrokerContract
from tests.support.contracts.cluster_admin import Site
from tests.support.memory_applications import MemoryApplications


class TestMemoryBroker(BrokerContract):
    @pytest.fixture
    def broker(self) -> Broker:
        schedule = Schedule()
        west = FencedCluster("west", schedule)
        network = MemoryNetwork(MemoryCluster("east", schedule), west, schedule, CalmWeather())
        return Broker(Site(west, MemoryApplications(west)), network)
