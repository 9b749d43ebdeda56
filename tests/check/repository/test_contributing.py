"""CONTRIBUTING.md speaks of places and commands that exist, and of every folder; so does the map in the README."""

import re
import tomllib
from typing import Any

from tests.support.checkout import CHECKOUT
from tests.support.documents import definitions, section

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


def test_the_map_in_the_readme_names_the_layers_from_the_top() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    package = definitions(section(readme, "The repository"))["ledger/"].text
    listed = package.partition("imports go down only: ")[2]
    named = [set(layer.split(" and ")) for layer in listed.split(", ")]
    contract = tools()["importlinter"]["contracts"][0]["layers"]
    folders = [{one.strip().removeprefix("ledger.") for one in re.split("[:|]", layer)} for layer in contract]
    assert named == folders


def tools() -> dict[str, Any]:
    """What the checkout says to its tools."""
    found: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return found


def layers() -> set[str]:
    """Folders and files that the first contract of import-linter puts on floors."""
    named = tools()["importlinter"]["contracts"][0]["layers"]
    return {one.strip() for layer in named for one in re.split("[:|]", layer)}


def test_commands_of_make_exist() -> None:
    targets = re.findall(r"^(\w+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named == {"check", "test", "soak", "bench", "seeds", "references"}
    assert named <= set(targets)
