"""The clusters that simulations run on keep the contract of cluster administration."""

import pytest

from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.support.contracts.cluster_admin import ClusterAdminContract, Site
from tests.support.contracts.share_offsets import ShareOffsetsContract
from tests.support.memory_applications import MemoryApplications


class TestMemoryCluster(ClusterAdminContract):
    @pytest.fixture
    def site(self) -> Site:
        cluster = MemoryCluster("east", Schedule())
        return Site(cluster, MemoryApplications(cluster))


class TestShareGroupCluster(ShareOffsetsContract):
    @pytest.fixture
    def site(self) -> Site:
        cluster = ShareGroupCluster("east", Schedule())
        return Site(cluster, MemoryApplications(cluster))
