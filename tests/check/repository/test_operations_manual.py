"""The operator's manual is complete: every stop cause, finding, exit code, state and command is in it."""

import re

import click

from ledger import errors
from ledger.answers.drivers import DriverState
from ledger.cli.acts.operating import COMMANDS
from ledger.cli.main import cli
from ledger.facts.findings import EXPLAINED, FindingName
from ledger.mirror.assignment import StopCause
from ledger.mirror.stops import ADVICE
from ledger.offsets.maps import TranslationStatus
from ledger.offsets.setting import ACCEPTABLE, Outcome
from ledger.offsets.translation import UncommittedStatus
from tests.support.checkout import CHECKOUT
from tests.support.documents import Definition, definitions, section

COMMAND_NAMES = frozenset(cli.list_commands(click.Context(cli)))
MANUAL = (CHECKOUT / "ledger" / "OPERATIONS.md").read_text(encoding="utf-8")


def defined_under(heading: str) -> dict[str, Definition]:
    return definitions(section(MANUAL, heading))


def test_every_stop_cause_is_stated_with_the_advice_that_status_gives() -> None:
    stated = {
        cause: defined.parts["To do"] for cause, defined in defined_under("When a partition stops").items()
    }
    assert stated == {str(cause): ADVICE[cause].words for cause in StopCause}


def test_every_stop_cause_has_advice_that_names_its_command() -> None:
    assert list(ADVICE) == list(StopCause)
    for cause, advice in ADVICE.items():
        if advice.request is not None:
            assert f"`{advice.request.replace('_', '-')}`" in advice.words, cause


def test_commands_that_advice_names_exist() -> None:
    named = {name for advice in ADVICE.values() for name in re.findall(r"`([a-z-]+)`", advice.words)}
    assert named <= COMMAND_NAMES
    assert len(named) >= 4


def test_every_finding_is_stated_as_the_driver_explains_it() -> None:
    stated = {name: (one.text, one.parts["To do"]) for name, one in defined_under("Findings").items()}
    assert stated == {str(name): (EXPLAINED[name].meaning, EXPLAINED[name].next) for name in FindingName}


def test_every_request_is_explained() -> None:
    stated = re.findall(
        r"^- `mirror-ledger ([a-z-]+) FLOW", section(MANUAL, "Requests to a driver"), re.MULTILINE
    )
    assert {command.name for command in COMMANDS} <= set(stated)


def test_commands_of_the_manual_exist() -> None:
    named = set(re.findall(r"mirror-ledger ([a-z-]+)", MANUAL))
    assert named - COMMAND_NAMES == set()


def test_exit_codes_are_those_of_the_errors() -> None:
    used = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and hasattr(error, "exit_code")
    }
    assert {int(code) for code in defined_under("Exit codes")} == used | {0}


def test_driver_states_are_stated_in_their_order() -> None:
    assert list(defined_under("States of a driver")) == list(DriverState)


def test_every_status_of_an_answer_is_stated_as_the_reset_file_holds_it() -> None:
    stated = {
        name: one.parts["In the file"] for name, one in defined_under("Statuses in the reset file").items()
    }
    assert set(stated) == {*TranslationStatus, *UncommittedStatus}
    assert {status for status, held in stated.items() if held.startswith("with")} == set(ACCEPTABLE)


def test_results_of_setting_offsets_are_stated_in_their_order() -> None:
    assert list(defined_under("Setting them at the target")) == list(Outcome)
