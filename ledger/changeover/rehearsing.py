"""What a failover would lose, repeat and leave behind: if it were now, and if it had been at each instant of the past.

Both are the plan that `plan failover` makes. Nothing is recorded: a rehearsal leaves the ledger as it is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ledger.changeover.past import PastContext
from ledger.changeover.planning import Planned
from ledger.changeover.plans import BlockerCode, ChangeoverKind, Choices
from ledger.changeover.seeing import make_plan
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import PreconditionError, UsageError
from ledger.facts.drills import Drilled, LastDrill, last_drill
from ledger.facts.roles import recorder_of
from ledger.facts.tables import OPERATIONS
from ledger.facts.ways import Direction
from ledger.store.answers import run_query
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot
from ledger.words import counted, instant, some_of

# Figures ------------------------------------------------------------------------------------------
# What a plan says that is asked of a rehearsal.


@dataclass(frozen=True, slots=True)
class AskedRehearsal:
    """A failover that nobody carries out."""

    way: Direction
    choices: Choices


class RehearsalStatus(StrEnum):
    """Of one instant."""

    REHEARSED = "rehearsed"
    BEFORE_LEDGER = "before_ledger"  # the ledger had not begun
    NO_PLAN = "no_plan"  # the ledger did not know enough by then to plan from


COLUMNS = (
    "at_ms bigint, status string, records_lost bigint, records_at_least bigint, records_at_most bigint, "
    "seconds_lost double, repeated bigint, most_repeated bigint, most_repeated_by string, groups bigint, "
    "groups_stuck bigint, stuck string, apply_seconds double, steps_measured bigint, source_age_seconds double, "
    "commits_age_seconds double, target_age_seconds double, blockers string, words string"
)
"""Of a row of the past, as headers of queries declare them. What is null is unknown."""


def figures(made: Planned, *, at_ms: int, target_read_at_ms: int | None) -> dict[str, Any]:
    """Of a plan of that instant; `target_read_at_ms`: of when what is known of the target is. None: unknown."""
    forecast, seen = made.forecast, made.seen
    stuck = stuck_groups(made)
    most = max(repeats_by_group(made).items(), key=_known_last, default=(None, 0))
    read = [row["read_at_ms"] for row in made.losses if row["read_at_ms"] is not None]
    return {
        "at_ms": at_ms,
        "status": str(RehearsalStatus.REHEARSED),
        "records_lost": forecast["records_lost"],
        "records_at_least": forecast["records_at_least"],
        "records_at_most": forecast["records_at_most"],
        "seconds_lost": None if forecast["seconds_lost"] is None else float(forecast["seconds_lost"]),
        "repeated": forecast["repeated"],
        "most_repeated": most[1],
        "most_repeated_by": most[0],
        "groups": len(_moving(made)),
        "groups_stuck": len({group for groups in stuck.values() for group in groups}),
        "stuck": stuck_words(stuck) or None,
        "apply_seconds": forecast["downtime"]["seconds"],
        "steps_measured": len(forecast["downtime"]["measured"]),
        "source_age_seconds": _age_s(at_ms, max(read, default=None)),
        "commits_age_seconds": _age_s(at_ms, seen.commits.at_ms),
        "target_age_seconds": _age_s(at_ms, target_read_at_ms),
        "blockers": ", ".join(made.plan.blockers) or None,
        "words": None,
    }


def _age_s(at_ms: int, read_at_ms: int | None) -> float | None:
    return None if read_at_ms is None else max(at_ms - read_at_ms, 0) / 1000


def _known_last(found: tuple[str, int | None]) -> tuple[bool, int]:
    """What is unknown of a group may be more than all that is known of others."""
    return found[1] is None, found[1] or 0


def _moving(made: Planned) -> set[str]:
    return {str(row["group_id"]) for row in made.moving if row["group_id"] is not None}


def repeats_by_group(made: Planned) -> dict[str, int | None]:
    """How much each group would read again, as far as it has places; None: nobody knows."""
    found: dict[str, int | None] = {}
    for row in made.places:
        if row["group_id"] is None or row["target_offset"] is None:
            continue
        group, number = str(row["group_id"]), row.get("repeated")
        before = found.get(group, 0)
        found[group] = None if before is None or number is None else before + number
    return found


def stuck_groups(made: Planned) -> dict[str, list[str]]:
    """By why they cannot move, the groups of which the plan says so."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in made.blockers:
        if one.group:
            found[one.cause].add(one.group)
    moving, choices = _moving(made), made.plan.choices
    if at_work := moving & made.seen.active:
        found[str(BlockerCode.GROUP_ACTIVE_AT_TARGET)] |= at_work
    for group, why in made.seen.unread_groups.items():
        if group in moving and why not in choices.accepted:
            found[why].add(group)
    return {why: sorted(groups) for why, groups in sorted(found.items())}


def stuck_words(stuck: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f"{why}: {some_of([repr(group) for group in groups], 'group')}" for why, groups in stuck.items()
    )


# Now ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RehearsedNow:
    """`source_answers`: whether it does now; `silent_seconds`: since it was read last, None: nobody knows.

    `failing_since_ms`: when a recorder or driver first had no answer of it that was none since, None: none says so.
    `drilled`: the last drill of this way; None: there was none.
    """

    made: Planned
    at_ms: int
    figures: Mapping[str, Any]
    failing_since_ms: int | None
    drilled: LastDrill | None

    @property
    def source_answers(self) -> bool:
        return self.made.seen.source.live_id is not None

    @property
    def silent_seconds(self) -> float | None:
        found: float | None = 0.0 if self.source_answers else self.figures["source_age_seconds"]
        return found

    @property
    def content(self) -> dict[str, Any]:
        """For programs: the figures, and what stands behind them."""
        return {
            **self.figures,
            "from_cluster": self.made.plan.from_cluster,
            "to_cluster": self.made.plan.to_cluster,
            "source_answers": self.source_answers,
            "source_trouble": self.made.seen.source.trouble,
            "silent_seconds": self.silent_seconds,
            "failing_since_ms": self.failing_since_ms,
            "stuck_groups": stuck_groups(self.made),
            "repeats_by_group": repeats_by_group(self.made),
            "cut": self.made.seen.cut,
            "last_drill": None if self.drilled is None else asdict(self.drilled),
            "forecast": self.made.forecast,
        }


def rehearse_now(context: Context, asked: AskedRehearsal) -> RehearsedNow:
    """A failover as of now: both clusters are asked, nothing is recorded. Raises as `make_plan`."""
    made = _plan(context, asked)
    at_ms = context.clock.now_ms()
    there = at_ms if made.seen.target.live_id is not None else None
    found = figures(made, at_ms=at_ms, target_read_at_ms=there)
    at = context.snapshot()
    failing_since_ms = _failing_since_ms(at, asked.way.source)
    drilled = last_drill(at.rows(OPERATIONS.name, [("kind", "=", Drilled.kind)]), asked.way)
    return RehearsedNow(made, at_ms, found, failing_since_ms, drilled)


def _failing_since_ms(at: DeltaSnapshot, cluster: str) -> int | None:
    """Of outages of the whole cluster that are not over, as far as anybody has recorded, the one seen first."""
    found = [
        row["since_ms"]
        for row in run_query(at, "cluster_reach", {}).to_pylist()
        if (row["cluster"], row["topic"], row["what"], row["until_ms"])
        == (cluster, None, "unreachable", None)
    ]
    return min((since_ms for since_ms in found if since_ms is not None), default=None)


def _plan(context: Context, asked: AskedRehearsal) -> Planned:
    return make_plan(context, ChangeoverKind.FAILOVER, asked.way, asked.choices, {})


# The past -----------------------------------------------------------------------------------------


MOST_INSTANTS = 20_000
Task = Callable[[Sequence[int]], list[dict[str, Any]]]
"""Rows of some instants."""
Runner = Callable[[Task, Sequence[int]], Sequence[Mapping[str, Any]]]
"""Carries a task out for all instants, in one process or in many, and returns the rows in their order."""


def instants(since_ms: int, until_ms: int, every_ms: int) -> list[int]:
    """From the first to the last one, both of them included where the steps come to it.

    Raises `UsageError` where there is none, or there are too many for one answer.
    """
    if since_ms > until_ms:
        raise UsageError(
            f"--since {instant(since_ms)} lies behind --until {instant(until_ms)}; nothing was read"
        )
    count = (until_ms - since_ms) // every_ms + 1
    if count > MOST_INSTANTS:
        raise UsageError(
            f"that are {counted(count, 'instant')}, and {MOST_INSTANTS:,} at most are answered at once; nothing was "
            "read. Take a longer --every, or a part"
        )
    return [since_ms + number * every_ms for number in range(count)]


def in_this_process(task: Task, of: Sequence[int]) -> Sequence[Mapping[str, Any]]:
    """Implements `Runner`."""
    return task(of)


@dataclass(frozen=True, slots=True)
class PastRehearsal:
    """The task. `began_ms`: when the ledger begins, `now_ms`: up to then the past goes."""

    config: MirrorConfig
    asked: AskedRehearsal
    began_ms: int
    now_ms: int

    def __call__(self, of: Sequence[int]) -> list[dict[str, Any]]:
        return list(self._rows(of))

    def _rows(self, of: Sequence[int]) -> Iterator[dict[str, Any]]:
        ledger = DeltaLedger(self.config.ledger.path)
        for at_ms in of:
            if at_ms < self.began_ms:
                words = f"the ledger begins at {instant(self.began_ms)}"
                yield _without_figures(at_ms, RehearsalStatus.BEFORE_LEDGER, words)
            else:
                yield rehearsed_at(self.config, self.asked, ledger.at_time(at_ms, now_ms=self.now_ms), at_ms)


def rehearse_past(
    config: MirrorConfig,
    asked: AskedRehearsal,
    of: Sequence[int],
    *,
    now_ms: int,
    run: Runner = in_this_process,
) -> list[dict[str, Any]]:
    """A row of `COLUMNS` per instant, in their order: the plan that would have been made then.

    Raises `UsageError` for clusters that the configuration does not have, and for an instant that has not come yet.
    """
    for alias in (asked.way.source, asked.way.target):
        config.cluster(alias)
    if of and of[-1] > now_ms:
        raise UsageError(f"{instant(of[-1])} has not come yet: it is {instant(now_ms)}; nothing was read")
    began_ms = DeltaLedger(config.ledger.path).now().began_at_ms
    return [dict(row) for row in run(PastRehearsal(config, asked, began_ms, now_ms), of)]


def rehearsed_at(
    config: MirrorConfig, asked: AskedRehearsal, at: DeltaSnapshot, at_ms: int
) -> dict[str, Any]:
    """The row of one instant, from the ledger at its cut."""
    with PastContext(config, at, at_ms, lost=asked.way.source) as context:
        try:
            made = _plan(context, asked)
        except (PreconditionError, UsageError) as error:
            return _without_figures(at_ms, RehearsalStatus.NO_PLAN, str(error))
    read_at_ms = at.last_recorded_at_ms(recorder_of(asked.way.target)) or None
    return figures(made, at_ms=at_ms, target_read_at_ms=read_at_ms)


def _without_figures(at_ms: int, status: RehearsalStatus, words: str) -> dict[str, Any]:
    unknown = dict.fromkeys(column.split()[0] for column in COLUMNS.split(", "))
    return {**unknown, "at_ms": at_ms, "status": str(status), "words": words}
