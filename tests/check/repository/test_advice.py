"""Every command that the program prints can be typed as it stands: it exists, and lacks nothing that it must be given.

What stands for a name when it is printed is a word here. That following an advice ends the state which prints it is
tried where that state is.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from ledger.changeover.plans import Blocker, BlockerCode, Choices, advice_for
from ledger.cli.main import cli
from ledger.facts.requests import RequestKind, command_line
from ledger.mirror.assignment import StopCause
from ledger.mirror.stops import command
from tests.support.documents import of_type, relative
from tests.support.seen_pairs import made

_CALL = re.compile(r"(?<![\w/.-])mirror-ledger (?=[a-z])")
_END = re.compile(r"[;,:)`'\".]+$")
MADE_UP = {("ledger/facts/requests.py", "x"), ("ledger/changeover/plans.py", "plan")}
"""Commands whose name is not written there: what they become is tried below, and in tests/check/changeover."""
FILES = of_type(".py", "ledger")


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_what_is_printed_can_be_typed(file: Path) -> None:
    name = relative(file)
    found = [
        (line, problem)
        for line in commands_of(file.read_text(encoding="utf-8"))
        if (problem := lacking(line)) is not None and (name, line.split()[0]) not in MADE_UP
    ]
    assert found == []


def test_what_stopped_partitions_need_can_be_typed() -> None:
    typed = [command(cause, flow="f", topic="t", partition=0) for cause in StopCause]
    found = [line.removeprefix("mirror-ledger ") for line in typed if line is not None]
    assert found
    assert [problem for line in found if (problem := lacking(line)) is not None] == []


@pytest.mark.parametrize("kind", RequestKind)
def test_every_request_can_be_typed_as_it_is_printed(kind: RequestKind) -> None:
    offset = 7 if kind in (RequestKind.RESYNC, RequestKind.SKIP_TO) else None
    partition = None if kind in (RequestKind.PAUSE, RequestKind.RELOAD) else 0
    topic = None if kind is RequestKind.RELOAD else "t"
    line = command_line(kind, "f", topic=topic, partition=partition, offset=offset)
    assert lacking(line.removeprefix("mirror-ledger ")) is None


@pytest.mark.parametrize("code", BlockerCode)
def test_advice_about_a_blocker_has_the_names_of_the_plan_and_one_command(code: BlockerCode) -> None:
    plan = replace(
        made().plan,
        topics=tuple(replace(one, flow=name) for one in made().plan.topics for name in ("back", "there")),
    )
    of = Choices(topics=("a b", "TARGET"))
    words = advice_for(
        Blocker(code, "flow there has stopped"), replace(plan, choices=of), "mirror-ledger plan list"
    )
    assert not re.search(r"\b(SOURCE|FLOW|TOPICS|PLAN)\b", words)
    assert "back" not in re.findall(r"(?:run|settle|status) (\w+)", words)
    assert words.count("TARGET") == (code is BlockerCode.NOT_FENCED), "a topic is called so"
    assert words.count("mirror-ledger ") <= 1
    assert [lacking(line) for line in _CALL.split(words)[1:]] in ([], [None])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mirror-ledger undo x; then plan again", None),
        ("mirror-ledger plan approve x; then apply it", "approve lacks --key"),
        ("mirror-ledger undo --reason WHY", "undo lacks OPERATION"),
        ("mirror-ledger undo x --reason WHY; then plan again", None),
        ("mirror-ledger plan failover --how shut", "failover has no --how"),
        ("mirror-ledger plan show x says why", None),
        ("mirror-ledger plan switchover --from x --reason WHY", "switchover lacks --to"),
        ("(mirror-ledger plan list); nothing was done", None),
        ("mirror-ledger undone x", "no command undone"),
    ],
)
def test_the_listing_sees(text: str, problem: str | None) -> None:
    [line] = commands_of(f"error({text!r})")
    assert lacking(line) == problem


def commands_of(code: str) -> Iterator[str]:
    """What follows `mirror-ledger` in texts of a module, to the end of each text; not in what explains the code."""
    tree = ast.parse(code)
    explained = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        if id(node) in explained | parts:
            continue
        text = _text(node)
        yield from (text[found.end() :] for found in _CALL.finditer(text))


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value) if isinstance(value, ast.Constant) else "x" for value in values)
    return ""


def lacking(line: str) -> str | None:
    """What a command lacks or does not have; None: it can be typed. What comes behind its last part is prose."""
    words = list(_words(line))
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        name = words.pop(0)
        found = command.get_command(click.Context(cli), name)
        if found is None:
            return f"no command {name}"
        command = found
    options = {name: one for one in command.params for name in one.opts if isinstance(one, click.Option)}
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    given, positional = set[str](), 0
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            if positional == len(arguments):
                break
            positional += 1
            continue
        if word not in options:
            return f"{command.name} has no {word}"
        option = options[word]
        given.add(str(option.name))
        if not (option.is_flag or option.count) and words:
            words.pop(0)
    for one in command.params:
        if one.required and isinstance(one, click.Option) and not one.prompt and one.name not in given:
            return f"{command.name} lacks {one.opts[0]}"
    needed = [one for one in arguments if one.required]
    return (
        f"{command.name} lacks {needed[positional].human_readable_name}" if positional < len(needed) else None
    )


def _words(line: str) -> Iterator[str]:
    """Up to the first that ends with a sign of a sentence."""
    for word in line.split():
        yield _END.sub("", word)
        if _END.search(word):
            return
