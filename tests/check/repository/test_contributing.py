"""CONTRIBUTING.md speaks of places and commands that exist, and of every room; so does the map in the README."""

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


def test_every_room_is_named() -> None:
    rooms = layers(0)
    unnamed = {room for room in rooms if f"`{room.replace('.', '/')}" not in PAGE}
    assert unnamed == {"ledger.class_archives"}, "a small one beside its like"


def test_every_room_of_the_mirror_is_named_and_has_its_layer() -> None:
    rooms = {f"ledger/mirror/{room}/" for room in layers(1)}
    inits = (CHECKOUT / "ledger" / "mirror").glob("*/__init__.py")
    assert rooms == {f"{init.parent.relative_to(CHECKOUT)}/" for init in inits}
    assert {room for room in rooms if f"`{room}`" not in PAGE} == set()


def test_the_map_in_the_readme_names_the_layers_from_the_top() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    package = definitions(section(readme, "The repository"))["ledger/"].text
    listed = package.partition("imports go down only: ")[2]
    named = [set(layer.split(" and ")) for layer in listed.split(", ")]
    contract = tools()["importlinter"]["contracts"][0]["layers"]
    rooms = [{room.strip().removeprefix("ledger.") for room in re.split("[:|]", layer)} for layer in contract]
    assert named == [layer - {"class_archives"} for layer in rooms]


def tools() -> dict[str, Any]:
    """What the checkout says to its tools."""
    found: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return found


def layers(contract: int) -> set[str]:
    """Rooms of a contract of import-linter."""
    named = tools()["importlinter"]["contracts"][contract]["layers"]
    return {room.strip() for layer in named for room in re.split("[:|]", layer)}


def test_commands_of_make_exist() -> None:
    targets = re.findall(r"^(\w+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named == {"check", "test", "soak", "bench", "seeds"}
    assert named <= set(targets)
