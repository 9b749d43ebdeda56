"""What `status` says of a flow."""

import json
from typing import Any

from tests.support.operated import FLOW, Operated


def text(flow: Operated, *arguments: str, code: int = 0) -> str:
    """Its text, as a table unless it is told otherwise."""
    done = flow.command("status", *arguments)
    assert done.code == code, done.err
    assert ("cut v2." in done.err) == ("json" in arguments)
    return done.out


def flat(told: str) -> str:
    """Without the folds: one blank between words."""
    return " ".join(told.split())


def report(flow: Operated, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Its JSON."""
    [found] = json.loads(text(flow, FLOW, "-o", "json", *arguments, code=code))
    assert isinstance(found, dict)
    return found
