"""The latest state of the ledger, as drivers need it: no JVM, no time travel."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.adapters.delta.kept_rows import KeptRows
from ledger.adapters.delta.reading import DeltaLedger, DeltaSnapshot, relation_of
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.duck.engine import ParquetFiles, Relation, connect, run_query
from ledger.adapters.duck.rows import Filter, filtered_rows, last_recorded_at_ms, newest_rows
from ledger.catalog import query
from ledger.domain.adopted import ADOPTION_KINDS, AdoptionHistory
from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import (
    Checkpoint,
    HighWatermark,
    SyncCause,
    SyncKind,
    TopicState,
    WriterEvent,
    source_may_be_gone,
)
from ledger.domain.operations.finding_events import FINDING_KINDS, FindingKey, open_findings
from ledger.domain.operations.flow_events import ConfigurationChanged, accepted_reductions
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.order import in_order
from ledger.domain.operations.partition_events import RecordedStop
from ledger.domain.operations.receipts import Acceptance, acceptances
from ledger.domain.operations.requests import REQUEST_ROWS, FlowRequests
from ledger.domain.operations.target_changes import created_acls, followed_settings
from ledger.domain.position import Position
from ledger.domain.returning import FormerCopy
from ledger.domain.supersession import RecordedSync
from ledger.domain.topic_acls import TopicAcl
from ledger.domain.writer_roles import LastClaim
from ledger.errors import LedgerUnavailableError
from ledger.mirror.sync_rows import adoptions, copying_flows, former_copies, recorded_sync
from ledger.ports import FlowPosition
from ledger.recording.checkpoints import recorded_checkpoint
from ledger.recording.topic_states import TopicEvent
from ledger.schema import STAMP, TABLE_BY_NAME, TABLES

_ASKED_AGAIN = "operations"
"""A driver asks it for requests before every round."""
_STAMP_NAMES = {column.name for column in STAMP}


class DeltaLedgerState:
    """Implements `recording.recorder.RecordingState`, and with it `ports.LedgerState`."""

    def __init__(self, ledger: DeltaLedger) -> None:
        self._ledger = ledger
        self._kept: dict[str, KeptRows] = {}

    def positions(self, flow: str) -> list[FlowPosition]:
        rows = run_query(query("flow_positions"), {"flow": flow}, self._latest()).to_pylist()
        return [flow_position(row) for row in rows]

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        wanted: list[Filter] = [
            ("flow", "=", flow),
            ("source_topic", "=", source_topic),
            ("source_partition", "=", partition),
        ]
        return [recorded_sync(row) for row in self._rows("offset_syncs", wanted)]

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        wanted: list[Filter] = [
            ("source_cluster", "=", cluster),
            ("source_topic", "in", sorted(topic_ids)),
            ("source_topic_id", "not in", sorted(topic_ids.values())),
        ]
        return former_copies(self._rows("offset_syncs", wanted))

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        of_topics: Filter = ("source_topic_id", "in", sorted(source_topic_ids))
        return copying_flows(self._rows("offset_syncs", [of_topics, ("flow", "not in", [flow])]))

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        at_target: Filter = ("target_topic_id", "in", sorted(topic_ids))
        at_source: Filter = ("source_topic_id", "in", sorted(topic_ids))
        rows = self._rows("offset_syncs", [("kind", "in", list(ADOPTION_KINDS)), at_target])
        went_back = self._rows("offset_syncs", [("cause", "=", SyncCause.SOURCE_TRUNCATED), at_source])
        return adoptions([*rows, *went_back])

    def has_run(self, flow: str) -> bool:
        return bool(self._rows("writers", [("flow", "=", flow)]))

    def identities(self) -> ClusterIdentities:
        accepted = self._rows("operations", [("kind", "=", OperationKind.CLUSTER_ACCEPTED)])
        return ClusterIdentities.of_rows(
            self._rows("writers", [("event", "=", WriterEvent.CLAIMED)]), in_order(accepted)
        )

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        with connect(self._latest(), {}, ["partition_events"]) as connection:
            found = connection.execute(
                "select source_topic_id, source_partition, cause, message from partition_events where flow = ? "
                "qualify row_number() over (partition by source_topic_id, source_partition "
                "order by writer_epoch desc, round desc, kind desc, cause, message) = 1 and kind = 'partition_stopped'",
                [flow],
            ).fetchall()
        return {
            (topic_id, partition): RecordedStop(cause, message)
            for topic_id, partition, cause, message in found
        }

    def requests(self, flow: str) -> FlowRequests:
        rows = self._rows("operations", [("kind", "in", REQUEST_ROWS), ("flow", "=", flow)])
        return FlowRequests.of_rows(in_order(rows))

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        rows = self._rows("operations", [("kind", "=", OperationKind.RECEIPT), ("flow", "=", flow)])
        return acceptances(in_order(rows))

    def configuration(self, flow: str, config_hash: str) -> dict[str, Any] | None:
        """The flow's configuration of that hash, when it was recorded."""
        rows = self._rows("operations", [("kind", "=", ConfigurationChanged.kind), ("flow", "=", flow)])
        changes = map(ConfigurationChanged.of_row, in_order(rows))
        found = [dict(change.configuration) for change in changes if change.new_hash == config_hash]
        return found[-1] if found else None

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        rows = self._rows("operations", [("kind", "in", FINDING_KINDS), ("flow", "=", flow)])
        return open_findings(rows)

    def findings_of(self, writer: str) -> frozenset[FindingKey]:
        return open_findings(
            self._rows("operations", [("kind", "in", FINDING_KINDS), ("writer", "=", writer)])
        )

    def accepted_reductions(self, flow: str) -> dict[str, int]:
        """Topics that the flow was told to leave out, with how far they had been copied then."""
        rows = self._rows("operations", [("kind", "=", OperationKind.SCOPE_REDUCED), ("flow", "=", flow)])
        return accepted_reductions(in_order(rows))

    def created_acls(self, flow: str) -> frozenset[TopicAcl]:
        rows = self._rows("operations", [("kind", "=", OperationKind.ACLS_FOLLOWED), ("flow", "=", flow)])
        return created_acls(in_order(rows))

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        rows = self._rows("operations", [("kind", "=", OperationKind.TOPIC_FOLLOWED), ("flow", "=", flow)])
        return followed_settings(in_order(rows))

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        rows = self._rows("topics", [("cluster", "=", cluster), ("event", "=", TopicEvent.DELETED)])
        return frozenset(row["topic_id"] for row in rows)

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]:
        rows = self._last("checkpoints", cluster, ("group_id", "topic", "partition"))
        return [recorded_checkpoint(row) for row in rows]

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]:
        rows = self._last("high_watermarks", cluster, ("topic", "topic_id", "partition"))
        return [HighWatermark(**row) for row in rows]

    def last_topic_states(self, cluster: str) -> list[TopicState]:
        rows = self._last("topics", cluster, ("topic",))
        return [_topic_state(row) for row in rows if row["event"] != TopicEvent.DELETED]

    def last_claim(self, writer: str) -> LastClaim | None:
        rows = self._rows("writers", [("writer", "=", writer)])
        if not rows:
            return None
        appended = (last_recorded_at_ms(self._relation(table.name), writer) for table in TABLES)
        return last_claim(rows, last_recorded_at_ms=max(at_ms for at_ms in appended if at_ms is not None))

    def _last(self, table: str, cluster: str, grain: tuple[str, ...]) -> list[dict[str, Any]]:
        """The newest row per `grain`, without its stamp."""
        columns = [name for name in TABLE_BY_NAME[table].column_names if name not in _STAMP_NAMES]
        return newest_rows(self._relation(table), [("cluster", "=", cluster)], grain, columns)

    def _rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        with _told_when_unreadable(table_uri(self._ledger.path, table)):
            relation = self._relation(table)
            if table != _ASKED_AGAIN or not isinstance(relation, ParquetFiles):
                return filtered_rows(relation, filters)
            kept = self._kept.setdefault(repr(filters), KeptRows())
            return kept.of(relation, lambda files: filtered_rows(files, filters))

    def _relation(self, table: str) -> Relation:
        uri = table_uri(self._ledger.path, table)
        with _told_when_unreadable(uri):
            return relation_of(DeltaTable(uri), table)

    def _latest(self) -> DeltaSnapshot:
        return self._ledger.now()


@contextmanager
def _told_when_unreadable(uri: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException, duckdb.Error) as error:
        raise LedgerUnavailableError(
            f"the ledger's table {uri} cannot be read: {error}; nothing was done that needs it"
        ) from error


def last_claim(rows: Sequence[Mapping[str, Any]], *, last_recorded_at_ms: int) -> LastClaim:
    """From all rows of `writers` of one writer."""
    last = max(rows, key=lambda row: (row["writer_epoch"], row["round"]))
    claim = min(
        (row for row in rows if row["writer_epoch"] == last["writer_epoch"]), key=lambda row: row["round"]
    )
    return LastClaim(
        epoch=last["writer_epoch"],
        host=last["host"],
        released=last["event"] == WriterEvent.RELEASED,
        last_recorded_at_ms=last_recorded_at_ms,
        claimed_at_ms=claim["recorded_at_ms"],
        config_hash=claim["config_hash"],
    )


def flow_position(row: Mapping[str, Any]) -> FlowPosition:
    """The position that a row of the query `flow_positions` tells."""
    return FlowPosition(
        source_topic=row["source_topic"],
        source_topic_id=row["source_topic_id"],
        partition=row["source_partition"],
        target_topic=row["target_topic"],
        target_topic_id=row["target_topic_id"],
        position=Position(
            source_offset=row["source_end"],
            target_offset=row["target_end"],
            next_sequence=row["next_sequence"],
            leader_epoch=row["source_leader_epoch"],
            source_may_be_gone=source_may_be_gone(
                SyncKind(row["kind"]), None if row["cause"] is None else SyncCause(row["cause"])
            ),
        ),
        producer_id=row["producer_id"],
    )


def _topic_state(row: Mapping[str, Any]) -> TopicState:
    return TopicState(
        cluster=row["cluster"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partitions=row["partitions"],
        replication_factor=row["replication_factor"],
        configuration=tuple(sorted(json.loads(row["configuration"]).items())),
    )
