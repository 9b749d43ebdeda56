"""A plan as a table, as Markdown and as JSON: the same facts in each, whatever stands in them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from ledger.domain.changeover.applies import Apply
from ledger.domain.changeover.plans import Choices, FenceChoice, Plan
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.operations.promotion.changeovers import RecordedBlocker
from ledger.errors import PreconditionError
from ledger.reports.plan_text import plan_json, plan_markdown, plan_table
from tests.support.changeovers import Crash, Stage, plan, with_hooks

_HOOK = "/opt/shop stop | tee 'a\\b'"
_PLAN = with_hooks(
    plan(
        ChangeoverKind.FAILOVER,
        choices=Choices(fence=FenceChoice.NONE, unproven="east is dead | burnt"),
    ),
    stop_producers=_HOOK,
)
_BLOCKERS = (
    RecordedBlocker(code="objective", words="12 records would be lost | at most 5", advice="wait"),
    RecordedBlocker(code="groups_unknown", words="'billing': hidden", advice="let a recorder read it"),
)
_WHY = "not every group continues at west:\n  'a|b' at orders partition 0: newer"


def losses(records: int | None) -> dict[str, Any]:
    row = {
        "flow": "flow",
        "source_topic": "orders",
        "partition": 1,
        "copied_to": 88,
        "known_end": 100,
        "records": records,
        "estimate": 0,
        "seconds": 3.0,
        "seconds_bound": "at_most",
        "precision_seconds": None,
        "read_at_ms": 1,
    }
    return {
        "partitions": 2,
        "records_lost": records,
        "records_estimated": 0,
        "seconds_lost": 3.0,
        "precision_seconds": None,
        "source_read_at_ms": 1,
        "losses": [row],
    }


def forecast(records: int | None) -> dict[str, Any]:
    return {**losses(records), "repeated": 7, "groups": 2, "groups_without_place": 1}


def carried_out(of: Plan, *, failing: StepName | None = None, dies_in: StepName | None = None) -> Apply:
    """As far as it comes when a step fails, or the process ends within one; `figures` are those of 12 lost."""
    stage = Stage(of)
    if failing is not None:
        stage.failing[failing] = PreconditionError(_WHY)

    def crash(step: StepName, moment: str) -> None:
        if (step, moment) == (dies_in, "before"):
            raise Crash

    stage.crash = crash
    try:
        stage.apply()
    except (PreconditionError, Crash):
        return stage.last
    done = stage.last
    done.figures = losses(12)
    return done


@dataclass(frozen=True)
class Markdown:
    """A document of sections, each of one table; `rows`: by section its rows without the header."""

    title: str
    rows: Mapping[str, list[list[str]]]
    headers: Mapping[str, list[str]]

    @classmethod
    def of(cls, text: str) -> "Markdown":
        title, *lines = text.splitlines()
        section = ""
        rows: dict[str, list[list[str]]] = {}
        headers: dict[str, list[str]] = {}
        for line in lines:
            if line.startswith("## "):
                section = line.removeprefix("## ")
            elif line.startswith("|"):
                rows.setdefault(section, []).append(cells(line))
            else:
                assert line == "", f"not of a table: {line!r}"
        for name, found in rows.items():
            headers[name], rule, *rows[name] = found
            assert rule == ["---"] * len(headers[name])
            assert {len(row) for row in rows[name]} <= {len(headers[name])}, "as many cells as columns"
        return cls(title, rows, headers)


def cells(line: str) -> list[str]:
    """What a reader of GitHub's tables sees: an escaped bar parts no cells."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    parts = re.split(r" (?<!\\)\| ", line[2:-2])
    return [re.sub(r"\\([\\|])", r"\1", part).replace("<br>", "\n") for part in parts]


def shown(
    of: Plan, records: int | None, *applies: Apply, blockers: tuple[RecordedBlocker, ...] = ()
) -> tuple[str, Markdown, dict[str, Any]]:
    asked = (of, blockers, forecast(records), applies)
    [told] = json.loads(plan_json(*asked))
    return plan_table(*asked), Markdown.of(plan_markdown(*asked)), told


def test_a_plan_says_the_same_in_each_form() -> None:
    table, markdown, told = shown(_PLAN, 12, blockers=_BLOCKERS)
    title = f"lan {told['plan_id']}: failover from east to west"
    assert table.startswith(f"p{title}\n")
    assert markdown.title == f"# P{title}"
    facts = {label: value.split("\n") for label, value in markdown.rows[""]}
    assert set(facts) == {"topics", "forecast", "fence"}
    for first, *more in facts.values():
        assert all(f" {line}\n" in table for line in (first, *more))
    assert facts["topics"] == [one["topic"] for one in told["plan"]["topics"]]
    assert facts["fence"] == ["none, unproven: east is dead | burnt"]
    assert facts["forecast"] == [
        "12 records not copied, the oldest for at most 3 s; 2 groups move, 7 records read again; "
        "1 group without a place",
        "orders partition 1 of east: offsets 88 to 99, at most 12 records",
    ]
    assert [row[0] for row in markdown.rows["Steps"]] == told["plan"]["steps"]
    for (step, what, hook, *carried), line in zip(markdown.rows["Steps"], step_lines(table), strict=True):
        assert line == f"{step}: {what}" + (f" (hook: {hook})" if hook else "")
        assert hook == told["plan"]["hooks"].get(step, "")
        assert carried == ["", "", ""], "it was not carried out"
    assert told["plan"]["hooks"] == {"stop_producers": _HOOK}
    assert markdown.rows["Blocked by"] == [
        [one["code"], one["words"], one["advice"]] for one in told["blockers"]
    ]
    for code, words, advice in markdown.rows["Blocked by"]:
        assert f"  blocked   {code}: {words}\n            {advice}\n" in table


def step_lines(table: str) -> list[str]:
    """Of a step its line, and those that its words go on with."""
    body = table.split("  steps\n")[1]
    found = re.split(r"(?m)^ +\d+  ", re.split(r"(?m)^  (?:lost|blocked) ", body)[0])
    return [one.rstrip("\n") for one in found[1:]]


@pytest.mark.parametrize(
    ("apply", "states"),
    [
        (carried_out(_PLAN), {"done"}),
        (carried_out(_PLAN, failing=StepName.MOVE_GROUPS), {"done", "FAILED", ""}),
        (carried_out(_PLAN, dies_in=StepName.CUT), {"done", "begun", ""}),
    ],
    ids=["done", "failed", "died"],
)
def test_receipts_say_the_same_in_each_form(apply: Apply, states: set[str]) -> None:
    table, markdown, told = shown(_PLAN, 12, apply)
    [one] = told["applies"]
    applied = dict(markdown.rows[""])["applied"]
    assert applied.startswith(f"operation {one['operation_id']}, begun ")
    assert applied.endswith(f" by {one['operator']} ({one['reason']}): {one['state']}")
    assert f"  applied   {applied}\n" in table
    receipts = {step["step"]: step["words"] for step in one["steps"]}
    assert {row[3] for row in markdown.rows["Steps"]} == states
    for (step, _what, _hook, state, at, words), line in zip(
        markdown.rows["Steps"], step_lines(table), strict=True
    ):
        told_of = {"done": receipts, "FAILED": one["failed"], "begun": dict.fromkeys(one["begun"], "")}
        assert words == told_of.get(state, {step: ""})[step]
        ends = {"done": f". {at}: {words}", "FAILED": f". FAILED: {words}", "begun": ". begun"}
        assert line.endswith(ends.get(state, f"{_what}{f' (hook: {_hook})' if _hook else ''}"))
        assert bool(at) == (state == "done")
    if states == {"done"}:
        assert one["figures"]["losses"][0]["records"] == 12
        assert markdown.rows["Lost"] == [
            ["orders partition 1 of east", "offsets 88 to 99, at most 12 records"]
        ]
        assert "  lost      orders partition 1 of east: offsets 88 to 99, at most 12 records\n" in table
    else:
        assert "Lost" not in markdown.rows
        assert "  lost " not in table


def test_a_step_that_failed_when_it_was_done_again_is_a_failed_one() -> None:
    apply = carried_out(_PLAN, failing=StepName.MOVE_GROUPS)
    apply.failed[StepName.FENCE] = apply.failed[StepName.MOVE_GROUPS]
    table, markdown, _ = shown(_PLAN, 12, apply)
    assert [row[3] for row in markdown.rows["Steps"] if row[0] == "fence"] == ["FAILED"]
    assert f"fence: {StepName.FENCE.description}. FAILED: {_WHY}" in table


def test_what_is_unknown_is_said_and_not_left_out() -> None:
    table, markdown, told = shown(_PLAN, None)
    assert told["forecast"]["records_lost"] is None
    [words, lost] = dict(markdown.rows[""])["forecast"].split("\n")
    assert words.startswith("what is not copied is unknown of 1 partition")
    assert lost == "orders partition 1 of east: unknown"
    assert all(line in table for line in (words, lost))


def test_steps_are_in_their_order_and_numbered() -> None:
    table, markdown, _ = shown(plan(), 0)
    numbers = [int(number) for number in re.findall(r"(?m)^ +(\d+)  \w+: ", table)]
    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))
    assert len(numbers) == len(markdown.rows["Steps"]) == len(plan().steps)
