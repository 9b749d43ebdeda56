"""A plan as text: for people, for programs, and for a ticket."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
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
    lines = [
        f"plan {plan.plan_id}: {plan.kind} from {plan.from_cluster} to {plan.to_cluster}",
        f"  topics    {_topics(plan)}",
        f"  forecast  {forecast_words(forecast)}",
        *(f"            {line}" for line in _lost(plan, forecast)),
        f"  fence     {plan.choices.fence}"
        + (f", unproven: {plan.choices.unproven}" if plan.choices.unproven else ""),
        "  steps",
        *(f"    {number:2}  {line}" for number, line in enumerate(_steps(plan, applies), start=1)),
    ]
    lines += [f"  lost      {line}" for line in _lost(plan, _measured(applies))]
    for one in blockers:
        lines += [f"  blocked   {one.code}: {one.words}", f"            {one.advice}"]
    return "\n".join([*lines, ""])


def plan_markdown(plan: Plan, blockers: Blockers, forecast: Forecast, applies: Sequence[Apply]) -> str:
    """For a ticket."""
    lines = [
        f"# Plan {plan.plan_id}: {plan.kind} from {plan.from_cluster} to {plan.to_cluster}",
        "",
        f"- Topics: {_topics(plan)}",
        f"- Forecast: {forecast_words(forecast)}",
        *(f"  - {line}" for line in _lost(plan, forecast)),
        f"- Fence: {plan.choices.fence}",
        "",
        "## Steps",
        "",
        *(f"{number}. {line}" for number, line in enumerate(_steps(plan, applies), start=1)),
    ]
    if lost := list(_lost(plan, _measured(applies))):
        lines += ["", "## Lost", "", *(f"- {line}" for line in lost)]
    if blockers:
        lines += ["", "## Blocked by", ""]
        lines += [f"- `{one.code}`: {one.words}. {one.advice}" for one in blockers]
    return "\n".join([*lines, ""])


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
    words += (
        f"; {counted(forecast['groups'], 'group')} move, {counted(forecast['repeated'], 'record')} read again"
    )
    if forecast["groups_without_place"]:
        words += f"; {counted(forecast['groups_without_place'], 'group')} without a place"
    return words


def _measured(applies: Sequence[Apply]) -> Forecast:
    """What the last carrying out came to; empty while there is none."""
    return applies[-1].figures if applies else {}


def _lost(plan: Plan, figures: Forecast) -> Iterable[str]:
    """Offsets of the former source that are known to be there and not at the target."""
    for row in figures.get("losses", ()):
        where = f"{row['source_topic']} partition {row['partition']} of {plan.from_cluster}"
        if row["records"] is None:
            yield f"{where}: unknown"
        else:
            offsets = f"{row['copied_to']} to {row['known_end'] - 1}"
            yield f"{where}: offsets {offsets}, at most {counted(row['records'], 'record')}"


def _topics(plan: Plan) -> str:
    names = sorted(
        one.topic if one.topic == one.source_topic else f"{one.source_topic} as {one.topic}"
        for one in plan.topics
    )
    return ", ".join(names)


def _steps(plan: Plan, applies: Sequence[Apply]) -> Iterable[str]:
    last = applies[-1] if applies else None
    for step in plan.steps:
        line = f"{step}: {step.description}"
        if step in plan.hooks:
            line += f" (hook: {plan.hooks[step]})"
        yield line if last is None else f"{line}{_receipt(last, step)}"


def _receipt(one: Apply, step: StepName) -> str:
    if step in one.done:
        return f". {instant(one.done_at_ms[step])}: {one.done[step].words}"
    if step in one.failed:
        return f". FAILED: {one.failed[step].words}"
    return ". begun" if step in one.begun else ""


def rendered_rows(rows: Sequence[Mapping[str, Any]], output: str) -> str:
    """Rows in a form of `RENDERERS`."""
    return RENDERERS[output](pa.Table.from_pylist(list(rows)))
