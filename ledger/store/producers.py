"""The table `writers` as copy tasks read it: without a JVM, in the worker process, kept from round to round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.facts.identity import ClusterAcceptance, ClusterIdentities
from ledger.facts.tables import OPERATIONS, WRITERS, Filter
from ledger.store.damage import reported
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.relations import filtered_rows, relation_of

# Mirror producers ---------------------------------------------------------------------------------
# Who wrote a source batch: an application, or a mirror flow whose writes must not be mirrored on.
#
# A flow's producer id is recorded in `writers` before its first write, and a cluster gives no id twice. So
# an answer that was asked for after the batch had been fetched is final, whichever it is.


NO_PRODUCER_ID = -1
"""What a batch carries whose producer is not idempotent: always an application's."""

_MAXIMUM_APPLICATIONS = 100_000  # about 10 MB; what was forgotten is asked for again


class CachedMirrorProducers:
    """Implements `MirrorProducers`; `recorded` reads all producer ids that the ledger has now."""

    def __init__(self, recorded: Callable[[], frozenset[int]]) -> None:
        self._recorded = recorded
        self._mirrors: frozenset[int] = frozenset()
        self._applications: set[int] = {NO_PRODUCER_ID}

    def is_mirror(self, producer_id: int) -> bool:
        if producer_id in self._mirrors:
            return True
        return producer_id not in self._applications and self._look_up(producer_id)

    def _look_up(self, producer_id: int) -> bool:
        self._mirrors = self._recorded()
        if producer_id in self._mirrors:
            return True
        if len(self._applications) >= _MAXIMUM_APPLICATIONS:
            self._applications = {NO_PRODUCER_ID}
        self._applications.add(producer_id)
        return False


def no_mirror_producers() -> CachedMirrorProducers:
    """For a flow with `relay = true`: nobody counts as a mirror, and nothing is looked up."""
    return CachedMirrorProducers(frozenset)


# Mirror producers ---------------------------------------------------------------------------------


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
