"""A server of an ASGI application on one address, until it is asked to end."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ledger.config.values import Listen, SecretReference
from ledger.errors import PreconditionError
from ledger.serving.access import Guarded

_BACKLOG = 16
"""As many are accepted at once."""
_WAIT_S = 5
_MOST = 64
_SILENT_S = 10


def token_of(reference: SecretReference | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """What a reader has to show; None: nothing. Raises `UsageError` where it cannot be read."""
    return None if reference is None else reference.resolve(environ)


def bound(listen: Listen) -> socket.socket:
    """A socket at the address; raises `PreconditionError` where nobody can listen there."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PreconditionError(
            f"nobody can listen at {listen}: {error.strerror or error}; nothing was started. Choose another address, "
            "or end what listens there"
        ) from error


def address_of(listening: socket.socket) -> Listen:
    """Where it listens, with the port that was chosen where 0 was asked for."""
    host, port = listening.getsockname()[:2]
    return Listen(host, port)


class _Connection(H11Protocol):
    """One that asks for nothing is closed after a while, and the oldest of them where there are many.

    Anybody may open some, before a token is asked for, and a driver needs its files for brokers and the ledger.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        self.loop.call_later(_SILENT_S, self._end_unasked)
        lasting = [one for one in self.connections if not one.transport.is_closing()]
        if len(lasting) > _MOST:
            idle = (one for one in lasting if isinstance(one, _Connection) and one.is_idle)
            min(idle, key=lambda one: one.opened_at).transport.abort()

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _end_unasked(self) -> None:
        if self.cycle is None:
            self.transport.abort()


class Server(uvicorn.Server):
    """Leaves signals to who runs it, and ends when `should_exit` is set."""

    def __init__(self, application: Any) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_WAIT_S,
                ws="none",
                http=_Connection,
                backlog=_BACKLOG,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of them."""
        yield


@contextmanager
def served_beside(application: Any, listening: socket.socket, *, token: str | None) -> Iterator[None]:
    """An application is served, to who shows the token, for as long as the body takes, in a thread of its own."""
    server = Server(Guarded(application, token))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="serving", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_WAIT_S)
        listening.close()
