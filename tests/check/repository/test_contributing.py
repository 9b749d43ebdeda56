"""CONTRIBUTING.md speaks of places and commands that exist, and of every folder."""

import re
import tomllib

from tests.support.checkout import CHECKOUT
from tests.support.documents import section

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
    assert named == {"check", "test", "soak", "bench", "seeds", "references"}
    assert named <= set(targets)
