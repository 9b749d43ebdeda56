"""The clusters that simulations run on keep the contract of cluster administration."""

import pytest

from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.schedule import Schedule
from tests.support.contracts.cluster_admin import ClusterAdminContract, Site
from tests.support.memory_applications import MemoryApplications


class TestMemoryCluster(ClusterAdminContract):
    @pytest.fixture
    def site(self) -> Site:
        cluster = MemoryCluster("east", Schedule())
        return Site(cluster, MemoryApplications(cluster))
