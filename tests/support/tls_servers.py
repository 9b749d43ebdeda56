"""Servers on loopback that speak TLS, with certificates that OpenSSL's own tools made."""

import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
