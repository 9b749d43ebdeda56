"""A ledger over a period, as reports ask it: one cut, from whose rows all of a report comes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from ledger.answers.ledger import Ledger
from ledger.errors import PreconditionError, UsageError
from ledger.facts.direction import DIRECTION_KINDS, Demoted, Promoted
from ledger.facts.extras import ExtrasDecided
from ledger.facts.links import root_of
from ledger.facts.roles import SILENT_HEARTBEATS
from ledger.facts.tables import OPERATIONS, WRITERS, Row, in_order
from ledger.reports.documents import Cell, Section, Span, Table
from ledger.store import sql
from ledger.store.catalog import Value
from ledger.store.heads import heads_at
from ledger.store.snapshots import OpenedTables
from ledger.topics.naming import INTERNAL_FLOWS
from ledger.words import counted, instant


@dataclass(frozen=True)
class Period:
    """From `since_ms` to `until_ms`, both included. `ledger` is at one cut, named by its token."""

    ledger: Ledger
    since_ms: int
    until_ms: int

    @classmethod
    def of(cls, ledger: Ledger, since_ms: int | None) -> "Period":
        """Up to the time of the ledger's cut; `since_ms` None: from when the ledger begins, or its facts do.

        Raises `UsageError` where the period ends before it begins, or facts of it have left the ledger.
        """
        at = ledger if ledger.as_of is not None else ledger.at(ledger.cut)
        left = at.snapshot.last_left
        first_ms = at.snapshot.began_at_ms if left is None else left.until_ms
        if since_ms is not None and since_ms > at.at_ms:
            raise UsageError(
                f"a period ends after it begins, got {instant(since_ms)} to {instant(at.at_ms)}; nothing was reported"
            )
        if left is not None and since_ms is not None and since_ms < first_ms:
            raise UsageError(f"{at.facts_left}; nothing was reported. Ask from {first_ms} on")
        return cls(at, first_ms if since_ms is None else since_ms, at.at_ms)

    @property
    def length_ms(self) -> int:
        return max(self.until_ms - self.since_ms, 1)

    @property
    def words(self) -> str:
        return f"{instant(self.since_ms)} to {instant(self.until_ms)}"

    def has(self, at_ms: int | None) -> bool:
        return at_ms is not None and self.since_ms <= at_ms <= self.until_ms

    @cached_property
    def flows(self) -> tuple[str, ...]:
        """Those that have run by the cut, but for internal ones. Raises `PreconditionError` where there is none."""
        found = tuple(one for one in sql.flows(self.ledger.snapshot) if not one.endswith(INTERNAL_FLOWS))
        if not found:
            raise PreconditionError(
                f"no flow has run as of {instant(self.until_ms)}; there is nothing to report"
            )
        return found

    def asked(self, file: str, **params: Value) -> list[dict[str, Any]]:
        """Rows of a statement beside this module, over the tables of the cut."""
        statement = files(__package__).joinpath(file).read_text(encoding="utf-8")
        return list(self.ledger.sql(statement, **params).table.to_pylist())

    def in_period(self, file: str) -> list[dict[str, Any]]:
        return self.asked(file, since_ms=self.since_ms, until_ms=self.until_ms)

    @cached_property
    def operations(self) -> Sequence[Row]:
        """All rows of `operations` up to the cut, each writer's in the order of recording."""
        return in_order(self.ledger.snapshot.rows(OPERATIONS.name, []))

    def of_kinds(self, *kinds: str) -> list[Row]:
        wanted: Collection[str] = set(kinds)
        return [row for row in self.operations if row["kind"] in wanted]

    @cached_property
    def claims(self) -> Sequence[Row]:
        """Claims of flows' drivers, each flow's in the order of recording."""
        rows = self.ledger.snapshot.rows(WRITERS.name, [("event", "=", "claimed")])
        return [row for row in in_order(rows) if row["flow"] is not None]

    @property
    def extras(self) -> list[tuple[Row, ExtrasDecided]]:
        """Decisions of people about records that one cluster alone has; drivers decide about markers."""
        rows = self.of_kinds(ExtrasDecided.kind)
        return [(row, ExtrasDecided.of_row(row)) for row in rows if row["flow"] is None]

    def goes(self, flow: str) -> list[tuple[int, int]]:
        """Return from when until when a flow's direction held, as far as changes of all of its pair say."""
        last = next((row for row in reversed(self.claims) if row["flow"] == flow), {})
        source, target = last.get("source_cluster"), last.get("target_cluster")
        edges = [(0, True)]
        for row in by_time(self.of_kinds(*DIRECTION_KINDS)):
            one = Promoted.of_row(row) if row["kind"] == Promoted.kind else Demoted.of_row(row)
            is_whole = (one.topics is None or one.later) and {one.cluster, one.former} == {source, target}
            holds = isinstance(one, Promoted) != (one.cluster == target)
            if is_whole and holds != edges[-1][1]:
                edges.append((row["recorded_at_ms"], holds))
        times = [at_ms for at_ms, _ in edges]
        return list(zip_longest(times[::2], times[1::2], fillvalue=self.until_ms + 1))

    def silences(self, flow: str) -> list[Span]:
        """When nothing of its driver was recorded for three heartbeats or longer."""
        configured = self.ledger.config.flows.get(flow)
        heartbeat_ms = 60_000 if configured is None else round(configured.heartbeat_seconds * 1000)
        rows = self.asked(
            "silences.sql",
            flow=flow,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
            silent_ms=SILENT_HEARTBEATS * heartbeat_ms,
        )
        names = {"released": "driver had ended properly", "silent": "driver recorded nothing"}
        return [Span(names[row["how"]], row["start_ms"], row["end_ms"]) for row in rows]


def head(period: Period) -> dict[str, Cell]:
    """What names a report's rows: whoever has the ledger, or a copy of it, gets the same text by it."""
    return {
        "period": period.words,
        "ledger": period.ledger.snapshot.cut.ledger_id,
        "version of mirror-ledger": version("mirror-ledger"),
    }


def evidence(period: Period) -> Section:
    """What was checked, at which cut, and how to make the report again."""
    found = period.ledger.audit()
    words = {"kept": "kept", "broken": "BROKEN", "not_audited": "not audited"}
    asks = period.ledger.queries()
    rows = tuple((one.audit, asks[one.audit].answers, words[str(one.status)], one.rows) for one in found)
    broken = sum(one.rows or 0 for one in found)
    at = period.ledger.snapshot
    heads = heads_at(OpenedTables.of(at.path), at.cut)
    said = (
        f"All {len(found)} invariants of the ledger were checked over all of its rows up to the cut, and are kept."
        if not broken
        else f"The ledger BREAKS an invariant: {counted(broken, 'row')}. What this report says may be wrong."
    )
    return Section(
        title="Evidence",
        text=(
            said,
            "A cut names the last appended row of each writer that this report counts. The same report, byte for byte, "
            "is made from the ledger or a copy of it by giving the cut below.",
            "Every append is chained to the one before it. The heads are the last links at the cut: whoever has this "
            "report finds by them whether a row up to it was changed, removed or added since (verify-ledger).",
        ),
        facts={"cut": period.ledger.cut, "root of the heads": root_of(heads)},
        tables=(
            Table(
                name="invariants",
                caption="Invariants checked at the cut",
                columns=("audit", "rows that it would find", "result", "found"),
                rows=rows,
                empty="none",
                most=50,
            ),
            Table(
                name="heads",
                caption="Heads: the last link of each writer in each table",
                columns=("table", "writer", "epoch", "round", "link"),
                rows=tuple((one.table, one.writer, one.epoch, one.round, one.link) for one in heads),
                empty="no append has a link yet",
            ),
        ),
    )


def by_time(rows: Iterable[Row]) -> list[Row]:
    """As a table shows what several writers have recorded; those of one time as they are."""
    return sorted(rows, key=lambda row: row["recorded_at_ms"])


def partition_words(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return "all"
    return topic if partition is None else f"{topic} partition {partition}"


def at(at_ms: int | None) -> str:
    """An instant in a cell; empty: there was none."""
    return "" if at_ms is None else instant(at_ms)


def why_of(row: Mapping[str, Any]) -> str:
    """Reason and ticket in the operator's words."""
    words = [str(row[name]) for name in ("reason", "ticket") if row[name]]
    return "; ".join(words) if words else "no reason was given"
