"""Certificates and keys of files and stores: what cannot be used is one line each, and passwords are in none."""

import ssl
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ledger.config.values import SecretReference
from ledger.errors import Trouble, UsageError
from ledger.kafka import tls
from ledger.kafka.tls import own_certificate, tls_context
from tests.support.key_stores import (
    KEY_PASSWORD,
    STORE_PASSWORD,
    Authority,
    Properties,
    Signed,
    as_pem_files,
    as_pkcs12,
)

PASSWORD = "a password of tests"
ENVIRONMENT = {KEY_PASSWORD: PASSWORD, STORE_PASSWORD: PASSWORD}
AUTHORITY = Authority("in-house")


def resolved(properties: Properties, **other: str | None) -> dict[str, str]:
    found = {
        name: value.resolve(ENVIRONMENT) if isinstance(value, SecretReference) else value
        for name, value in properties.items()
    }
    changed = {name.replace("_", "."): value for name, value in other.items()}
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


def refusal(properties: Mapping[str, str]) -> str:
    with pytest.raises(UsageError) as refused:
        tls_context("cluster east", properties)
    assert refused.value.trouble is Trouble.TLS_FILES
    words = str(refused.value)
    assert words.startswith("cluster east: TLS files cannot be used: ")
    assert "\n" not in words
    assert PASSWORD not in words
    return words


@pytest.mark.parametrize("make", [as_pem_files, as_pkcs12])
def test_both_sides_know_each_other_by_what_the_files_hold(
    make: Callable[[Path, Signed, Authority, str], Properties], tmp_path: Path
) -> None:
    own, broker = AUTHORITY.signed("mirror"), AUTHORITY.signed("broker")
    context = tls_context("cluster east", resolved(make(tmp_path, own, AUTHORITY, PASSWORD)))
    (tmp_path / "broker.pem").write_bytes(broker.as_pem())
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "broker.pem")
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_verify_locations(
        cadata=AUTHORITY.certificate.public_bytes(serialization.Encoding.PEM).decode()
    )
    asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(answered, asked, server_hostname="127.0.0.1")
    server = serving.wrap_bio(asked, answered, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert server.getpeercert(binary_form=True) == own.certificate.public_bytes(serialization.Encoding.DER)
    assert client.getpeercert(binary_form=True) == broker.certificate.public_bytes(serialization.Encoding.DER)


def test_a_key_is_written_nowhere_in_clear_and_its_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, Path]] = []
    load = tls._load

    def loaded(context: ssl.SSLContext, peer: str, certificate: str, *others: str, **named: str) -> None:
        file = Path(certificate)
        seen.append((file.read_text(), stat.S_IMODE(file.parent.stat().st_mode), file))
        load(context, peer, certificate, *others, **named)

    monkeypatch.setattr(tls, "_load", loaded)
    tls_context("east", resolved(as_pkcs12(tmp_path, AUTHORITY.signed("mirror"), AUTHORITY, PASSWORD)))
    ((text, mode, file),) = seen
    assert "BEGIN ENCRYPTED PRIVATE KEY" in text
    assert "BEGIN PRIVATE KEY" not in text
    assert (mode, file.parent.exists()) == (0o700, False)


def test_a_store_that_was_renewed_is_read_again(tmp_path: Path) -> None:
    first, second = AUTHORITY.signed("first"), AUTHORITY.signed("second")
    properties = resolved(as_pkcs12(tmp_path, first, AUTHORITY, PASSWORD))
    assert own_certificate("east", properties) == first.certificate
    as_pkcs12(tmp_path, second, AUTHORITY, PASSWORD)
    assert own_certificate("east", properties) == second.certificate


def test_pem_files_that_cannot_be_used(tmp_path: Path) -> None:
    good = as_pem_files(tmp_path, AUTHORITY.signed("mirror"), AUTHORITY, PASSWORD)
    assert "the password of the key is wrong" in refusal(resolved(good, ssl_key_password="wrong"))
    assert "encrypted, and ssl.key.password is not given" in refusal(resolved(good, ssl_key_password=None))
    (tmp_path / "other.pem").write_bytes(AUTHORITY.signed("other").as_pem())
    other = str(tmp_path / "other.pem")
    assert "the first certificate is not that of the key" in refusal(
        resolved(good, ssl_certificate_location=other)
    )
    (tmp_path / "nothing.pem").write_text("nothing")
    nothing = str(tmp_path / "nothing.pem")
    assert "it holds no PEM certificate" in refusal(resolved(good, ssl_certificate_location=nothing))
    assert "it has no key" in refusal(resolved(good, ssl_key_location=nothing))
    assert "nothing.pem: it holds no PEM certificate" in refusal(resolved(good, ssl_ca_location=nothing))
    absent = str(tmp_path / "absent.pem")
    assert "No such file" in refusal(resolved(good, ssl_key_location=absent))
    both = resolved(good, ssl_keystore_location=other)
    assert "ssl.certificate.location and ssl.keystore.location are both given" in refusal(both)
    both = resolved(good, ssl_truststore_location=other)
    assert "ssl.ca.location and ssl.truststore.location are both given" in refusal(both)


def test_stores_that_cannot_be_used(tmp_path: Path) -> None:
    own = AUTHORITY.signed("mirror")
    good = as_pkcs12(tmp_path, own, AUTHORITY, PASSWORD)
    assert "own.p12: its password is wrong" in refusal(resolved(good, ssl_keystore_password="wrong"))
    assert "trusted.p12: its password is wrong" in refusal(resolved(good, ssl_truststore_password="wrong"))
    assert "trusted.p12: it needs a password" in refusal(resolved(good, ssl_truststore_password=None))
    assert "is configured as PEM and is PKCS12" in refusal(resolved(good, ssl_keystore_type="PEM"))
    tls_context("east", resolved(good, ssl_keystore_type="JKS"))  # Java takes either for the other
    trust_store = str(good["ssl.truststore.location"])
    assert "has no key with its certificate" in refusal(resolved(good, ssl_keystore_location=trust_store))
    (tmp_path / "text").write_text("nothing")
    assert "is neither PEM nor PKCS#12 nor JKS" in refusal(
        resolved(good, ssl_truststore_location=str(tmp_path / "text"))
    )
    absent = str(tmp_path / "absent")
    assert "absent cannot be read: No such file" in refusal(resolved(good, ssl_keystore_location=absent))
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    (tmp_path / "empty.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(None, own.key, None, None, encryption)
    )
    empty = str(tmp_path / "empty.p12")
    assert "empty.p12 has no certificate" in refusal(resolved(good, ssl_truststore_location=empty))


def test_a_store_of_type_pem_has_a_key_and_its_certificate(tmp_path: Path) -> None:
    own = AUTHORITY.signed("mirror")
    encrypted = own.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    )
    store = tmp_path / "own.pem"
    store.write_bytes(encrypted + own.certificate.public_bytes(serialization.Encoding.PEM))
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    assert own_certificate("east", {**properties, "ssl.key.password": PASSWORD}) == own.certificate
    assert "the key is encrypted, and ssl.key.password is not given" in refusal(properties)
    assert "password of the key is wrong" in refusal({**properties, "ssl.key.password": "wrong"})
    store.write_bytes(encrypted + AUTHORITY.certificate.public_bytes(serialization.Encoding.PEM))
    assert "is not that of the key" in refusal({**properties, "ssl.key.password": PASSWORD})


@pytest.mark.parametrize(("said", "is_strict"), [(None, False), ("false", False), ("true", True)])
def test_verification_is_as_strict_as_configured(said: str | None, is_strict: bool) -> None:
    context = tls_context("east", {} if said is None else {"ssl.verification.strict": said})
    assert bool(context.verify_flags & ssl.VERIFY_X509_STRICT) == is_strict
    assert context.check_hostname
    assert not tls_context("east", {"ssl.endpoint.identification.algorithm": ""}).check_hostname
