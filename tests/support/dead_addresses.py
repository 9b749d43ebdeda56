"""Addresses of a name of which the first ones never answer, as when one of several brokers behind a name is down."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

NAME = "kafka.field"
_BACKLOG = 3


def _silent(address: str, port: int, stack: ExitStack) -> None:
    """A listener whose backlog is full: the kernel drops whatever else wants to connect."""
    listener = stack.enter_context(socket.socket())
    listener.bind((address, port))
    listener.listen(0)
    for _ in range(_BACKLOG):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex((address, port))


@contextmanager
def resolving_to(monkeypatch: pytest.MonkeyPatch, port: int, *, silent: int) -> Iterator[list[str]]:
    """Meanwhile NAME has `silent` addresses that never answer, and behind them 127.0.0.1; yields all of them."""
    addresses = [f"127.0.0.{number + 2}" for number in range(silent)] + ["127.0.0.1"]
    resolve = socket.getaddrinfo

    def resolved(host: Any, port: Any, *arguments: Any, **named: Any) -> list[Any]:
        hosts = addresses if host == NAME else [host]
        return [found for one in hosts for found in resolve(one, port, *arguments, **named)]

    with ExitStack() as stack:
        for address in addresses[:-1]:
            _silent(address, port, stack)
        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        yield addresses
