"""Topics that MirrorMaker 2 writes at a target, for tools that read them there: checkpoints of groups, and heartbeats.

Formats and names: KIP-382, and `Checkpoint`, `Heartbeat` and `DefaultReplicationPolicy` of
`org.apache.kafka.connect.mirror`. `RemoteClusterUtils` reads both. They are bookkeeping of nobody here: the ledger does
not know them, and no answer depends on them.
"""

import logging
import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from ledger.clock import Clock, repeated
from ledger.config.values import ClusterConfig, FlowConfig
from ledger.errors import ClusterUnavailableError
from ledger.kafka.cluster import ClusterAdmin
from ledger.kafka.connection import kafka_python_properties

log = logging.getLogger(__name__)

HEARTBEATS_TOPIC = "heartbeats"
HEARTBEAT_S = 1.0
_VERSION = 0
_REPLICAS = 3
_WITHIN_MS = 10_000
_COMPACTED = {"cleanup.policy": "compact"}
Record = tuple[bytes, bytes]
"""Key and value."""
Write = Callable[[str, Iterable[Record]], None]
"""To a topic, in order; raises `ClusterUnavailableError` where it is not acknowledged in time."""


def checkpoints_topic(source: str) -> str:
    """Where checkpoints of groups that read at `source` are, at the target."""
    return f"{source}.checkpoints.internal"


def checkpoint_record(
    group: str, topic: str, partition: int, source_offset: int, target_offset: int, metadata: str | None
) -> Record:
    """As MirrorMaker writes it; topic and partition are those at the target."""
    key = b"".join((_text(group), _text(topic), struct.pack(">i", partition)))
    return key, struct.pack(">hqq", _VERSION, source_offset, target_offset) + _text(metadata or "")


def heartbeat_record(source: str, target: str, at_ms: int) -> Record:
    """As MirrorMaker writes it: that a mirror from the one alias to the other was at work at this time."""
    return _text(source) + _text(target), struct.pack(">hq", _VERSION, at_ms)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


@dataclass(slots=True)
class Checkpoints:
    """Writes where commits at the source land, as far as that is another place than was written last."""

    source: str
    write: Write
    _written: dict[bytes, bytes] = field(default_factory=dict)

    def __call__(self, answers: Iterable[Mapping[str, Any]]) -> None:
        """`answers`: translated commits; those that land nowhere have no checkpoint."""
        landed = dict(
            checkpoint_record(
                answer["group_id"],
                answer["target_topic"],
                answer["target_partition"],
                answer["committed_offset"],
                answer["target_offset"],
                answer["metadata"],
            )
            for answer in answers
            if answer["committed_offset"] is not None and answer["target_offset"] is not None
        )
        new = {key: value for key, value in landed.items() if self._written.get(key) != value}
        if new:
            self.write(checkpoints_topic(self.source), new.items())
            self._written |= new


class TargetTopics:
    """Implements `Write` at a flow's target; a topic that is not there is made."""

    def __init__(self, cluster: ClusterConfig, admin: ClusterAdmin) -> None:
        self._cluster = cluster
        self._admin = admin
        self._producer: Any = None
        self._lock = threading.Lock()
        self._there: set[str] = set()

    def close(self) -> None:
        """End its connections."""
        if self._producer is not None:
            self._producer.close(timeout=1)

    def __call__(self, topic: str, records: Iterable[Record]) -> None:
        with self._lock:  # heartbeats and checkpoints come from threads of their own
            self._require(topic)
            try:
                producer = self._connected()
                sent = [producer.send(topic, key=key, value=value, partition=0) for key, value in records]
                for one in sent:
                    one.get(timeout=_WITHIN_MS / 1000)
            except KafkaError as error:
                raise ClusterUnavailableError(
                    f"cluster {self._cluster.name} did not take a record of {topic}: {error}; it is written again"
                ) from error

    def _require(self, topic: str) -> None:
        if topic in self._there:
            return
        if topic not in self._admin.topics():
            self._admin.create_topic(
                topic,
                partitions=1,
                replication_factor=min(_REPLICAS, self._admin.broker_count()),
                configuration=_COMPACTED,
            )
        self._there.add(topic)

    def _connected(self) -> Any:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self._cluster.bootstrap_servers.split(","),
                **kafka_python_properties(self._cluster, os.environ),
                acks="all",
                enable_idempotence=False,  # it would need a permission of its own
                allow_auto_create_topics=False,
                max_block_ms=_WITHIN_MS,
                request_timeout_ms=_WITHIN_MS,
                delivery_timeout_ms=_WITHIN_MS,
            )
        return self._producer


def heartbeats(flow: FlowConfig, write: Write, clock: Clock) -> AbstractContextManager[None]:
    """A heartbeat each second for as long as the body takes, from a thread beside a driver."""

    def beat() -> None:
        write(HEARTBEATS_TOPIC, [heartbeat_record(flow.source, flow.target, clock.now_ms())])

    def failed(why: str) -> None:
        about = {"flow": flow.name, "cause": why}
        log.warning("%(flow)s: no heartbeats are written for now: %(cause)s", about)

    return repeated(beat, every_s=HEARTBEAT_S, failed=failed, name=f"heartbeats:{flow.name}", continues=True)
