"""TLS as client properties describe it: who is trusted, and which certificate the mirror shows.

Certificates and keys are PEM files by librdkafka's properties (`ssl.ca.location`, `ssl.certificate.location`), or
stores by Java's (`ssl.truststore.*`, `ssl.keystore.*`): PEM, PKCS#12, or JKS, which Java's own `keytool` reads. The
first bytes of a store say which. A key lies nowhere on disk but in the file that it came in: `ssl` takes keys from
files alone, so it gets one for that moment, encrypted, in a private folder.
"""

import os
import re
import secrets
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from ledger import jvm
from ledger.errors import Trouble, UsageError

KEY_STORE, TRUST_STORE = "ssl.keystore", "ssl.truststore"
_CERTIFICATE, _AUTHORITIES = "ssl.certificate.location", "ssl.ca.location"
STRICT = "ssl.verification.strict"

# Context ------------------------------------------------------------------------------------------


def tls_context(peer: str, properties: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS settings of resolved client properties, as Python's own sockets take them.

    `peer` is the cluster or broker that an error names.
    """
    context = trusting_context(peer, properties, _AUTHORITIES)
    _show_certificate(context, peer, properties)
    if properties.get("ssl.endpoint.identification.algorithm", "https") in {"none", ""}:  # "" as Java has it
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def trusting_context(peer: str, properties: Mapping[str, str], authorities: str) -> ssl.SSLContext:
    """Trusts whom the property `authorities` or the trust store names, else whom this machine trusts."""
    location, store = properties.get(authorities), _location(properties, TRUST_STORE)
    if store is not None and properties.get(_AUTHORITIES) is not None:
        raise _refused(peer, f"{_AUTHORITIES} and {TRUST_STORE}.location are both given")
    try:
        if location is None and store is not None:
            context = ssl.create_default_context(cadata=_trusted(peer, properties, store))
        elif location is not None and Path(location).is_dir():
            context = ssl.create_default_context(capath=location)
        else:
            context = ssl.create_default_context(cafile=location)
    except (OSError, ssl.SSLError) as error:
        raise _refused(peer, f"{location or store}: {_words(error)}") from error
    # Strict verification is Python's own from 3.13 on; in-house authorities leave out extensions that neither Java nor
    # librdkafka ask for. A certificate in a trust store is trusted as Java does, whether it has signed itself or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if properties.get(STRICT, "false") == "true":
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    else:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def own_certificate(peer: str, properties: Mapping[str, str]) -> x509.Certificate | None:
    """What the mirror shows to brokers; None: nothing is configured."""
    if (location := properties.get(_CERTIFICATE)) is not None:
        content = _read(peer, location)
        try:
            return x509.load_pem_x509_certificate(content)
        except ValueError as error:
            raise _refused(peer, f"{location} holds no PEM certificate: {error}") from error
    store = _location(properties, KEY_STORE)
    return None if store is None else _identity(peer, properties, store).chain[0]


def _show_certificate(context: ssl.SSLContext, peer: str, properties: Mapping[str, str]) -> None:
    location, store = properties.get(_CERTIFICATE), _location(properties, KEY_STORE)
    if location is not None and store is not None:
        raise _refused(peer, f"{_CERTIFICATE} and {KEY_STORE}.location are both given")
    if location is not None:
        key = properties.get("ssl.key.location") or location
        _load(context, peer, location, key, properties.get("ssl.key.password"))
    elif store is not None:
        identity = _identity(peer, properties, store)
        password = secrets.token_urlsafe(32)
        with tempfile.TemporaryDirectory(prefix="mirror-ledger-") as folder:  # for this user alone
            file = Path(folder) / "identity.pem"
            file.write_bytes(identity.as_pem(password))
            _load(context, peer, str(file), str(file), password, named=store)


def _load(
    context: ssl.SSLContext, peer: str, certificate: str, key: str, password: str | None, *, named: str = ""
) -> None:
    def asked() -> str:
        """Called for an encrypted key alone; without it OpenSSL asks at the terminal."""
        if password is None:
            raise _refused(peer, f"the key in {key} is encrypted, and ssl.key.password is not given")
        return password

    try:
        context.load_cert_chain(certificate, key, asked)
    except (OSError, ssl.SSLError) as error:
        files = named or (certificate if key == certificate else f"{key} and {certificate}")
        try:  # OpenSSL seldom says what it is
            _identity_in_pem(_read(peer, key) + b"\n" + _read(peer, certificate), password)
        except _StoreError as why:
            raise _refused(peer, f"{files}: {why}") from error
        raise _refused(peer, f"{files}: {_words(error)}") from error


def _words(error: OSError) -> str:
    has_none = getattr(error, "reason", None) in {"NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE"}
    return "it holds no PEM certificate" if has_none else error.strerror or str(error)


def _refused(peer: str, why: str) -> UsageError:
    return UsageError(f"{peer}: TLS files cannot be used: {why}; not connected", trouble=Trouble.TLS_FILES)


def _read(peer: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise _refused(peer, f"{location} cannot be read: {error.strerror}") from error


# Stores -------------------------------------------------------------------------------------------


_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_PEM, _PKCS12 = "PEM", "PKCS12"
_KEYTOOL_S = 60.0
_MOST_KEYS = 100
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Identity:
    """A key, and certificates from its own to the one that is next to an authority."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    def as_pem(self, password: str) -> bytes:
        encrypted = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
        return b"".join([encrypted, *map(_pem, self.chain)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _location(properties: Mapping[str, str], store: str) -> str | None:
    return properties.get(f"{store}.location")


def _identity(peer: str, properties: Mapping[str, str], location: str) -> _Identity:
    """What a key store has; it is read again when the file changes."""
    password = properties.get(f"{KEY_STORE}.password") or properties.get("ssl.key.password")
    content = _read(peer, location)
    kind = _kind(peer, location, content, properties.get(f"{KEY_STORE}.type"))
    try:
        if kind == _PEM:
            return _identity_in_pem(content, properties.get("ssl.key.password") or password)
        read = _entries(kind, content, password, properties.get("ssl.key.password"))
    except _StoreError as error:
        raise _refused(peer, f"{location}: {error}") from None
    if read.key is None or read.cert is None:
        raise _refused(peer, f"{location} has no key with its certificate")
    certificate = read.cert.certificate
    others = [one.certificate for one in read.additional_certs]
    return _Identity(read.key, (certificate, *_issuers(certificate, others)))


def _trusted(peer: str, properties: Mapping[str, str], location: str) -> str:
    """The certificates of a trust store as PEM."""
    content = _read(peer, location)
    kind = _kind(peer, location, content, properties.get(f"{TRUST_STORE}.type"))
    try:
        if kind == _PEM:
            found = _certificates(content)
        else:
            read = _entries(kind, content, properties.get(f"{TRUST_STORE}.password"), None)
            entries = [*([read.cert] if read.cert else []), *read.additional_certs]
            found = [entry.certificate for entry in entries]
    except _StoreError as error:
        raise _refused(peer, f"{location}: {error}") from None
    if not found:
        raise _refused(peer, f"{location} has no certificate")
    return b"".join(map(_pem, found)).decode("ascii")


def _kind(peer: str, location: str, content: bytes, said: str | None) -> str:
    """What a file is. Java reads JKS and PKCS#12 whichever of both is configured, and so do we."""
    kind = _JAVA_STORES.get(content[:4])
    if kind is None:
        kind = _PEM if b"-----BEGIN " in content else _PKCS12 if content[:1] == b"\x30" else None
    if kind is None:
        raise _refused(peer, f"{location} is neither PEM nor PKCS#12 nor JKS")
    if said is not None and (said.upper() == _PEM) != (kind == _PEM):
        raise _refused(peer, f"{location} is configured as {said} and is {kind}")
    return kind


class _StoreError(Exception):
    """Why a store cannot be read, in words without its password."""


class _NoKeytoolError(_StoreError):
    """Which may be otherwise the next time."""


def _entries(
    kind: str, content: bytes, password: str | None, key_password: str | None
) -> pkcs12.PKCS12KeyAndCertificates:
    """Key and certificates of a store."""
    found = _found_entries(kind, content, password, key_password)
    if isinstance(found, _StoreError):
        raise _StoreError(*found.args)
    return found


@lru_cache(maxsize=32)
def _found_entries(
    kind: str, content: bytes, password: str | None, key_password: str | None
) -> pkcs12.PKCS12KeyAndCertificates | _StoreError:
    """Each content is read once with the same passwords, for `keytool` takes a second."""
    try:
        if kind == _PKCS12:
            return _opened(content, password)
        return _opened(*_by_keytool(kind, content, password, key_password))
    except _NoKeytoolError:
        raise
    except _StoreError as error:
        return error


def _opened(content: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        hint = "it needs a password" if password is None else "its password is wrong, or the file is damaged"
        raise _StoreError(hint) from error
    except UnsupportedAlgorithm as error:
        raise _StoreError(f"it is encrypted in a way that is not supported: {error}") from error


def _by_keytool(
    kind: str, content: bytes, password: str | None, key_password: str | None
) -> tuple[bytes, str]:
    """The store as PKCS#12, with a password of its own. Passwords are on no command line and in no file."""
    own = secrets.token_urlsafe(32)
    keytool = jvm.check_java().parent / "keytool"
    with tempfile.TemporaryDirectory(prefix="mirror-ledger-") as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.write_bytes(content)
        command = [str(keytool), "-J-Duser.language=en", "-importkeystore", "-noprompt"]
        command += ["-srckeystore", str(source), "-srcstoretype", kind]
        command += ["-destkeystore", str(target), "-deststoretype", "PKCS12", "-deststorepass:env", "_TARGET"]
        if password is not None:
            command += ["-srcstorepass:env", "_SOURCE"]
        asked = key_password or password or ""
        try:
            run = subprocess.run(
                command,
                input=f"{asked}\n" * (1 if password is None else _MOST_KEYS),  # what it may ask for
                env={**os.environ, "_SOURCE": password or "", "_TARGET": own},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_KEYTOOL_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _NoKeytoolError(f"Java's keytool, which reads {kind}, does not run: {error}") from None
        if run.returncode != 0 or not target.exists():
            raise _StoreError(_why_keytool_failed(run.stdout, password, key_password))
        return target.read_bytes(), own


def _why_keytool_failed(said: str, password: str | None, key_password: str | None) -> str:
    if password is None:
        return "it needs a password"
    if "password was incorrect" in said:
        return "its password is wrong, or the file is damaged"
    if "recover key" in said or "key password" in said.lower():
        return "the key has a password of its own: ssl.key.password is " + (
            "wrong" if key_password else "missing"
        )
    lines = [line.strip() for line in said.splitlines() if "error" in line.lower()]
    return (lines or said.strip().splitlines() or ["keytool says nothing"])[0]


def _identity_in_pem(content: bytes, password: str | None) -> _Identity:
    """A key and certificates in one file, as Java's stores of type PEM have them."""
    found = _KEY.search(content)
    if found is None:
        raise _StoreError("it has no key")
    try:
        key = serialization.load_pem_private_key(
            found.group(), None if password is None else password.encode()
        )
    except TypeError as error:
        if password is None:
            raise _StoreError("the key is encrypted, and ssl.key.password is not given") from error
        return _identity_in_pem(content, None)
    except ValueError as error:
        raise _StoreError("the password of the key is wrong, or it is damaged") from error
    first, *others = _certificates(content)
    if first.public_key() != key.public_key():
        raise _StoreError("the first certificate is not that of the key")
    return _Identity(key, (first, *_issuers(first, others)))


def _certificates(content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise _StoreError("it holds no PEM certificate") from error


def _issuers(certificate: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """From who signed a certificate on, in the order in which they are shown."""
    by_name = {one.subject: one for one in others}
    chain: list[x509.Certificate] = []
    at = certificate
    while at.issuer != at.subject and (issuer := by_name.pop(at.issuer, None)) is not None:
        chain.append(issuer)
        at = issuer
    return chain
