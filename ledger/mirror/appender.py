"""Appends the facts of one round in the background while the next round runs."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ledger.ports import FactLog, Row, WriterClaim


class BackgroundAppender:
    """At most one append is under way; the next call and the exit raise what it failed with."""

    def __init__(self, fact_log: FactLog, claim: WriterClaim, table: str) -> None:
        self._fact_log = fact_log
        self._claim = claim
        self._table = table
        self._round = 0
        self._under_way: Future[None] | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"append-{table}")

    @property
    def last_round(self) -> int:
        return self._round

    def submit(self, rows: Sequence[Row], *, table: str | None = None) -> None:
        """Append the rows as the next round, to the one table or to another; nothing is appended for none."""
        self.wait()
        if rows:
            self._round += 1
            self._under_way = self._executor.submit(
                self._fact_log.append, self._claim, table or self._table, self._round, list(rows)
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
