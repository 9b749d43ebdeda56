"""Authorities, and keys and certificates that they signed, in each form that people have them in."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID

from ledger import jvm
from ledger.config.values import SecretReference

STORE_PASSWORD, KEY_PASSWORD = "MIRROR_LEDGER_STORE_PASSWORD", "MIRROR_LEDGER_KEY_PASSWORD"
"""Environment variables that hold the passwords of stores, and of keys."""
Properties = Mapping[str, str | SecretReference]
_PEM = serialization.Encoding.PEM
_PKCS8 = serialization.PrivateFormat.PKCS8


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Signed:
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def as_pem(self) -> bytes:
        """Both, the key in clear, as brokers take it."""
        return self.key.private_bytes(_PEM, _PKCS8, NoEncryption()) + self.certificate.public_bytes(_PEM)


class Authority:
    """Who signs."""

    def __init__(self, name: str) -> None:
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._certificate(self._name, self._key.public_key(), 30, is_authority=True)

    def signed(self, name: str, *, days: int = 2) -> Signed:
        """For 127.0.0.1; with days below 0 it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Signed(key, self._certificate(_name(name), key.public_key(), days))

    def write(self, file: Path) -> Path:
        file.write_bytes(self.certificate.public_bytes(_PEM))
        return file

    def _certificate(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, days: int, *, is_authority: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(self._name, name, key, x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(10)).not_valid_after(now + timedelta(days))
        made = made.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        return made.add_extension(address, critical=False).sign(self._key, hashes.SHA256())


def as_pem_files(folder: Path, own: Signed, authority: Authority, password: str) -> Properties:
    """librdkafka's: a certificate, an encrypted key, and who is trusted."""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "own.pem", folder / "own.key"
    certificate.write_bytes(own.certificate.public_bytes(_PEM))
    key.write_bytes(own.key.private_bytes(_PEM, _PKCS8, BestAvailableEncryption(password.encode())))
    return {
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": SecretReference(env=KEY_PASSWORD),
        "ssl.ca.location": str(authority.write(folder / "authority.pem")),
    }


def as_pkcs12(folder: Path, own: Signed, authority: Authority, password: str) -> Properties:
    """A key store and a trust store."""
    folder.mkdir(exist_ok=True)
    key_store, trust_store = folder / "own.p12", folder / "trusted.p12"
    encryption = BestAvailableEncryption(password.encode())
    key_store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"mirror", own.key, own.certificate, [authority.certificate], encryption
        )
    )
    trusted = [pkcs12.PKCS12Certificate(authority.certificate, b"authority")]
    trust_store.write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    return _stores(key_store, trust_store)


def as_jks(folder: Path, own: Signed, authority: Authority, password: str, key_password: str) -> Properties:
    """The same as Java's own stores, the key with a password of its own."""
    as_pkcs12(folder, own, authority, password)
    stores = folder / "own.jks", folder / "trusted.jks"
    for store, of_key in zip(stores, (["-srcalias", "mirror", "-destkeypass:env", "_KEY"], []), strict=True):
        source = ["-srckeystore", str(store.with_suffix(".p12")), "-srcstoretype", "PKCS12"]
        target = ["-destkeystore", str(store), "-deststoretype", "JKS", "-deststorepass:env", "_STORE"]
        keytool = [str(jvm.check_java().parent / "keytool"), "-importkeystore", "-noprompt"]
        subprocess.run(
            [*keytool, *source, "-srcstorepass:env", "_STORE", *target, *of_key],
            env={**os.environ, "_STORE": password, "_KEY": key_password},
            check=True,
            capture_output=True,
        )
    return {
        **_stores(*stores),
        "ssl.keystore.type": "JKS",
        "ssl.key.password": SecretReference(env=KEY_PASSWORD),
    }


def _stores(key_store: Path, trust_store: Path) -> dict[str, str | SecretReference]:
    password = SecretReference(env=STORE_PASSWORD)
    return {
        "ssl.keystore.location": str(key_store),
        "ssl.keystore.password": password,
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": password,
    }
