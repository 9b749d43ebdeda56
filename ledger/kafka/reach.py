"""Whether a cluster answers, asked on connections of its own with short deadlines: `ReachProbe`."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

from kafka.protocol.metadata import MetadataResponse

from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, MirrorLedgerError
from ledger.kafka.cluster import Place
from ledger.kafka.connection import Address, BrokerConnection, parse_addresses, resolved_properties

Answer = TypeVar("Answer")
_TIMEOUT_S = 3.0
_THREADS = 16  # brokers that may hang at the same time without holding up others


class KafkaReach:
    """Implements `ReachProbe`. Constructing it opens nothing; used by one thread at a time."""

    def __init__(self, cluster: ClusterConfig, environ: Mapping[str, str] = os.environ) -> None:
        self._cluster = cluster
        self._environ = environ
        self._known: tuple[Address, ...] = ()
        self._last: Address | None = None
        self._open: dict[Address, BrokerConnection] = {}
        self._is_closed = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"reach-{cluster.name}")

    def leaderless(self, partitions: Sequence[Place]) -> dict[Place, str]:
        """The broker that answered last is asked first, then all others at once."""
        answer = self._metadata(sorted({topic for topic, _ in partitions}))
        nodes = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        self._known = tuple(nodes.values())
        wanted = set(partitions)
        leaders = {
            (topic.name, partition.partition_index): nodes.get(partition.leader_id)
            for topic in answer.topics
            if topic.error_code == 0
            for partition in topic.partitions
            if (topic.name, partition.partition_index) in wanted
        }
        silent = self._silent({address for address in leaders.values() if address is not None})
        return {
            at: "it has no leader" if address is None else silent[address]
            for at, address in leaders.items()
            if address is None or address in silent
        }

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connection in list(self._open.values()):
            connection.close()

    def _metadata(self, topics: Sequence[str]) -> MetadataResponse:
        everywhere = dict.fromkeys([*self._known, *parse_addresses(self._cluster.bootstrap_servers)])
        first = [] if self._last is None else [self._last]
        reasons = []
        for addresses in (first, [address for address in everywhere if address not in first]):
            asked = self._each(addresses, lambda connection: connection.metadata(topics))
            for answered in as_completed(asked):
                try:
                    answer = answered.result()
                except MirrorLedgerError as error:
                    reasons.append(str(error))
                else:
                    self._last = asked[answered]
                    return answer
        raise ClusterUnavailableError("; ".join(dict.fromkeys(reasons)))

    def _silent(self, addresses: Iterable[Address]) -> dict[Address, str]:
        """Which of these brokers do not answer, and why; whoever named them does."""
        others = [address for address in addresses if address != self._last]
        asked = self._each(others, BrokerConnection.api_versions)
        found = {}
        for answered in as_completed(asked):
            try:
                answered.result()
            except MirrorLedgerError as error:
                found[asked[answered]] = str(error)
        return found

    def _each(
        self, addresses: Iterable[Address], ask: Callable[[BrokerConnection], Answer]
    ) -> dict[Future[Answer], Address]:
        return {self._threads.submit(self._call, address, ask): address for address in addresses}

    def _call(self, address: Address, ask: Callable[[BrokerConnection], Answer]) -> Answer:
        """A kept connection may have died while the broker restarted: a new one has the last word."""
        if (kept := self._open.pop(address, None)) is not None:
            try:
                return self._asked(kept, ask)
            except ClusterUnavailableError as error:
                if isinstance(error.__cause__, TimeoutError):
                    raise
        properties = resolved_properties(self._cluster, self._environ)
        return self._asked(BrokerConnection(address, properties, timeout_s=_TIMEOUT_S), ask)

    def _asked(self, connection: BrokerConnection, ask: Callable[[BrokerConnection], Answer]) -> Answer:
        answer = ask(connection)
        if self._is_closed or self._open.setdefault(connection.address, connection) is not connection:
            connection.close()
        return answer
