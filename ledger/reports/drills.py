"""`report drill`: what drills have shown over a period: verdicts, groups, and what a failover would have cost."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from ledger.changeover.drilling import PlaceResult
from ledger.errors import PreconditionError
from ledger.facts.drills import Drilled, DrillVerdict
from ledger.facts.operations import OperationKind
from ledger.facts.tables import Row
from ledger.reports.documents import Cell, OverTime, Report, Section, Series, Table
from ledger.reports.periods import Period, at, by_time, evidence, head, why_of
from ledger.words import counted, duration, instant, some_of

Drills = Sequence[tuple[Row, Drilled]]


def drill_report(period: Period) -> Report:
    """Raises `PreconditionError` where no drill was made in the period."""
    found = [
        (row, Drilled.of_row(row))
        for row in by_time(period.of_kinds(OperationKind.DRILLED))
        if period.has(row["recorded_at_ms"])
    ]
    if not found:
        raise PreconditionError(
            f"no drill was made in {period.words}; there is nothing to report. Make one: "
            "mirror-ledger drill --from CLUSTER --to CLUSTER"
        )
    return Report(
        kind="drill",
        title="Drills",
        about=f"Whether applications could continue at the other cluster, as it was tried: {period.words}.",
        facts=head(period),
        sections=(_summary(found), _over_time(found), _last(*found[-1]), evidence(period)),
    )


def _summary(found: Drills) -> Section:
    verdicts = Counter(done.verdict for _, done in found)
    said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in DrillVerdict if verdicts[verdict])
    return Section(
        title="Summary",
        text=(
            f"{counted(len(found), 'drill')}: {said}. A drill commits the places that a failover would set, for groups "
            "of its own, reads behind them at the target, compares with the first unread record at the source, and "
            "removes its groups. No application is touched.",
            "'passed': every place was found right, nothing blocked the failover, and it would have lost nothing that "
            "is known. 'incomplete': it was blocked, would have lost something, or a place could not be compared. "
            "'failed': a place is not there, holds another record, or could not be tried.",
        ),
        tables=(
            Table(
                name="drills",
                caption="Drills",
                columns=(
                    *("at", "from", "to", "verdict", "groups", "places"),
                    *("lost, at least", "lost, at most", "an apply would take (s)", "who", "why"),
                ),
                rows=tuple(_row(row, done) for row, done in found),
                empty="none",
            ),
        ),
    )


def _row(row: Row, done: Drilled) -> tuple[Cell, ...]:
    return (
        at(row["recorded_at_ms"]),
        done.from_cluster,
        done.to_cluster,
        done.verdict,
        len(done.groups),
        sum(sum(counts.values()) for counts in done.groups.values()),
        done.records_at_least,
        done.records_at_most,
        round(done.apply_seconds, 1),
        row["operator"],
        why_of(row),
    )


def _over_time(found: Drills) -> Section:
    ways: dict[str, list[tuple[Row, Drilled]]] = defaultdict(list)
    for row, done in found:
        ways[f"{done.from_cluster} to {done.to_cluster}"].append((row, done))
    if all(len(of_way) < 2 for of_way in ways.values()):
        return Section(
            title="Over time", text=("One drill of each way was made: there is nothing to compare yet.",)
        )
    lost, taken = (
        "Records that a failover would have lost, at most",
        "What an apply would have taken, by forecast",
    )
    values: dict[str, tuple[str, str, Callable[[Drilled], float | None]]] = {
        "losses": ("records", lost, lambda one: one.records_at_most),
        "seconds": ("seconds", taken, lambda one: one.apply_seconds),
    }
    return Section(
        title="Over time",
        plots=tuple(
            OverTime(
                name=name,
                caption=caption,
                unit=unit,
                series=tuple(
                    Series(way, tuple((row["recorded_at_ms"], value(done)) for row, done in of_way))
                    for way, of_way in sorted(ways.items())
                ),
            )
            for name, (unit, caption, value) in values.items()
        ),
    )


def _last(row: Row, done: Drilled) -> Section:
    results: Counter[str] = Counter()
    for counts in done.groups.values():
        results.update(counts)
    stuck = [
        (why, len(names), some_of(sorted(names), "group", at_most=8))
        for why, names in sorted(done.stuck.items())
    ]
    known = {str(one): one.description for one in PlaceResult}
    return Section(
        title=f"The last drill: {instant(row['recorded_at_ms'])}",
        facts={
            "way": f"{done.from_cluster} to {done.to_cluster}",
            "verdict": done.verdict,
            "operation": row["operation_id"],
            "groups were placed as of the cut": done.cut,
            "committing took": "unknown" if done.commit_seconds is None else duration(done.commit_seconds),
            "reading took": "unknown" if done.read_seconds is None else duration(done.read_seconds),
        },
        tables=(
            Table(
                name="places",
                caption="Places by what they came to",
                columns=("result", "what it means", "places"),
                rows=tuple(
                    (result, known.get(result, ""), results[result])
                    for result in sorted(results, key=lambda one: [*known, one].index(one))
                ),
                empty="no place was tried",
            ),
            Table(
                name="groups",
                caption="Groups",
                columns=("group", "places", "results"),
                rows=tuple(
                    (
                        group,
                        sum(counts.values()),
                        ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())),
                    )
                    for group, counts in sorted(done.groups.items())
                ),
                empty="none was tried",
            ),
            Table(
                name="stuck",
                caption="Groups that could not move",
                columns=("why", "groups", "which"),
                rows=tuple(stuck),
                empty="none",
            ),
            Table(
                name="problems",
                caption="What stood against the failover",
                columns=("what",),
                rows=tuple((words,) for words in done.problems),
                empty="nothing",
            ),
        ),
    )
