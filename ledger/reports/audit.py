"""`report audit`: what happened to the mirrors of a ledger in a period, and what proves it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ledger.changeover.losses import downtime_span
from ledger.changeover.plans import APPLY_KINDS, Applies
from ledger.facts.changeovers import PlanRecorded
from ledger.facts.drills import Drilled
from ledger.facts.extras import DecidedExtras, ExtrasDecided, ExtrasPolicy
from ledger.facts.operations import ConfigurationChanged, OperationKind
from ledger.facts.syncs import CAUSES
from ledger.facts.tables import Row
from ledger.reports.documents import Cell, OverTime, Report, Section, Series, Span, Table
from ledger.reports.lags import LagOverTime, outages_of
from ledger.reports.periods import Period, at, by_time, evidence, head, partition_words, why_of
from ledger.words import counted, duration, instant, some_of

_MOST_PLOTTED = 4
"""Flows whose plots are drawn; the figures of all are in the tables."""
_BY_OPERATORS = frozenset(
    {
        *(OperationKind.STOP, OperationKind.PAUSE, OperationKind.RESUME, OperationKind.SKIP_TO),
        *(OperationKind.ACCEPT_FOREIGN, OperationKind.RESYNC, OperationKind.RELOAD),
        *(OperationKind.SCOPE_REDUCED, OperationKind.CLUSTER_ACCEPTED, OperationKind.OFFSETS_SET),
        *(OperationKind.MEMBERS_REMOVED, OperationKind.EXTRAS_DECIDED, OperationKind.DEFICITS_DECIDED),
        *(OperationKind.TOPIC_RECREATED, OperationKind.WAY_BACK_OPENED, OperationKind.PROMOTED),
        *(OperationKind.DEMOTED, OperationKind.FENCE, OperationKind.UNFENCED, OperationKind.HANDED_OVER),
        *(OperationKind.HAND_OVER_UNDONE, OperationKind.SETTLED, OperationKind.MIRROR_SHUT_OUT),
        *(OperationKind.MIRROR_LET_IN, OperationKind.KEYS_RESYNCED),
        *(OperationKind.PLAN, OperationKind.PLAN_APPROVED, OperationKind.APPLY_CLAIMED),
        *(OperationKind.DRILLED, OperationKind.UNDO_BEGUN, OperationKind.LEDGER_REPAIRED),
        *(OperationKind.LEDGER_RESTORED, OperationKind.FACTS_ARCHIVED, OperationKind.FACTS_LEFT),
    }
)
"""Kinds of rows that say what a person asked for or did; of what drivers answer the result is in other tables."""
_MEANING = {(one.kind, one.cause): one.meaning for one in CAUSES}


def audit_report(period: Period) -> Report:
    """Raises `PreconditionError` where no flow has run, and `UsageError` where facts of the period have left."""
    lags = {flow: LagOverTime.of(period, flow) for flow in period.flows}
    outages = {flow: outages_of(period, flow) for flow in period.flows}
    losses = _losses(period)
    sums = period.in_period("recorded_sums.sql")
    return Report(
        kind="audit",
        title="Audit of the mirrors",
        about=f"What was copied between Kafka clusters, what was not, and what proves it: {period.words}.",
        facts=head(period),
        sections=(
            _summary(period, lags, outages, losses, sums),
            _behind(lags, outages),
            _gained_and_lost([row for row in sums if row["flow"] in lags]),
            _loss_section(losses),
            _changes(period),
            _asked(period),
            _configuration(period),
            evidence(period),
        ),
    )


# Lag ----------------------------------------------------------------------------------------------


def _behind(lags: dict[str, LagOverTime], outages: dict[str, list[Span]]) -> Section:
    worst = sorted(lags, key=lambda flow: (-(lags[flow].worst or (0, -1, 0))[1], flow))[:_MOST_PLOTTED]
    plots: list[OverTime] = []
    for number, flow in enumerate(name for name in lags if name in worst):
        lag, shaded = lags[flow], tuple(_bounded(outages[flow]))
        records = Series("records", tuple(zip(lag.instants, lag.records, strict=True)))
        seconds = Series("seconds", tuple(zip(lag.instants, lag.seconds, strict=True)))
        plots += [
            OverTime(
                name=f"records-{number}",
                caption=f"{flow}: records that the source had and the target had not",
                unit="records",
                series=(records,),
                spans=shaded,
            ),
            OverTime(
                name=f"seconds-{number}",
                caption=f"{flow}: for how long the first of them had waited",
                unit="seconds",
                series=(seconds,),
                spans=shaded,
            ),
        ]
    rows = [
        (
            flow,
            span.name,
            instant(span.start_ms),
            instant(span.end_ms),
            duration((span.end_ms - span.start_ms) / 1000),
        )
        for flow, spans in outages.items()
        for span in _alike(spans)
    ]
    left = len(lags) - len(worst)
    return Section(
        title="How far the targets were behind",
        text=(
            "Had a source been lost at an instant, these are the records that would have been lost with it, as far as "
            "they were known then (RPO). What came after the last reading of the source is not among them. Where the "
            "line is interrupted, nobody knows. Shaded: nothing was recorded, the source did not answer, or partitions "
            "stood still.",
            *(
                [
                    f"Drawn are the {len(worst)} flows that were furthest behind; of {left} more see the summary."
                ]
                if left
                else []
            ),
        ),
        plots=tuple(plots),
        tables=(
            Table(
                name="outages",
                caption="Outages and stops",
                columns=("flow", "what", "from", "until", "for"),
                rows=tuple(sorted(rows, key=lambda row: (row[2], *row))),
                empty="none is recorded in the period",
            ),
        ),
    )


def _alike(spans: Sequence[Span]) -> Iterator[Span]:
    """Those of one kind from when to when as one: a cluster that does not answer has many partitions."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for span in spans:
        kind, _, place = span.name.partition(": ")
        found.setdefault((kind, span.start_ms, span.end_ms), []).append(place)
    for (kind, start_ms, end_ms), places in found.items():
        named = some_of(places, "partition", at_most=2)
        yield Span(f"{kind}: {named}" if named else kind, start_ms, end_ms)


def _bounded(spans: Sequence[Span]) -> Iterator[Span]:
    """Those that lie over each other as one, under one name: as a plot shades them."""
    end_ms, start_ms = -1, -1
    for span in sorted(spans, key=lambda one: one.start_ms):
        if span.start_ms > end_ms:
            if end_ms >= 0:
                yield Span("outage or stop", start_ms, end_ms)
            start_ms = span.start_ms
        end_ms = max(end_ms, span.end_ms)
    if end_ms >= 0:
        yield Span("outage or stop", start_ms, end_ms)


# Summary ------------------------------------------------------------------------------------------


def _summary(
    period: Period,
    lags: dict[str, LagOverTime],
    outages: dict[str, list[Span]],
    losses: Sequence[tuple[Cell, ...]],
    sums: Sequence[Row],
) -> Section:
    copied: defaultdict[str, int] = defaultdict(int)
    for row in sums:
        if row["kind"] in ("copied", "adopted") and row["flow"] in lags:
            copied[row["flow"]] += row["records"] or 0
    lost = sum(int(row[_HELD] or 0) for row in losses)
    status = period.ledger.status()
    rows: list[tuple[Cell, ...]] = []
    for flow, lag in lags.items():
        worst, share = lag.worst, lag.unknown_share
        rows.append(
            (
                flow,
                copied[flow],
                sum(int(row[_HELD] or 0) for row in losses if row[0] == flow),
                None if worst is None else worst[1],
                "" if worst is None else instant(worst[0]) + ("; at least" if worst[2] else ""),
                lag.longest,
                len(outages[flow]),
                "unknown" if share is None else f"{share:.1%}",
            )
        )
    attention = tuple((one,) for one in status.needs_attention)
    decided = [one for one in period.extras if period.has(one[0]["recorded_at_ms"])]
    kept, aside = _left(decided), _left([one for one in decided if one[1].policy == ExtrasPolicy.SALVAGE])
    return Section(
        title="Summary",
        text=(
            f"{counted(len(lags), 'flow')} copied {counted(sum(copied.values()), 'record')} in the period; "
            + (
                f"of what was recorded as lost in it {counted(lost, 'source offset')} still counted as lost at its end."
                if lost
                else "nothing that was recorded as lost in it still counted as lost at its end."
            ),
            f"By decision {counted(kept, 'offset')} stay at one cluster alone; of these {aside:,} were copied to side "
            "topics.",
            "At the end of the period "
            + (
                f"{counted(len(attention), 'thing')} needed attention."
                if attention
                else "nothing needed attention."
            ),
        ),
        tables=(
            Table(
                name="flows",
                caption="Flows",
                columns=(
                    *("flow", "records copied", "offsets lost", "most records behind"),
                    *("when", "longest wait (s)", "outages and stops", "not known for"),
                ),
                rows=tuple(rows),
                empty="none",
            ),
            Table(
                name="attention",
                caption="What needed attention at the end of the period",
                columns=("what",),
                rows=attention,
                empty="nothing",
                most=10,
                most_characters=400,
            ),
        ),
    )


def _left(decided: Sequence[tuple[Row, ExtrasDecided]]) -> int:
    """Count the offsets that stay where they lie by these decisions."""
    local = DecidedExtras.of_rows(row for row, _ in decided).local
    return sum(end - start for ranges in local.values() for start, end in ranges)


# Gained and lost ----------------------------------------------------------------------------------


def _gained_and_lost(sums: Sequence[Row]) -> Section:
    rows = tuple(
        (
            row["flow"],
            _MEANING.get((row["kind"], row["cause"])) or f"{row['kind']}: {row['cause'] or 'no cause'}",
            row["source_offsets"],
            row["records"] if row["kind"] != "gap" else "",
            row["bytes"] if row["kind"] == "copied" else "",
        )
        for row in sums
    )
    return Section(
        title="What was gained and lost, by cause",
        text=(
            "Every offset of a source is in one of these rows: none is left out without a cause. What was recorded in "
            "the period counts, also where a later row has made it void; an offset that was copied again counts again.",
        ),
        tables=(
            Table(
                name="causes",
                caption="Source offsets by what became of them",
                columns=(
                    *("flow", "what became of them", "source offsets"),
                    *("records at the target", "bytes copied"),
                ),
                rows=rows,
                empty="nothing was recorded in the period",
                most=40,
            ),
        ),
    )


_HELD = 5


def _losses(period: Period) -> list[tuple[Cell, ...]]:
    found: list[tuple[Cell, ...]] = []
    for flow in period.flows:
        for row in period.ledger.query("flow_losses", flow=flow).table.to_pylist():
            if period.has(row["recorded_at_ms"]):
                found.append(
                    (
                        flow,
                        partition_words(row["source_topic"], row["source_partition"]),
                        f"{row['kind']}: {row['cause']}",
                        row["source_start"],
                        row["source_end"],
                        row["held_offsets"],
                        row["records"],
                        row["status"],
                        at(row["recorded_at_ms"]),
                    )
                )
    return sorted(found, key=lambda row: (-int(row[_HELD] or 0), *map(str, row)))


def _loss_section(losses: Sequence[tuple[Cell, ...]]) -> Section:
    return Section(
        title="Losses and repeats, by partition",
        text=(
            "A row is a stretch of a source partition that was lost, or made void and copied again, or records at the "
            "target that could not be paired with the source's (they may be read twice). 'holds': nothing later has "
            "changed it; 'superseded' and 'cut': a later row has made all or a part of it void.",
        ),
        tables=(
            Table(
                name="losses",
                caption="Stretches, those that lost most first",
                columns=(
                    *("flow", "source partition", "what", "first offset", "end"),
                    *("offsets that count as lost", "records not paired", "now", "recorded"),
                ),
                rows=tuple(losses),
                empty="nothing was lost, made void or left unpaired",
            ),
        ),
    )


# Who and why --------------------------------------------------------------------------------------


def _asked(period: Period) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for row in by_time(period.operations):
        if row["kind"] in _BY_OPERATORS and period.has(row["recorded_at_ms"]):
            rows.append(
                (
                    at(row["recorded_at_ms"]),
                    row["operator"],
                    row["kind"].replace("_", " "),
                    row["flow"] or "",
                    _about(row),
                    why_of(row),
                )
            )
    joined = _joined(rows)
    return Section(
        title="Who asked for what, and why",
        text=(
            "What people asked the mirrors to do or changed by them, with the reason and ticket that they gave. Rows "
            "of one command that differ in the topic alone are one row.",
        ),
        tables=(
            Table(
                name="operators",
                caption="Requests and changes",
                columns=("at", "who", "what", "flow", "about", "why", "rows"),
                rows=tuple(joined),
                empty="nobody asked for anything",
                most=30,
            ),
        ),
    )


def _about(row: Row) -> str:
    """What of its content says what it is about."""
    content = json.loads(row["content"] or "{}")
    named = partition_words(content.get("topic"), content.get("partition")) if content.get("topic") else ""
    more = [
        str(content[key]) for key in ("group", "plan_id", "offset", "verdict", "policy") if key in content
    ]
    return ", ".join([*([named] if named else []), *more])


def _joined(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    """Rows next to each other of one time, person, kind and reason are one."""
    last: list[tuple[Cell, ...]] = []
    for row in rows:
        if last and _same(last[-1], row):
            last.append(row)
            continue
        if last:
            yield _as_one(last)
        last = [row]
    if last:
        yield _as_one(last)


def _same(one: tuple[Cell, ...], other: tuple[Cell, ...]) -> bool:
    return (*one[:4], one[5]) == (*other[:4], other[5])


def _as_one(rows: Sequence[tuple[Cell, ...]]) -> tuple[Cell, ...]:
    first = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return (*first[:4], f"{first[4]}{more}", first[5], len(rows))


def _changes(period: Period) -> Section:
    plans = {one.plan_id: one.plan for one in map(PlanRecorded.of_row, period.of_kinds(OperationKind.PLAN))}
    applies = Applies.of_rows(period.of_kinds(*APPLY_KINDS))
    rows: list[tuple[Cell, ...]] = []
    for one in applies.by_id.values():
        if period.has(one.begun_at_ms):
            plan = plans.get(one.plan_id, {})
            rows.append(
                (
                    at(one.begun_at_ms),
                    f"{plan.get('kind', 'unknown')} from {plan.get('from_cluster', 'unknown')} to "
                    f"{plan.get('to_cluster', 'unknown')}",
                    str(one.state),
                    one.operator,
                    downtime_span(one.figures),
                    one.figures.get("records_at_least"),
                    one.figures.get("records_at_most"),
                    one.operation_id,
                )
            )
    drills = [
        (row, Drilled.of_row(row))
        for row in period.of_kinds(OperationKind.DRILLED)
        if period.has(row["recorded_at_ms"])
    ]
    return Section(
        title="Changes of direction, and drills",
        text=(
            "A change of direction moves applications from one cluster to another. `mirror-ledger report failover "
            "OPERATION` has all of one: every step, what was lost, what proves it.",
        ),
        tables=(
            Table(
                name="changes",
                caption="Changes of direction",
                columns=(
                    *("begun", "what", "state", "who"),
                    *("downtime", "lost, at least", "lost, at most", "operation"),
                ),
                rows=tuple(rows),
                empty="none was begun in the period",
            ),
            Table(
                name="drills",
                caption="Drills",
                columns=("at", "from", "to", "verdict", "groups", "records that a failover would have lost"),
                rows=tuple(
                    (
                        at(row["recorded_at_ms"]),
                        done.from_cluster,
                        done.to_cluster,
                        done.verdict,
                        len(done.groups),
                        done.records_lost,
                    )
                    for row, done in drills
                ),
                empty="none was made in the period",
                most=10,
            ),
        ),
    )


# Configuration ------------------------------------------------------------------------------------


def _configuration(period: Period) -> Section:
    rows = tuple(
        (
            at(row["recorded_at_ms"]),
            row["flow"],
            row["writer_epoch"],
            row["host"].split(":")[0],
            row["config_hash"],
        )
        for row in by_time(period.claims)
        if period.has(row["recorded_at_ms"])
    )
    last = {row["flow"]: row for row in period.claims}
    changed = tuple(
        (at(row["recorded_at_ms"]), row["flow"], _changed(change), change.new_hash)
        for row in by_time(period.of_kinds(OperationKind.CONFIGURATION_CHANGED))
        if period.has(row["recorded_at_ms"])
        for change in [ConfigurationChanged.of_row(row)]
    )
    return Section(
        title="Drivers and their configuration",
        text=(
            "A driver is the process that copies a flow. It claims the flow with a hash (SHA-256) of its "
            "configuration; of a changed one the ledger has all keys.",
        ),
        facts={f"{flow} at the end": row["config_hash"] for flow, row in last.items()}
        if len(last) <= 10
        else {},
        tables=(
            Table(
                name="claims",
                caption="Claims of drivers",
                columns=("at", "flow", "epoch", "host", "hash of the configuration"),
                rows=rows,
                empty="no driver was started in the period",
                most=15,
            ),
            Table(
                name="configurations",
                caption="Changes of configuration",
                columns=("at", "flow", "changed keys", "new hash"),
                rows=changed,
                empty="none in the period",
                most=15,
            ),
        ),
    )


def _changed(change: ConfigurationChanged) -> str:
    if change.old_hash is None:
        return "the first one that is recorded"
    return "unknown" if change.changed is None else ", ".join(change.changed) or "nothing"
