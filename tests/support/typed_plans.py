"""What people type to plan, taken from what was printed, and what `plan` makes of it."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.changeover import seeing
from ledger.changeover.plans import ChangeoverKind, Choices, StepName
from ledger.cli.changeover import plan
from ledger.cli.main import cli
from ledger.errors import PreconditionError
from ledger.facts.ways import Direction

_COMMAND = re.compile(r"mirror-ledger (?!.*mirror-ledger ).*")


def printed(advice: str) -> str:
    """The command that ends what is to be done."""
    found = _COMMAND.search(advice)
    assert found is not None, advice
    return found[0]


@dataclass(frozen=True)
class TypedPlan:
    """What a plan is asked for."""

    kind: ChangeoverKind
    way: Direction
    choices: Choices
    hooks: Mapping[StepName, str]


def typed(line: str) -> TypedPlan:
    """By the command itself, up to where clusters are asked; commits are watched as recorders do without intervals."""
    found: list[TypedPlan] = []

    def make_plan(_context: object, *asked: Any, as_of: object) -> None:
        found.append(TypedPlan(*asked))
        raise PreconditionError("nobody is asked")

    with pytest.MonkeyPatch.context() as patch:
        nothing = SimpleNamespace(config=SimpleNamespace(flows={}))
        patch.setattr(plan, "command_context", lambda *_: nothing)
        patch.setattr(seeing, "make_plan", make_plan)
        with pytest.raises(PreconditionError, match="nobody is asked"):
            cli.main(shlex.split(line)[1:], standalone_mode=False)
    return found[0]
