"""Waiting for what somebody else does: asked often, given up loudly."""

import time
from collections.abc import Callable

import pytest

WITHIN_S = 120.0  # an upper bound, for machines that are busy; no test is meant to reach it
_EVERY_S = 0.05


def eventually(holds: Callable[[], bool], what: str, *, within_s: float = WITHIN_S) -> None:
    """Return as soon as it holds; fails the test with `what` when it does not within the time."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {within_s:.0f} s: {what}")
        time.sleep(_EVERY_S)
