"""What keeps a broker from being used is told apart; one cause is one row; the list of checks is complete."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig, SecretReference
from ledger.doctor import probes
from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.doctor.probes import ClusterProbe
from ledger.doctor.results import (
    CheckResult,
    NotMade,
    Unmeasured,
    failed,
    is_safe,
    measure,
    one_row_for_each_cause,
    sentence,
    unknown,
)
from ledger.errors import Trouble
from ledger.kafka import connection
from ledger.kafka.connection import BrokerConnection, trouble_of_handshake
from tests.support.shops import beside
from tests.support.tls_servers import TlsServer, make_certificate, make_without_key_identifier

# -- Troubles on sockets ---------------------------------------------------------------------------

Keys = tuple[Path, Path]
LOGIN = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "mirror"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "CONNECT_TIMEOUT_S", 0.5)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_certificate(tmp_path_factory.mktemp("valid"), began_days_ago=1, days=30)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """For a name that no address here has."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return make_certificate(folder, began_days_ago=1, days=30, names="DNS:broker.example")


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_certificate(tmp_path_factory.mktemp("expired"), began_days_ago=10, days=3)


def reached(address: str, properties: Mapping[str, str | SecretReference] | None = None) -> Unmeasured:
    config = ClusterConfig(name="east", bootstrap_servers=address, properties=dict(properties or {}))
    with closing(ClusterProbe(config, SystemClock(), environ={})) as probe:
        found = measure(lambda: probe.reach(address))
    assert isinstance(found, Unmeasured)
    return found


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A port that reads a request, says this, and closes."""
    with listening() as (listener, address), beside(lambda _: _answer(listener, answer)):
        yield address


def _answer(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(answer)


def over_tls(server_keys: Keys, trusted: Path) -> Unmeasured:
    with closing(TlsServer(*server_keys)) as server:
        return reached(str(server.address), {"security.protocol": "ssl", "ssl.ca.location": str(trusted)})


def test_nobody_listens() -> None:
    with listening() as (_, address):
        pass
    assert reached(address).trouble is Trouble.REFUSED


def test_a_name_without_an_address() -> None:
    assert reached("broker.invalid:9092").trouble is Trouble.NAME


def test_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(connection, "connected_socket", lost)
    assert reached("127.0.0.1:9092").trouble is Trouble.UNREACHABLE


def test_connections_are_accepted_and_not_answered(valid: Keys) -> None:
    with listening() as (_, address):
        assert reached(address).trouble is Trouble.NO_ANSWER
        tls = {"security.protocol": "ssl", "ssl.ca.location": str(valid[0])}
        assert reached(address, tls).trouble is Trouble.NO_ANSWER


def test_the_connection_is_closed() -> None:
    with answering(b"") as address:
        assert reached(address).trouble is Trouble.CLOSED


def test_a_request_without_tls_is_answered_by_an_alert() -> None:
    with answering(b"\x15\x03\x03\x00\x02\x02\x46") as address:
        found = reached(address)
    assert (found.trouble, f"{address} speaks TLS" in found.reason) == (Trouble.NEEDS_TLS, True)


def test_a_port_without_tls_closes_at_the_first_message(valid: Keys) -> None:
    with answering(b"") as address:
        tls = {"security.protocol": "ssl", "ssl.ca.location": str(valid[0])}
        assert reached(address, tls).trouble is Trouble.NO_TLS
    for how in (ssl.SSLZeroReturnError, ssl.SSLEOFError, ConnectionResetError):
        assert trouble_of_handshake(how()) is Trouble.NO_TLS


def test_certificates_that_are_not_trusted(valid: Keys, elsewhere: Keys, expired: Keys) -> None:
    assert over_tls(valid, elsewhere[0]).trouble is Trouble.AUTHORITY
    assert over_tls(elsewhere, elsewhere[0]).trouble is Trouble.HOST_NAME
    assert over_tls(expired, expired[0]).trouble is Trouble.EXPIRED


def test_certificates_of_in_house_authorities_are_taken_where_python_is_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, *signed = make_without_key_identifier(tmp_path)
    create = ssl.create_default_context

    def strict(*arguments: Any, **named: Any) -> ssl.SSLContext:
        """As Python 3.13 makes them."""
        context = create(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    with closing(TlsServer(*signed)) as server:
        address, trusted = server.address, {"security.protocol": "ssl", "ssl.ca.location": str(authority)}
        BrokerConnection(address, trusted, timeout_s=5.0).close()
        context = strict(cafile=str(authority))
        with socket.create_connection((address.host, address.port)) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname=address.host)


def test_secrets_and_files_that_are_not_there(tmp_path: Path) -> None:
    with listening() as (_, address):
        for secret in (SecretReference(env="NO_SUCH"), SecretReference(file=str(tmp_path / "absent"))):
            assert reached(address, {**LOGIN, "sasl.password": secret}).trouble is Trouble.SECRET
        absent = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "absent.pem")}
        assert reached(address, absent).trouble is Trouble.TLS_FILES


def test_every_trouble_has_an_advice_of_its_own() -> None:
    assert set(OF_TROUBLE) == set(Trouble)
    assert len(set(OF_TROUBLE.values())) == len(Trouble)
    assert "firewall" not in OF_TROUBLE[Trouble.SECRET]


# -- Causes ----------------------------------------------------------------------------------------

EAST, WEST, FLOW = "cluster east", "cluster west", "flow f"
REFUSED = Unmeasured("b:1 refused", Trouble.REFUSED, EAST)
FINE = CheckResult("machine", Check.JAVA, Verdict.OK, "17")


def shape(results: list[CheckResult]) -> list[tuple[str, Check, Verdict, int]]:
    return [(f.subject, f.check, f.verdict, len(f.not_made)) for f in one_row_for_each_cause(results)]


def test_what_failed_stands_for_what_is_unknown_for_the_same_cause() -> None:
    early = unknown(EAST, Check.CLUSTER_IDENTITY, REFUSED)
    late = unknown(FLOW, Check.SELECTED_TOPICS, Unmeasured("another text", Trouble.REFUSED, EAST))
    root = failed(EAST, Check.BOOTSTRAP_ADDRESS, REFUSED)
    assert shape([FINE, early, root, late]) == [
        ("machine", Check.JAVA, Verdict.OK, 0),
        (EAST, Check.BOOTSTRAP_ADDRESS, Verdict.FAILED, 2),
    ]
    (_, row) = one_row_for_each_cause([FINE, early, root, late])
    assert row.not_made == (NotMade(EAST, Check.CLUSTER_IDENTITY), NotMade(FLOW, Check.SELECTED_TOPICS))


def test_the_first_stands_where_none_failed_and_nothing_becomes_safe() -> None:
    denied = Unmeasured("may not describe brokers", Trouble.NOT_ALLOWED, WEST, "kafka-acls.sh --add")
    found = [unknown(WEST, Check.PRODUCER_STATE, denied), unknown(FLOW, Check.BATCH_SIZE, denied)]
    assert shape(found) == [(WEST, Check.PRODUCER_STATE, Verdict.UNKNOWN, 1)]
    assert one_row_for_each_cause(found)[0].advice == "kafka-acls.sh --add"
    assert not is_safe(one_row_for_each_cause(found), strict=False)


def test_what_brokers_do_not_know_is_a_row_for_each_request() -> None:
    sizes, settings = (Unmeasured(f"{name} is unknown", Trouble.NOT_SPOKEN, WEST) for name in ("a", "b"))
    found = [
        unknown(*at, why)
        for at, why in [((WEST, Check.PRODUCER_STATE), settings), ((FLOW, Check.BATCH_SIZE), settings)]
    ]
    found.append(unknown(FLOW, Check.RETENTION_BYTES, sizes))
    assert shape(found) == [
        (WEST, Check.PRODUCER_STATE, Verdict.WARNING, 1),
        (FLOW, Check.RETENTION_BYTES, Verdict.WARNING, 0),
    ]
    assert is_safe(one_row_for_each_cause(found), strict=False)


def test_other_places_other_troubles_and_other_permissions_are_other_causes() -> None:
    others = [
        Unmeasured("b:1 refused", Trouble.REFUSED, WEST),
        Unmeasured("b:1 refused", Trouble.NO_ANSWER, EAST),
        Unmeasured("may not do this", Trouble.NOT_ALLOWED, EAST),
        Unmeasured("may not do that", Trouble.NOT_ALLOWED, EAST),
        Unmeasured("this", None, EAST),
        Unmeasured("that", None, EAST),
    ]
    found = [unknown(FLOW, Check.BATCH_SIZE, why) for why in [REFUSED, *others]]
    assert len(one_row_for_each_cause(found)) == len(found)


def test_a_secret_that_two_clusters_lack_is_one_row() -> None:
    found = [
        failed(at, Check.BOOTSTRAP_ADDRESS, Unmeasured("X is not set", Trouble.SECRET, at))
        for at in (EAST, WEST)
    ]
    assert shape(found) == [(EAST, Check.BOOTSTRAP_ADDRESS, Verdict.FAILED, 1)]


def test_the_sentence_counts_by_subject() -> None:
    not_made = [NotMade(EAST, check) for check in list(Check)[:12]]
    assert sentence([]) == ""
    assert sentence(not_made[:1]) == "1 other check of cluster east could not be made"
    of_flow = [NotMade(FLOW, check) for check in list(Check)[:7]]
    assert sentence(not_made + of_flow) == (
        "12 other checks of cluster east and 7 of flow f could not be made"
    )
    assert sentence([*not_made, NotMade("ledger", Check.LEDGER_DISK), *of_flow]) == (
        "12 other checks of cluster east, 1 of the ledger and 7 of flow f could not be made"
    )
