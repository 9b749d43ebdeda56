"""Threads beside a run, and which flow a thread works for where a process runs several."""

import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context

FLOW: ContextVar[str | None] = ContextVar("flow", default=None)
"""The flow that a thread works for, and those that it begins; None: the process has no other one."""


def beside(work: Callable[..., object], *arguments: object, name: str) -> threading.Thread:
    """A thread, not yet started, that works for the flow that its maker works for; a process ends without it."""
    return threading.Thread(target=copy_context().run, args=(work, *arguments), name=name, daemon=True)
