"""CONTRIBUTING.md speaks of places and commands that exist, and of every room."""

import re
import tomllib

from tests.support.checkout import CHECKOUT

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
    small = {"ledger.cluster_wiring", "ledger.offset_wiring", "ledger.class_archives"}
    assert unnamed == small, "small ones beside their like"


def test_every_room_of_the_mirror_is_named_and_has_its_layer() -> None:
    rooms = {f"ledger/mirror/{room}/" for room in layers(1)}
    inits = (CHECKOUT / "ledger" / "mirror").glob("*/__init__.py")
    assert rooms == {f"{init.parent.relative_to(CHECKOUT)}/" for init in inits}
    assert {room for room in rooms if f"`{room}`" not in PAGE} == set()


def layers(contract: int) -> set[str]:
    """Rooms of a contract of import-linter."""
    tools = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    named = tools["importlinter"]["contracts"][contract]["layers"]
    return {room.strip() for layer in named for room in re.split("[:|]", layer)}


def test_commands_of_make_exist() -> None:
    targets = re.findall(r"^(\w+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named == {"check", "test", "soak", "bench", "seeds"}
    assert named <= set(targets)
