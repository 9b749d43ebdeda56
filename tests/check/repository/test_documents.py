"""Documents speak of places, files and commands that exist."""

import re
import tomllib
from pathlib import Path

import pytest

from ledger.changeover.plans import BlockerCode, StepName
from ledger.config.file import load_config
from tests.support.checkout import CHECKOUT
from tests.support.documents import command_lines, definitions, problems, section, table_rows

# -- CONTRIBUTING.md -------------------------------------------------------------------------------

PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NOT_THERE = {"queries/NAME.sql", "tests/cases/NAME.cases.txt"}
"""Patterns of names, to be filled in."""


def test_every_place_exists() -> None:
    places = {name for name in re.findall(r"`([\w./-]+/[\w./-]*)`", PAGE)} - NOT_THERE
    assert len(places) > 30
    assert [name for name in sorted(places) if not (CHECKOUT / name).exists()] == []


def test_every_folder_is_named() -> None:
    named = {module.replace(".", "/") for module in layers()}
    package = CHECKOUT / "ledger"
    there = {f"ledger/{path.parent.name}" for path in package.glob("*/__init__.py")}
    there |= {f"ledger/{path.stem}" for path in package.glob("*.py") if path.stem != "__init__"}
    assert there == named, "each has its layer"
    assert {one for one in named if f"`{one}/`" not in PAGE and f"`{one}.py`" not in PAGE} == set()


def test_folders_are_named_from_the_top() -> None:
    listed = re.findall(r"`ledger/(\w+)(?:/|\.py)`", section(PAGE, "The folders"))
    floors = [
        {one.strip().removeprefix("ledger.") for one in re.split("[:|]", layer)} for layer in contract()
    ]
    of = {name: number for number, floor in enumerate(floors) for name in floor}
    numbers = [of[name] for name in listed]
    assert numbers == sorted(numbers)


def contract() -> list[str]:
    """The floors of the first contract of import-linter, from the top."""
    tools = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    found: list[str] = tools["importlinter"]["contracts"][0]["layers"]
    return found


def layers() -> set[str]:
    """Folders and files on these floors."""
    return {one.strip() for layer in contract() for one in re.split("[:|]", layer)}


def test_commands_of_make_exist() -> None:
    targets = re.findall(r"^(\w+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named == {"check", "test", "soak", "bench", "seeds", "references", "site"}
    assert named <= set(targets)


# -- README.md -------------------------------------------------------------------------------------

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
README_LINES = 150
RUN_BY = {
    "make demo": ("tests/soak/end_to_end/test_demo.py", '"demo"'),
    "make test": (".ci/run", "make test"),
    "pip install 'mirror-ledger[sandbox]'": ("tests/soak/end_to_end/test_installed.py", "sandbox"),
    "pip install mirror-ledger": ("tests/soak/end_to_end/test_installed.py", "wheel"),
    "mirror-ledger demo": ("tests/soak/end_to_end/test_installed.py", '"demo"'),
    "mirror-ledger import mm2.properties > mirror.toml": ("tests/check/cli/test_importing.py", '"import"'),
    "mirror-ledger status": ("tests/real/repository/test_readme.py", "BLOCKS"),
    "mirror-ledger stop east-to-west": ("tests/real/faults/test_requests.py", '"stop"'),
    "mirror-ledger stop west-to-east": (
        "tests/real/repository/test_readme.py",
        "mirror-ledger stop west-to-east",
    ),
    "mirror-ledger sandbox down": ("tests/real/repository/test_readme.py", "mirror-ledger sandbox down"),
}
"""Commands beside the blocks that `tests/real/repository/test_readme.py` types: what runs each, and words there."""


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= README_LINES


def test_every_command_of_the_readme_is_run_by_a_test() -> None:
    assert set(re.findall(r"^```(\w*)$", README, re.M)) == {"", "sh", "toml"}
    inline = {
        " ".join(code.split())
        for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```|<!--.*?-->", "", README, flags=re.S))
    }
    assert {code for code in inline if code.startswith(("make ", "pip ", "python", "mirror-ledger "))} == set(
        RUN_BY
    )
    for file, words in RUN_BY.values():
        assert words in (CHECKOUT / file).read_text(encoding="utf-8"), file


def test_the_configuration_of_the_readme_is_complete(tmp_path: Path) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    file = tmp_path / "mirror.toml"
    file.write_text(text, encoding="utf-8")
    flow = load_config(file).flow("east-to-west")
    assert (flow.source, flow.target, flow.topic_naming) == ("east", "west", "identity")
    assert flow.topics == ("orders", r"payments\..*")


# -- ARCHITECTURE.md -------------------------------------------------------------------------------

ARCHITECTURE = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
KERNEL_LINES = 7_000
"""About two hours; the page says so."""


def test_every_file_exists() -> None:
    named = set(re.findall(r"`((?:ledger|queries|tests)/[\w./*]+)`", ARCHITECTURE))
    assert len(named) > 15
    assert [name for name in sorted(named) if not list(CHECKOUT.glob(name))] == []


def test_the_kernel_is_there_and_short_enough_to_be_read() -> None:
    kernel = re.findall(
        r"`((?:ledger|queries)/[\w./]+)`", section(ARCHITECTURE, "The kernel, in reading order")
    )
    lines = sum(len((CHECKOUT / name).read_text(encoding="utf-8").splitlines()) for name in kernel)
    assert (len(kernel), lines < KERNEL_LINES) == (18, True), lines


# -- Commands --------------------------------------------------------------------------------------

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
