"""Appends to the ledger's tables under a writer epoch (invariant L4).

The app transaction of a writer is epoch * 2^32 + round. An append reads the last one and commits through the
same handle of the table: if another commit of that writer came in between, Delta refuses it (a compare-and-swap).
Claiming an epoch commits to each table that the writer appends to, and thereby shuts out every earlier
epoch there. Whatever a commit said, it is read back afterwards: its outcome may have been unknown.

Every append is a small file; `maintenance` makes few of many. In a folder of this machine the file is on the disk
before the entry that names it is written, and the entry before the append is read back: see `local_tables`. In a store
deltalake writes both.

A claim is one of a ledger: where a table has another id afterwards, another ledger lies there, and nothing is appended.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from ledger.clock import Clock
from ledger.errors import LedgerUnavailableError, MirrorLedgerError, OtherLedgerError, ShutOutError
from ledger.facts.state import WriterClaim, require_last
from ledger.facts.tables import TABLE_BY_NAME, Filter, Row, epoch_and_round, epoch_of, place_of
from ledger.store.append_durations import AppendDurations
from ledger.store.damage import is_of_a_library, local_folder, words_of
from ledger.store.delta_tables import (
    RECORDED_AT,
    STATISTICS,
    OpenedTable,
    arrow_rows,
    identity_of,
    keep_appended,
    newest_version,
    opened_to_append,
    reopen,
    table_uri,
)
from ledger.store.ledger_copy import require_no_copy
from ledger.store.links import Links
from ledger.store.merging import commit_rows
from ledger.store.relations import filtered_rows, relation_of

log = logging.getLogger(__name__)


class AppendFailedError(LedgerUnavailableError):
    """An append was not committed."""


def _report(state: RetryCallState) -> None:
    """Of an append that fails again and again, once, long before it is given up: the ledger cannot tell of it."""
    if state.attempt_number == _REPORTED_AT_ATTEMPT and state.outcome is not None:
        seconds = state.seconds_since_start or 0.0
        log.error(
            "the ledger takes no append since %(since)s: %(cause)s; tried again",
            {
                "since": datetime.fromtimestamp(time.time() - seconds, tz=UTC).isoformat(
                    sep=" ", timespec="seconds"
                ),
                "cause": state.outcome.exception(),
            },
        )


RowsAfter = Callable[[int], Sequence[Row]]
"""The rows of an append, by the writer's last version in the table before it."""
_CHECKPOINTS_ONLY = PostCommitHookProperties(
    cleanup_expired_logs=False
)  # no append waits for hundreds of files
_SMALL_FILES = WriterProperties(
    # Of a file of twenty rows most would be what Parquet says about thirty columns.
    compression="ZSTD",
    default_column_properties=ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE"),
    column_properties={
        name: ColumnProperties(dictionary_enabled=False, statistics_enabled="CHUNK") for name in STATISTICS
    },
)
_WRITERS = "writers"
_CLAIM_ROUND = 0
_NEVER = 0
_REPORTED_AT_ATTEMPT = 7  # after three seconds at most; where writers meet one another it seldom comes so far
# The driver that a claim shuts out appends a row in every round: most attempts meet one of its commits.
_CONFLICT_RETRIES = Retrying(
    retry=retry_if_exception_type(AppendFailedError),
    stop=stop_after_attempt(15),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    before_sleep=_report,
    reraise=True,
)


class DeltaFactLog:
    """Implements `FactLog` with deltalake: neither a JVM nor a Spark session."""

    def __init__(self, path: str, clock: Clock, times: AppendDurations | None = None) -> None:
        """Raises `PreconditionError` where a copy of a ledger lies at `path`. `times` gets what appends take."""
        require_no_copy(path)
        self._times = times or AppendDurations()
        self._path = path
        self._clock = clock
        self._table_ids: dict[str, str] = {}
        self._links = Links(path)

    def claim(
        self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None, least: int = 0
    ) -> WriterClaim:
        """As `FactLog` says; `least`: the first epoch that may be claimed."""
        for table in (_WRITERS, *tables):
            self._require(table)
        claimed = [_last_version(self._opened(table), writer) for table in (_WRITERS, *tables)]
        require_last(writer, epoch_of(max(claimed)), after=after)
        claim = WriterClaim(writer, max(epoch_of(max(claimed)) + 1, least))
        last = {table: self._shut(claim, table) for table in tables}
        # Last: who finds the row knows that no table takes anything of an earlier epoch any more.
        self._write(
            claim,
            _WRITERS,
            _CLAIM_ROUND,
            lambda before: [{**row, "shut_out": _shut_out({**last, _WRITERS: before})}],
        )
        self._check_own(claim, row)
        return claim

    def _shut(self, claim: WriterClaim, table: str) -> int:
        """Commit an epoch to a table; returns the last version of the epochs before, which is final from then on."""
        before = self._write(claim, table, _CLAIM_ROUND, _same([]))
        return self._last_recorded(claim, table) if before is None else before

    def _last_recorded(self, claim: WriterClaim, table: str) -> int:
        """The same from rows, when it is not known whose commit shut the table."""
        wanted: list[Filter] = [("writer", "=", claim.writer), ("writer_epoch", "<", claim.epoch)]
        rows = filtered_rows(relation_of(self._opened(table), table), wanted)
        return max((place_of(row["writer_epoch"], row["round"]) for row in rows), default=_NEVER)

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        with self._times.measured(self._clock):
            self._write(claim, table, round_number, _same(rows))

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        for attempt in _CONFLICT_RETRIES:
            with attempt:
                self._require(table)
                opened = self._opened_to_append(table)
                last = _last_version(opened, writer)
                claim, number = WriterClaim(writer, 0), last + 1
                try:
                    self._commit(opened, claim, table, number, rows, last)
                except AppendFailedError:
                    # Somebody else may have taken the number, or the answer was lost: see whose rows are there.
                    if not self._holds(claim, table, number, rows):
                        raise
        return number

    def last_epoch(self, writer: str, table: str) -> int:
        with self._opening(table):
            opened = newest_version(self._path, table)
        return epoch_of(_last_version(opened, writer))

    def _holds(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> bool:
        found = self._rows_of(claim, table, round_number)
        return [
            {name: row[name] for name in wanted} for row, wanted in zip(found, rows, strict=False)
        ] == list(rows)

    def _rows_of(self, claim: WriterClaim, table: str, round_number: int) -> list[dict[str, Any]]:
        wanted: list[Filter] = [
            ("writer", "=", claim.writer),
            ("writer_epoch", "=", claim.epoch),
            ("round", "=", round_number),
        ]
        return filtered_rows(relation_of(self._opened(table), table), wanted)

    def _check_own(self, claim: WriterClaim, row: Row) -> None:
        """Of two simultaneous claims of one epoch Delta keeps one: see whose."""
        hosts = [found["host"] for found in self._rows_of(claim, _WRITERS, _CLAIM_ROUND)]
        if hosts != [row["host"]]:
            raise ShutOutError(
                f"epoch {claim.epoch} of {claim.writer} was claimed at the same moment by {', '.join(hosts)}; "
                "nothing was copied"
            )

    def _write(self, claim: WriterClaim, table: str, round_number: int, rows: RowsAfter) -> int | None:
        """One append, tried again while it is known that it was not committed; then read back.

        Returns the writer's last version in the table before it; None when it is not known whose commit it was.
        """
        before: int | None = None
        left: OpenedTable | None = None
        for attempt in _CONFLICT_RETRIES:
            with attempt:
                opened, before, left = self._opened_to_append(table), None, None
                if (last := _last_version(opened, claim.writer)) < _version(claim, round_number):
                    left = self._commit(opened, claim, table, round_number, rows(last), last)
                    before = last
        self._read_back(claim, table, round_number, left)
        return before

    def _commit(
        self, opened: DeltaTable, claim: WriterClaim, table: str, number: int, rows: Sequence[Row], last: int
    ) -> OpenedTable | None:
        """`last`: the writer's last version in this one of the table, whose link the new one follows.

        Returns the table as the append has left it, None of one in a store.
        """
        now_ms = self._clock.now_ms()
        stamp = {
            "writer": claim.writer,
            "writer_epoch": claim.epoch,
            "round": number,
            "recorded_at_ms": now_ms,
        }
        data = arrow_rows(TABLE_BY_NAME[table], [{**stamp, **row} for row in rows])
        uri = table_uri(self._path, table)
        what = f"round {number} of {claim.writer} could not be appended to {table}"
        with _failing(what):
            data, link = self._links.linked(opened, table, claim.writer, last, data)
        properties = CommitProperties(
            custom_metadata={RECORDED_AT: str(now_ms)},
            app_transactions=[Transaction(claim.writer, _version(claim, number))],
        )
        with _failing(what):
            if local_folder(uri) is None:
                write_deltalake(
                    opened,
                    data,
                    mode="append",
                    commit_properties=properties,
                    post_commithook_properties=_CHECKPOINTS_ONLY,
                    writer_properties=_SMALL_FILES,
                )
            else:
                commit_rows(opened, uri, data, properties, now_ms=now_ms)
        self._links.committed(table, claim.writer, _version(claim, number), link)
        return keep_appended(uri, opened)

    def _read_back(self, claim: WriterClaim, table: str, round_number: int, left: OpenedTable | None) -> None:
        """By the entry of the append where it is the last one, else by the table, which is opened again."""
        expected = _version(claim, round_number)
        if left is not None and left.holds(table_uri(self._path, table), claim.writer, expected):
            return
        found = _CONFLICT_RETRIES(lambda: _last_version(self._opened(table), claim.writer))
        if found > expected:
            raise ShutOutError(
                f"{claim.writer} epoch {claim.epoch} was shut out of {table} by epoch "
                f"{epoch_of(found)}; "
                f"round {round_number} may not have been recorded, its records are found by the later epoch"
            )
        if found < expected:
            raise MirrorLedgerError(
                f"{table} does not hold round {round_number} of {claim.writer} epoch {claim.epoch} "
                "after its append"
            )

    def _require(self, table: str) -> None:
        """Raise `DamagedLedgerError` where the ledger is there and the table is missing."""
        with self._opening(table):
            newest_version(self._path, table)

    def _opened(self, table: str) -> DeltaTable:
        """The newest version as the log says now, for reading."""
        with self._opening(table):
            return self._own(table, reopen(self._path, table))

    def _opened_to_append(self, table: str) -> DeltaTable:
        """One of this append's own: an append changes what was opened for it."""
        with self._opening(table):
            return self._own(table, opened_to_append(table_uri(self._path, table)))

    def _own(self, table: str, opened: DeltaTable) -> DeltaTable:
        """The table, when it is the one that was there before: of a claim, and of who claims nothing."""
        found = identity_of(opened)
        if found != (claimed := self._table_ids.setdefault(table, found)):
            raise OtherLedgerError(
                f"another ledger lies at {self._path} than the one that was claimed there: its table {table} has the "
                f"id {found}, not {claimed}; nothing was appended to it. Put the former one back, or start again with "
                "this one: mirror-ledger adopt takes over what was mirrored"
            )
        return opened

    def _opening(self, table: str) -> AbstractContextManager[None]:
        return _failing(f"{table_uri(self._path, table)} cannot be opened, nothing was appended to it")


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """What the store or a library refuses in here was not committed, as far as anybody knows."""
    try:
        yield
    except BaseException as error:
        if not is_of_a_library(error):
            raise
        raise AppendFailedError(f"{what}: {words_of(error)}") from error


def _same(rows: Sequence[Row]) -> RowsAfter:
    return lambda _before: rows


def _shut_out(last: Mapping[str, int]) -> list[dict[str, object]]:
    """Column `shut_out` of a claim, from the last version per table of the epochs before."""
    return [
        {
            "fact_table": table,
            "writer_epoch": epoch,
            "round": number,
        }
        for table, version in last.items()
        if version != _NEVER
        for epoch, number in [epoch_and_round(version)]
    ]


def _last_version(table: DeltaTable, writer: str) -> int:
    """The app transaction of the writer's last commit to a table, as of when it was opened.

    Entries of the log are read now: of a process that stood still since it opened the table they may have been removed.
    """
    with _failing(
        f"what {writer} appended last to {table.table_uri} cannot be read, nothing was appended to it"
    ):
        version = table.transaction_version(writer)
    return _NEVER if version is None else version


def _version(claim: WriterClaim, round_number: int) -> int:
    return place_of(claim.epoch, round_number)
