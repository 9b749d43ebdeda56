"""From a name to a socket, whichever of its addresses answers."""

import socket
import time
from collections.abc import Iterator

import pytest

from ledger.kafka.sockets import connected_socket
from tests.support.dead_addresses import NAME, resolving_to


@pytest.fixture
def port() -> Iterator[int]:
    """A port of 127.0.0.1 that accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_addresses_that_never_answer_do_not_matter_before_one_that_does(
    silent: int, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with resolving_to(monkeypatch, port, silent=silent):
        began = time.monotonic()
        with connected_socket(NAME, port, timeout_s=5.0) as found:
            assert (found.getpeername()[0], found.gettimeout()) == ("127.0.0.1", 5.0)
        assert time.monotonic() - began < 2.0
        began = time.monotonic()
        connected_socket(NAME, port, timeout_s=5.0).close()
        assert time.monotonic() - began < 0.25, "the one that worked last comes first"


def test_where_none_answers_all_that_were_tried_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with resolving_to(monkeypatch, port, silent=1) as addresses:
        with pytest.raises(TimeoutError, match=r"timed out \(tried 127.0.0.2, 127.0.0.1\)"):
            connected_socket(NAME, port, timeout_s=0.5)
        addresses.pop(0)
        with pytest.raises(ConnectionRefusedError, match=r"Connection refused$"):
            connected_socket(NAME, port, timeout_s=0.5)
    with pytest.raises(socket.gaierror):
        connected_socket("nowhere.invalid", port, timeout_s=0.5)
