"""The append side and the latest state of a memory ledger, under the epoch rule of the real one (L4).

A writer's version in a table is epoch * 2^32 + round. An append that is not above the last version is
skipped without a word, as Delta does, and the read-back tells who was shut out.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.adopted import ADOPTION_KINDS, AdoptionHistory
from ledger.domain.cluster_identity import ClusterAcceptance, ClusterIdentities
from ledger.domain.facts import (
    SEQUENCE_MODULUS,
    Checkpoint,
    HighWatermark,
    SyncCause,
    SyncKind,
    source_may_be_gone,
)
from ledger.domain.operations.every_kind import content_of
from ledger.domain.operations.finding_events import FINDING_KINDS, FindingKey, open_findings
from ledger.domain.operations.order import in_order
from ledger.domain.operations.partition_events import PartitionResumed, PartitionStopped, RecordedStop
from ledger.domain.operations.receipts import Acceptance, Receipt, acceptances
from ledger.domain.operations.requests import REQUEST_ROWS, FlowRequests
from ledger.domain.operations.target_changes import (
    AclsFollowed,
    TopicFollowed,
    created_acls,
    followed_settings,
)
from ledger.domain.position import Position
from ledger.domain.returning import FormerCopy
from ledger.domain.supersession import SEQUENCED_KINDS, RecordedSync
from ledger.domain.topic_acls import TopicAcl
from ledger.errors import PreconditionError, ShutOutError
from ledger.mirror.sync_rows import adoptions, copying_flows, former_copies, recorded_sync
from ledger.ports import Clock, FlowPosition, Row, WriterClaim
from ledger.recording.checkpoints import recorded_checkpoint
from ledger.schema import STAMP

_ROUNDS_PER_EPOCH = 1 << 32
_DELETED = "deleted"  # event of a row of `topics`
_WRITERS = "writers"
_STAMP_NAMES = frozenset(column.name for column in STAMP)


class MemoryFactLog:
    """Implements `ports.FactLog`; drivers that share one share its ledger."""

    def __init__(self, ledger: MemoryLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def claim(self, writer: str, tables: Sequence[str], row: Row) -> WriterClaim:
        last = max(self._version(table, writer) for table in (_WRITERS, *tables))
        claim = WriterClaim(writer, last // _ROUNDS_PER_EPOCH + 1)
        shut_out = []
        for table in tables:
            shut_out += self._shut_out(table, writer)
            self._write(claim, table, 0, [])
            self._between_commits()
        shut_out += self._shut_out(_WRITERS, writer)
        if not self._write(claim, _WRITERS, 0, [{**row, "shut_out": shut_out}]):
            raise PreconditionError(f"epoch {claim.epoch} of {writer} was claimed at the same moment")
        return claim

    def _shut_out(self, table: str, writer: str) -> list[dict[str, object]]:
        """The entry of a claim for a table: the writer's last append of earlier epochs, when it made any."""
        version = self._version(table, writer)
        place = {"writer_epoch": version // _ROUNDS_PER_EPOCH, "round": version % _ROUNDS_PER_EPOCH}
        return [{"fact_table": table, **place}] if version else []

    def _between_commits(self) -> None:
        """Time passes between two commits of one claim; simulations let it."""

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._write(claim, table, round_number, rows)
        found = self._version(table, claim.writer)
        if found > claim.epoch * _ROUNDS_PER_EPOCH + round_number:
            raise ShutOutError(
                f"{claim.writer} epoch {claim.epoch} was shut out of {table} by epoch "
                f"{found // _ROUNDS_PER_EPOCH}; round {round_number} was not recorded"
            )

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        number = self._version(table, writer) + 1
        self._write(WriterClaim(writer, 0), table, number, rows)
        return number

    def _version(self, table: str, writer: str) -> int:
        return self._ledger.transactions.get((table, writer), 0)

    def _write(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> bool:
        version = claim.epoch * _ROUNDS_PER_EPOCH + round_number
        if version <= self._version(table, claim.writer):
            return False
        self._ledger.transactions[(table, claim.writer)] = version
        stamp = {
            "writer": claim.writer,
            "writer_epoch": claim.epoch,
            "round": round_number,
            "recorded_at_ms": self._clock.now_ms(),
        }
        if rows:
            self._ledger.append(table, [{**stamp, **row} for row in rows])
        return True


class MemoryLedgerState:
    """Implements `ports.LedgerState` on a memory ledger."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def positions(self, flow: str) -> list[FlowPosition]:
        last: dict[tuple[str, int], dict[str, Any]] = {}
        rows = [row for row in self._rows("offset_syncs") if row["flow"] == flow]
        for row in sorted(rows, key=lambda row: recorded_sync(row).place):
            last[(row["source_topic_id"], row["source_partition"])] = row
        return [_position(row) for row in last.values()]

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        wanted = (flow, source_topic, partition)
        return [
            recorded_sync(row)
            for row in self._rows("offset_syncs")
            if (row["flow"], row["source_topic"], row["source_partition"]) == wanted
        ]

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        return former_copies(
            [
                row
                for row in self._rows("offset_syncs")
                if row["source_cluster"] == cluster
                and row["source_topic"] in topic_ids
                and row["source_topic_id"] not in topic_ids.values()
            ]
        )

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        return copying_flows(
            [
                row
                for row in self._rows("offset_syncs")
                if row["source_topic_id"] in source_topic_ids and row["flow"] != flow
            ]
        )

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        return adoptions(
            [
                row
                for row in self._rows("offset_syncs")
                if (row["kind"] in ADOPTION_KINDS and row["target_topic_id"] in topic_ids)
                or (row["cause"] == SyncCause.SOURCE_TRUNCATED and row["source_topic_id"] in topic_ids)
            ]
        )

    def has_run(self, flow: str) -> bool:
        return any(row["flow"] == flow for row in self._rows(_WRITERS))

    def identities(self) -> ClusterIdentities:
        accepted = [row for row in self._rows("operations") if row["kind"] == ClusterAcceptance.kind]
        return ClusterIdentities.of_rows(self._rows(_WRITERS), accepted)

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        rows = [row for row in self._rows("topics") if row["cluster"] == cluster]
        return frozenset(row["topic_id"] for row in rows if row["event"] == _DELETED)

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]:
        rows = self._newest("checkpoints", cluster, ("group_id", "topic", "partition"))
        return [recorded_checkpoint(row) for row in rows]

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]:
        rows = self._newest("high_watermarks", cluster, ("topic", "topic_id", "partition"))
        return [HighWatermark(**row) for row in rows]

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        stopped: dict[tuple[str, int], RecordedStop] = {}
        for row in self._operations(flow):
            match content_of(row):
                case PartitionStopped() as event:
                    stopped[event.place] = RecordedStop(event.cause, event.message)
                case PartitionResumed() as event:
                    stopped.pop(event.place, None)
        return stopped

    def requests(self, flow: str) -> FlowRequests:
        return FlowRequests.of_rows([row for row in self._operations(flow) if row["kind"] in REQUEST_ROWS])

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        return acceptances([row for row in self._operations(flow) if row["kind"] == Receipt.kind])

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        return open_findings([row for row in self._operations(flow) if row["kind"] in FINDING_KINDS])

    def findings_of(self, writer: str) -> frozenset[FindingKey]:
        rows = [row for row in self._rows("operations") if row["writer"] == writer]
        return open_findings([row for row in rows if row["kind"] in FINDING_KINDS])

    def created_acls(self, flow: str) -> frozenset[TopicAcl]:
        return created_acls([row for row in self._operations(flow) if row["kind"] == AclsFollowed.kind])

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        return followed_settings([row for row in self._operations(flow) if row["kind"] == TopicFollowed.kind])

    def events(self, flow: str, kind: str) -> list[dict[str, Any]]:
        """Contents of the rows of one kind in `operations`, oldest first."""
        return [json.loads(row["content"]) for row in self._operations(flow) if row["kind"] == kind]

    def _operations(self, flow: str) -> list[dict[str, Any]]:
        return in_order(row for row in self._rows("operations") if row["flow"] == flow)

    def _newest(self, table: str, cluster: str, grain: tuple[str, ...]) -> list[dict[str, Any]]:
        newest = {
            tuple(row[column] for column in grain): {
                name: value for name, value in row.items() if name not in _STAMP_NAMES
            }
            for row in in_order(row for row in self._rows(table) if row["cluster"] == cluster)
        }
        return list(newest.values())

    def _rows(self, table: str) -> list[dict[str, Any]]:
        return self._ledger.stored(table)


def _position(row: dict[str, Any]) -> FlowPosition:
    kind = SyncKind(row["kind"])
    counted = row["records"] if kind in SEQUENCED_KINDS and row["former_producer_id"] is None else 0
    return FlowPosition(
        source_topic=row["source_topic"],
        source_topic_id=row["source_topic_id"],
        partition=row["source_partition"],
        target_topic=row["target_topic"],
        target_topic_id=row["target_topic_id"],
        position=Position(
            source_offset=row["source_start"] if kind is SyncKind.SUPERSEDED else row["source_end"],
            target_offset=row["target_end"],
            next_sequence=(row["first_sequence"] + counted) % SEQUENCE_MODULUS,
            leader_epoch=row["source_leader_epoch"],
            source_may_be_gone=source_may_be_gone(
                kind, None if row["cause"] is None else SyncCause(row["cause"])
            ),
        ),
        producer_id=row["producer_id"],
    )
