"""Whatever command a document gives, it exists, with these options."""

import re

import pytest

from ledger.changeover.plans import BlockerCode, StepName
from tests.support.checkout import CHECKOUT
from tests.support.command_lines import command_lines, problems
from tests.support.documents import definitions, section, table_rows

DOCUMENTS = ("README.md", "ledger/OPERATIONS.md", "ledger/RUNBOOK.md", "ledger/CHECKS.md")
RUNBOOK = (CHECKOUT / "ledger" / "RUNBOOK.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_of_a_document_exist_with_their_options(name: str) -> None:
    lines = command_lines((CHECKOUT / name).read_text(encoding="utf-8"))
    assert [problem for line in lines for problem in problems(line)] == []
    assert lines


def test_all_of_the_runbook_s_commands_are_read() -> None:
    assert len(command_lines(RUNBOOK)) == len(re.findall(r"(?<![\w/.-])mirror-ledger(?= )", RUNBOOK))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`mirror-ledger plan failover --form E`", ["failover has no --form"]),
        ("`mirror-ledger plan back`", ["no command plan back"]),
        (
            "```\nmirror-ledger plan switchover|list --from E -o json\n```\n",
            ["list has no --from"],
        ),
        ("`mirror-ledger fence east --producers-stopped`", ["fence has no --producers-stopped"]),
        (
            "`mirror-ledger fence east --accept fire --accept unproven=x`",
            ["fence: 'fire' is not one of producers_stopped, super_user=User:NAME, unproven=REASON"],
        ),
        (
            "```\nmirror-ledger status --check |\n    grep --none x\nmirror-ledger stats\n```\n",
            ["no command stats"],
        ),
        ('```\nx="$(mirror-ledger plan list --wide)" --none\n```\n', []),
        (
            "```\nmirror-ledger offsets set (--flow FLOW | --from EAST --too WEST)\n```\n",
            ["set has no --too"],
        ),
    ],
)
def test_what_does_not_exist_is_found(text: str, found: list[str]) -> None:
    assert [problem for line in command_lines(text) for problem in problems(line)] == found


def test_the_runbook_says_what_to_do_about_every_blocker() -> None:
    stated = definitions(section(RUNBOOK, "The plan is blocked"))
    assert list(stated) == [str(code) for code in BlockerCode]
    assert [name for name, one in stated.items() if not one.parts.get("To do")] == []


def test_the_runbook_explains_every_step_in_its_order() -> None:
    assert [row[0].strip("`") for row in table_rows(section(RUNBOOK, "Steps and their receipts"))] == [
        str(step) for step in StepName
    ]


def test_the_runbook_says_where_each_classic_step_is() -> None:
    assert len(table_rows(section(RUNBOOK, "The nine classic steps"))) == 9
