"""The operator's manual is complete: every stop cause, finding, exit code, state and command is in it."""

import re

import click

from ledger import errors
from ledger.cli.acts.operating import COMMANDS
from ledger.cli.main import cli
from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.mirror.findings.finding_log import EXPLAINED, FindingName
from ledger.mirror.partitions.stop_advice import ADVICE
from ledger.mirror.task.assignments import StopCause
from ledger.operations.driver_report import DriverState
from ledger.operations.offset_setting import Outcome
from ledger.reports.rendering import ACCEPTABLE
from tests.support.checkout import CHECKOUT

COMMAND_NAMES = frozenset(cli.list_commands(click.Context(cli)))
MANUAL = (CHECKOUT / "ledger" / "OPERATIONS.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[tuple[str, ...]]:
    """The cells of the table rows in a section, the header left out."""
    section = MANUAL.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


def test_every_stop_cause_is_told_with_the_advice_that_status_gives() -> None:
    told = {row[0].strip("`"): row[2] for row in rows_under("When a partition stops") if row[0][0] == "`"}
    assert told == {str(cause): ADVICE[cause].words for cause in StopCause}


def test_every_stop_cause_has_advice_that_names_its_command() -> None:
    assert list(ADVICE) == list(StopCause)
    for cause, advice in ADVICE.items():
        if advice.request is not None:
            assert f"`{advice.request.replace('_', '-')}`" in advice.words, cause


def test_commands_that_advice_names_exist() -> None:
    named = {name for advice in ADVICE.values() for name in re.findall(r"`([a-z-]+)`", advice.words)}
    assert named <= COMMAND_NAMES
    assert len(named) >= 4


def test_every_finding_is_told_as_the_driver_explains_it() -> None:
    told = {row[0].strip("`"): row[1:] for row in rows_under("Findings") if row[0][0] == "`"}
    assert told == {str(name): (EXPLAINED[name].meaning, EXPLAINED[name].next) for name in FindingName}


def test_every_request_is_explained() -> None:
    told = re.findall(r"^\| `mirror-ledger ([a-z-]+) FLOW", MANUAL, re.MULTILINE)
    assert {command.name for command in COMMANDS} <= set(told)


def test_commands_of_the_manual_exist() -> None:
    named = set(re.findall(r"mirror-ledger ([a-z-]+)", MANUAL))
    assert named - COMMAND_NAMES == set()


def test_exit_codes_are_those_of_the_errors() -> None:
    used = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and hasattr(error, "exit_code")
    }
    assert {int(row[0]) for row in rows_under("Exit codes") if row[0].isdecimal()} == used | {0}


def test_driver_states_are_told_in_their_order() -> None:
    states = [row[0].strip("`") for row in rows_under("Where a flow stands")]
    assert [state for state in states if state in set(DriverState)] == list(DriverState)


def test_every_status_of_an_answer_is_told_as_the_reset_file_holds_it() -> None:
    told = {
        status: row[1]
        for row in rows_under("Where groups go on")
        for status in re.findall(r"`(\w+)`", row[0])
        if status in {*TranslationStatus, *UncommittedStatus}
    }
    assert set(told) == {*TranslationStatus, *UncommittedStatus}
    assert {status for status, held in told.items() if held.startswith("with")} == set(ACCEPTABLE)


def test_results_of_setting_offsets_are_told_in_their_order() -> None:
    results = [row[0].strip("`") for row in rows_under("Where groups go on")]
    assert [result for result in results if result in set(Outcome)] == list(Outcome)
