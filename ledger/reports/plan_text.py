"""A plan as text: for people, for programs, and for a ticket."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from ledger.domain.changeover.applies import Apply
from ledger.domain.changeover.plans import Plan
from ledger.domain.changeover.steps import StepName
from ledger.domain.operations.promotion.changeovers import RecordedBlocker
from ledger.domain.words.count_words import counted
from ledger.domain.words.time_words import instant
from ledger.operations.changeover.losses import loss_words
from ledger.reports.plain_text import json_text
from ledger.reports.rendering import RENDERERS

Blockers = Sequence[RecordedBlocker]
Forecast = Mapping[str, Any]


def plan_table(plan: Plan, blockers: Blockers, forecast: Forecast, applies: Sequence[Apply]) -> str:
    """Lines for a terminal."""
    lines = [_title(plan)]
    for label, (first, *more) in _facts(plan, forecast, applies).items():
        lines += [f"  {label:9} {first}", *(f"  {'':9} {line}" for line in more)]
    lines.append("  steps")
    for number, one in enumerate(_steps(plan, applies), start=1):
        lines.append(f"    {number:2}  {one.line}")
    lines += [f"  lost      {where}: {what}" for where, what in _lost(plan, _measured(applies))]
    for blocker in blockers:
        lines += [f"  blocked   {blocker.code}: {blocker.words}", f"            {blocker.advice}"]
    return "\n".join([*lines, ""])


def plan_markdown(plan: Plan, blockers: Blockers, forecast: Forecast, applies: Sequence[Apply]) -> str:
    """The same for a ticket."""
    facts = [(label, "\n".join(lines)) for label, lines in _facts(plan, forecast, applies).items()]
    steps = [one.cells for one in _steps(plan, applies)]
    parts = [
        f"# {_title(plan)[0].upper()}{_title(plan)[1:]}",
        _markdown_table(("", ""), facts),
        "## Steps",
        _markdown_table(("step", "what is done", "hook", "state", "at", "receipt"), steps),
    ]
    if lost := list(_lost(plan, _measured(applies))):
        parts += ["## Lost", _markdown_table(("where", "what"), lost)]
    if blockers:
        rows = [(one.code, one.words, one.advice) for one in blockers]
        parts += ["## Blocked by", _markdown_table(("code", "what was seen", "what to do"), rows)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """On one line, and in one cell whatever people or programs have written."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def plan_json(plan: Plan, blockers: Blockers, forecast: Forecast, applies: Sequence[Apply]) -> str:
    """For programs: the plan, and of each time it was carried out the receipts."""
    return json_text(
        [
            {
                "plan_id": plan.plan_id,
                "plan": plan.content(),
                "blockers": [asdict(one) for one in blockers],
                "forecast": dict(forecast),
                "applies": [apply_content(one) for one in applies],
            }
        ]
    )


def apply_content(one: Apply) -> dict[str, Any]:
    """One carrying out, with its receipts."""
    return {
        "operation_id": one.operation_id,
        "plan_id": one.plan_id,
        "state": str(one.state),
        "operator": one.operator,
        "reason": one.reason,
        "ticket": one.ticket,
        "begun_at_ms": one.begun_at_ms,
        "begun": {str(step): at_ms for step, at_ms in one.begun.items()},
        "steps": [
            {
                "step": str(step),
                "begun_at_ms": one.begun.get(step),
                "done_at_ms": one.done_at_ms.get(step),
                "words": receipt.words,
                "read_back": dict(receipt.read_back),
                "hook": None if receipt.hook is None else dict(receipt.hook),
            }
            for step, receipt in one.done.items()
        ],
        "failed": {str(step): failure.words for step, failure in one.failed.items()},
        "figures": dict(one.figures),
    }


def forecast_words(forecast: Forecast) -> str:
    """What would be lost and read again, as of the plan's cut."""
    words = loss_words(forecast)
    repeated = forecast["repeated"]
    again = "an unknown number of records" if repeated is None else counted(repeated, "record")
    words += f"; {counted(forecast['groups'], 'group')} move, {again} read again"
    if forecast["groups_without_place"]:
        words += f"; {counted(forecast['groups_without_place'], 'group')} without a place"
    if earlier := forecast.get("groups_at_earlier_commits"):  # plans of earlier versions do not say
        words += f"; {counted(earlier, 'group')} at an earlier commit, up to which the outputs were copied"
    return words


def _measured(applies: Sequence[Apply]) -> Forecast:
    """What the last carrying out came to; empty while there is none."""
    return applies[-1].figures if applies else {}


def _lost(plan: Plan, figures: Forecast) -> Iterator[tuple[str, str]]:
    """Where, and which offsets of the former source are known to be there and not at the target."""
    for row in figures.get("losses", ()):
        where = f"{row['source_topic']} partition {row['partition']} of {plan.from_cluster}"
        if row["records"] is None:
            yield where, "unknown"
        else:
            offsets = f"{row['copied_to']} to {row['known_end'] - 1}"
            yield where, f"offsets {offsets}, at most {counted(row['records'], 'record')}"


def _title(plan: Plan) -> str:
    return f"plan {plan.plan_id}: {plan.kind} from {plan.from_cluster} to {plan.to_cluster}"


def _facts(plan: Plan, forecast: Forecast, applies: Sequence[Apply]) -> dict[str, list[str]]:
    """What is said in front of the steps, by label; a label has a line at least."""
    unproven = f", unproven: {plan.choices.unproven}" if plan.choices.unproven else ""
    found = {
        "topics": [_topics(plan)],
        "forecast": [
            forecast_words(forecast),
            *(f"{where}: {what}" for where, what in _lost(plan, forecast)),
        ],
        "fence": [f"{plan.choices.fence}{unproven}"],
    }
    if plan.choices.left_out:
        found["left out"] = [_left_out(plan, forecast)]
    if applies:
        found["applied"] = [
            f"operation {one.operation_id}, begun {instant(one.begun_at_ms)} by {one.operator}"
            f"{f' ({one.reason})' if one.reason else ''}: {one.state}"
            for one in applies
        ]
    return found


def _topics(plan: Plan) -> str:
    names = sorted(
        one.topic if one.topic == one.source_topic else f"{one.source_topic} as {one.topic}"
        for one in plan.topics
    )
    return ", ".join(names)


def _left_out(plan: Plan, forecast: Forecast) -> str:
    """Nothing of it is fenced, promoted or set."""
    readers = forecast.get("without_place", {})
    return ", ".join(
        f"{name} ({counted(readers[name], 'group')} that move get no place there)"
        if name in readers
        else name
        for name in plan.choices.left_out
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step of a plan, and how far the last carrying out has come with it: `state` empty: it has not begun."""

    step: StepName
    hook: str = ""
    state: str = ""
    at: str = ""
    words: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.step, self.step.description, self.hook, self.state, self.at, self.words)

    @property
    def line(self) -> str:
        line = f"{self.step}: {self.step.description}"
        if self.hook:
            line += f" (hook: {self.hook})"
        if self.state == _DONE:
            return f"{line}. {self.at}: {self.words}"
        if self.state:
            line += f". {self.state}"
        return f"{line}: {self.words}" if self.words else line


_DONE, _FAILED, _BEGUN = "done", "FAILED", "begun"


def _steps(plan: Plan, applies: Sequence[Apply]) -> Iterator[_Step]:
    last = applies[-1] if applies else None
    for step in plan.steps:
        one = _Step(step=step, hook=plan.hooks.get(step, ""))
        yield one if last is None else _carried_out(one, last)


def _carried_out(one: _Step, last: Apply) -> _Step:
    step = one.step
    if step in last.failed:
        return replace(one, state=_FAILED, words=last.failed[step].words)
    if step in last.done:
        at = instant(last.done_at_ms[step])
        return replace(one, state=_DONE, at=at, words=last.done[step].words)
    return replace(one, state=_BEGUN) if step in last.begun else one


def rendered_rows(rows: Sequence[Mapping[str, Any]], output: str) -> str:
    """Rows in a form of `RENDERERS`."""
    return RENDERERS[output](pa.Table.from_pylist(list(rows)))
