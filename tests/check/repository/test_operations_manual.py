"""The operator's manual explains every request, and what it and the advice of stops name exists."""

import re

import click

from ledger.cli.acts.operating import COMMANDS
from ledger.cli.main import cli
from ledger.mirror.assignment import StopCause
from ledger.mirror.stops import ADVICE
from tests.support.checkout import CHECKOUT
from tests.support.documents import section

COMMAND_NAMES = frozenset(cli.list_commands(click.Context(cli)))
MANUAL = (CHECKOUT / "ledger" / "OPERATIONS.md").read_text(encoding="utf-8")


def test_every_stop_cause_has_advice_that_names_its_command() -> None:
    assert list(ADVICE) == list(StopCause)
    for cause, advice in ADVICE.items():
        if advice.request is not None:
            assert f"`{advice.request.replace('_', '-')}`" in advice.words, cause


def test_commands_that_advice_names_exist() -> None:
    named = {name for advice in ADVICE.values() for name in re.findall(r"`([a-z-]+)`", advice.words)}
    assert named <= COMMAND_NAMES
    assert len(named) >= 4


def test_every_request_is_explained() -> None:
    stated = re.findall(
        r"^- `mirror-ledger ([a-z-]+) FLOW", section(MANUAL, "Requests to a driver"), re.MULTILINE
    )
    assert {command.name for command in COMMANDS} <= set(stated)


def test_commands_of_the_manual_exist() -> None:
    named = set(re.findall(r"mirror-ledger ([a-z-]+)", MANUAL))
    assert named - COMMAND_NAMES == set()
