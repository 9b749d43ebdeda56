"""A plan as a script: Kafka's tools get exactly what it says, whatever is in the names of others."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.changeover.exporting import ExportedPlan, groups_file, steps_script, undo_script
from ledger.changeover.plans import BlockerCode, ChangeoverKind, Choices, FenceChoice
from ledger.facts.acls import denial
from ledger.facts.hand_overs import TopicHandOver
from ledger.facts.permissions import Permission, PermissionKind
from ledger.topics.following import SettingsChange
from tests.support.changeovers import plan, with_hooks
from tests.support.kafka_tools import run_steps, write_script

_HOSTILE = (
    "a'; touch pwned; '",
    "b\n$(touch pwned)",
    "-c `touch pwned`",
    'naïve \\ "ü"',
    "\x1b]0;t\x07\x9b2J",
)
_TOOLS = ("acls", "configs", "consumer-groups", "get-offsets")
_STUB = """import json, os, sys
with open(os.environ["CALLS"], "a", encoding="utf-8") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
members = os.path.join(os.path.dirname(os.environ["CALLS"]), "members")
if "--state" in sys.argv and os.path.exists(members):
    print("GROUP COORDINATOR (ID) STRATEGY STATE #MEMBERS\\ng w:1 (0) range Stable", open(members).read())
    os.remove(members)
sys.exit(4 if sys.argv[2] == "verify" or "--shut-out" in sys.argv else 0)
"""

EXPORTED = ExportedPlan(
    plan=plan(),
    servers={"east": "east-1:9092", "west": "west-1:9092,west-2:9092"},
    cut="v2.cut",
    at="2026-11-23 10:00:00",
    rules=[denial("orders", f"User:{name}") for name in _HOSTILE],
    no_rules=["the mirror's principal\nrm -rf is allowed"],
    shut={},
    left_out=1,
    settings=[
        TopicHandOver(
            topic="orders",
            topic_id="W1",
            change=SettingsChange({"cleanup.policy": "compact,delete", "retention.ms": "7"}, ("min.isr",)),
            former={},
        )
    ],
    permissions=[
        Permission(
            kind=PermissionKind.ACL,
            entity=f"User:{_HOSTILE[0]}",
            host="*",
            operation="describe_configs",
            permission_type="allow",
            resource_type="transactional_id",
            resource_name=_HOSTILE[1],
            pattern_type="prefixed",
        ),
        Permission(
            kind=PermissionKind.QUOTA,
            entity=json.dumps({"user": _HOSTILE[0], "client-id": None}),
            setting="producer_byte_rate",
            value=1048576.0,
        ),
    ],
    by_hand=["create SCRAM user x\ntouch pwned"],
)

ACCEPTED = replace(EXPORTED, plan=plan(choices=Choices(accept_unproven_shut_out=True)))


def carried_out(
    folder: Path,
    of: ExportedPlan,
    *,
    code: int = 0,
    has_program: bool = True,
    source_answers: str = "no",
    fence_by: str = "program",
    script: Callable[[ExportedPlan], str] = steps_script,
) -> list[list[str]]:
    """Calls of the tools, of a run in which people say yes to all; `code`: how it ends."""
    calls, tools = folder / "calls", folder / "tools"
    tools.mkdir()
    (folder / "stub.py").write_text(_STUB)
    for name in (*(f"kafka-{tool}.sh" for tool in _TOOLS), *(["mirror-ledger"] if has_program else [])):
        # Without its site packages it starts in a fifth of the time, and scripts ask tools again and again.
        started = shlex.join([sys.executable, "-IS", str(folder / "stub.py"), name])
        write_script(tools / name, f'exec {started} "$@"')
    calls.touch()
    (folder / "steps.sh").write_text(script(of), encoding="utf-8", newline="")
    (folder / "groups").write_text(groups_file(_HOSTILE), encoding="utf-8", newline="")
    others = [one for one in os.environ["PATH"].split(":") if not (Path(one) / "mirror-ledger").exists()]
    done = run_steps(
        folder,
        {
            "PATH": ":".join((str(tools), *others)),
            "CALLS": str(calls),
            "FROM_CONFIG": "from.properties",
            "TO_CONFIG": "to.properties",
            "FROM_ANSWERS": source_answers,
            "FENCE_BY": fence_by,
        },
        limit_s=60,
    )
    assert not (folder / "pwned").exists()
    assert done.returncode == code, done.stderr
    assert done.stdout.replace("\n", "").isprintable(), "a terminal obeys no name"
    return [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]


def test_tools_get_exactly_what_the_plan_says(tmp_path: Path) -> None:
    calls = carried_out(tmp_path, ACCEPTED, fence_by="tools")
    east = ["--bootstrap-server", "east-1:9092", "--command-config", "from.properties"]
    west = ["--bootstrap-server", "west-1:9092,west-2:9092", "--command-config", "to.properties"]
    denied = [call for call in calls if "--deny-principal" in call]
    assert [call[call.index("--deny-principal") + 1] for call in denied] == [
        f"User:{one}" for one in _HOSTILE
    ]
    assert all(call[:5] == ["kafka-acls.sh", *east] for call in denied)
    [moved] = [call for call in calls if "--execute" in call]
    assert moved == [
        *("kafka-consumer-groups.sh", *west, "--reset-offsets"),
        *(f"--group={one}" for one in sorted(_HOSTILE)),
        *("--execute", "--from-file", str(tmp_path / "reset.csv")),
    ]
    settings = ["kafka-configs.sh", *west, "--alter", "--entity-type", "topics", "--entity-name", "orders"]
    assert [*settings, "--add-config", "cleanup.policy=[compact,delete],retention.ms=7"] in calls
    assert [*settings, "--delete-config", "min.isr"] in calls
    [allowed] = [call for call in calls if "--allow-principal" in call]
    assert allowed == [
        *("kafka-acls.sh", *west, "--add", "--allow-principal", f"User:{_HOSTILE[0]}", "--allow-host", "*"),
        *("--operation", "DescribeConfigs", "--transactional-id", _HOSTILE[1]),
        *("--resource-pattern-type", "prefixed"),
    ]
    [limited] = [call for call in calls if "producer_byte_rate=1048576.0" in call]
    assert limited[5:11] == [
        *("--alter", "--entity-type", "users", "--entity-name", _HOSTILE[0]),
        "--entity-type",
    ]
    names = [call[1] for call in calls if call[0] == "mirror-ledger"]
    assert names == ["promote", "promote", "plan", "verify", "hand-over", "verify"]


def test_the_order_is_that_of_the_plan() -> None:
    for kind in ChangeoverKind:
        text = steps_script(replace(EXPORTED, plan=plan(kind)))
        places = [text.index(f"{number}. {step}: ") for number, step in enumerate(plan(kind).steps, start=1)]
        assert places == sorted(places)


@pytest.mark.parametrize("fence", list(FenceChoice))
def test_each_fence_is_what_was_chosen(fence: FenceChoice) -> None:
    chosen = plan(choices=Choices(fence=fence, unproven="they ended"))
    shut: dict[str, str | None] = {"orders": None} if fence is FenceChoice.SHUT else {}
    rules = EXPORTED.rules if fence is FenceChoice.CLOSED else ()
    text = steps_script(
        replace(EXPORTED, plan=with_hooks(chosen, fence="close it --all"), shut=shut, rules=rules)
    )
    assert ("--deny-principal" in text) == (fence is FenceChoice.CLOSED)
    assert ("max.message.bytes=78" in text) == (fence is FenceChoice.SHUT)
    assert ("close it --all" in text) == (fence is FenceChoice.HOOK)
    assert ("none: they ended" in text) == (fence is FenceChoice.NONE)


def test_a_blocked_plan_ends_before_anything_is_changed(tmp_path: Path) -> None:
    blocked = plan(blockers=(BlockerCode.OBJECTIVE,))
    assert carried_out(tmp_path, replace(EXPORTED, plan=blocked), code=4) == []


def test_a_mirror_that_may_write_on_ends_it_unless_the_plan_accepts_that(tmp_path: Path) -> None:
    calls = carried_out(tmp_path, EXPORTED, code=4)
    assert calls[-1][:2] == ["mirror-ledger", "promote"]
    assert "--shut-out" in calls[-1]
    assert not [call for call in calls if "--execute" in call], "no group has moved"


def test_without_the_program_people_do_what_it_would_do(tmp_path: Path) -> None:
    calls = carried_out(tmp_path, EXPORTED, has_program=False)
    assert {call[0] for call in calls} == {f"kafka-{tool}.sh" for tool in _TOOLS}
    assert [call for call in calls if "--execute" in call]


@pytest.mark.parametrize("answers", [False, True])
def test_a_source_that_is_lost_is_not_asked(tmp_path: Path, answers: bool) -> None:
    lost = replace(ACCEPTED, plan=plan(ChangeoverKind.FAILOVER, choices=ACCEPTED.plan.choices))
    who = "program" if answers else "tools"
    calls = carried_out(tmp_path, lost, source_answers="yes" if answers else "no", fence_by=who)
    assert any("east-1:9092" in call for call in calls) is answers
    assert [call for call in calls if "--execute" in call]
    assert ["settle", "flow"] in [call[1:3] for call in calls if call[0] == "mirror-ledger"]
    assert any(call[:3] == ["mirror-ledger", "fence", "east"] for call in calls) is answers


def test_what_no_command_line_can_have_is_left_to_people() -> None:
    assert groups_file(("a\0b", "\udc80", "a b")) == "a b\0"
    text = steps_script(replace(EXPORTED, rules=[denial("orders", "User:a\0b")]))
    assert "--deny-principal" not in [word for line in text.splitlines() for word in shlex.split(line, True)]
    assert r"by hand, no command line can have these" in text
    text.encode()
    assert "\0" not in text


def test_the_program_makes_the_fence_so_that_it_is_found_again(tmp_path: Path) -> None:
    calls = carried_out(tmp_path, ACCEPTED)
    assert not [call for call in calls if "--deny-principal" in call]
    [fenced] = [call for call in calls if call[:2] == ["mirror-ledger", "fence"]]
    assert fenced[2:-1] == ["east", "--topic", "orders", "--how", "closed", "--reason"]


def test_a_topic_that_is_shut_gets_its_own_limit_back(tmp_path: Path) -> None:
    shut = replace(
        ACCEPTED,
        plan=plan(choices=Choices(fence=FenceChoice.SHUT, accept_unproven_shut_out=True)),
        shut={"orders": "1000", "users": None},
        rules=(),
    )
    (tmp_path / "there").mkdir()
    calls = carried_out(tmp_path / "there", shut, fence_by="tools")
    set_to = [call[-3:] for call in calls if "max.message.bytes" in call[-1]]
    assert set_to == [[name, "--add-config", "max.message.bytes=78"] for name in ("orders", "users")]
    (tmp_path / "back").mkdir()
    calls = carried_out(tmp_path / "back", shut, fence_by="tools", script=undo_script)
    assert [call[-3:] for call in calls if "max.message.bytes" in call[-1]] == [
        ["orders", "--add-config", "max.message.bytes=1000"],
        ["users", "--delete-config", "max.message.bytes"],
    ]
    (tmp_path / "program").mkdir()
    calls = carried_out(tmp_path / "program", shut)
    [fenced] = [call for call in calls if call[:2] == ["mirror-ledger", "fence"]]
    assert fenced[2:-2] == ["east", "--topic", "orders", "--how", "shut", "--accept", "producers_stopped"]


def test_what_was_made_is_taken_back(tmp_path: Path) -> None:
    calls = carried_out(tmp_path, EXPORTED, fence_by="tools", script=undo_script)
    removed = [call for call in calls if "--remove" in call]
    denied = [call[call.index("--deny-principal") + 1] for call in removed if "--deny-principal" in call]
    assert denied == [f"User:{one}" for one in _HOSTILE]
    assert [call[call.index("--allow-principal") + 1] for call in removed if "--allow-principal" in call] == [
        f"User:{_HOSTILE[0]}"
    ]
    assert [call[-2:] for call in calls if "--delete-config" in call][-1] == [
        "--delete-config",
        "producer_byte_rate",
    ]
    [demoted] = [call for call in calls if call[0] == "mirror-ledger"]
    assert demoted[1:5] == ["demote", "west", "--over", "east"]


def test_groups_with_members_are_waited_for(tmp_path: Path) -> None:
    (tmp_path / "members").write_text("2")
    calls = carried_out(tmp_path, replace(ACCEPTED, plan=with_hooks(ACCEPTED.plan, stop_groups=_HOSTILE[-1])))
    asked = [call[-1] for call in calls if "--state" in call]
    one, *others = sorted(_HOSTILE)
    assert asked == [one, one, *others, one, *others], (
        "the first group is asked again, at east, then all at west"
    )
