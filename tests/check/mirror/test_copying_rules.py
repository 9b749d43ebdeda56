"""The rules by which a partition is copied: PROTOCOL.md numbers them, a part holds each, a mutant breaks each."""

import ast
import importlib
import inspect
import re

import pytest

from ledger.mirror.assignment import OpenRequests
from ledger.mirror.reconciliation import Between, TailReconciliation
from ledger.mirror.window import SendWindow
from tests.soak.mutants.mutant import mutants
from tests.support.checkout import CHECKOUT
from tests.support.documents import section

PROTOCOL = (CHECKOUT / "ledger" / "PROTOCOL.md").read_text(encoding="utf-8")
RULES = {
    name: holder
    for name, holder in re.findall(
        r"^- \*\*(P\d) [^*]+\*\* \(`(\w+)`\): ", section(PROTOCOL, "Copying a partition"), re.MULTILINE
    )
}
PARTS = (SendWindow, TailReconciliation, OpenRequests, Between)
OF_A_COPY = (
    "assignment",
    "partition",
    "reconciliation",
    "source",
    "sync_builder",
    "tail",
    "tail_reading",
    "task",
    "window",
)


def test_each_rule_is_held_by_a_part_that_names_it() -> None:
    holders = {part.__name__: inspect.getdoc(part) or "" for part in PARTS}
    assert list(RULES) == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert set(RULES.values()) == set(holders)
    assert [name for name, holder in RULES.items() if name not in holders[holder]] == []


@pytest.mark.parametrize("name", RULES)
def test_a_mutant_breaks_each_rule(name: str) -> None:
    assert any(mutant.name.startswith(f"{name}: ") for mutant in mutants())


@pytest.mark.parametrize("module", OF_A_COPY)
def test_the_state_of_a_part_is_written_by_itself_alone(module: str) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(f"ledger.mirror.{module}")))
    written = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
    ]
    assert written, "it has state of its own"
    assert [place for place in written if not re.fullmatch(r"self\.\w+", place)] == []
