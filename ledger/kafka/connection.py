"""A connection to one cluster for administration: opened on first use, every call with a deadline.

kafka-python's connection manager does the work, one layer below its `KafkaAdminClient`: a call of that has a
deadline for each of its requests and none for the whole, and a new connection may take 10 s, which cannot be set
there (measured at a broker that hangs: 10 s, with `request_timeout_ms` of 3 s). librdkafka's admin client is not
used either: when a response arrives after its deadline it can abort the whole process, and a mirror must outlive
slow brokers.
"""

import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ledger.config.values import ClusterConfig, SecretReference
from ledger.errors import (
    ClusterUnavailableError,
    MirrorLedgerError,
    PreconditionError,
    QuotaExceededError,
    RefusedSettingError,
    Trouble,
    UsageError,
)
from ledger.kafka.sockets import ANY_ADDRESS, connected_socket
from ledger.kafka.spoken import METADATA, NO_TOPIC_IDS

# Client properties --------------------------------------------------------------------------------
# A cluster's configuration as kafka-python and plain sockets take it: secrets are looked up here.
#
# The values returned hold secrets in clear: pass them to a client, do not keep, print or pickle them.


CLIENT_ID = "mirror-ledger"

_KAFKA_PYTHON_NAMES = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_MECHANISM_NAMES = ("sasl.mechanism", "sasl.mechanisms")


def resolved_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The configured properties with every secret in its place."""
    return {
        name: value.resolve(environ) if isinstance(value, SecretReference) else value
        for name, value in cluster.properties.items()
    }


def kafka_python_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, object]:
    """Who connects and how, for kafka-python; properties that only tune librdkafka are left out."""
    properties = resolved_properties(cluster, environ)
    protocol = properties.get("security.protocol", "plaintext").upper()
    settings: dict[str, object] = {
        "client_id": CLIENT_ID,
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        settings["sasl_mechanism"] = next(
            (properties[name] for name in _MECHANISM_NAMES if name in properties), "GSSAPI"
        )
        settings |= {
            ours: properties[theirs] for theirs, ours in _KAFKA_PYTHON_NAMES.items() if theirs in properties
        }
    if protocol.endswith("SSL"):
        settings["ssl_context"] = tls_context(f"cluster {cluster.name}", properties)
    return settings


def tls_context(peer: str, properties: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS settings of resolved librdkafka properties, as Python's own sockets take them.

    `peer` is the cluster or broker that an error names.
    """
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                properties.get("ssl.key.password"),
            )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{peer}: TLS files cannot be used: {error}; not connected", trouble=Trouble.TLS_FILES
        ) from error
    # From Python 3.13 on it is set; in-house authorities leave out extensions that neither Java nor librdkafka ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if properties.get("ssl.endpoint.identification.algorithm", "https") in {"none", ""}:  # "" as Java has it
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# Troubles -----------------------------------------------------------------------------------------
# What kept a socket from being used: the operating system's and OpenSSL's errors as a `Trouble`.
#
# The same error means different things while a connection is made, in the TLS handshake, and later. Source
# of the numbers: `X509_V_ERR_*` of OpenSSL's x509_vfy.h.


_NOT_YET_VALID, _HAS_EXPIRED = 9, 10
_HOST_NAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_BY_VERIFICATION = {
    _NOT_YET_VALID: Trouble.EXPIRED,
    _HAS_EXPIRED: Trouble.EXPIRED,
    _HOST_NAME_MISMATCH: Trouble.HOST_NAME,
    _ADDRESS_MISMATCH: Trouble.HOST_NAME,
}
_OTHER_PROTOCOL = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})


def trouble_of_connecting(error: OSError) -> Trouble:
    """Why no connection was made."""
    if isinstance(error, socket.gaierror):
        return Trouble.NAME
    return Trouble.REFUSED if isinstance(error, ConnectionRefusedError) else Trouble.UNREACHABLE


def trouble_of_handshake(error: OSError) -> Trouble:
    """Why TLS was not spoken over a connection. A Kafka port without TLS closes it at the first message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_VERIFICATION.get(error.verify_code, Trouble.AUTHORITY)
    if isinstance(error, TimeoutError):
        return Trouble.NO_ANSWER
    # Whether the end of the stream or the reset is seen first depends on who is faster.
    is_closed = isinstance(error, (ConnectionError, ssl.SSLZeroReturnError, ssl.SSLEOFError))
    if is_closed or getattr(error, "reason", None) in _OTHER_PROTOCOL:
        return Trouble.NO_TLS
    return Trouble.TLS


def trouble_of(error: OSError | EOFError) -> Trouble:
    """Why a request over a connection has no answer."""
    return Trouble.NO_ANSWER if isinstance(error, TimeoutError) else Trouble.CLOSED


# Broker connection --------------------------------------------------------------------------------
# One socket to one broker: opened with TLS and SASL as configured, and blocking calls over it.
#
# TLS comes from the standard library, SASL and the encoding of all but the two hot requests from
# kafka-python; its own socket layer is too slow for copying records.


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
        self._spoken: dict[int, tuple[int, int]] | None = None
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
        if self._spoken is None:
            self._spoken = self.api_versions()
        version = METADATA.common(self._spoken)
        if version is None:
            raise PreconditionError(f"{self.address} {NO_TOPIC_IDS}; not done", trouble=Trouble.NO_TOPIC_IDS)
        return self.call(_metadata_request(topics, version), MetadataResponse)

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


def _metadata_request(topics: Iterable[str], version: int) -> Any:
    named = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in topics]
    return MetadataRequest[version](topics=named, allow_auto_topic_creation=False)


def metadata_request(topics: Iterable[str], *, version: int, correlation_id: int) -> bytes:
    """A framed request for what these topics are, for a connection whose answers are read by somebody else."""
    request = _metadata_request(topics, version)
    request.with_header(correlation_id=correlation_id, client_id=CLIENT_ID)
    framed: bytes = request.encode(header=True, framed=True)
    return framed


def parse_metadata_response(body: memoryview, *, version: int) -> MetadataResponse:
    """A response body that starts after the correlation id."""
    return MetadataResponse.decode(bytes(_LENGTH.size) + bytes(body), version=version, header=True)


def _connect(address: Address, properties: Mapping[str, str], timeout_s: float) -> socket.socket:
    try:
        plain = connected_socket(address.host, address.port, timeout_s=timeout_s)
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


# Cluster connection -------------------------------------------------------------------------------


logging.getLogger("kafka").addHandler(logging.NullHandler())  # else its warnings go to stderr unasked

_PROBE_S = 2.0
_RETRY_S = 0.1
_MAX_RESPONSE_BYTES = 200_000_000
_REQUESTS_IN_FLIGHT = 50
_MAX_BACKOFF_MS = 300  # a deadline of seconds needs more than a few attempts

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


class ClusterConnection:
    """Runs work on a cluster's connections; safe to use from several threads."""

    def __init__(self, cluster: ClusterConfig, environ: Mapping[str, str], *, timeout_s: float) -> None:
        self._cluster = cluster
        self._environ = environ
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._manager: KafkaConnectionManager | None = None
        self._net: NetworkSelector | None = None

    def run(
        self,
        operation: str,
        work: Callable[Concatenate[KafkaConnectionManager, Asked], Awaitable[Answer]],
        *args: Asked.args,
        **kwargs: Asked.kwargs,
    ) -> Answer:
        """The answer of `work`, called with these arguments, before the deadline; "not now" is asked for again."""

        def asked(manager: KafkaConnectionManager) -> Awaitable[Answer]:
            return work(manager, *args, **kwargs)

        deadline = time.monotonic() + self._timeout_s
        reconnects_left = 1  # connections that were idle while a broker restarted are dead
        while True:
            try:
                return self._attempt(operation, asked, deadline)
            except QuotaExceededError:
                self.close()  # a connection that is asked to wait sends nothing, not even other requests
                raise
            except errors.KafkaError as error:
                lost = _lost_connection(error)
                may_repeat = reconnects_left > 0 if lost else _asks_to_wait(error)
                if not may_repeat or time.monotonic() + _RETRY_S > deadline:
                    raise self._failure(error, operation) from error
            if lost:
                reconnects_left -= 1
                self.close()
            time.sleep(_RETRY_S)

    def close(self) -> None:
        """Close what is open; the next call opens again."""
        with self._lock:
            self._discard()

    def _attempt(
        self,
        operation: str,
        work: Callable[[KafkaConnectionManager], Awaitable[Answer]],
        deadline: float,
    ) -> Answer:
        manager = self._opened(operation, deadline)

        async def bounded() -> Answer:
            pending = manager.call_soon(work, manager)
            return cast(Answer, await manager.wait_for(pending, _left_ms(deadline)))

        return cast(Answer, manager.run(bounded))

    def _opened(self, operation: str, deadline: float) -> KafkaConnectionManager:
        with self._lock:
            if self._manager is None:
                self._open(operation, deadline)
            return self._manager

    def _open(self, operation: str, deadline: float) -> None:
        """Bootstrap from the first address that answers; each gets its share of the time."""
        settings = kafka_python_properties(self._cluster, self._environ)
        addresses = parse_addresses(self._cluster.bootstrap_servers)
        reasons, troubles = [], []
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            share_end = time.monotonic() + _left_ms(deadline) / 1000 / left
            try:
                self._probe(address, operation, share_end)
                self._bootstrap(address, settings, share_end)
                return
            except (errors.RetriableError, ClusterUnavailableError) as error:
                self._discard()
                reasons.append(f"{address}: {_reason(error)}")
                troubles.append(getattr(error, "trouble", None) or Trouble.NO_ANSWER)
            except errors.KafkaError:
                self._discard()
                raise
        raise self._unavailable(operation, "; ".join(reasons), troubles[0])

    def _probe(self, address: Address, operation: str, deadline: float) -> None:
        """Connect and log in once on a plain socket, for the reason when that fails.

        kafka-python drops what a broker says just before it closes a connection, a refused login above
        all, and would try again until the deadline.
        """
        properties = resolved_properties(self._cluster, self._environ)
        try:
            BrokerConnection(address, properties, timeout_s=min(_PROBE_S, _left_ms(deadline) / 1000)).close()
        except UsageError as error:
            raise PreconditionError(
                f"cluster {self._cluster.name} refused the login, needed to {operation}: {error}; not done",
                trouble=error.trouble,
            ) from error

    def _bootstrap(self, address: Address, settings: Mapping[str, object], deadline: float) -> None:
        tuned = {
            **settings,
            "bootstrap_servers": [str(address)],
            "request_timeout_ms": int(self._timeout_s * 1000),
            "receive_message_max_bytes": _MAX_RESPONSE_BYTES,
            "max_in_flight_requests_per_connection": _REQUESTS_IN_FLIGHT,
            "reconnect_backoff_max_ms": _MAX_BACKOFF_MS,
            "proxy_url": ANY_ADDRESS,
        }
        self._net = NetworkSelector(**tuned)
        self._manager = KafkaConnectionManager(self._net, **tuned)
        self._net.start()
        self._manager.bootstrap(_left_ms(deadline))

    def _discard(self) -> None:
        if self._manager is not None and self._net is not None:
            self._manager.call_soon(self._manager.close)
            self._net.stop(timeout_ms=1000)
            self._net.close()
        self._manager = self._net = None

    def _failure(self, error: errors.KafkaError, operation: str) -> MirrorLedgerError:
        name = self._cluster.name
        if isinstance(error, errors.SaslAuthenticationFailedError):
            return PreconditionError(
                f"cluster {name} refused the login, needed to {operation}: {error}; not done",
                trouble=Trouble.CREDENTIALS,
            )
        if isinstance(error, errors.AuthorizationError):
            return PreconditionError(
                f"cluster {name} does not allow this principal to {operation}: {error}; not done",
                trouble=Trouble.NOT_ALLOWED,
            )
        if isinstance(error, errors.InvalidConfigurationError | errors.PolicyViolationError):
            message = f"cluster {name} refused to {operation}: {error}; not done"
            return RefusedSettingError(message, reason=f"cluster {name} refused it: {error}")
        if isinstance(error, errors.UnsupportedVersionError | errors.InvalidRequestError):
            is_sent = not isinstance(error, errors.IncompatibleBrokerVersion)
            if not is_sent and METADATA.request in str(error):
                why = f"cluster {name} {NO_TOPIC_IDS}; not done"
                return PreconditionError(why, trouble=Trouble.NO_TOPIC_IDS)
            what = "refused to" if is_sent else "was not asked to"
            return PreconditionError(
                f"cluster {name} {what} {operation}: {error}; not done", trouble=Trouble.NOT_SPOKEN
            )
        if isinstance(error, errors.BrokerResponseError) and not getattr(error, "retriable", False):
            return PreconditionError(f"cluster {name} refused to {operation}: {error}; not done")
        self.close()
        return self._unavailable(operation, str(error), Trouble.NO_ANSWER)

    def _unavailable(self, operation: str, reason: str, trouble: Trouble) -> ClusterUnavailableError:
        return ClusterUnavailableError(
            f"cluster {self._cluster.name} at {self._cluster.bootstrap_servers} could not be reached to "
            f"{operation}: {reason}; not done",
            trouble=trouble,
        )


def _lost_connection(error: errors.KafkaError) -> bool:
    refused_later = isinstance(error, errors.BrokerResponseError | errors.KafkaTimeoutError)
    return isinstance(error, errors.RetriableError) and not refused_later


def _asks_to_wait(error: errors.KafkaError) -> bool:
    """The broker answered that it cannot now: a coordinator that loads, a controller that moved."""
    ambiguous = isinstance(error, errors.RequestTimedOutError)
    return isinstance(error, errors.BrokerResponseError) and bool(error.retriable) and not ambiguous


def _reason(error: errors.KafkaError | ClusterUnavailableError) -> str:
    if isinstance(error, errors.KafkaTimeoutError):
        return "accepts connections but does not answer"
    return str(error)


def _left_ms(deadline: float) -> int:
    return max(1, int((deadline - time.monotonic()) * 1000))
