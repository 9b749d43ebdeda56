"""One socket to one broker: opened with TLS and SASL as configured, and blocking calls over it.

TLS comes from the standard library, SASL and the encoding of all but the two hot requests from
kafka-python; its own socket layer is too slow for copying records.
"""

import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ledger.adapters.kafka.connection.client_properties import CLIENT_ID, tls_context
from ledger.adapters.kafka.connection.troubles import trouble_of, trouble_of_connecting, trouble_of_handshake
from ledger.errors import ClusterUnavailableError, Trouble, UsageError

_METADATA_VERSION = 12  # answers with topic ids
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
_LENGTH = struct.Struct(">i")
_TLS_ALERT = b"\x15\x03"  # no answer is so long: it would be 336 MiB


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_addresses(bootstrap_servers: str) -> list[Address]:
    """Addresses of a `host:port,host:port` list; IPv6 hosts in brackets."""
    addresses = []
    for item in bootstrap_servers.split(","):
        host, _, port = item.strip().rpartition(":")
        addresses.append(Address(host.strip("[]"), int(port)))
    return addresses


class BrokerConnection:
    """A connected, authenticated socket; `call` sends one request and waits for its answer."""

    def __init__(self, address: Address, properties: Mapping[str, str], *, timeout_s: float) -> None:
        self.address = address
        self._correlation_id = 0
        self.socket = _connect(address, properties, timeout_s)
        try:
            _authenticate(self, properties)
        except BaseException:
            self.close()
            raise

    def call(self, request: Any, response_type: Any) -> Any:
        """Send a kafka-python request of a set version; raises `ClusterUnavailableError` without an answer."""
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id=CLIENT_ID)
        try:
            self.socket.sendall(request.encode(header=True, framed=True))
            body = self._receive(self._answer_size())
        except (OSError, EOFError) as error:
            self.close()
            raise ClusterUnavailableError(
                f"{self.address} did not answer a {request.name}: {error}", trouble=trouble_of(error)
            ) from error
        return response_type.decode(body, version=request.API_VERSION, header=True)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """By key of a request its oldest and newest version that the broker speaks; also before a login."""
        answer = self.call(ApiVersionsRequest[0](), ApiVersionsResponse)
        return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    def metadata(self, topics: Iterable[str]) -> MetadataResponse:
        """Brokers, and these topics, as the broker sees them."""
        named = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in topics]
        request = MetadataRequest[_METADATA_VERSION](topics=named, allow_auto_topic_creation=False)
        return self.call(request, MetadataResponse)

    def _answer_size(self) -> int:
        """The length that an answer begins with; a port that speaks TLS answers with an alert instead."""
        prefix = self._receive(_LENGTH.size)
        if prefix.startswith(_TLS_ALERT):
            self.close()
            raise ClusterUnavailableError(
                f"{self.address} speaks TLS; a request without TLS was not answered",
                trouble=Trouble.NEEDS_TLS,
            )
        return int(_LENGTH.unpack(prefix)[0])

    def _receive(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, received = memoryview(buffer), 0
        while received < size:
            count = self.socket.recv_into(view[received:])
            if count == 0:
                raise EOFError("the broker closed the connection")
            received += count
        return bytes(buffer)

    def close(self) -> None:
        self.socket.close()


def _connect(address: Address, properties: Mapping[str, str], timeout_s: float) -> socket.socket:
    try:
        plain = socket.create_connection((address.host, address.port), timeout=timeout_s)
    except OSError as error:
        raise ClusterUnavailableError(
            f"{address} cannot be connected: {error}", trouble=trouble_of_connecting(error)
        ) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
    if not _protocol(properties).endswith("SSL"):
        return plain
    try:
        return tls_context(str(address), properties).wrap_socket(plain, server_hostname=address.host)
    except OSError as error:
        plain.close()
        raise ClusterUnavailableError(
            f"{address} failed the TLS handshake: {error}", trouble=trouble_of_handshake(error)
        ) from error


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "plaintext").upper()


def _authenticate(connection: BrokerConnection, properties: Mapping[str, str]) -> None:
    """SASL by handshake v1 and authenticate v1, as every broker since 1.0 speaks it."""
    if not _protocol(properties).startswith("SASL"):
        return
    name = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "")
    mechanism_type = _known_mechanism(name)
    _agree_on_mechanism(connection, name)
    mechanism = mechanism_type(
        host=connection.address.host,
        sasl_mechanism=name,
        security_protocol=_protocol(properties),
        sasl_plain_username=properties.get("sasl.username"),
        sasl_plain_password=properties.get("sasl.password"),
    )
    while not mechanism.is_done():
        answer = connection.call(
            SaslAuthenticateRequest[1](auth_bytes=mechanism.auth_bytes()), SaslAuthenticateResponse
        )
        if answer.error_code:
            raise UsageError(
                f"{connection.address} refused the credentials: {answer.error_message}",
                trouble=Trouble.CREDENTIALS,
            )
        mechanism.receive(answer.auth_bytes)


def _known_mechanism(name: str) -> Any:
    try:
        return get_sasl_mechanism(name)
    except KeyError as error:
        raise UsageError(
            f"SASL mechanism {name!r} is not known; no connection was made", trouble=Trouble.MECHANISM
        ) from error


def _agree_on_mechanism(connection: BrokerConnection, name: str) -> None:
    handshake = connection.call(SaslHandshakeRequest[1](mechanism=name), SaslHandshakeResponse)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms or ()) or "none: it asks for no login"
        raise UsageError(
            f"{connection.address} does not offer SASL mechanism {name}; it offers {offered}",
            trouble=Trouble.MECHANISM,
        )
