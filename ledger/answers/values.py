"""What a ledger answers with: tables of Arrow whose rows are frozen values.

Fields of a row are the columns of the query that it comes from, whose header says what they mean.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from ledger.offsets.statuses import TranslationStatus
from ledger.plain_text import rows_of
from ledger.store.catalog import Query

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Row]):
    """The rows of an answer in its order: `table` has them as Arrow, iteration as frozen values."""

    table: pa.Table
    of_row: Callable[..., Row] = field(repr=False, compare=False)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self)

    def __iter__(self) -> Iterator[Row]:
        return (self.of_row(**row) for row in rows_of(self.table))

    def __len__(self) -> int:
        return int(self.table.num_rows)


class AuditStatus(StrEnum):
    """What an audit came to."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_AUDITED = "not_audited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """An audit of the ledger. `rows`: so many break its invariant; None: it was left out, for what came since a cut
    alone does not tell. `since`: the token of that cut; None: all rows were audited."""

    audit: str
    rows: int | None
    status: AuditStatus
    since: str | None

    @classmethod
    def of(cls, name: str, rows: int | None, since: str | None) -> Self:
        if rows is None:
            return cls(audit=name, rows=None, status=AuditStatus.NOT_AUDITED, since=since)
        return cls(
            audit=name, rows=rows, status=AuditStatus.BROKEN if rows else AuditStatus.KEPT, since=since
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a group continues at another cluster: `offset_translation`, and what a time would mean.

    `committed_offset` None: the group has no commit on this partition. `target_offset` None: the status says why, and
    nothing is counted. `group_id` None: one offset was asked for. `others`: offsets from the place on that no flow
    between the two has carried, read or not; who was never there waits for none of them. `time_offset`, `skipped` and
    `repeated_by_time` None: no time was asked about, or there is no offset. `outputs` None: the group is of no declared
    application; else an `OutputsStatus`. `last_committed_offset`: the last commit, where an earlier one is answered.
    """

    group_id: str | None
    source_topic: str
    source_partition: int
    committed_offset: int | None
    target_topic: str | None
    target_topic_id: str | None
    target_partition: int | None
    target_offset: int | None
    status: TranslationStatus
    repeated: int | None
    ahead: int | None
    others: int | None
    expired: int | None
    absence: str | None
    absent_since_ms: int | None
    first_read_at_ms: int | None
    map_recorded_at_ms: int | None
    metadata: str | None
    time_offset: int | None = None
    skipped: int | None = None
    repeated_by_time: int | None = None
    outputs: str | None = None
    last_committed_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRequest:
    """What was done to a flow, and what became of it: `flow_operations`. `result` None: no driver is asked, or has
    answered yet."""

    flow: str
    operation_id: str
    kind: str
    cluster: str | None
    source_topic: str | None
    source_partition: int | None
    source_offset: int | None
    operator: str
    reason: str | None
    ticket: str | None
    entries: int
    requested_at_ms: int
    result: str | None
    message: str | None
    answered_at_ms: int | None
    status: str


def with_status(row: Callable[..., Row], statuses: type[StrEnum]) -> Callable[..., Row]:
    """Makes a row of columns, its status as a value of that enumeration."""
    return lambda *, status, **columns: row(status=statuses(status), **columns)


place = with_status(Place, TranslationStatus)


def mapping(**columns: Any) -> Mapping[str, Any]:
    """A row of a statement, whose columns may have any name."""
    return columns


@cache
def row_class(query: Query) -> Callable[..., Any]:
    """Frozen values with the columns of a query as fields."""
    name = "".join(word.capitalize() for word in query.name.split("_"))
    columns = [column.name for column in query.columns]
    return make_dataclass(name, columns, frozen=True, slots=True, kw_only=True)
