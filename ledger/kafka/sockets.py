"""From the name of a broker to a connected socket, whichever of its addresses answers.

Names of headless services, balancers and hosts with two address families have several addresses, of which some may be
dead. All are tried, a quarter of a second apart while the earlier ones are waited for (RFC 8305, section 5); the one
that worked last comes first. Names are resolved again for each connection.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from aiohappyeyeballs import start_connection
from kafka.net.inet import KafkaNetSocket

_APART_S = 0.25
_POLL_S = 0.005
_SETUP_TIMEOUT_S = 10.0
_worked: dict[tuple[str, int], Any] = {}


def connected_socket(host: str, port: int, *, timeout_s: float) -> socket.socket:
    """A connected socket whose calls wait `timeout_s` at most, as long as each address of the name was waited for.

    Raises `socket.gaierror` for a name that does not resolve, else `OSError`, which names the addresses if there are
    several.
    """
    found = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    last = _worked.get((host, port))
    ordered = sorted(found, key=lambda one: one[4] != last)
    within_s = timeout_s + _APART_S * (len(ordered) - 1)
    try:
        connected = asyncio.run(
            asyncio.wait_for(start_connection(ordered, happy_eyeballs_delay=_APART_S), within_s)
        )
    except OSError as error:
        tried = ", ".join(str(one[4][0]) for one in ordered)
        where = f" (tried {tried})" if len(ordered) > 1 else ""
        if isinstance(error, TimeoutError) and error.errno is None:
            raise TimeoutError(f"timed out{where}") from error
        if error.errno is None:  # not for all of them the same reason, which the words have
            raise
        raise OSError(error.errno, os.strerror(error.errno) + where) from error
    _worked[host, port] = connected.getpeername()
    connected.settimeout(timeout_s)
    return connected


class AnyAddress(KafkaNetSocket):  # type: ignore[misc]
    """How kafka-python connects where its `proxy_url` is `ANY_ADDRESS`: on a thread, its loop waits for nobody."""

    SCHEMES = ("any-address",)

    def dns_lookup(self, host: str, port: int) -> list[tuple[str, int]]:
        """What `connect` takes: the name as it is."""
        return [(host, port)]

    async def connect(
        self,
        net: Any,
        addrinfo: tuple[str, int],
        socket_options: Sequence[tuple[int, int, int]] = (),
        timeout_at: float | None = None,
    ) -> socket.socket:
        """A connected socket that does not block; raises `OSError`."""
        seconds = _SETUP_TIMEOUT_S if timeout_at is None else max(0.0, timeout_at - time.monotonic())
        opening = _on_a_thread(addrinfo, seconds)
        while not opening.done():
            await net.sleep(_POLL_S)
        connected = opening.result()
        connected.setblocking(False)
        for option in socket_options:
            connected.setsockopt(*option)
        return connected


ANY_ADDRESS = "any-address://"


def _on_a_thread(where: tuple[str, int], timeout_s: float) -> Future[socket.socket]:
    """A daemon: a process that ends does not wait for an address that never answers."""
    opening: Future[socket.socket] = Future()

    def connect() -> None:
        try:
            opening.set_result(connected_socket(*where, timeout_s=timeout_s))
        except (OSError, ValueError) as error:  # a name that is none is a ValueError
            opening.set_exception(error)

    threading.Thread(target=connect, daemon=True).start()
    return opening
