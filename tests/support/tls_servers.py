"""Servers on loopback that speak TLS, with certificates that OpenSSL's own tools made."""

import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ledger.kafka.connection import Address

OPENSSL_TIME = "%Y%m%d%H%M%SZ"
AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[req]
distinguished_name = name
prompt = no
[name]
CN = localhost
[extensions]
subjectAltName = {names}
"""


def make_certificate(
    folder: Path, *, began_days_ago: int, days: int, names: str = "IP:127.0.0.1"
) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    began = datetime.now(UTC) - timedelta(days=began_days_ago)
    ends = began + timedelta(days=days)
    authority, asked, pem, key = (folder / name for name in ("own.cnf", "asked.pem", "cert.pem", "key.pem"))
    authority.write_text(AUTHORITY.format(folder=folder, names=names), encoding="utf-8")
    (folder / "index.txt").touch()
    _run(
        *("openssl", "req", "-new", "-config", authority, "-newkey", "ec", "-nodes"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", key, "-out", asked),
    )
    _run(
        *("openssl", "ca", "-batch", "-selfsign", "-notext", "-config", authority, "-keyfile", key),
        *("-startdate", f"{began:{OPENSSL_TIME}}", "-enddate", f"{ends:{OPENSSL_TIME}}"),
        *("-in", asked, "-out", pem),
    )
    return pem, key


def make_without_key_identifier(folder: Path) -> tuple[Path, Path, Path]:
    """The certificate of an in-house authority; one that it signed, which does not say by which key; and its key."""
    now = datetime.now(UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in ("in-house", "127.0.0.1")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    files = folder / "authority.pem", folder / "signed.pem", folder / "signed.key"
    for number, (name, key, file) in enumerate(zip(names, keys, files, strict=False)):
        made = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(30))
        made = made.add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        address = x509.IPAddress(ip_address("127.0.0.1"))
        made = made.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        signed = made.sign(keys[0], hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[2].write_bytes(keys[1].private_bytes(pem, pkcs8, plain))
    return files


def _run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


class TlsServer:
    """Shakes hands with whoever comes, until it is closed."""

    def __init__(self, pem: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                with plain, self._context.wrap_socket(plain, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
