"""One epoch of a writer: claim, number rounds, append, read back, heartbeat, release.

Whatever appends under a claim does it through a session: drivers, adoption, key resync, recorders. So the
writer's side of invariant L4 of PROTOCOL.md stands here and nowhere else: (writer, epoch, round) is in a table
at most once, and never from an epoch that was shut out.

    claim       Commits the next epoch to each table that the writer appends to, then a row of `writers`. A session
                appends to no other table: an earlier epoch would not have been shut out of it.
    number      Every append takes the next round, whatever its table, so all that one epoch records is in one
                order. What is found at one time may be one round of several tables, a commit in each.
    append      The fact log tries again what it knows was not committed, under the same number, and reads back:
                an append that returns is in the ledger once.
    failed      An append that raises may be in the ledger or not. Its number is taken all the same: no other rows
                ever get it. Nothing is repeated here. Who appended finds what it was about again: a driver ends, and
                the next one finds the records on the target; a recorder repeats the rows in a later round.
    begun       Who dies between the commits of its claim leaves an epoch that no row of `writers` tells of. A claim
                that follows nobody in particular is simply above it; `following` has to find out that it is nobody's.
    shut out    `ShutOutError` says that a later epoch has been claimed. What was appended before stays; a round that
                met it may be in none, some or all of its tables. Whoever holds the session ends, or gives up its role.
    alive       A row of `writers`, the claim's: silence is taken for death (`facts.roles`).
    release     The same row says that the role is free. Who ended as it meant to releases, and who has nothing under
                way at a cluster (`held`); after an error of others it is seen whether their process is alive.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Protocol, Self

from ledger.clock import repeated
from ledger.errors import ClaimBegunError, MirrorLedgerError, ShutOutError
from ledger.facts.roles import OPERATOR_WRITER
from ledger.facts.state import FactLog, OperationLog, WriterClaim
from ledger.facts.syncs import WriterEvent
from ledger.facts.tables import (
    CHECKPOINTS,
    GROUP_SYNCS,
    GROUPS,
    HIGH_WATERMARKS,
    OFFSET_SYNCS,
    OPERATIONS,
    PERMISSIONS,
    SHARE_OFFSETS,
    STAMP,
    TOPICS,
    WRITERS,
    Row,
)

FLOW_TABLES = (OFFSET_SYNCS.name, GROUP_SYNCS.name, OPERATIONS.name)
"""What a flow's writer appends to beside `writers`: a claim shuts earlier epochs out of each."""
RECORDER_TABLES = (
    CHECKPOINTS.name,
    GROUPS.name,
    SHARE_OFFSETS.name,
    HIGH_WATERMARKS.name,
    TOPICS.name,
    PERMISSIONS.name,
    OPERATIONS.name,
)
"""The same of a recorder."""

APPLY_TABLES = (OPERATIONS.name,)
"""The same of who carries out a plan."""


def claim_row_of(host: str, **known: str | int | None) -> Row:
    """The row of `writers` by which a process (`ProcessMark`) claims a role; null what is not `known`, by column."""
    unknown = [column.name for column in WRITERS.columns if column not in STAMP]
    assert known.keys() <= set(unknown), "columns of the table"
    return {**dict.fromkeys(unknown), **known, "event": str(WriterEvent.CLAIMED), "host": host}


log = logging.getLogger(__name__)
CLAIMED_WITHIN_S = 5.0
"""A claim commits to several tables before it is a row of `writers`: what takes longer than so was not ended."""


class PendingAppend(Protocol):
    """An append under way."""

    def result(self) -> None:
        """Wait until it is over; raises what it failed with."""
        ...


class AppendExecutor(Protocol):
    """Where a session appends in the background: one append after the other, in the order in which they are given."""

    def submit(self, append: Callable[[], None], /) -> PendingAppend: ...

    def shutdown(self, *, wait: bool) -> None:
        """Take no further append; with `wait` all that were given are over when it returns."""
        ...


def one_thread() -> AppendExecutor:
    """A thread of this process, started by the first append."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="append")


class WriterSession:
    """A claimed epoch, safe to use from several threads. As a context it ends what appends in the background.

    Appends that wait are made one at a time, so that rounds rise in the order of the commits to a table. So they
    do in the background, where at most one append is under way. The same table is not appended to in both ways.
    """

    def __init__(
        self,
        fact_log: FactLog,
        claim: WriterClaim,
        tables: Sequence[str],
        row: Row,
        executor: AppendExecutor,
    ) -> None:
        self._fact_log = fact_log
        self._claim = claim
        self._tables = frozenset({WRITERS.name, *tables})
        self._row = row
        self._executor = executor
        self._last_round = 0
        self._under_way: PendingAppend | None = None
        self._taking = threading.Lock()
        self._appending = threading.Lock()

    @classmethod
    def claimed(
        cls,
        fact_log: FactLog,
        writer: str,
        tables: Sequence[str],
        row: Row,
        *,
        executor: AppendExecutor | None = None,
        after: int | None = None,
    ) -> Self:
        """Claim the writer's next epoch; `row`: what `writers` gets, at its release as well.

        `after`: the epoch that is to be followed, None: any. Raises `ShutOutError` when there is a later one, or the
        epoch was claimed by another process at the same moment.
        """
        claim = fact_log.claim(writer, tables, row, after=after)
        return cls(fact_log, claim, tables, row, executor or one_thread())

    @classmethod
    def following(
        cls,
        fact_log: FactLog,
        writer: str,
        tables: Sequence[str],
        row: Row,
        *,
        after: int,
        last_epoch: Callable[[], int],
        sleep: Callable[[float], None],
    ) -> Self:
        """The same after an epoch whose holder is known to have ended. `last_epoch`: the last one that was claimed.

        Who began to claim meanwhile has `CLAIMED_WITHIN_S` to end that. Where it is nobody's then, its process died
        in between, and that epoch is followed; of several that do so at once one gets it.
        """
        claim = partial(cls.claimed, fact_log, writer, tables, row)
        try:
            return claim(after=after)
        except ClaimBegunError as error:
            sleep(CLAIMED_WITHIN_S)
            if last_epoch() != after:
                raise
            return claim(after=error.epoch)

    @property
    def epoch(self) -> int:
        return self._claim.epoch

    @property
    def last_round(self) -> int:
        """The last number that was taken, whether its append is over or not; 0: none but the claim's."""
        return self._last_round

    def require_own(self, table: str) -> None:
        """Raise `ShutOutError` where a later epoch has been claimed: before what is done outside of the ledger."""
        last = self._fact_log.last_epoch(self._claim.writer, table)
        if last > self._claim.epoch:
            raise ShutOutError(
                f"{self._claim.writer} epoch {self._claim.epoch} was shut out of {table} by epoch {last}: another "
                "process holds the role; nothing more is done here"
            )

    def append(self, table: str, rows: Sequence[Row]) -> int:
        """Append the rows as the next round and read back; returns its number."""
        return self.append_round({table: rows})

    def append_round(self, rows: Mapping[str, Sequence[Row]]) -> int:
        """The same with rows by table, a commit in each, one after the other under one number."""
        with self._appending:
            number = self._take_number()
            for table, found in rows.items():
                self._append(table, number, found)
        return number

    def append_in_background(self, table: str, rows: Sequence[Row]) -> None:
        """Append the rows as the next round while the caller continues; nothing is appended for none.

        Waits for the append before it. The next call, `wait` and the end of the context raise what it fails with.
        """
        self.wait()
        if rows:
            append = partial(self._append, table, self._take_number(), list(rows))
            self._under_way = self._executor.submit(append)

    def wait(self) -> None:
        """Until the append in the background is read back; raises its error."""
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def alive(self, **known: str | None) -> None:
        """Append a heartbeat to `writers`, with what is `known` by now by column, and read back."""
        self._row = {**self._row, **known}
        self.append(WRITERS.name, [self._said(WriterEvent.ALIVE)])

    def alive_in_background(self) -> None:
        self.append_in_background(WRITERS.name, [self._said(WriterEvent.ALIVE)])

    def release(self) -> None:
        """Give the role back, as the last thing: after what is appended in the background."""
        self.wait()
        self.append(WRITERS.name, [self._said(WriterEvent.RELEASED)])

    def shown_alive(self, every_s: float) -> AbstractContextManager[None]:
        """Heartbeats beside a body that appends nothing for long, from a thread of their own."""
        return repeated(self.alive, every_s=every_s, failed=log.warning)

    @contextmanager
    def held(self, every_s: float) -> Iterator[Self]:
        """For a body that reads for long and writes nothing at a cluster: shown to be alive beside it, and released
        behind it, also where it raises one of our errors: that one counts, whatever the release comes to."""
        with self:
            try:
                with self.shown_alive(every_s):
                    yield self
            except ShutOutError:
                raise
            except MirrorLedgerError:
                with suppress(MirrorLedgerError):
                    self.release()
                raise
            self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_raised: object) -> None:
        self._executor.shutdown(wait=True)
        if kind is None:
            self.wait()

    def _append(self, table: str, number: int, rows: Sequence[Row]) -> None:
        assert table in self._tables, f"{table} was not claimed"
        self._fact_log.append(self._claim, table, number, rows)

    def _said(self, event: WriterEvent) -> Row:
        return {**self._row, "event": str(event)}

    def _take_number(self) -> int:
        with self._taking:
            self._last_round += 1
            return self._last_round


# Operation log ------------------------------------------------------------------------------------
# Rows of `operations`, and who stands behind each: a writer's claim, or the serial of operators.
#
# What a driver does is stamped with its claim and its next round, so a driver that was taken over records
# nothing any more. What operators ask for is stamped with one serial, whoever asks and wherever: of two
# that ask at one moment each gets a number. So rows are in order without anybody's clock.


def random_id() -> str:
    return uuid.uuid4().hex


class ClaimedOperations(OperationLog):
    """Implements `OperationLog` for a writer. Until `begin` says in which session, nothing may be recorded.

    Safe to use from several threads, as the session is.
    """

    def __init__(self, *, operator: str, new_id: Callable[[], str] = random_id) -> None:
        super().__init__(operator=operator, new_id=new_id)
        self._session: WriterSession | None = None

    def begin(self, session: WriterSession) -> None:
        self._session = session

    def _append(self, rows: Sequence[Row]) -> None:
        assert self._session is not None, "an operation before the claim"
        self._session.append(OPERATIONS.name, rows)


class OperatorOperations(OperationLog):
    """Implements `OperationLog` for people: every append takes the next number of their serial."""

    def __init__(self, fact_log: FactLog, *, operator: str, new_id: Callable[[], str] = random_id) -> None:
        super().__init__(operator=operator, new_id=new_id)
        self._fact_log = fact_log

    def _append(self, rows: Sequence[Row]) -> None:
        self._fact_log.append_next(OPERATOR_WRITER, OPERATIONS.name, rows)
