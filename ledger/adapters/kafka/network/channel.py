"""A non-blocking channel to one broker: queued requests out, whole responses in."""

import struct
from collections import deque
from collections.abc import Sequence
from ssl import SSLWantReadError, SSLWantWriteError

from ledger.adapters.kafka.connection.broker_connection import BrokerConnection

_LENGTH = struct.Struct(">i")
_LENGTH_AND_CORRELATION = struct.Struct(">ii")
_HEAD_BYTES = _LENGTH_AND_CORRELATION.size
_WOULD_BLOCK = (BlockingIOError, SSLWantReadError, SSLWantWriteError)


class Channel:
    """Owns a connected socket. `flush` and `receive` never wait; they raise `OSError` once the peer has closed."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.address = connection.address
        self.socket = connection.socket
        self.socket.setblocking(False)
        self._outgoing: deque[memoryview] = deque()
        self._head = bytearray(_HEAD_BYTES)
        self._body: bytearray | None = None
        self._received = 0
        self._correlation_id = 0

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        self._outgoing.extend(memoryview(buffer) for buffer in buffers)
        self.flush()

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def flush(self) -> None:
        """Hand to the socket what it takes now."""
        while self._outgoing:
            try:
                sent = self.socket.send(self._outgoing[0])
            except _WOULD_BLOCK:
                return
            if sent == len(self._outgoing[0]):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> list[tuple[int, memoryview]]:
        """Responses complete by now: (correlation id, body after it). Bodies are writable and not shared."""
        responses = []
        while (response := self._receive_one()) is not None:
            responses.append(response)
        return responses

    def _receive_one(self) -> tuple[int, memoryview] | None:
        if self._body is None:
            if not self._fill(memoryview(self._head)):
                return None
            size, self._correlation_id = _LENGTH_AND_CORRELATION.unpack(self._head)
            self._body = bytearray(size - _LENGTH.size)
            self._received = 0
        body = memoryview(self._body)
        if not self._fill(body):
            return None
        self._body, self._received = None, 0
        return self._correlation_id, body

    def _fill(self, view: memoryview) -> bool:
        while self._received < len(view):
            try:
                count = self.socket.recv_into(view[self._received :])
            except _WOULD_BLOCK:
                return False
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            self._received += count
        return True

    def close(self) -> None:
        self.socket.close()
