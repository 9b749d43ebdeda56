"""A process that dies at one of its writes."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


class Killed(BaseException):
    """The process dies here."""


@contextmanager
def killed_at(write: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process dies at the write of this number: before it, where that is odd, else right behind it.

    Writes are what is synced, moved to its place and removed; who is dead does nothing more.
    """
    counted = 0

    def dying(done: Callable[..., object]) -> Callable[..., object]:
        def at(*arguments: object, **options: object) -> object:
            nonlocal counted
            counted += 1
            if counted > write or (counted == write and write % 2):
                raise Killed
            result = done(*arguments, **options)
            if counted == write:
                raise Killed
            return result

        return at

    with monkeypatch.context() as patched:
        for name in ("fsync", "replace", "unlink"):
            patched.setattr(os, name, dying(getattr(os, name)))
        yield
