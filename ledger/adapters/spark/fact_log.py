"""Appends to the ledger's tables under a writer epoch (invariant L4).

`txnAppId` is the writer and `txnVersion` is epoch * 2^32 + round. Delta skips an append whose version
is not above the last one of that writer, silently; so every append is read back. Claiming an epoch
commits to each table that the writer appends to, and thereby shuts out every earlier epoch there.
"""

import logging
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.delta.tables import add_missing_columns, commit_metadata, table_uri
from ledger.adapters.spark.failures import reason
from ledger.errors import MirrorLedgerError, PreconditionError, ShutOutError
from ledger.ports import Clock, Row, WriterClaim
from ledger.schema import TABLE_BY_NAME

log = logging.getLogger(__name__)


class AppendFailedError(MirrorLedgerError):
    """An append was not committed."""

    retriable = True


_ROUNDS_PER_EPOCH = 1 << 32
_WRITERS = "writers"
_CLAIM_ROUND = 0
# The driver that a claim shuts out appends a row in every round: most attempts meet one of its commits.
_CONFLICT_RETRIES = Retrying(
    retry=retry_if_exception_type(AppendFailedError),
    stop=stop_after_attempt(15),
    wait=wait_random_exponential(multiplier=0.2, max=2),
    reraise=True,
)


class DeltaFactLog:
    """Implements `ports.FactLog` with one Spark session."""

    def __init__(self, spark: SparkSession, path: str, clock: Clock) -> None:
        self._spark = spark
        self._path = path
        self._clock = clock

    def claim(self, writer: str, tables: Sequence[str], row: Row) -> WriterClaim:
        for table in (_WRITERS, *tables):
            add_missing_columns(self._path, table, now_ms=self._clock.now_ms())
        claimed = [self._transaction_version(table, writer) for table in (_WRITERS, *tables)]
        claim = WriterClaim(writer, max(claimed) // _ROUNDS_PER_EPOCH + 1)
        for table in tables:
            self._write(claim, table, _CLAIM_ROUND, [])
            self._read_back(claim, table, _CLAIM_ROUND)
        # Last, so that its time is later than any append of the epochs that the tables now shut out.
        self._write(claim, _WRITERS, _CLAIM_ROUND, [row])
        self._check_own(claim, row)
        return claim

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._write(claim, table, round_number, rows)
        self._read_back(claim, table, round_number)

    def _check_own(self, claim: WriterClaim, row: Row) -> None:
        """Of two simultaneous claims of one epoch Delta keeps one: see whose."""
        rows = (
            DeltaTable(table_uri(self._path, _WRITERS))
            .to_pyarrow_table(
                columns=["host"],
                filters=[
                    ("writer", "=", claim.writer),
                    ("writer_epoch", "=", claim.epoch),
                    ("round", "=", 0),
                ],
            )
            .to_pylist()
        )
        if [found["host"] for found in rows] != [row["host"]]:
            raise PreconditionError(
                f"epoch {claim.epoch} of {claim.writer} was claimed at the same moment by {rows}; "
                "nothing was copied"
            )

    def _write(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        """One blind append, tried again while it is known that it was not committed.

        A claim meets appends of the driver that it shuts out: Delta lets one of two transactions of a
        writer through and refuses the other. What was committed by then is for the read-back to judge.
        """
        for attempt in _CONFLICT_RETRIES:
            with attempt:
                try:
                    self._write_once(claim, table, round_number, rows)
                except (Py4JJavaError, PySparkException) as error:
                    if self._transaction_version(table, claim.writer) < _version(claim, round_number):
                        raise AppendFailedError(
                            f"round {round_number} of {claim.writer} could not be appended to {table}: "
                            f"{reason(error)}"
                        ) from error
                    log.info("an append to %s met a later one: %s", table, reason(error))

    def _write_once(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        now_ms = self._clock.now_ms()
        stamp = {
            "writer": claim.writer,
            "writer_epoch": claim.epoch,
            "round": round_number,
            "recorded_at_ms": now_ms,
        }
        data = pa.Table.from_pylist(
            [{**stamp, **row} for row in rows], schema=arrow_schema(TABLE_BY_NAME[table])
        )
        writer = self._spark.createDataFrame(data).coalesce(1).write.format("delta").mode("append")
        writer = writer.option("txnAppId", claim.writer).option(
            "txnVersion", str(_version(claim, round_number))
        )
        writer = writer.option("userMetadata", commit_metadata(now_ms))
        writer.save(table_uri(self._path, table))

    def _read_back(self, claim: WriterClaim, table: str, round_number: int) -> None:
        found, expected = self._transaction_version(table, claim.writer), _version(claim, round_number)
        if found > expected:
            raise ShutOutError(
                f"{claim.writer} epoch {claim.epoch} was shut out of {table} by epoch "
                f"{found // _ROUNDS_PER_EPOCH}; "
                f"round {round_number} may not have been recorded, its records are found by the later epoch"
            )
        if found < expected:
            raise MirrorLedgerError(
                f"{table} does not hold round {round_number} of {claim.writer} epoch {claim.epoch} "
                "after its append"
            )

    def _transaction_version(self, table: str, writer: str) -> int:
        """The writer's last version in a table as deltalake reads it: a second engine, a second opinion."""
        version = DeltaTable(table_uri(self._path, table)).transaction_version(writer)
        return 0 if version is None else version


def _version(claim: WriterClaim, round_number: int) -> int:
    return claim.epoch * _ROUNDS_PER_EPOCH + round_number
