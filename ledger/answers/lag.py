"""How far a flow is behind, from the answer of `replication_lag`. What was not measured lately is unknown, never 0."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.changeover.losses import loss_objectives
from ledger.config.values import Figure, FlowConfig, Objective
from ledger.facts.tables import Row
from ledger.roles import FRESH_INTERVALS, interval_ms
from ledger.store.catalog import Named, query


def fresh_since_ms(flow: FlowConfig, now_ms: int) -> int:
    """What was measured before is too old to count."""
    return now_ms - FRESH_INTERVALS * interval_ms(flow)


class LagStatus(StrEnum):
    """Statuses of the query `replication_lag`, in its order."""

    GONE = "gone"  # the topic was deleted or recreated at the source
    UNKNOWN = "unknown"
    OTHER_INCARNATION = "other_incarnation"  # the flow has copied other incarnations of the topic only
    BEYOND_END = "beyond_end"  # the source had less than was copied
    CAUGHT_UP = "caught_up"
    BEHIND = "behind"


class LagState(StrEnum):
    """Of a whole flow. The first that applies to any of its partitions, in this order, is reported."""

    UNKNOWN = "unknown"
    BEHIND = "behind"
    CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class Lag:
    """What is to be copied and not recorded as copied, of the partitions that the flow mirrors.

    `records`, `bytes` and `seconds` (the longest) are of partitions whose lag is known, None: of none, or nobody
    can tell; `seconds_bound` is `at_most` or `at_least`. `measured_at_ms` is the earliest of these. Of the
    `unknown_partitions` it has what was known last. `overdue_partitions` of them should have been measured.
    `records_behind_transactions` come on top: they are copied once open transactions end, seen first `open_since_ms`.
    """

    state: LagState
    partitions: int
    unknown_partitions: int
    overdue_partitions: int
    records: int | None
    bytes: int | None
    seconds: float | None
    seconds_bound: str | None
    measured_at_ms: int | None
    age_seconds: float | None
    last_known_records: int | None
    last_known_at_ms: int | None
    records_behind_transactions: int = 0
    open_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Measurable:
    """What tells whether a row counts: topics that the flow still mirrors, and those whose source does not answer.

    `since_ms`: what was measured before is too old.
    """

    is_mirrored: Callable[[str], bool]
    is_out_of_reach: Callable[[str], bool]
    since_ms: int

    def counts(self, row: Row) -> bool:
        return row["status"] != LagStatus.GONE and self.is_mirrored(row["source_topic"])

    def is_known(self, row: Row) -> bool:
        measured = row["status"] in (LagStatus.CAUGHT_UP, LagStatus.BEHIND)
        return measured and not self.is_out_of_reach(row["source_topic"])

    def is_overdue(self, row: Row) -> bool:
        """A partition that the flow has just begun with is measured at the next read."""
        known_at_ms = max(row["measured_at_ms"] or 0, row["recorded_since_ms"] or 0)
        return known_at_ms < self.since_ms or self.is_out_of_reach(row["source_topic"])


def lag_of(rows: Sequence[Row], measurable: Measurable, *, at_ms: int) -> Lag:
    """Of the whole flow, from the answer of `replication_lag`, as of `at_ms`."""
    counted = [row for row in rows if measurable.counts(row)]
    known = [row for row in counted if measurable.is_known(row)]
    unknown = [row for row in counted if not measurable.is_known(row)]
    behind = [row for row in known if row["status"] == LagStatus.BEHIND]
    held = [row for row in known if row["lag_records_to_high_watermark"] > row["lag_records"]]
    last_known = [row for row in unknown if row["last_known_records"] is not None]
    seconds, bound = _longest(behind)
    measured_at_ms = min((row["measured_at_ms"] for row in known), default=None)
    return Lag(
        state=_state(known, unknown, behind, has_ended=bool(rows) and not counted),
        partitions=len(counted),
        unknown_partitions=len(unknown),
        overdue_partitions=sum(map(measurable.is_overdue, unknown)),
        records=sum(row["lag_records"] for row in known) if known else None,
        bytes=_bytes(known, behind),
        seconds=seconds,
        seconds_bound=bound,
        measured_at_ms=measured_at_ms,
        age_seconds=None if measured_at_ms is None else (at_ms - measured_at_ms) / 1000,
        last_known_records=sum(row["last_known_records"] for row in last_known) if last_known else None,
        last_known_at_ms=min((row["measured_at_ms"] for row in last_known), default=None),
        records_behind_transactions=sum(
            row["lag_records_to_high_watermark"] - row["lag_records"] for row in held
        ),
        open_since_ms=min((row["open_since_ms"] for row in held), default=None),
    )


def _state(
    known: Sequence[Row], unknown: Sequence[Row], behind: Sequence[Row], *, has_ended: bool
) -> LagState:
    if unknown or (not known and not has_ended):
        return LagState.UNKNOWN
    return LagState.BEHIND if behind else LagState.CAUGHT_UP


def _bytes(known: Sequence[Row], behind: Sequence[Row]) -> int | None:
    """Nobody can tell the size of what lies where nothing was copied yet."""
    if not known or any(row["lag_bytes"] is None for row in behind):
        return None
    return sum(int(row["lag_bytes"]) for row in behind)


def _longest(behind: Sequence[Row]) -> tuple[float | None, str | None]:
    """The longest time that is known of any; a single lower bound makes the whole one."""
    uncertain = [row for row in behind if row["lag_ms_bound"] != "at_most"]
    times = [row["lag_ms"] for row in uncertain or behind if row["lag_ms"] is not None]
    if not times:
        return None, None
    return max(times) / 1000, "at_least" if uncertain else "at_most"


_LAG_COLUMNS = (
    "last_stable",
    "mirrored_end",
    "lag_records",
    "lag_bytes",
    "lag_ms",
    "lag_ms_bound",
    "measured_at_ms",
)
_OF_NOW = ("lag_records", "lag_bytes", "lag_ms", "lag_ms_bound")
NO_LAG: Row = {**dict.fromkeys(_LAG_COLUMNS), "lag_status": str(LagStatus.UNKNOWN)}
"""Of a partition that the flow has no map of."""


def named_lag_columns() -> list[Named]:
    """The columns of `lag_columns`."""
    of_lag = {column.name: column for column in query("replication_lag").columns}
    return [*(of_lag[name] for name in _LAG_COLUMNS), Named("lag_status", "string")]


def lag_columns(lag: Row, measurable: Measurable) -> Row:
    """The lag of a partition; what was measured before its source went out of reach tells nothing about now."""
    known = {name: lag[name] for name in _LAG_COLUMNS} | {"lag_status": lag["status"]}
    if lag["status"] == LagStatus.GONE or not measurable.is_out_of_reach(lag["source_topic"]):
        return known
    return {**known, **dict.fromkeys(_OF_NOW), "lag_status": str(LagStatus.UNKNOWN)}


# Status figures -----------------------------------------------------------------------------------
# What `status` knows of a flow that objectives are about: its lag, and what a failover would lose.


def figures_of(flow: str, lag: Lag, losses: Sequence[Row], *, fresh_seconds: float) -> Iterator[Figure]:
    """Those of lag and loss; `losses`: of the partitions that the flow still copies."""
    yield _lag_records(flow, lag)
    yield _lag_seconds(flow, lag)
    if lag.state is LagState.CAUGHT_UP and not lag.partitions:
        yield Figure(Objective.MAX_LOSS_RECORDS, 0, flow)  # all its topics have ended
        yield Figure(Objective.MAX_LOSS_SECONDS, 0, flow)
        return
    yield from loss_objectives(losses, of=flow, fresh_seconds=fresh_seconds)


def _lag_records(flow: str, lag: Lag) -> Figure:
    value = 0 if lag.state is LagState.CAUGHT_UP else lag.records
    return Figure(Objective.MAX_LAG_RECORDS, value, flow, is_at_least=lag.state is LagState.UNKNOWN)


def _lag_seconds(flow: str, lag: Lag) -> Figure:
    if lag.state is LagState.CAUGHT_UP:
        return Figure(Objective.MAX_LAG_SECONDS, 0, flow)
    is_at_least = lag.state is LagState.UNKNOWN or lag.seconds_bound != "at_most"
    return Figure(Objective.MAX_LAG_SECONDS, lag.seconds, flow, is_at_least=is_at_least)
