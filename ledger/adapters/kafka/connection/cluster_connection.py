"""A connection to one cluster for administration: opened on first use, every call with a deadline.

kafka-python's connection manager does the work, one layer below its `KafkaAdminClient`: a call of that has a
deadline for each of its requests and none for the whole, and a new connection may take 10 s, which cannot be set
there (measured at a broker that hangs: 10 s, with `request_timeout_ms` of 3 s). librdkafka's admin client is not
used either: when a response arrives after its deadline it can abort the whole process, and a mirror must outlive
slow brokers.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Concatenate, ParamSpec, TypeVar, cast

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from ledger.adapters.kafka.connection.broker_connection import Address, BrokerConnection, parse_addresses
from ledger.adapters.kafka.connection.client_properties import kafka_python_properties, resolved_properties
from ledger.config.cluster import ClusterConfig
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError, Trouble, UsageError

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
                self._bootstrap({**settings, "bootstrap_servers": [str(address)]}, share_end)
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

    def _bootstrap(self, settings: Mapping[str, object], deadline: float) -> None:
        tuned = {
            **settings,
            "request_timeout_ms": int(self._timeout_s * 1000),
            "receive_message_max_bytes": _MAX_RESPONSE_BYTES,
            "max_in_flight_requests_per_connection": _REQUESTS_IN_FLIGHT,
            "reconnect_backoff_max_ms": _MAX_BACKOFF_MS,
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
