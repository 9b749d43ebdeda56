"""The table `writers` as copy tasks read it: without a JVM, in the worker process, kept from round to round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.adapters.delta.damage import reported
from ledger.adapters.delta.snapshots import relation_of
from ledger.adapters.delta.tables import opened_at, table_uri
from ledger.adapters.duck.row_filters import filtered_rows
from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.operations.cluster_acceptances import ClusterAcceptance
from ledger.mirror.task.mirror_producers import CachedMirrorProducers
from ledger.recording.row_source import Filter
from ledger.schema import OPERATIONS, WRITERS

_kept: dict["KeptMirrorProducers", CachedMirrorProducers] = {}


@dataclass(frozen=True, slots=True)
class KeptMirrorProducers:
    """A picklable factory: gives the worker's directory of one ledger for one Kafka cluster id."""

    path: str
    cluster_id: str

    def __call__(self) -> CachedMirrorProducers:
        if self not in _kept:
            _kept[self] = CachedMirrorProducers(RecordedProducerIds(self.path, self.cluster_id))
        return _kept[self]


class RecordedProducerIds:
    """All producer ids that flows have at a Kafka cluster id, as of the call.

    Raises `LedgerUnavailableError`. Rows are read again only when the table has a newer version.
    """

    def __init__(self, path: str, cluster_id: str) -> None:
        self._path = path
        self._uri = table_uri(path, WRITERS.name)
        self._cluster_id = cluster_id
        self._read_version: int | None = None
        self._ids: frozenset[int] = frozenset()

    def __call__(self) -> frozenset[int]:
        what = f"who wrote a batch cannot be looked up, the ledger's table {self._uri} cannot be read"
        with reported(what, self._uri, otherwise="nothing is copied on a guess"):
            self._read_newer()
        return self._ids

    def _read_newer(self) -> None:
        table = opened_at(self._uri)  # opened again: an open one takes a folder that is away for no news
        if table.version() != self._read_version:
            wanted: list[Filter] = [("target_cluster_id", "=", self._cluster_id)]
            rows = filtered_rows(relation_of(table, WRITERS.name), wanted)
            self._ids = ClusterIdentities.of_rows(rows, self._acceptances()).mirror_ids(self._cluster_id)
            self._read_version = table.version()

    def _acceptances(self) -> list[Mapping[str, Any]]:
        """Only those that retire ids matter here, and of these the order does not."""
        table = opened_at(table_uri(self._path, OPERATIONS.name))
        return list(
            filtered_rows(relation_of(table, OPERATIONS.name), [("kind", "=", ClusterAcceptance.kind)])
        )
