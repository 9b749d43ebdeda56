"""Appends the facts of one round in the background while the next round runs."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ledger.ports import EpochRounds, FactLog, Row


class BackgroundAppender:
    """At most one append is under way; the next call and the exit raise what it failed with."""

    def __init__(self, fact_log: FactLog, rounds: EpochRounds, table: str) -> None:
        self._fact_log = fact_log
        self._rounds = rounds
        self._table = table
        self._under_way: Future[None] | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"append-{table}")

    @property
    def last_round(self) -> int:
        """Of this epoch, whoever appended it."""
        return self._rounds.last

    def submit(self, rows: Sequence[Row], *, table: str | None = None) -> None:
        """Append the rows as the next round, to the one table or to another; nothing is appended for none."""
        self.wait()
        if rows:
            self._under_way = self._executor.submit(
                self._fact_log.append,
                self._rounds.claim,
                table or self._table,
                self._rounds.take_next(),
                list(rows),
            )

    def wait(self) -> None:
        """Until the append under way is read back; raises its error."""
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=True)
        if error is None:
            self.wait()
