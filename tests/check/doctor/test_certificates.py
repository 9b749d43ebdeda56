"""Certificates: their dates are read whether they are valid or not."""

import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.cluster import certificate
from ledger.doctor.measurements import Validity
from ledger.doctor.probes import ClusterProbe, broker_validity, own_validity, validity
from ledger.errors import ClusterUnavailableError, ProtocolError, UsageError
from ledger.kafka.connection import Address
from tests.support.tls_servers import TlsServer, make_certificate


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Valid for three days, ten days ago."""
    return make_certificate(tmp_path_factory.mktemp("expired"), began_days_ago=10, days=3)


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Valid for another five days."""
    return make_certificate(tmp_path_factory.mktemp("ending"), began_days_ago=1, days=6)


@pytest.fixture
def server(expired: tuple[Path, Path]) -> Iterator[TlsServer]:
    serving = TlsServer(*expired)
    yield serving
    serving.close()


def file_validity(pem: Path) -> Validity | None:
    return own_validity("cluster east", {"ssl.certificate.location": str(pem)})


def as_openssl_says(pem: Path) -> Validity:
    printed = subprocess.run(
        ["openssl", "x509", "-in", str(pem), "-noout", "-dates"], capture_output=True, text=True, check=True
    ).stdout
    dates = [
        int(
            datetime.strptime(line.split("=")[1], "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC).timestamp()
            * 1000
        )
        for line in printed.splitlines()
    ]
    return Validity(*dates)


def test_dates_are_those_that_openssl_reads(expired: tuple[Path, Path], ending: tuple[Path, Path]) -> None:
    for pem, _ in (expired, ending):
        assert file_validity(pem) == as_openssl_says(pem)


def test_an_expired_certificate_of_a_broker_is_told_with_its_date(
    server: TlsServer, expired: tuple[Path, Path]
) -> None:
    now_ms = SystemClock().now_ms()
    found = broker_validity(server.address, {"ssl.ca.location": str(expired[0])}, timeout_s=5)
    assert found == as_openssl_says(expired[0])
    finding = certificate("broker b", Check.TLS_CERTIFICATE, found, now_ms)
    assert finding.verdict is Verdict.FAILED
    assert finding.measured.startswith("expired 7 d")


def test_the_mirrors_own_certificate_is_looked_at(ending: tuple[Path, Path]) -> None:
    properties = {"security.protocol": "ssl", "ssl.certificate.location": str(ending[0])}
    config = ClusterConfig(name="east", bootstrap_servers="x:1", properties=properties)
    probe = ClusterProbe(config, SystemClock())
    assert probe.uses_tls
    found = probe.client_certificate()
    assert found is not None
    finding = certificate("cluster east", Check.CLIENT_CERTIFICATE, found, SystemClock().now_ms())
    assert finding.verdict is Verdict.WARNING
    assert finding.measured.startswith("expires in 4 d 23 h")


def test_no_certificate_of_its_own_is_none() -> None:
    probe = ClusterProbe(ClusterConfig(name="east", bootstrap_servers="x:1"), SystemClock())
    assert (probe.client_certificate(), probe.uses_tls) == (None, False)


def test_dates_of_another_century_and_form(tmp_path: Path) -> None:
    """GeneralizedTime from 2050 on, UTCTime before; RFC 5280 reads 50 to 99 as 19xx."""
    first, last = datetime(1999, 12, 1, tzinfo=UTC), datetime(2050, 2, 1, tzinfo=UTC)
    ago = (datetime.now(UTC) - first).days
    pem, _ = make_certificate(tmp_path, began_days_ago=ago, days=(last - first).days)
    found = file_validity(pem)
    assert found is not None
    assert found == as_openssl_says(pem)
    assert found.not_before_ms < 946_684_800_000, "before 2000"
    assert found.not_after_ms > 2_524_608_000_000, "in 2050"


@pytest.mark.parametrize("broken", [b"", b"\x30\x82", b"\x30\x7f\x00", b"\x30\x02\x30\x00"])
def test_what_is_no_certificate_is_said(broken: bytes) -> None:
    with pytest.raises(ProtocolError, match="a certificate cannot be read"):
        validity(broken)


def test_files_that_hold_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        file_validity(tmp_path / "absent.pem")
    (tmp_path / "empty.pem").write_text("nothing\n")
    with pytest.raises(UsageError, match="holds no PEM certificate"):
        file_validity(tmp_path / "empty.pem")


def test_a_port_without_tls_shows_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ClusterUnavailableError, match="showed no certificate"):
        broker_validity(Address("127.0.0.1", port), {}, timeout_s=2)
