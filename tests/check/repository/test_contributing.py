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
    contract = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]
    rooms = {
        room.strip().removeprefix("ledger.")
        for layer in contract["contracts"][0]["layers"]
        for room in layer.split(":")
    }
    unnamed = {room for room in rooms if f"`ledger/{room}" not in PAGE}
    assert unnamed == {"cluster_wiring", "offset_wiring", "class_archives"}, "small ones beside their like"


def test_commands_of_make_exist() -> None:
    targets = re.findall(r"^(\w+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = set(re.findall(r"`make (\w+)`", PAGE))
    assert named == {"check", "test", "soak", "bench", "seeds"}
    assert named <= set(targets)
