"""Client quotas of a broker, by the one request that neither client library has: AlterClientQuotas 0."""

import struct

from ledger.kafka.connection import BrokerConnection, parse_addresses

_KEY = 49


def limit_producing(servers: str, client_id: str, bytes_per_s: float | None) -> None:
    """Set `producer_byte_rate` of a client id; None takes it away."""
    limit(servers, client_id, "producer_byte_rate", bytes_per_s)


def limit(servers: str, client_id: str, quota: str, rate: float | None) -> None:
    """Set a quota of a client id; None takes it away."""
    entity = _array(_string("client-id") + _string(client_id))
    change = _array(_string(quota) + struct.pack(">d?", rate or 0.0, rate is None))
    body = struct.pack(">hhi", _KEY, 0, 1) + _string("quotas") + _array(entity + change) + b"\x00"
    connection = BrokerConnection(parse_addresses(servers)[0], {}, timeout_s=10)
    try:
        connection.socket.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.socket.recv(4096)
    finally:
        connection.close()
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 4)  # size, correlation id, throttle time, array
    assert error == 0, answer


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _array(element: bytes) -> bytes:
    return struct.pack(">i", 1) + element
