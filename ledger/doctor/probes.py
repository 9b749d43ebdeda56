"""Measurements of clusters and of the ledger for `doctor`.

Every method has a deadline and raises one of our errors when it has no answer. Nothing here writes, but
`TargetProbe`, which was asked for, and `LedgerProbe.exclusive_create`, which removes its file again.
"""

import os
import shutil
import ssl
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import ACLOperation, DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from ledger.clock import Clock
from ledger.config.values import ClusterConfig
from ledger.doctor.measurements import (
    Answer,
    AppendObservation,
    Broker,
    ClockObservation,
    Operation,
    Operations,
    Partition,
    Permissions,
    Reach,
    Send,
    Settings,
    TableCommit,
    TableState,
    Validity,
)
from ledger.errors import (
    ClusterUnavailableError,
    LedgerUnavailableError,
    PreconditionError,
    ProtocolError,
    RefusedSettingError,
    SetupError,
    Trouble,
)
from ledger.facts.cuts import ClockStep
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import TABLES
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.batches import HEADER_BYTES, Record, encode, patch_for_target, read_header
from ledger.kafka.connection import (
    Address,
    BrokerConnection,
    parse_addresses,
    resolved_properties,
)
from ledger.kafka.copying import ClusterLink, Completion, Network, answer_to
from ledger.kafka.groups import hidden_groups
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.permissions import has_authorizer
from ledger.kafka.requests import ID_REFUSED, TOPIC_UNKNOWN, TRANSIENT, FetchItem, ProduceItem
from ledger.kafka.sockets import connected_socket
from ledger.kafka.tls import own_certificate, tls_context
from ledger.kafka.topics import broker_settings, delete_topic, metadata, partition_sizes
from ledger.mirror.assignment import StopCause
from ledger.store.damage import local_folder, words_of
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.maintenance import MAINTAINED_BY, MERGE
from ledger.store.merging import data_files
from ledger.store.relations import steps_back
from ledger.store.snapshots import DeltaLedger, open_ledger
from ledger.store.state import DeltaLedgerState

# Permissions --------------------------------------------------------------------------------------
# Which operations the mirror's principal is authorized for, as the brokers tell it.
#
# The library's `describe_acls` and `describe_cluster` would do, but for their deadline (see
# `ClusterConnection`).


_ANY = 1
_OPERATIONS = {code: Operation[code.name] for code in ACLOperation if code.name in Operation.__members__}


async def asked_permissions(
    manager: KafkaConnectionManager, topics: Collection[str], groups: Collection[str]
) -> Permissions:
    nobody = f"mirror-ledger-doctor-{uuid.uuid4().hex}"
    hidden = await hidden_groups(manager, [*groups, nobody])
    return Permissions(
        enforced=await has_authorizer(manager),
        cluster=await _on_cluster(manager),
        topics=await _on_topics(manager, topics),
        groups_seen=nobody not in hidden,
        hidden_groups=tuple(group for group in groups if group in hidden),
    )


async def _on_cluster(manager: KafkaConnectionManager) -> Operations | None:
    """None: without Describe on the cluster an empty set is answered, whatever else is allowed; or it is not spoken."""
    try:
        answer = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    except errors.IncompatibleBrokerVersion:
        return None
    return (_operations(answer.authorized_operations) or None) if answer.error_code == 0 else None


async def _on_topics(
    manager: KafkaConnectionManager, topics: Collection[str]
) -> dict[str, Operations | None]:
    answer = await metadata(manager, topics, operations=True)
    hidden = errors.TopicAuthorizationFailedError.errno
    return {
        topic.name: None if topic.error_code == hidden else _operations(topic.authorized_operations)
        for topic in answer.topics
    }


def _operations(codes: Iterable[int]) -> Operations:
    """Those of a response that mean something here; it lists codes of `ACLOperation`."""
    return frozenset(_OPERATIONS[code] for code in map(ACLOperation, codes) if code in _OPERATIONS)


# Certificates -------------------------------------------------------------------------------------
# Until when certificates are valid: the broker's, read in a handshake of its own, and the mirror's own
# file.
#
# Python's `ssl` tells the dates of a certificate only after it has verified it, and an expired one is
# refused before. So `cryptography` reads what was shown in a handshake that verifies nothing.


def broker_validity(address: Address, properties: Mapping[str, str], *, timeout_s: float) -> Validity:
    """The validity of the certificate that a broker shows. Nothing but the handshake is sent."""
    context = tls_context(str(address), properties)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            connected_socket(address.host, address.port, timeout_s=timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except OSError as error:
        raise ClusterUnavailableError(f"{address} showed no certificate: {error}") from error
    if shown is None:
        raise ProtocolError(f"{address} showed no certificate")
    return validity(shown)


def own_validity(peer: str, properties: Mapping[str, str]) -> Validity | None:
    """The validity of the certificate that the mirror shows; None: it shows none. Raises `UsageError`."""
    certificate = own_certificate(peer, properties)
    return None if certificate is None else _dates(certificate)


def validity(certificate: bytes) -> Validity:
    """The two dates of a DER certificate. Raises `ProtocolError` for what is none."""
    try:
        return _dates(x509.load_der_x509_certificate(certificate))
    except ValueError as error:
        raise ProtocolError(f"a certificate cannot be read: {error}") from error


def _dates(certificate: x509.Certificate) -> Validity:
    dates = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    return Validity(*(int(date.timestamp() * 1000) for date in dates))


# Cluster probe ------------------------------------------------------------------------------------


CONNECT_TIMEOUT_S = 4.0
TIMEOUT_S = 9.0
_LEADERS_WITHIN_S = 2.0
_REPEAT_S = 0.1
_FETCH_BYTES = 4096
_FETCHED_AT_ONCE = 200


class ClusterProbe:
    """Reads one cluster, what `admin` tells and more; never writes. Constructing it opens nothing."""

    def __init__(self, cluster: ClusterConfig, clock: Clock, environ: Mapping[str, str] = os.environ) -> None:
        self.alias = cluster.name
        self.servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._environ = environ
        self.admin = KafkaAdmin(cluster.name, cluster, clock, timeout_s=TIMEOUT_S, environ=environ)

    def close(self) -> None:
        self.admin.close()

    @property
    def principal(self) -> str | None:
        """As it is configured; else as brokers call a SASL user; None for certificates and a name that is a secret."""
        if self._cluster.mirror_principal is not None:
            return self._cluster.mirror_principal
        user = self._cluster.properties.get("sasl.username")
        return f"User:{user}" if isinstance(user, str) else None

    @property
    def properties_without_effect(self) -> Sequence[str]:
        """Client properties that are configured and change nothing."""
        return self._cluster.without_effect

    @property
    def uses_tls(self) -> bool:
        protocol = self._cluster.properties.get("security.protocol", "plaintext")
        return isinstance(protocol, str) and protocol.upper().endswith("SSL")

    # -- brokers ---------------------------------------------------------------------------------

    def addresses(self) -> Sequence[str]:
        """The bootstrap addresses."""
        return [str(address) for address in parse_addresses(self.servers)]

    def reach(self, address: str) -> Reach:
        properties = resolved_properties(self._cluster, self._environ)
        started = time.monotonic()
        with closing(
            BrokerConnection(_address(address), properties, timeout_s=CONNECT_TIMEOUT_S)
        ) as connection:
            connect_ms = (time.monotonic() - started) * 1000
            spoken = connection.api_versions()
            # Versions are given to anybody; what comes next needs a login where there is one.
            connection.call(MetadataRequest[1](topics=[]), MetadataResponse)
        return Reach(connect_ms, spoken)

    def certificate(self, address: str) -> Validity:
        properties = resolved_properties(self._cluster, self._environ)
        return broker_validity(_address(address), properties, timeout_s=CONNECT_TIMEOUT_S)

    def client_certificate(self) -> Validity | None:
        """None when the mirror presents no certificate."""
        return own_validity(f"cluster {self.alias}", resolved_properties(self._cluster, self._environ))

    def brokers(self) -> Sequence[Broker]:
        answer = self.admin.connection.run("list the brokers", metadata, [])
        return [Broker(b.node_id, str(Address(b.host, b.port))) for b in answer.brokers]

    # -- topics and groups -----------------------------------------------------------------------

    def broker_settings(self, node_ids: Sequence[int]) -> Mapping[int, Settings]:
        operation = "describe the configuration of brokers (DescribeConfigs on the cluster)"
        return self.admin.connection.run(operation, broker_settings, node_ids)

    def sizes(self, topics: Mapping[str, int]) -> Mapping[Partition, int]:
        """Bytes on disk by partition, of topics given with their number of partitions."""
        operation = "describe log directories (Describe on the cluster)"
        return self.admin.connection.run(operation, partition_sizes, topics)

    def timestamps(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """The largest timestamp of the batch at each offset; partitions without an answer are left out."""
        if not positions:
            return {}
        topics = self.admin.topics()
        wanted = {
            TopicPartition(name, topics[name].topic_id, partition): offset
            for (name, partition), offset in positions.items()
            if name in topics
        }
        with closing(_network(self.admin)) as network:
            _find_leaders(network.source, wanted, within_s=_LEADERS_WITHIN_S)
            return dict(_timestamps(network, wanted))

    # -- permissions -----------------------------------------------------------------------------

    def permissions(self, topics: Collection[str], groups: Collection[str]) -> Permissions:
        return self.admin.connection.run(
            "ask which operations are authorized", asked_permissions, topics, groups
        )


def _address(text: str) -> Address:
    (address,) = parse_addresses(text)
    return address


def _network(admin: KafkaAdmin) -> KafkaNetwork:
    """Of a cluster that has answered: by then its brokers are known, and a configured address may be dead."""
    reached = admin.connection.reached
    return KafkaNetwork(reached, reached, request_timeout_s=TIMEOUT_S)


def _find_leaders(link: ClusterLink, partitions: Collection[TopicPartition], *, within_s: float) -> None:
    """Ask who leads until each has a leader: the answer may come behind the first question."""
    deadline, topics = time.monotonic() + within_s, sorted({at.topic for at in partitions})
    link.refresh(topics)
    while any(link.leader(at) is None for at in partitions) and time.monotonic() < deadline:
        time.sleep(_REPEAT_S)
        link.refresh(topics)


def _timestamps(network: KafkaNetwork, wanted: Mapping[TopicPartition, int]) -> dict[Partition, int]:
    """One request for each partition, over the connections that copying uses."""
    by_leader: dict[int, list[FetchItem]] = defaultdict(list)
    for partition, offset in wanted.items():
        if (leader := network.source.leader(partition)) is not None:
            by_leader[leader].append(FetchItem(partition, offset, _FETCH_BYTES))
    found: dict[Partition, int] = {}
    for leader, items in by_leader.items():
        for start in range(0, len(items), _FETCHED_AT_ONCE):
            found |= _fetched(network, leader, items[start : start + _FETCHED_AT_ONCE])
    return found


def _fetched(network: KafkaNetwork, leader: int, items: Sequence[FetchItem]) -> dict[Partition, int]:
    """Only headers are read, so batches that the answer cuts off are enough."""
    ticket = network.source.fetch(
        leader, items, committed=True, max_wait_ms=0, max_bytes=_FETCH_BYTES * (len(items) + 1)
    )
    completion = answer_to(ticket, network)
    if completion.failure:
        raise ClusterUnavailableError(
            f"the records at the flow's positions cannot be read: {completion.failure}"
        )
    return {
        (item.partition.topic, item.partition.partition): read_header(answer.records).max_timestamp
        for item, answer in zip(items, completion.fetched, strict=True)
        if answer is not None and answer.error == 0 and len(answer.records) >= HEADER_BYTES
    }


# Target probe -------------------------------------------------------------------------------------
# `doctor --probe` at a target: topics of its own, raw produce requests, and the topics' deletion.
#
# The requests go over the same connections as the copy's, so what is shown holds for the copy.


PREFIX = "mirror-ledger-probe-"
SUFFIX = "-internal"  # no flow, and no MirrorMaker, selects such a topic
APPEND_PARTITIONS = 2
_NO_CODEC = 0
_EMPTY_RECORD = bytes((1, 2, 48, 0))  # no key, the value `0`, no headers
_NOT_YET = TRANSIENT | TOPIC_UNKNOWN
_ONE_REPLICA = {"min.insync.replicas": "1"}


class TargetProbe:
    """Writes to a target, into topics of its own that are deleted at the end of their context."""

    def __init__(self, admin: KafkaAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    def appends(self, script: Sequence[Send]) -> AppendObservation:
        """What it answers to these batches, with a producer id that it has not given; with another if it takes none."""
        with self._topic(APPEND_PARTITIONS, {}, self._admin.draw_producer_id()) as topic:
            observed = topic.appends(script)
        if observed.answers[0].error not in ID_REFUSED:
            return observed
        with self._topic(APPEND_PARTITIONS, {}, self._admin.allocate_producer_id()) as topic:
            return replace(topic.appends(script), takes_drawn=False)

    def clocks(self, brokers: int) -> Sequence[ClockObservation]:
        """Of every broker: a topic has a partition for each. Raises where such a topic may not stamp append times."""
        stamped, own = {"message.timestamp.type": "LogAppendTime"}, self._admin.allocate_producer_id()
        with self._topic(max(brokers, 1), stamped, own) as topic:
            return topic.clocks()

    @contextmanager
    def _topic(self, partitions: int, settings: Mapping[str, str], own: int) -> Iterator["ProbeTopic"]:
        """One replica each: with as many partitions as brokers, every broker leads one."""
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}{SUFFIX}"
        try:
            self._create(name, partitions, settings)
            topic_id = self._admin.topics()[name].topic_id
            made = [TopicPartition(name, topic_id, number) for number in range(partitions)]
            with closing(_network(self._admin)) as network:
                _find_leaders(network.target, made, within_s=TIMEOUT_S)
                producer_ids = (own, self._admin.allocate_producer_id())
                yield ProbeTopic(name, topic_id, partitions, network, producer_ids, self._clock)
        finally:
            self._delete(name)

    def _create(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """With these settings; that one replica is enough is said where a target lets it be said."""
        create = partial(self._admin.create_topic, name, partitions=partitions, replication_factor=1)
        try:
            create(configuration={**_ONE_REPLICA, **settings})
        except RefusedSettingError:
            try:
                create(configuration=settings)
            except RefusedSettingError as error:
                raise PreconditionError(str(error), trouble=Trouble.NOT_SPOKEN) from error

    def _delete(self, name: str) -> None:
        """Delete the topic and wait until no broker that is asked knows it. One that was never made is fine."""
        operation = f"delete the probe's topic {name}, which is to be deleted by hand"
        self._admin.connection.run(operation, delete_topic, name=name, timeout_ms=int(TIMEOUT_S * 1000))
        deadline = time.monotonic() + TIMEOUT_S
        while name in self._admin.topics():
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"the probe's topic {name} was deleted but is still described; check again"
                )
            time.sleep(_REPEAT_S)


@dataclass(frozen=True, slots=True)
class ProbeTopic:
    """A probe's topic behind a copy's network: `producer_ids` are the mirror's own and another one."""

    name: str
    topic_id: str
    partitions: int
    network: Network
    producer_ids: tuple[int, int]
    clock: Clock

    def appends(self, script: Sequence[Send]) -> AppendObservation:
        answers = tuple(self._answer(send) for send in script)
        ends = {partition: self._end(partition) for partition in range(self.partitions)}
        return AppendObservation(self.name, answers, ends)

    def clocks(self) -> Sequence[ClockObservation]:
        """One for every partition; the topic stamps append times."""
        return [self._clock_of(partition) for partition in range(self.partitions)]

    def _clock_of(self, partition: int) -> ClockObservation:
        """The first record only warms the connection up; the second one's round trip bounds the clock."""
        self._answer(Send(partition, 0, 1))
        sent_ms = self.clock.now_ms()
        answer = self._answer(Send(partition, 1, 1))
        answered_ms = self.clock.now_ms()
        if answer.error:
            raise ProtocolError(f"a record for {self.name}/{partition} was refused with error {answer.error}")
        stamped_ms = self._stamp(partition, answer.base_offset)
        return ClockObservation(self._leader(partition), sent_ms, stamped_ms, answered_ms)

    def _answer(self, send: Send) -> Answer:
        """The broker's answer; a leader that is not ready is asked again."""
        deadline = self.clock.monotonic() + TIMEOUT_S
        while True:
            item = ProduceItem(self._partition(send.partition), self._batch(send))
            ticket = self.network.target.produce(
                self._leader(send.partition), [item], timeout_ms=int(TIMEOUT_S * 1000)
            )
            produced = self._answered(ticket).produced[0]
            if produced is None:
                raise ProtocolError(f"an answer leaves out {self.name}/{send.partition}")
            if produced.error not in _NOT_YET or self.clock.monotonic() > deadline:
                return Answer(produced.error, produced.base_offset)
            time.sleep(_REPEAT_S)
            self.network.target.refresh([self.name])

    def _batch(self, send: Send) -> memoryview:
        now_ms = self.clock.now_ms()
        records = [Record(delta, now_ms, 0, _EMPTY_RECORD) for delta in range(send.count)]
        batch = memoryview(encode(records, codec=_NO_CODEC))
        producer_id = self.producer_ids[0 if send.own else 1]
        patch_for_target(batch, _NO_CODEC, producer_id=producer_id, sequence=send.sequence)
        return batch

    def _end(self, partition: int) -> int:
        return self._fetch(partition, 0)[0]

    def _stamp(self, partition: int, offset: int) -> int:
        return read_header(self._fetch(partition, offset)[1]).max_timestamp

    def _fetch(self, partition: int, offset: int) -> tuple[int, memoryview]:
        """High watermark and records from an offset on."""
        items = [FetchItem(self._partition(partition), offset, _FETCH_BYTES)]
        leader = self._leader(partition)
        ticket = self.network.target.fetch(
            leader, items, committed=True, max_wait_ms=0, max_bytes=_FETCH_BYTES
        )
        fetched = self._answered(ticket).fetched[0]
        if fetched is None or fetched.error:
            raise ProtocolError(f"{self.name}/{partition} cannot be read back at {offset}: {fetched}")
        return fetched.high_watermark, fetched.records

    def _answered(self, ticket: int) -> Completion:
        completion = answer_to(ticket, self.network)
        if completion.failure:
            raise ClusterUnavailableError(f"a probe of {self.name} failed: {completion.failure}")
        return completion

    def _leader(self, partition: int) -> int:
        leader = self.network.target.leader(self._partition(partition))
        if leader is None:
            raise ClusterUnavailableError(f"{self.name}/{partition} has no leader")
        return leader

    def _partition(self, partition: int) -> TopicPartition:
        return TopicPartition(self.name, self.topic_id, partition)


# Ledger probe -------------------------------------------------------------------------------------
# Measurements of the ledger for `doctor`, without a JVM.


MOST_COMMITS = 10_000


class LedgerProbe:
    """Reads the ledger without a JVM. Constructing it reads nothing."""

    def __init__(self, path: str) -> None:
        self.path, self.folder = path, local_folder(path)

    @property
    def state(self) -> DeltaLedgerState:
        """What the ledger says as of now."""
        return DeltaLedgerState(open_ledger(self.path))

    def table(self, name: str) -> TableState | None:
        """None when there is no such table."""
        uri = table_uri(self.path, name)
        with _reported(uri):
            if not DeltaTable.is_deltatable(uri):
                return None
            table = opened_at(uri)
            commits = tuple(map(_commit, table.history(limit=MOST_COMMITS)))
            return TableState(dict(table.metadata().configuration), commits, tuple(data_files(table)))

    def clock_steps(self) -> Sequence[ClockStep]:
        """Where the recorded times of a writer fall, in any table."""
        with _reported(self.path):
            now = DeltaLedger(self.path).now()
            return [step for table in TABLES for step in steps_back(table.name, now.relation(table.name))]

    def cluster_ids(self) -> Mapping[str, str]:
        """The Kafka cluster id that was recorded last, by alias."""
        state = self.state
        with _reported(self.path):
            return state.identities().recorded_ids()

    def stopped_at_others(self, flow: str) -> frozenset[tuple[str, int]]:
        """Keys of partitions that stopped at records of others."""
        stopped = self.state.stopped_partitions(flow)
        return frozenset(key for key, stop in stopped.items() if stop.cause == StopCause.FOREIGN_WRITE)

    def exclusive_create(self) -> bool:
        """Whether the second of two creations of one file was refused. For a local folder, or where it will be.

        A scratch file is linked to one name twice, as two writers of deltalake would make the same commit.
        """
        folder = self._local()
        commit = folder / f".mirror-ledger-doctor-{uuid.uuid4().hex}"
        staged = commit.with_suffix(".staged")
        try:
            staged.touch(exist_ok=False)
            os.link(staged, commit)
            os.link(staged, commit)
        except FileExistsError:
            return True
        except OSError as error:
            raise SetupError(f"no file can be linked in {folder}: {error.strerror}") from error
        finally:
            commit.unlink(missing_ok=True)
            staged.unlink(missing_ok=True)
        return False

    def free_bytes(self) -> int:
        """For a local folder, or where it will be."""
        folder = self._local()
        try:
            return shutil.disk_usage(folder).free
        except OSError as error:
            raise SetupError(f"{folder} cannot be examined: {error.strerror}") from error

    def _local(self) -> Path:
        """The ledger's folder; before it is made, the folder above that there is."""
        if self.folder is None:
            raise SetupError(f"{self.path} is not a local folder; nothing was measured")
        folder = self.folder.absolute()
        return next(found for found in (folder, *folder.parents) if found.is_dir())


def _commit(entry: Mapping[str, Any]) -> TableCommit:
    parameters = entry.get("operationParameters") or {}
    return TableCommit(
        version=int(entry["version"]),
        operation=str(entry.get("operation", "unnamed")),
        overwrites=str(parameters.get("mode", "")).lower() == "overwrite",
        committed_at_ms=int(entry["timestamp"]),
        merges=entry.get("operation") == "OPTIMIZE" or entry.get(MAINTAINED_BY) == MERGE,
    )


@contextmanager
def _reported(where: str) -> Iterator[None]:
    """What the store or the Delta library refuses, as an error of ours."""
    try:
        yield
    except (DeltaError, OSError, LedgerUnavailableError) as error:
        raise SetupError(f"{where} cannot be read: {words_of(error)}", trouble=Trouble.LEDGER) from error
