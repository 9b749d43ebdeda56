"""A plan: its id is that of what it would do, and table, Markdown and JSON tell the same facts."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from ledger.changeover.not_followed import NotFollowed, Part
from ledger.changeover.plans import (
    Apply,
    ApplyState,
    BlockerCode,
    ChangeoverKind,
    Choices,
    FenceChoice,
    Plan,
    StepName,
    id_of,
    recorded_plan,
    steps_of,
)
from ledger.changeover.text import ShownPlan, plan_json, plan_markdown, plan_table
from ledger.config.values import Objective
from ledger.errors import PreconditionError, UsageError
from ledger.facts.changeovers import PlanRecorded, RecordedBlocker
from tests.support import forecasts
from tests.support.changeovers import ORDERS, Crash, Stage, plan, with_hooks
from tests.support.documents import command_of
from tests.support.seen_pairs import EAST, SEEN, WEST, flow, made, place, position

# -- Its id ----------------------------------------------------------------------------------------

_FULL = with_hooks(
    plan(
        choices=Choices(
            topics=("orders",), groups=("billing",), accepted=("no_commit",), fence=FenceChoice.SHUT
        ),
        blockers=(BlockerCode.OBJECTIVE,),
        direction="demoted",
    ),
    stop_producers="systemctl stop orders",
)


@pytest.mark.parametrize(
    "made", [plan(), plan(ChangeoverKind.FAILOVER), _FULL], ids=["plain", "failover", "full"]
)
def test_a_plan_is_read_as_it_was_recorded(made: Plan) -> None:
    again = Plan.of_content(json.loads(json.dumps(made.content())))
    assert (again, again.plan_id) == (made, made.plan_id)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        (replace(_FULL, from_cluster_id="other"), "from_cluster_id"),
        (replace(_FULL, topics=(replace(ORDERS, topic_id="W2"),)), "topics"),
        (replace(_FULL, choices=replace(_FULL.choices, abort_marker=True)), "choices"),
        (replace(_FULL, choices=replace(_FULL.choices, hook_seconds=60.0)), "choices"),
        (replace(_FULL, choices=replace(_FULL.choices, watch_seconds=0.0)), "choices"),
        (replace(_FULL, hooks={}), "hooks"),
        (replace(_FULL, direction=None), "direction"),
        (replace(_FULL, permissions="more"), "permissions"),
        (replace(_FULL, blockers=()), "blockers"),
    ],
)
def test_another_plan_has_another_id_and_says_in_what_it_differs(changed: Plan, key: str) -> None:
    assert changed.plan_id != _FULL.plan_id
    assert _FULL.differences(changed) == [key]


def test_only_what_can_be_promoted_has_steps_about_the_mirror() -> None:
    about_the_mirror = {StepName.PROMOTE, StepName.SHUT_OUT, StepName.HAND_OVER, StepName.REVERSE}
    about_the_mirror |= {StepName.FENCE_TARGET, StepName.MIRROR_BACK, StepName.CATCH_UP}
    for kind in set(ChangeoverKind) - {ChangeoverKind.PROTECT}:
        promoted, plain = (steps_of(kind, is_promoted=one) for one in (True, False))
        assert set(promoted) - set(plain) <= about_the_mirror
        assert not about_the_mirror & set(plain)
        assert list(promoted) == sorted(promoted, key=list(StepName).index)


def test_a_failover_asks_nothing_of_the_source_that_only_a_living_one_can_do() -> None:
    steps = steps_of(ChangeoverKind.FAILOVER, is_promoted=True)
    assert {StepName.DRAIN, StepName.STOP_GROUPS, StepName.REVERSE}.isdisjoint(steps)
    assert steps.index(StepName.SHUT_OUT) < steps.index(StepName.SETTLE) < steps.index(StepName.CUT)
    assert StepName.SETTLE not in steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True)


def _rows(content: dict[str, object], plan_id: str) -> list[dict[str, object]]:
    recorded = PlanRecorded(plan_id=plan_id, plan=content, blockers=(), cut="c", forecast={})
    return [{"operation_id": "o", "content": json.dumps(recorded.content())}]


def test_a_plan_that_this_ledger_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="an older copy of a ledger lacks the later ones"):
        recorded_plan(_rows(plan().content(), "another"), plan().plan_id)


def test_a_plan_of_another_program_is_refused() -> None:
    content = {**plan().content(), "steps": ["conjure"]}
    with pytest.raises(PreconditionError, match="another version of the program"):
        recorded_plan(_rows(content, id_of(content)), id_of(content))


def test_another_plan_under_the_id_of_one_that_was_read_is_never_taken_for_it() -> None:
    read = plan().plan_id
    own, other = _rows(plan().content(), read), _rows(_FULL.content(), read)
    for rows in (other, [*own, *other]):
        with pytest.raises(PreconditionError, match=f"has the id {_FULL.plan_id}.*nothing was done"):
            recorded_plan(rows, read)
    for rows in (own, [*other, *own]):
        assert recorded_plan(rows, read)[0] == plan()
    assert recorded_plan([*own, *other], read, is_begun=True)[0] == plan(), (
        "its way back is the way back of that"
    )
    with pytest.raises(PreconditionError, match="another plan"):
        recorded_plan(other, read, is_begun=True)


# -- Its text --------------------------------------------------------------------------------------

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
        "records_at_least": records,
        "records_at_most": records,
        "seconds_lost": 3.0,
        "precision_seconds": None,
        "source_read_at_ms": 1,
        "source_answered_at_ms": 1,
        "unseen_seconds": None,
        "records_per_second": None,
        "partitions_without_rate": 0,
        "losses": [row],
    }


def forecast(records: int | None) -> dict[str, Any]:
    figures = {**losses(records), "repeated": 7, "groups": 2, "groups_without_place": 1}
    return forecasts.forecast(**figures)


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
    asked = ShownPlan(of, forecast(records), blockers, applies)
    [told] = json.loads(plan_json(asked))
    return plan_table(asked), Markdown.of(plan_markdown(asked)), told


def test_a_plan_says_the_same_in_each_form() -> None:
    table, markdown, told = shown(_PLAN, 12, blockers=_BLOCKERS)
    title = f"lan {told['plan_id']}: failover from east to west"
    assert table.startswith(f"p{title}\n")
    assert markdown.title == f"# P{title}"
    facts = dict(markdown.rows[""])
    assert facts == {
        "moves": "1 topic (orders); 2 groups",
        "lost": "12 records not copied, the oldest for at most 3 s",
        "repeated": "7 records by 2 groups; 1 group without a place",
        "downtime": (
            "about 2 s without a cluster to write to, hooks and people aside: fence 2.0 s, ...; an estimate: nothing "
            "was measured between these clusters"
        ),
        "followed": "settings: all followed",
        "fence": "none, unproven: east is dead | burnt",
    }
    assert [one["topic"] for one in told["plan"]["topics"]] == ["orders"]
    assert all(f"  {label:9} {words}\n" in table for label, words in facts.items())
    at = "orders partition 1 of east: offsets 88 to 99, at most 12 records"
    assert markdown.rows["Lost"] == [at.split(": ")]
    assert f"  lost      {at}\n" in table
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
        assert f"  blocked   {code}: {words}\n" in table
        assert f"  to do     {code}: {advice}\n" in table
    assert "  next      nothing is carried out: 2 causes against it" in table


# The first screen ---------------------------------------------------------------------------------

SCREEN_LINES, SCREEN_COLUMNS = 24, 80


def first_screen(of: Plan, blockers: Sequence[RecordedBlocker], *applies: Apply) -> list[str]:
    text = plan_table(ShownPlan(of, forecast(12), blockers, applies), width=SCREEN_COLUMNS)
    lines = text.splitlines()
    ends = max(number for number, line in enumerate(lines, start=1) if line.startswith("  next"))
    assert sum(-(-len(line) // SCREEN_COLUMNS) for line in lines[:ends]) <= SCREEN_LINES, (
        "as a terminal has them"
    )
    assert all(len(line) <= SCREEN_COLUMNS for line in lines[:ends] if line.startswith("  blocked"))
    return lines[: lines.index("  steps")]


def test_one_reason_of_ten_groups_on_sixty_topics_is_one_line() -> None:
    places = [
        place(f"group-{group}", source_topic=f"topic-{topic}", target_topic=f"topic-{topic}", status=status)
        for topic in range(60)
        for group in range(10)
        for status in ("no_commit", "gone")[: 2 if topic == 7 else 1]
    ]
    names = [f"topic-{topic}" for topic in range(60)]
    seen = replace(
        SEEN,
        source=replace(EAST, topic_ids={name: f"E-{name}" for name in names}),
        target=replace(WEST, topic_ids={name: f"W-{name}" for name in names}),
        flows=[flow(positions=list(map(position, names)), incarnations={one: f"E-{one}" for one in names})],
        places=places,
        objectives={Objective.MAX_REPEATS_PER_GROUP: 1.0},
        active=frozenset({"group-3"}),
    )
    planned = made(seen)
    assert len(planned.blockers) == 600 + 10 + 10 + 1
    screen = first_screen(planned.plan, planned.recorded_blockers)
    blocked = [line.removeprefix("  blocked   ") for line in screen if line.startswith("  blocked")]
    assert [line[:62] for line in blocked] == [
        "group_active_at_target: 1 group with members at west: 'group-3",
        "group_without_place: 600 times, such as group-0 at topic-0 par",
        "group_without_place: 10 times, such as group-0 at topic-7 part",
        "objective: 10 times, such as group 'group-0': what is repeated",
    ]
    assert sum(line.startswith("  to do") for line in screen) == 3, "what is to be done about a code, once"
    assert "            all of it: --wide, or -o json" in screen
    of = ShownPlan(planned.plan, planned.forecast, planned.recorded_blockers)
    wide = plan_table(of).splitlines()
    assert sum("no_commit is not accepted" in line for line in wide) == 600 + 1
    assert len(json.loads(plan_json(of))[0]["blockers"]) == 621


def test_a_plan_of_every_blocker_says_all_on_the_first_screen() -> None:
    """All codes at once are more than can be: as many as a bad night has."""
    worst = [
        RecordedBlocker(code=str(code), words=f"words of {code}", advice="do it") for code in BlockerCode
    ]
    screen = first_screen(_PLAN, worst[:12])
    assert sum(line.startswith("  blocked") for line in screen) == 12


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "mirror-ledger apply {plan}"),
        ({"state": ApplyState.DONE}, "mirror-ledger verify {operation}"),
        ({"state": ApplyState.UNDOING}, "mirror-ledger undo {operation}"),
        ({"state": ApplyState.UNDONE}, "mirror-ledger apply {plan}"),
        (
            {"state": ApplyState.OPEN},
            "mirror-ledger apply {plan} or take it back: mirror-ledger undo {operation}",
        ),
    ],
    ids=["planned", "done", "undoing", "undone", "open"],
)
def test_what_is_typed_next_is_complete(changed: dict[str, Any], words: str) -> None:
    applies = [replace(carried_out(_PLAN), **changed)] if changed else []
    screen = first_screen(_PLAN, (), *applies)
    told = " ".join(line.removeprefix("  next").strip() for line in screen if line.startswith("  next"))
    operation = applies[0].operation_id if applies else None
    assert told == words.format(plan=_PLAN.plan_id, operation=operation)
    for command in re.findall(r"mirror-ledger (.*?)(?= or |$)", told):
        name, *arguments = shlex.split(command)
        typed = [] if name == "verify" else ["--reason", "a drill"]
        command_of(name).make_context(name, [*arguments, *typed])


def test_of_figures_nothing_is_cut() -> None:
    told = plan_table(ShownPlan(_PLAN, forecast(12)), width=30)
    flat = " ".join(told.split("  steps")[0].split())
    assert "lost 12 records not copied, the oldest for at most 3 s" in flat
    assert "..." not in flat.split("lost ")[1].split("fence ")[0]


def test_what_has_not_followed_is_said_and_of_the_past_that_it_is_unknown() -> None:
    one = NotFollowed(part=Part.SETTINGS, changes=2, last_at_ms=1_767_225_600_000).figures(1_767_225_637_000)
    for known, line in (
        (
            {"not_followed": [one]},
            "settings: 2 changes not followed, the last of 2026-01-01 00:00:00Z (37 s ago)",
        ),
        ({"not_followed": None}, "unknown of the past: topics, settings and permissions are compared"),
    ):
        assert f"  followed  {line}" in plan_table(ShownPlan(_PLAN, {**forecast(12), **known}))


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        ({"audit": ["orders"]}, "audit stays, and is written in transactions with orders"),
        (None, "unknown which topics are written in transactions together"),
    ],
)
def test_what_shares_transactions_is_said(shared: Any, words: str) -> None:
    of = ShownPlan(_PLAN, {**forecast(12), "shared_transactions": shared})
    assert f"  shares    {words}" in plan_table(of)


def test_static_members_are_named_with_the_command_that_removes_them() -> None:
    known = {"static_members": {"bil ling": ["pod-1", "pod-2"], "mail": ["m"]}}
    text = plan_table(ShownPlan(_PLAN, {**forecast(12), **known}))
    assert "  static    static members of bil ling pod-1, pod-2, of mail m: they count until their" in text
    assert "mirror-ledger remove-members east --group 'bil ling' --reason WHY" in text
    unknown = plan_table(ShownPlan(_PLAN, {**forecast(12), "static_members": None}))
    assert "  static    unknown which groups have static members: east could not be asked" in unknown


def test_a_plan_as_of_the_past_has_no_command() -> None:
    told = plan_table(ShownPlan(_PLAN, forecast(12), is_recorded=False))
    assert "mirror-ledger" not in told
    assert "  next      a plan as of the past is not recorded: it cannot be carried out\n" in told


def test_no_name_in_a_plan_is_obeyed() -> None:
    hostile = "x[/y]\x1b]0;owned\x07\nforged"
    blocked = (RecordedBlocker(code="other", words=hostile, advice=hostile),)
    of = replace(
        _PLAN, choices=replace(_PLAN.choices, unproven=hostile), topics=(replace(ORDERS, topic=hostile),)
    )
    for width in (None, SCREEN_COLUMNS):
        told = plan_table(ShownPlan(of, forecast(12), blocked), width=width)
        assert all(line.isprintable() for line in told.splitlines())
        assert "x[/y]\\x1b]0;owned\\x07\\nforged" in told
        assert not any(line.startswith("forged") for line in told.splitlines())


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
    assert applied.startswith(f"{one['state']}: operation {one['operation_id']}, begun ")
    assert applied.endswith(f" by {one['operator']} ({one['reason']})")
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


def test_a_step_that_failed_when_it_was_done_again_is_a_failed_one() -> None:
    apply = carried_out(_PLAN, failing=StepName.MOVE_GROUPS)
    apply.failed[StepName.FENCE] = apply.failed[StepName.MOVE_GROUPS]
    table, markdown, _ = shown(_PLAN, 12, apply)
    assert [row[3] for row in markdown.rows["Steps"] if row[0] == "fence"] == ["FAILED"]
    assert f"fence: {StepName.FENCE.description}. FAILED: {_WHY}" in table


def test_what_is_unknown_is_said_and_not_left_out() -> None:
    table, markdown, told = shown(_PLAN, None)
    assert told["forecast"]["records_lost"] is None
    assert dict(markdown.rows[""])["lost"].startswith("what is not copied is unknown of 1 partition")
    assert markdown.rows["Lost"] == [["orders partition 1 of east", "unknown"]]
    assert "  lost      orders partition 1 of east: unknown\n" in table


def test_steps_are_in_their_order_and_numbered() -> None:
    table, markdown, _ = shown(plan(), 0)
    numbers = [int(number) for number in re.findall(r"(?m)^ +(\d+)  \w+: ", table)]
    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))
    assert len(numbers) == len(markdown.rows["Steps"]) == len(plan().steps)
