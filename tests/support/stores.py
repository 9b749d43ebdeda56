"""An object store on loopback that speaks S3, behind a line that can be made slow, deaf or forgetful.

It is the gateway of Versity, which is made from its Go module: it keeps each object as a file of a folder, and it
honours conditional writes, which is all that keeps two writers of a Delta table from one version. So the ledger in it
can be read as a folder too.
"""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from ledger.jvm import Artifact, JarSet, fetched
from ledger.sandbox import FarPorts
from ledger.sandbox.ports import free_ports
from tests.support.checkout import CHECKOUT
from tests.support.forwarder import Forwarder, forwarding
from tests.support.waiting import eventually

_GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_TOOLS = CHECKOUT / ".mirror-ledger" / "tools"
_BUCKET = "ledgers"
_USER = "mirror"
SECRET_VARIABLE = "MIRROR_LEDGER_TEST_STORE_SECRET"


@dataclass(frozen=True)
class Store:
    """`folder`: what lies in it, for who looks at it from behind; `line`: how other processes reach it.

    This process reaches it past the line, which is a thread of it: deltalake lets no other thread go on meanwhile.
    """

    folder: Path
    line: Forwarder

    @property
    def path(self) -> str:
        return f"s3://{_BUCKET}/main"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.line.ports.listens}"

    @property
    def lines(self) -> Sequence[str]:
        """Lines of a configuration below `path`: where the store is, and who the mirror is there."""
        return (
            "[ledger.store]",
            f'aws_endpoint_url = "http://{self.address}"',
            "aws_allow_http = true",
            'aws_region = "us-east-1"',
            f'aws_access_key_id = "{_USER}"',
            f'aws_secret_access_key = {{ env = "{SECRET_VARIABLE}" }}',
        )


def gateway() -> Path:
    """The program, made when it is first asked for; skips the test where there is no Go."""
    made = _TOOLS / "versitygw"
    if not made.exists():
        if shutil.which("go") is None:
            pytest.skip("a server that speaks S3 is made with Go, which is not here")
        subprocess.run(["go", "install", _GATEWAY], env={**os.environ, "GOBIN": str(_TOOLS)}, check=True)
    return made


@contextmanager
def store(folder: Path) -> Iterator[Store]:
    """A store with an empty bucket, its secret in the environment; it ends with the body."""
    (folder / "objects" / _BUCKET).mkdir(parents=True)
    (folder / "metadata").mkdir()
    ports = FarPorts(*free_ports(2))
    os.environ[SECRET_VARIABLE] = secrets.token_hex(20)
    known = {"ROOT_ACCESS_KEY": _USER, "ROOT_SECRET_KEY": os.environ[SECRET_VARIABLE]}
    command = [
        str(gateway()),
        *("--port", f"127.0.0.1:{ports.listens}", "--quiet"),
        *("posix", "--sidecar", str(folder / "metadata"), str(folder / "objects")),
    ]
    process = subprocess.Popen(command, env={**os.environ, **known}, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: _listens(ports.listens), "the store listens")
        with forwarding(ports) as line:
            yield Store(folder / "objects" / _BUCKET / "main", line)
    finally:
        process.terminate()
        process.wait(30)
        del os.environ[SECRET_VARIABLE]


@contextmanager
def silent_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every `s3://` of this process is at a server that takes requests and answers none, for the body."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for name, value in {"ENDPOINT_URL": address, "ALLOW_HTTP": "true", "REGION": "r"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "anybody")
        yield


def cloud_jars() -> list[Path]:
    """Hadoop's client for S3, of the release that PySpark brings, and what it needs; fetched at the first call."""
    [client] = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    hadoop = client.stem.rpartition("-")[2]
    sdk = (Artifact("software.amazon.awssdk", name, _SDK) for name in _SDK_MODULES)
    return fetched(
        JarSet(
            f"hadoop-aws-{hadoop}",
            (Artifact("org.apache.hadoop", "hadoop-aws", hadoop), *sdk),
            minimum_jars=20,
            excludes=_NOT_IN_CLOUD_JARS,
        )
    )


_SDK = "2.35.4"
_SDK_MODULES = ("s3", "s3-transfer-manager", "sts")
_NOT_IN_CLOUD_JARS = (
    # The bundle of all of Amazon's services is 600 MB; the rest is what PySpark ships.
    ("software.amazon.awssdk", "bundle"),
    ("org.apache.hadoop", "hadoop-common"),
    ("org.apache.hadoop", "hadoop-annotations"),
    ("io.netty", "*"),
    ("org.slf4j", "*"),
)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
