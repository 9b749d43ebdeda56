"""The network that simulations run on keeps the contract of real connections."""

from dataclasses import dataclass

import pytest

from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryLink, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.support.contracts.cluster_admin import Site
from tests.support.contracts.network import Far, NetworkContract
from tests.support.memory_applications import MemoryApplications

NODE = 1


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """Implements `contracts.network.Line`."""

    cluster: MemoryCluster
    link: MemoryLink

    def hang(self) -> None:
        self.cluster.hang(NODE)

    def wake(self) -> None:
        self.cluster.wake(NODE)

    def cut(self) -> None:
        self.link.lose_all()

    def refuse(self) -> None:
        self.cluster.available = False
        self.cut()

    def accept(self) -> None:
        self.cluster.available = True


class TestMemoryNetwork(NetworkContract):
    @pytest.fixture
    def far(self) -> Far:
        schedule = Schedule()
        east, west = (MemoryCluster(alias, schedule, nodes=(NODE,)) for alias in ("east", "west"))
        network = MemoryNetwork(east, west, schedule, CalmWeather(), request_timeout_s=1.0)
        source, target = (Site(cluster, MemoryApplications(cluster)) for cluster in (east, west))
        return Far(network, MemoryLine(west, network.target), source, target)
