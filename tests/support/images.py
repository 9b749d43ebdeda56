"""The image of `conf/container`, built as an engine builds it, and run as one runs it with a read-only root.

No daemon is needed: `buildah` builds it, on a base that `mmdebstrap` makes, and a container is processes of their own
namespaces whose root is the image. What they are started with (environment, user, entry point, health check) is what
the image says.
"""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.checkout import CHECKOUT
from tests.support.drivers import children, ended_afterwards
from tests.support.waiting import eventually

CONTAINERFILE = CHECKOUT / "conf" / "container" / "Containerfile"
_TOOLS = ("buildah", "mmdebstrap", "unshare", "nsenter", "setpriv", "chroot")
_DEBIAN = "bookworm"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_OF_THE_HOUSE = Path("/usr/local/share/ca-certificates")
"""Authorities that a machine trusts besides Debian's: packages may have to be fetched through one of them."""
_OF_ENGINES = ("/etc/hosts", "/etc/resolv.conf")
"""What an engine gives to every container: `localhost` is a name of it."""
_WITHIN_S = 1_800


def missing() -> str | None:
    """What this machine lacks to build and run an image; None where it has all."""
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "namespaces with roots of their own are made by root"
    return None if _KEYS.exists() else f"no keys of Debian: {_KEYS}"


@dataclass(frozen=True)
class Container:
    """`pid`: of its process 1, as this machine numbers it."""

    image: "Image"
    pid: int

    def done(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A further process in it, as `exec` starts one."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", *self.image.entered(words)]
        return subprocess.run(inside, capture_output=True, text=True, timeout=120, check=False)

    def health(self) -> int:
        """The exit code of the health check that the image says."""
        kind, *words = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.done(*words).returncode


@dataclass(frozen=True)
class Image:
    """`config`: what it says to whoever runs it; `root`: its files."""

    config: Mapping[str, Any]
    root: Path

    def entered(self, words: Sequence[str]) -> list[str]:
        """The command line that carries words out in the root, by its user and with its environment alone."""
        user, environment = self.config["User"], self.config["Env"]
        return [
            *("setpriv", "--no-new-privs", "chroot", f"--userspec={user}", str(self.root)),
            *("env", "-i", *environment, *words),
        ]

    @contextmanager
    def running(
        self, arguments: Sequence[str], mounts: Mapping[str, Path], log: Path
    ) -> Iterator[tuple[Container, "subprocess.Popen[bytes]"]]:
        """A container, and the process that ends as it ends, with its code; files and folders by where they are."""
        mounts = {**{name: Path(name) for name in _OF_ENGINES}, **mounts}
        for inside, outside in mounts.items():
            place = self.root / inside.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if outside.is_dir():
                place.mkdir(exist_ok=True)
            else:
                place.touch()
        root = shlex.quote(str(self.root))
        script = [
            f"mount --bind {root} {root}",
            f"mount -o remount,bind,ro {root}",
            f"mount -t tmpfs tmpfs {root}/tmp",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            *(f"mount --bind {shlex.quote(str(at))} {root}{inside}" for inside, at in mounts.items()),
            "exec " + shlex.join(self.entered([*self.config["Entrypoint"], *arguments])),
        ]
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", "\n".join(script)]
        with ended_afterwards(command, log) as process:
            eventually(lambda: bool(children(process.pid)), "it has a process 1")
            yield Container(self, children(process.pid)[0]), process


@contextmanager
def built() -> Iterator[Image]:
    """The image, on a base that has Python, its venv and pip, and authorities; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="mirror-ledger-image.") as made:
        folder = Path(made)
        store = ["--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]

        def buildah(*words: str) -> str:
            return _done(["buildah", *store, *words])

        _base(folder, buildah)
        buildah(
            *("build", "--isolation", "chroot", "--format", "docker", "--pull-never"),
            *("--build-arg", "BASE=localhost/base", "--file", str(CONTAINERFILE)),
            *("--tag", "localhost/mirror-ledger", str(CHECKOUT)),
        )
        container = buildah("from", "--pull-never", "localhost/mirror-ledger").strip()
        root = Path(buildah("mount", container).strip())
        try:
            config = json.loads(buildah("inspect", "--type", "image", "localhost/mirror-ledger"))["Docker"][
                "config"
            ]
            yield Image(config, root)
        finally:
            buildah("umount", container)


def _base(folder: Path, buildah: Callable[..., str]) -> None:
    packages = "python3,python3-venv,python3-pip,ca-certificates"
    files = folder / "base.tar"
    _done(["mmdebstrap", "--variant=minbase", f"--include={packages}", _DEBIAN, str(files)])
    container = buildah("from", "scratch").strip()
    buildah("add", container, str(files), "/")
    files.unlink()
    if _OF_THE_HOUSE.exists():
        buildah("add", container, str(_OF_THE_HOUSE), str(_OF_THE_HOUSE))
        buildah("run", "--isolation", "chroot", container, "update-ca-certificates")
    buildah("commit", "--rm", container, "localhost/base")


def _done(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
