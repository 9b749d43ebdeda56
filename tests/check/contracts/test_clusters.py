"""The clusters that simulations run on keep the contracts that real ones keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest

from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind, quota_entity, topic_acl
from ledger.kafka.batches import TRANSACTIONAL
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.fenced_cluster import FencedCluster
from tests.simulation.kafka.network import CalmWeather, MemoryLink, MemoryNetwork
from tests.simulation.kafka.permissions import MemoryPermissions
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.contracts.broker_rules import Broker, BrokerContract
from tests.support.contracts.cluster_admin import ClusterAdminContract, Site
from tests.support.contracts.network import Far, NetworkContract
from tests.support.contracts.permissions import PermissionsContract, PermissionSite
from tests.support.contracts.share_offsets import ShareOffsetsContract
from tests.support.hand_overs import MemoryPermissionAdmin

_TRANSACTIONAL = Producer(77, 0, 0)


@dataclass(frozen=True, slots=True)
class MemoryApplications:
    """Implements `contracts.cluster_admin.Applications`."""

    cluster: MemoryCluster

    def write(self, topic: str, partition: int, timestamps: Sequence[int]) -> None:
        batch = application_batch([content(None, b"value")] * len(timestamps), timestamps)
        self.cluster.log(topic, partition).append(batch, now_ms=self.cluster.clock.now_ms())

    def begin_transaction(
        self, topic: str, partition: int, records: int, *, commits: bool = True
    ) -> Callable[[], None]:
        log = self.cluster.log(topic, partition)
        contents = [content(None, b"value")] * records
        batch = application_batch(
            contents,
            [self.cluster.clock.now_ms()] * records,
            attributes=TRANSACTIONAL,
            producer=_TRANSACTIONAL,
        )
        log.append(batch, now_ms=self.cluster.clock.now_ms())
        return partial(
            log.end_transaction,
            _TRANSACTIONAL.producer_id,
            0,
            commit=commits,
            now_ms=self.cluster.clock.now_ms(),
        )


class TestMemoryBroker(BrokerContract):
    @pytest.fixture
    def broker(self) -> Broker:
        schedule = Schedule()
        west = FencedCluster("west", schedule)
        network = MemoryNetwork(MemoryCluster("east", schedule), west, schedule, CalmWeather())
        return Broker(Site(west, MemoryApplications(west)), network)


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


class MemorySite(PermissionSite):
    def __init__(self) -> None:
        self.admin = self._cluster = MemoryCluster("east", Schedule())
        self.changing = MemoryPermissionAdmin(self._cluster)
        unread = dict.fromkeys(PermissionKind, PermissionEvent.NOT_PERMITTED)
        self.stranger = MemoryCluster("east", Schedule(), allowed=MemoryPermissions(unread=unread))
        self.name = "contract"

    def allow_reading(self, principal: str, topic: str) -> None:
        self._cluster.create_acls([_reading(principal, topic)])

    def take_away(self, principal: str, topic: str) -> None:
        self._cluster.delete_acls([_reading(principal, topic)])

    def set_credential(self, user: str, iterations: int | None) -> None:
        self._set(PermissionKind.SCRAM_USER, user, "SCRAM-SHA-512", iterations)

    def limit_producing(self, client_id: str, bytes_per_s: float | None) -> None:
        entity = quota_entity({"client-id": client_id})
        self._set(PermissionKind.QUOTA, entity, "producer_byte_rate", bytes_per_s)

    def _set(self, kind: PermissionKind, entity: str, setting: str, value: float | None) -> None:
        identity = Permission(kind=kind, entity=entity, setting=setting)
        others = {one for one in self._cluster.allowed.others if one.identity != identity}
        self._cluster.allowed.others = others | ({replace(identity, value=value)} if value else set())


def _reading(principal: str, topic: str) -> Permission:
    return topic_acl(topic, principal, "read")


class TestMemoryPermissions(PermissionsContract):
    @pytest.fixture
    def site(self) -> PermissionSite:
        return MemorySite()
