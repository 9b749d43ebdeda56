"""A Kerberos server (KDC) on loopback: MIT's own, with a realm, a database and settings in a folder of the test."""

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REALM = "MIRROR.TEST"
_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def missing() -> str | None:
    """What is not installed here; None: nothing."""
    absent = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local") if not _command(name)]
    return f"{', '.join(absent)} (Debian's krb5-kdc and krb5-admin-server)" if absent else None


def _command(name: str) -> str | None:
    return shutil.which(name, path=_SBIN)


@dataclass(frozen=True)
class Kdc:
    """`settings` is the krb5.conf of whoever is to find it."""

    folder: Path
    settings: Path
    environment: dict[str, str]

    def keytab(self, principal: str) -> Path:
        """A new principal's key; a new one where it was there."""
        file = self.folder / f"{uuid.uuid4().hex[:8]}.keytab"
        known = self._kadmin(f"getprinc {principal}")
        if f"Principal: {principal}@" not in known:
            self._kadmin(f"addprinc -randkey {principal}")
        self._kadmin(f"ktadd -k {file} {principal}")
        assert file.exists()
        return file

    def _kadmin(self, query: str) -> str:
        return self._run("kadmin.local", "-r", REALM, "-q", query)

    def _run(self, name: str, *arguments: str) -> str:
        command = _command(name)
        assert command is not None
        done = subprocess.run(
            [command, *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings, profile = folder / "krb5.conf", folder / "kdc.conf"
    settings.write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        "dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
        f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{port}\n}}\n"
    )
    profile.write_text(
        f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n{REALM} = {{\n database_name = {folder}/principals\n key_stash_file = {folder}/stash\n"
        f" acl_file = {folder}/acl\n max_life = 1h\n}}\n"
        f"[logging]\nkdc = FILE:{folder}/kdc.log\n"
    )
    made = Kdc(folder, settings, {"KRB5_CONFIG": str(settings), "KRB5_KDC_PROFILE": str(profile)})
    made._run("kdb5_util", "create", "-s", "-r", REALM, "-P", uuid.uuid4().hex)
    server = subprocess.Popen(
        [str(_command("krb5kdc")), "-n", "-r", REALM],
        env={**os.environ, **made.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield made
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}")
