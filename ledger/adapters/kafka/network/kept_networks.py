"""Connections that outlive a copy task: one network per worker process and pair of clusters."""

from dataclasses import dataclass

from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.config.cluster import ClusterConfig

_kept: dict["KeptNetwork", KafkaNetwork] = {}


@dataclass(frozen=True)
class KeptNetwork:
    """A picklable factory: gives the worker's network of two clusters, connecting it once.

    A network with requests in flight was left behind by a task that failed: it is closed, so that nothing
    of it reaches the next attempt.
    """

    source: ClusterConfig
    target: ClusterConfig
    request_timeout_s: float

    def __hash__(self) -> int:
        return hash(
            (self.source.name, self.target.name, self.source.bootstrap_servers, self.target.bootstrap_servers)
        )

    def __call__(self) -> KafkaNetwork:
        kept = _kept.pop(self, None)
        if kept is not None and not kept.is_idle:
            kept.close()
            kept = None
        _kept[self] = kept or KafkaNetwork(self.source, self.target, request_timeout_s=self.request_timeout_s)
        return _kept[self]
