"""A real cluster as contracts want it."""

from collections.abc import Iterator, Mapping

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.leaders import KafkaFencing
from ledger.sandbox import SandboxCluster
from tests.support.contracts.cluster_admin import Site
from tests.support.shops import KafkaApplications


@pytest.fixture(scope="module")
def east(broker_pair: Mapping[str, SandboxCluster]) -> ClusterConfig:
    return ClusterConfig(name="east", bootstrap_servers=broker_pair["east"].bootstrap_servers)


@pytest.fixture(scope="module")
def admin(east: ClusterConfig) -> Iterator[KafkaAdmin]:
    admin = KafkaFencing("east", east, SystemClock(), timeout_s=9.0)
    yield admin
    admin.close()


@pytest.fixture
def site(admin: KafkaAdmin, east: ClusterConfig) -> Site:
    return Site(admin, KafkaApplications(east.bootstrap_servers))
