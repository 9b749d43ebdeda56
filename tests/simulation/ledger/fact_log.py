"""The append side and the latest state of a memory ledger, under the epoch rule of the real one (L4).

A writer's version in a table is epoch * 2^32 + round. An append that is not above the last version is
skipped without a word, as Delta does, and the read-back tells who was shut out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger.clock import Clock
from ledger.errors import PreconditionError, ShutOutError
from ledger.facts.rows import flow_position
from ledger.facts.state import LedgerState, WriterClaim, require_last
from ledger.facts.syncs import SEQUENCE_MODULUS, SEQUENCED_KINDS, FlowPosition, SyncKind, recording_order
from ledger.facts.tables import OFFSET_SYNCS, OPERATIONS, WRITERS, Row, epoch_and_round, epoch_of, place_of
from tests.simulation.ledger.rows import MemoryRows
from tests.simulation.ledger.tables import MemoryLedger

_WRITERS = WRITERS.name


class MemoryFactLog:
    """Implements `FactLog`; drivers that share one share its ledger."""

    def __init__(self, ledger: MemoryLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    _least_epoch = 0
    """The first one that may be claimed."""

    def claim(self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None) -> WriterClaim:
        last = max(self._version(table, writer) for table in (_WRITERS, *tables))
        require_last(writer, epoch_of(last), after=after)
        claim = WriterClaim(writer, max(epoch_of(last) + 1, self._least_epoch))
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
        epoch, number = epoch_and_round(version)
        return [{"fact_table": table, "writer_epoch": epoch, "round": number}] if version else []

    def _between_commits(self) -> None:
        """Time passes between two commits of one claim; simulations let it."""

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._write(claim, table, round_number, rows)
        found = self._version(table, claim.writer)
        if found > place_of(claim.epoch, round_number):
            raise ShutOutError(
                f"{claim.writer} epoch {claim.epoch} was shut out of {table} by epoch "
                f"{epoch_of(found)}; round {round_number} was not recorded"
            )

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        number = self._version(table, writer) + 1
        self._write(WriterClaim(writer, 0), table, number, rows)
        return number

    def last_epoch(self, writer: str, table: str) -> int:
        return epoch_of(self._version(table, writer))

    def _version(self, table: str, writer: str) -> int:
        return self._ledger.transactions.get((table, writer), 0)

    def _write(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> bool:
        self._ledger.require_there()
        version = place_of(claim.epoch, round_number)
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


class RestoringFactLog(MemoryFactLog):
    """As who restores a ledger has it."""

    def claim(
        self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None, least: int = 0
    ) -> WriterClaim:
        self._least_epoch = least
        return super().claim(writer, tables, row, after=after)


class MemoryLedgerState(LedgerState):
    """Implements `LedgerState`, on a memory ledger."""

    def __init__(self, ledger: MemoryLedger) -> None:
        super().__init__(MemoryRows(ledger))

    def positions(self, flow: str) -> list[FlowPosition]:
        """As the query `flow_positions` answers; simulations have no time for its engine."""
        return positions_of(self._source.rows(OFFSET_SYNCS.name, [("flow", "=", flow)]), flow)

    def events(self, flow: str, kind: str) -> list[dict[str, Any]]:
        """Contents of the rows of one kind in `operations`, oldest first."""
        rows = self._source.rows(OPERATIONS.name, [("flow", "=", flow), ("kind", "=", kind)])
        return [json.loads(row["content"]) for row in rows]


def positions_of(rows: Iterable[Mapping[str, Any]], flow: str) -> list[FlowPosition]:
    """Where a flow stands, by rows of `offset_syncs` among which the last ones are."""
    last: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in sorted((row for row in rows if row["flow"] == flow), key=_recording_order):
        last[(row["source_topic_id"], row["source_partition"])] = row
    return [_position(row) for row in last.values()]


def _recording_order(row: Mapping[str, Any]) -> tuple[int, int, bool, int, int]:
    return recording_order(
        writer_epoch=row["writer_epoch"],
        round_number=row["round"],
        kind=row["kind"],
        source_start=row["source_start"],
        source_end=row["source_end"],
        target_end=row["target_end"],
    )


def _position(row: Mapping[str, Any]) -> FlowPosition:
    kind = SyncKind(row["kind"])
    counted = row["records"] if kind in SEQUENCED_KINDS and row["former_producer_id"] is None else 0
    return flow_position(
        {
            **row,
            "source_end": row["source_start"] if kind is SyncKind.SUPERSEDED else row["source_end"],
            "next_sequence": (row["first_sequence"] + counted) % SEQUENCE_MODULUS,
        }
    )
