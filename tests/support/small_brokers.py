"""A broker that only says who it is, on loopback: logins by PLAIN, and the addresses of its cluster's brokers."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol import metadata, sasl
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

CLUSTER_ID = "sMaLlClusterOfThisTest"
_SPOKEN = {3: (9, 12), 17: (1, 1), 18: (0, 3), 36: (0, 2)}
_METADATA, _HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 3, 17, 18, 36
_REFUSED = 58


@dataclass
class SmallBroker:
    """`refuses`: by the number of a login, from 1, what is said of one that is refused; None: it is accepted.

    `brokers`: by node id the addresses that it gives; none: itself.
    """

    refuses: Callable[[int], str | None] = lambda _number: None
    cluster_id: str = CLUSTER_ID
    brokers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    logins: int = 0
    passwords: list[bytes] = field(default_factory=list)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _talk(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream, suppress(OSError):
            while len(length := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(length, "big"))
                key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
                answer = self._answer(key, version, frame)
                answer.with_header(correlation_id=int.from_bytes(frame[4:8], "big"))
                client.sendall(answer.encode(header=True, framed=True))
                if getattr(answer, "error_code", 0) == _REFUSED:
                    return

    def _answer(self, key: int, version: int, frame: bytes) -> Any:
        if key == _API_VERSIONS:
            spoken = [
                ApiVersionsResponse.ApiVersion(api_key=api, min_version=low, max_version=high)
                for api, (low, high) in _SPOKEN.items()
            ]
            return ApiVersionsResponse[version](error_code=0, api_keys=spoken, throttle_time_ms=0)
        if key == _HANDSHAKE:
            return sasl.SaslHandshakeResponse[version](error_code=0, mechanisms=["PLAIN"])
        if key == _AUTHENTICATE:
            request = sasl.SaslAuthenticateRequest.decode(frame, version=version, header=True)
            return self._login(version, bytes(request.auth_bytes))
        assert key == _METADATA, key
        return self._metadata(version)

    def _login(self, version: int, shown: bytes) -> Any:
        with self._lock:
            self.logins += 1
            self.passwords.append(shown.rpartition(b"\0")[2])
            said = self.refuses(self.logins)
        return sasl.SaslAuthenticateResponse[version](
            error_code=0 if said is None else _REFUSED,
            error_message=said,
            auth_bytes=b"",
            session_lifetime_ms=0,
        )

    def _metadata(self, version: int) -> Any:
        at = self.brokers or {1: ("127.0.0.1", self.port)}
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host=host, port=port, rack=None)
            for node, (host, port) in at.items()
        ]
        return metadata.MetadataResponse[version](
            throttle_time_ms=0, brokers=brokers, cluster_id=self.cluster_id, controller_id=1, topics=[]
        )


@contextmanager
def small_broker(**said: Any) -> Iterator[SmallBroker]:
    """One that answers until the end of the context, or until it is closed."""
    broker = SmallBroker(**said)
    threading.Thread(target=broker.serve, daemon=True).start()
    try:
        yield broker
    finally:
        broker.close()
