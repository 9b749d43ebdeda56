"""A connection to one cluster for administration: opened on first use, every call with a deadline.

kafka-python's connection manager does the work, one layer below its `KafkaAdminClient`: a call of that has a
deadline for each of its requests and none for the whole, and a new connection may take 10 s, which cannot be set
there (measured at a broker that hangs: 10 s, with `request_timeout_ms` of 3 s). librdkafka's admin client is not
used either: when a response arrives after its deadline it can abort the whole process, and a mirror must outlive
slow brokers.
"""

import logging
import math
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from ledger.config.values import ClusterConfig, SecretReference
from ledger.errors import (
    ClusterUnavailableError,
    LoginRefusedError,
    MirrorLedgerError,
    PreconditionError,
    QuotaExceededError,
    RefusedSettingError,
    Trouble,
    UsageError,
)
from ledger.kafka.logins import login_settings, mechanism_of, refused_trouble, security_protocol
from ledger.kafka.sockets import ANY_ADDRESS, connected_socket
from ledger.kafka.spoken import METADATA, NO_TOPIC_IDS
from ledger.words import instant

# Client properties --------------------------------------------------------------------------------
# A cluster's configuration as kafka-python and plain sockets take it: secrets are looked up here.
#
# The values returned hold secrets in clear: pass them to a client, do not keep, print or pickle them.


CLIENT_ID = "mirror-ledger"


def resolved_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The configured properties with every secret in its place."""
    return {
        name: value.resolve(environ) if isinstance(value, SecretReference) else value
        for name, value in cluster.properties.items()
    }


def kafka_python_properties(cluster: ClusterConfig, environ: Mapping[str, str]) -> dict[str, object]:
    """Who connects and how, for kafka-python; properties that only tune librdkafka are left out."""
    properties = resolved_properties(cluster, environ)
    protocol = security_protocol(properties)
    hosts = [address.host for address in parse_addresses(cluster.bootstrap_servers)]
    peer = f"cluster {cluster.name}"
    settings: dict[str, object] = {
        "client_id": CLIENT_ID,
        "security_protocol": protocol,
        **login_settings(peer, properties, hosts),
    }
    if protocol.endswith("SSL"):
        from ledger.kafka.tls import tls_context  # it brings certificates, which others would wait for

        settings["ssl_context"] = tls_context(peer, properties)
    return settings


def prepare_login(cluster: ClusterConfig, environ: Mapping[str, str]) -> None:
    """Read stores and ask for a token, which the process keeps: connections are not to be late by what that takes."""
    provider: Any = kafka_python_properties(cluster, environ).get("sasl_oauth_token_provider")
    if provider is not None:
        provider.token()


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
_STRICT = range(80, 94)  # what only strict verification asks for: identifiers of keys, and the like
_OTHER_PROTOCOL = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})


def trouble_of_connecting(error: OSError) -> Trouble:
    """Why no connection was made."""
    if isinstance(error, socket.gaierror):
        return Trouble.NAME
    return Trouble.REFUSED if isinstance(error, ConnectionRefusedError) else Trouble.UNREACHABLE


def trouble_of_handshake(error: OSError) -> Trouble:
    """Why TLS was not spoken over a connection. A Kafka port without TLS closes it at the first message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        by_default = Trouble.STRICT if error.verify_code in _STRICT else Trouble.AUTHORITY
        return _BY_VERIFICATION.get(error.verify_code, by_default)
    if _is_about_own_certificate(error):
        return Trouble.OWN_CERTIFICATE
    if isinstance(error, TimeoutError):
        return Trouble.NO_ANSWER
    # Whether the end of the stream or the reset is seen first depends on who is faster.
    is_closed = isinstance(error, (ConnectionError, ssl.SSLZeroReturnError, ssl.SSLEOFError))
    if is_closed or getattr(error, "reason", None) in _OTHER_PROTOCOL:
        return Trouble.NO_TLS
    return Trouble.TLS


def trouble_of(error: OSError | EOFError) -> Trouble:
    """Why a request over a connection has no answer."""
    if _is_about_own_certificate(error):
        return Trouble.OWN_CERTIFICATE
    return Trouble.NO_ANSWER if isinstance(error, TimeoutError) else Trouble.CLOSED


def _is_about_own_certificate(error: OSError | EOFError) -> bool:
    """A broker says so when it has seen it: within the handshake up to TLS 1.2, behind it from 1.3 on."""
    reason = str(getattr(error, "reason", ""))
    return (
        isinstance(error, ssl.SSLError) and "ALERT" in reason and ("CERTIFICATE" in reason or "_CA" in reason)
    )


# Broker connection --------------------------------------------------------------------------------
# One socket to one broker: opened with TLS and SASL as configured, and blocking calls over it.
#
# TLS comes from the standard library, SASL and the encoding of all but the two hot requests from
# kafka-python; its own socket layer is too slow for copying records.


_LOGIN_DUE = (0.8, 0.9)  # of the time that a login lasts; not all connections at once
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
_LENGTH = struct.Struct(">i")
_TLS_ALERT = b"\x15\x03"  # no answer is so long: it would be 336 MiB
_REFUSED_FOR_S = 4.0  # brokers refuse for a moment: too many logins at once, a store of users that is away
_LOGIN_RETRIES = Retrying(
    retry=retry_if_exception_type(LoginRefusedError),
    stop=stop_after_delay(_REFUSED_FOR_S),
    wait=wait_random_exponential(multiplier=0.2, max=1),
    reraise=True,
)


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
    """A connected, authenticated socket; `call` sends one request and waits for its answer.

    A login that is refused is tried again for some seconds, on a new connection each time.
    Where the broker ends a login after a time (KIP-368), `call` logs in again before that, on the same connection; who
    takes the socket for requests of his own does so by `log_in_again` when `is_login_due`.
    """

    def __init__(self, address: Address, properties: Mapping[str, str], *, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._correlation_id = 0
        self._spoken: dict[int, tuple[int, int]] | None = None
        self._properties = properties
        self._protocol = security_protocol(properties)
        self._login = login_settings(str(address), properties, [address.host])
        self._login_due_at = math.inf
        _LOGIN_RETRIES(self._open)

    def _open(self) -> None:
        self.socket = _connect(self.address, self._properties, self.timeout_s)
        try:
            self.log_in_again()
        except BaseException:
            self.close()
            raise

    @property
    def is_login_due(self) -> bool:
        """Whether the broker ends the login soon."""
        return time.monotonic() >= self._login_due_at

    def log_in_again(self) -> None:
        """Log in, for the first time or once more, while no request waits for its answer."""
        self._login_due_at = math.inf
        if self._login:
            began_at = time.monotonic()
            if lasts_ms := _authenticate(self, self._login, self._protocol):
                self._login_due_at = began_at + lasts_ms / 1000 * random.uniform(*_LOGIN_DUE)

    def call(self, request: Any, response_type: Any) -> Any:
        """Send a kafka-python request of a set version; raises `ClusterUnavailableError` without an answer."""
        if self.is_login_due:
            self.log_in_again()
        self._correlation_id += 1
        request.with_header(correlation_id=self._correlation_id, client_id=CLIENT_ID)
        try:
            self.socket.sendall(request.encode(header=True, framed=True))
            body = self._receive(self._answer_size())
        except (OSError, EOFError) as error:
            self.close()
            trouble = trouble_of(error)
            own = f"; {_own_certificate(self._properties)}" if trouble is Trouble.OWN_CERTIFICATE else ""
            raise ClusterUnavailableError(
                f"{self.address} did not answer a {request.name}: {error}{own}", trouble=trouble
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
    if not security_protocol(properties).endswith("SSL"):
        return plain
    try:
        from ledger.kafka.tls import tls_context

        return tls_context(str(address), properties).wrap_socket(plain, server_hostname=address.host)
    except UsageError:
        plain.close()
        raise
    except OSError as error:
        plain.close()
        trouble = trouble_of_handshake(error)
        own = f"; {_own_certificate(properties)}" if trouble is Trouble.OWN_CERTIFICATE else ""
        raise ClusterUnavailableError(
            f"{address} failed the TLS handshake: {error}{own}", trouble=trouble
        ) from error


def _own_certificate(properties: Mapping[str, str]) -> str:
    """What is known of the certificate that a broker did not take: brokers seldom say why."""
    from ledger.kafka.tls import own_certificate

    shown = own_certificate("the mirror", properties)
    if shown is None:
        return "it was shown no certificate, for none is configured"
    name, ends_ms = shown.subject.rfc4514_string(), int(shown.not_valid_after_utc.timestamp() * 1000)
    word = "expired at" if ends_ms < time.time() * 1000 else "is valid until"
    return f"it was shown that of {name}, which {word} {instant(ends_ms)}"


def _authenticate(connection: BrokerConnection, login: Mapping[str, Any], protocol: str) -> int:
    """SASL by handshake v1 and authenticate v1, as every broker since 1.0 speaks it.

    How long the login lasts, in milliseconds; 0: as long as the connection.
    """
    mechanism = mechanism_of(login, host=connection.address.host, protocol=protocol)
    _agree_on_mechanism(connection, login["sasl_mechanism"])
    lasts_ms = 0
    while not mechanism.is_done():
        answer = connection.call(
            SaslAuthenticateRequest[1](auth_bytes=mechanism.auth_bytes()), SaslAuthenticateResponse
        )
        if answer.error_code:
            raise LoginRefusedError(
                f"{connection.address} refused the login: {answer.error_message}",
                trouble=refused_trouble(login),
            )
        mechanism.receive(answer.auth_bytes)
        lasts_ms = max(0, answer.session_lifetime_ms)
    return lasts_ms


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
_RECONNECTS = 1  # connections that were idle while a broker restarted are dead
_LOGINS = 6  # brokers that ask for one may refuse it for a moment
_logged_in: set[int] = set()
"""Clusters, each with its login, that accepted it in this process: that one is not wrong."""

Known = Callable[[], tuple[str | None, Sequence[Sequence[str]]]]
"""What the ledger knows of a cluster: its id, and `PROTOCOL://HOST:PORT` of its brokers each time they were seen."""
Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


class ClusterConnection:
    """Runs work on a cluster's connections; safe to use from several threads. `known`: asked where nobody answers."""

    def __init__(self, cluster: ClusterConfig, environ: Mapping[str, str], *, timeout_s: float) -> None:
        self._cluster = cluster
        self.known: Known = lambda: (None, ())
        self._protocol = ""
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

        deadline, times_lost = time.monotonic() + self._timeout_s, 0
        while True:
            try:
                return self._attempt(operation, asked, deadline)
            except QuotaExceededError:
                self.close()  # a connection that is asked to wait sends nothing, not even other requests
                raise
            except errors.KafkaError as error:
                lost = _lost_connection(error)
                most = _LOGINS if self._protocol.startswith("SASL") else _RECONNECTS
                may_repeat = times_lost < most if lost else _asks_to_wait(error)
                if not may_repeat or time.monotonic() + _RETRY_S > deadline:
                    raise self._failure(error, operation) from error
            if lost:
                times_lost += 1
                if times_lost % 2 == most % 2:  # else the library makes that connection again, and no other
                    self.close()
            time.sleep(_RETRY_S * max(1, times_lost))

    @property
    def brokers(self) -> list[str]:
        """As `ClusterAdmin` has it; none before the cluster was asked anything."""
        manager = self._manager
        found = () if manager is None else manager.cluster.brokers()
        return sorted(f"{self._protocol}://{Address(broker.host, broker.port)}" for broker in found)

    @property
    def reached(self) -> ClusterConfig:
        """The cluster at all its brokers too: a configured address may be dead when a task begins."""
        servers = [self._cluster.bootstrap_servers, *(one.partition("://")[2] for one in self.brokers)]
        return self._cluster.model_copy(update={"bootstrap_servers": ",".join(servers)})

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
        configured = parse_addresses(self._cluster.bootstrap_servers)
        properties = resolved_properties(self._cluster, self._environ)
        self._protocol = security_protocol(properties)
        login = hash((self._cluster.name, self._cluster.bootstrap_servers, frozenset(properties.items())))
        reasons, troubles = [], []
        for number, (address, cluster_id) in enumerate(self._addresses(configured)):
            share_end = time.monotonic() + _left_ms(deadline) / 1000 / max(1, len(configured) - number)
            try:
                _probe(address, properties, share_end, cluster_id)
                _logged_in.add(login)
                self._bootstrap(address, settings, share_end)
                return
            except (errors.RetriableError, ClusterUnavailableError, UsageError) as error:
                self._discard()
                trouble = getattr(error, "trouble", None) or Trouble.NO_ANSWER
                is_refused = isinstance(error, LoginRefusedError) and login not in _logged_in
                if is_refused or isinstance(error, UsageError):
                    why = f"refused the login, needed to {operation}: {error}; not done"
                    raise PreconditionError(f"cluster {self._cluster.name} {why}", trouble=trouble) from error
                reason = _reason(error)
                reasons.append(reason if reason.startswith(f"{address} ") else f"{address}: {reason}")
                troubles.append(trouble)
            except errors.KafkaError:
                self._discard()
                raise
        raise self._unavailable(operation, "; ".join(reasons), troubles[0])

    def _addresses(self, configured: Sequence[Address]) -> Iterator[tuple[Address, str | None]]:
        """These, then those that the ledger has of the same listener, with the id of their cluster."""
        yield from ((address, None) for address in configured)
        try:
            cluster_id, seen = self.known()
        except MirrorLedgerError:
            return  # nothing is known
        for protocol, _, address in (one.partition("://") for one in (seen[-1] if seen else ())):
            if protocol == self._protocol and (found := parse_addresses(address)[0]) not in configured:
                yield found, cluster_id

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
        refused = isinstance(error, errors.SaslAuthenticationFailedError)
        is_final = isinstance(error, errors.BrokerResponseError) and not getattr(error, "retriable", False)
        if is_final and not refused:
            return PreconditionError(f"cluster {name} refused to {operation}: {error}; not done")
        self.close()
        return self._unavailable(operation, str(error), Trouble.CREDENTIALS if refused else Trouble.NO_ANSWER)

    def _unavailable(self, operation: str, reason: str, trouble: Trouble) -> ClusterUnavailableError:
        return ClusterUnavailableError(
            f"cluster {self._cluster.name} at {self._cluster.bootstrap_servers} could not be reached to "
            f"{operation}: {reason}; not done",
            trouble=trouble,
        )


def _probe(address: Address, properties: Mapping[str, str], deadline: float, cluster_id: str | None) -> None:
    """Connect and log in once on a plain socket, for the reason when that fails; compare the cluster id, if given one.

    kafka-python drops what a broker says just before it closes a connection, a refused login above all, and would try
    again until the deadline.
    """
    timeout_s = min(_PROBE_S, _left_ms(deadline) / 1000)
    with closing(BrokerConnection(address, properties, timeout_s=timeout_s)) as connection:
        if security_protocol(properties) == "SSL":
            connection.api_versions()  # what the broker says of our certificate comes with its first answer
        if cluster_id is not None and (found := connection.metadata([]).cluster_id) != cluster_id:
            raise ClusterUnavailableError(f"cluster {found} is there now, and {cluster_id} was")


def _lost_connection(error: errors.KafkaError) -> bool:
    """Or it was not made: the library seldom tells a login that was refused from another end of a connection."""
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return True
    refused_later = isinstance(error, errors.BrokerResponseError | errors.KafkaTimeoutError)
    return isinstance(error, errors.RetriableError) and not refused_later


def _asks_to_wait(error: errors.KafkaError) -> bool:
    """The broker answered that it cannot now: a coordinator that loads, a controller that moved."""
    ambiguous = isinstance(error, errors.RequestTimedOutError)
    return isinstance(error, errors.BrokerResponseError) and bool(error.retriable) and not ambiguous


def _reason(error: errors.KafkaError | MirrorLedgerError) -> str:
    if isinstance(error, errors.KafkaTimeoutError):
        return "accepts connections but does not answer"
    return str(error)


def _left_ms(deadline: float) -> int:
    return max(1, int((deadline - time.monotonic()) * 1000))
