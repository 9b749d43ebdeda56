"""Changes of direction: plans as checklists with their receipts, and the clock of the downtime."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.answers.flow_status import open_apply
from ledger.answers.ledger import Ledger
from ledger.changeover.approving import Approvals, approvals_of
from ledger.changeover.losses import Took, downtime_since, downtime_span
from ledger.changeover.plans import (
    Applies,
    Apply,
    ApplyState,
    Plan,
    StepName,
    recorded_plan,
)
from ledger.changeover.role import OpenApply
from ledger.changeover.text import (
    BEGUN,
    DONE,
    FAILED,
    UNPROVEN,
    CheckedStep,
    ShownPlan,
    causes_of,
    checklist,
    next_words,
    plan_facts,
    plan_title,
)
from ledger.errors import PreconditionError
from ledger.facts.changeovers import PlanRecorded, RecordedBlocker
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS, Row
from ledger.serving.pages import key_of
from ledger.words import duration, instant, shown

MOST_PLANS = 50


@dataclass(frozen=True, slots=True)
class Change:
    """A plan as it was recorded last, and each time that it was carried out. `plan` None: `why` it cannot be shown."""

    plan_id: str
    recorded_at_ms: int
    operator: str
    plan: Plan | None
    recorded: PlanRecorded
    applies: tuple[Apply, ...]
    approvals: Approvals
    why: str | None = None
    begun: OpenApply | None = None  # the carrying out that has not ended


def read_changes(ledger: Ledger) -> tuple[Change, ...]:
    """Plans of the ledger, those that were recorded last first, so many at most."""
    kinds = (OperationKind.PLAN, OperationKind.PLAN_APPROVED)
    operations = ledger.snapshot.rows(OPERATIONS.name, [("kind", "in", kinds)])
    rows = [row for row in operations if row["kind"] == OperationKind.PLAN]
    applies = Applies.read(ledger.snapshot.rows)
    last: dict[str, Row] = {}
    row: Row
    for row in rows:
        plan_id = PlanRecorded.of_row(row).plan_id
        last.pop(plan_id, None)
        last[plan_id] = row
    found = []
    for plan_id, row in list(reversed(last.items()))[:MOST_PLANS]:
        carried_out = tuple(applies.of_plan(plan_id))
        recorded, plan, why, begun = PlanRecorded.of_row(row), None, None, None
        try:
            plan, recorded = recorded_plan(rows, plan_id, is_begun=bool(carried_out))
            if applies.open() in carried_out:
                begun = open_apply(ledger.snapshot, at_ms=ledger.at_ms, is_now=True, flows=())
        except PreconditionError as error:
            why = "; ".join(error.lines)
        approvals = approvals_of(ledger.config.approvals, row, operations)
        found.append(
            Change(
                *(plan_id, row["recorded_at_ms"], row["operator"], plan, recorded),
                *(carried_out, approvals, why, begun),
            )
        )
    return tuple(found)


# Pages --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A plan in the list; `tone`: ok, warn, bad, run or off."""

    title: str
    href: str
    state: str
    tone: str
    planned: str
    begun: str


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step of a checklist. `mark`: in a word how far it is."""

    name: str
    what: str
    hook: str
    mark: str
    tone: str
    at: str
    took: str
    words: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """All of a plan. `clock`: for how long applications had, or have, nowhere to write; None: they were not stopped."""

    title: str
    state: str
    facts: tuple[tuple[str, str], ...]
    blockers: tuple[str, ...]
    advice: tuple[str, ...]
    next: tuple[str, ...]
    commands: tuple[str, ...]
    steps: tuple[StepLine, ...]
    clock: str | None
    is_running: bool
    who: str


_TONES = {ApplyState.OPEN: "bad", ApplyState.UNDOING: "warn", ApplyState.DONE: "ok", ApplyState.UNDONE: "off"}


def change_lines(changes: Sequence[Change], *, now_ms: int) -> tuple[ChangeLine, ...]:
    """The list, those that have begun and not ended first."""
    lines = [_line(one, now_ms) for one in changes]
    return tuple(sorted(lines, key=lambda one: one.tone not in ("bad", "warn", "run")))


def _line(change: Change, now_ms: int) -> ChangeLine:
    last, begun = change.applies[-1] if change.applies else None, change.begun
    blocked = bool(change.recorded.blockers)
    state = str(last.state) if last is not None else "blocked" if blocked else "not applied"
    tone = "off" if last is None else _TONES[last.state]
    if begun is not None and begun.state == ApplyState.OPEN:
        state, tone = begun.state_words(now_ms), tone if begun.is_left else "run"
    return ChangeLine(
        title=_title(change),
        href=f"/changes/{key_of(change.plan_id)}",
        state=state,
        tone=tone,
        planned=instant(change.recorded_at_ms),
        begun="" if last is None else instant(last.begun_at_ms),
    )


def _title(change: Change) -> str:
    if change.plan is None:
        return f"plan {change.plan_id}"
    return f"{change.plan.kind} from {change.plan.from_cluster} to {change.plan.to_cluster}"


def change_page(changes: Sequence[Change], key: str, *, now_ms: int) -> ChangePage | None:
    """The plan of an address; None: there is none. `now_ms`: where the clock stands that still runs."""
    change = next((one for one in changes if key_of(one.plan_id) == key), None)
    if change is None:
        return None
    if change.plan is None:
        why = () if change.why is None else (shown(change.why),)
        return ChangePage(_title(change), "cannot be shown", (), why, (), (), (), (), None, False, "")
    plan, recorded = change.plan, change.recorded
    of = ShownPlan(
        *(plan, recorded.forecast, recorded.blockers, change.applies),
        lacking=change.approvals.lacking,
        is_at_work=change.begun is not None and not change.begun.is_left,
    )
    words, last = list(next_words(of)), of.last
    clock, is_running = (None, False) if last is None else _clock(plan, last, now_ms)
    return ChangePage(
        title=shown(plan_title(plan)),
        state=_line(change, now_ms).state,
        facts=tuple(_facts(of)),
        blockers=tuple(map(shown, causes_of(recorded.blockers))),
        advice=tuple(_advice(recorded.blockers)),
        next=tuple(shown(one) for one in words if not _is_command(one)),
        commands=tuple(shown(one.removeprefix("or take it back: ")) for one in words if _is_command(one)),
        steps=tuple(_step(one, last) for one in checklist(plan, last)),
        clock=clock,
        is_running=is_running,
        who=_who(change, last),
    )


def _facts(of: ShownPlan) -> Iterator[tuple[str, str]]:
    try:
        found = plan_facts(of)
    except (KeyError, TypeError, ValueError):
        found = {"forecast": "made by another version of this program, which recorded other figures"}
    return ((label, shown(text)) for label, text in found.items())


def _is_command(words: str) -> bool:
    return words.removeprefix("or take it back: ").startswith("mirror-ledger ")


def _advice(blockers: Sequence[RecordedBlocker]) -> Iterator[str]:
    return iter(dict.fromkeys(shown(f"{one.code}: {one.advice}") for one in blockers))


def _who(change: Change, last: Apply | None) -> str:
    planned = f"planned {instant(change.recorded_at_ms)} by {change.operator}"
    if change.approvals.asked > 1:
        planned += f"; of {change.approvals.asked} people that are asked for {change.approvals.words}"
    if last is None:
        return shown(planned)
    why = f" ({last.reason})" if last.reason else ""
    return shown(f"{planned}; begun {instant(last.begun_at_ms)} by {last.operator}{why}")


_MARKS = {
    DONE: ("done", "ok"),
    UNPROVEN: ("done, unproven", "warn"),
    FAILED: ("failed", "bad"),
    BEGUN: ("under way", "warn"),
}


def _step(one: CheckedStep, last: Apply | None) -> StepLine:
    mark, tone = _MARKS.get(one.state, ("to do", "off"))
    took_ms = None if last is None else last.took_ms.get(one.step)
    return StepLine(
        name=str(one.step).replace("_", " "),
        what=one.step.description,
        hook=shown(one.hook),
        mark=mark,
        tone=tone,
        at=one.at,
        took="" if took_ms is None else duration(took_ms / 1000),
        words=shown(one.words),
    )


def _clock(plan: Plan, last: Apply, now_ms: int) -> tuple[str | None, bool]:
    """In words, and whether it runs: from when producers were to be stopped until applications were started."""
    began_ms, since = downtime_since(plan.kind, last)
    is_begun = not plan.kind.is_planned or StepName.STOP_PRODUCERS in last.begun
    if not plan.moves_applications or not is_begun or last.state is ApplyState.UNDONE:
        return None, False
    what = "the decision" if since == "decision" else "producers were to be stopped"
    if StepName.START_APPLICATIONS in last.done:
        span = downtime_span(Took.of(plan.kind, last).figures)
        return f"Applications had nowhere to write for {span}.", False
    elapsed = duration(max(0, now_ms - began_ms) // 1000)
    return f"Applications have had nowhere to write for {elapsed}, since {what} at {instant(began_ms)}.", True
