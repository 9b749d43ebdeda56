"""Processes of this machine: hooks, which processes are alive, and whose this one is."""

import contextlib
import hashlib
import json
import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import quote

from ledger.errors import UsageError
from ledger.facts.roles import ProcessMark

# Hooks --------------------------------------------------------------------------------------------
# Commands of an operator that are run at a step: hooks.


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A program and its arguments, run without a shell, for at most so many seconds."""

    command: tuple[str, ...]
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set besides those of the process."""


@dataclass(frozen=True, slots=True)
class HookResult:
    """How it ended: its exit code, None when it was ended for taking too long; and what it printed, shortened."""

    exit_code: int | None
    output: str

    @property
    def is_done(self) -> bool:
        return self.exit_code == 0


class Hooks(Protocol):
    """Runs commands."""

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        """Until it ends, or its time is over: then it is ended with what it started.

        `waits` is called every second with how long it has run; what that raises ends the command too. Raises
        `UsageError` when there is no such program.
        """
        ...


def words_of(command: str) -> tuple[str, ...]:
    """The program and its arguments, as a shell takes a line apart; raises `UsageError` for what is no command."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"the hook {command!r} is no command: {error}; nothing was run") from error
    if not words:
        raise UsageError("a hook is empty; nothing was run")
    return words


# Hook process -------------------------------------------------------------------------------------
# Hooks as processes of this machine: `Hooks`.


_KEPT_BYTES = 4000
_ENDING_S = 5.0
_REPORTED_EVERY_S = 1.0
_TELLING_CHARACTERS = 8
"""So long a line of a key or a certificate has to be to be hidden by itself."""
_MASK = b"\xff"
_MASKS = re.compile(_MASK + b"+")


class HookProcesses:
    """Runs a command in a process group of its own, which ends with it when its time is over.

    `secrets`: values that a hook finds in its environment, and that nobody is to read in what it printed.
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._hidden = sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True)

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        with tempfile.TemporaryFile() as output:
            process = _started(hook, output)
            try:
                exit_code = _waited(process, hook, waits)
            finally:
                _end(process)
            return HookResult(exit_code, _shortened(output, self._hidden))


def _started(hook: HookCommand, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            list(hook.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **hook.environment},
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(
            f"the hook {hook.command[0]} could not be run: {error.strerror}; nothing was done by it"
        ) from error


def _waited(
    process: "subprocess.Popen[bytes]", hook: HookCommand, waits: Callable[[str], None]
) -> int | None:
    """Its exit code, None: its time is over."""
    began_s = time.monotonic()
    while (left_s := began_s + hook.seconds - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(_REPORTED_EVERY_S, left_s))
        waits(
            f"the hook {hook.command[0]} runs since {time.monotonic() - began_s:.0f} s, and is ended after "
            f"{hook.seconds:g}"
        )
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Also what it started, and what an interruption of ours would leave behind; one that has ended is left alone."""
    if process.poll() is not None:
        return
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _forms(secret: str) -> Iterator[bytes]:
    """How a secret may be printed: as it is, a line of it, quoted by a shell, in JSON, in a URL, in a header."""
    for one in {secret, *(line for line in secret.splitlines() if len(line) >= _TELLING_CHARACTERS)}:
        quoted = (one.replace("'", inside) for inside in ("'\\''", "'\"'\"'"))
        forms = one, *quoted, json.dumps(one)[1:-1], quote(one), quote(one, safe="")
        yield from (form.encode() for form in forms if form)
    yield b64encode(secret.encode())


def _shortened(output: IO[bytes], hidden: Sequence[bytes]) -> str:
    """The beginning and the end of what was printed, without secrets: a reason stands at either."""
    size = output.seek(0, os.SEEK_END)
    half, beside = _KEPT_BYTES // 2, max(map(len, hidden), default=0)
    if size <= _KEPT_BYTES:
        return _shown(_masked(output, 0, size, hidden))
    # A secret at the cut is known by what lies beyond it.
    first = _masked(output, 0, half + beside, hidden)[:half]
    last = _masked(output, size - half - beside, size, hidden)[-half:]
    return f"{_shown(first)}\n[{size - 2 * half} bytes left out]\n{_shown(last)}"


def _masked(output: IO[bytes], start: int, end: int, hidden: Sequence[bytes]) -> bytes:
    """Part of what was printed, with as many bytes in place of each secret, which are in no text."""
    output.seek(max(0, start))
    found = output.read(end - max(0, start)).replace(_MASK, b"?")
    for secret in hidden:
        found = found.replace(secret, _MASK * len(secret))
    return found


def _shown(masked: bytes) -> str:
    return _MASKS.sub(b"[secret]", masked).decode(errors="replace")


# Process table ------------------------------------------------------------------------------------
# The processes of this host, from /proc.


_PROC = Path("/proc")
_STATE_AFTER_NAME, _START_TIME_AFTER_NAME = 0, 19
_ENDED = frozenset("ZX")  # a zombie or dead


class LocalProcesses:
    """`roles.ProcessTable` of the host that this runs on."""

    def own(self) -> ProcessMark:
        host = socket.gethostname().replace(":", "-")
        # A container that sees the /proc of its node has another id there.
        pid = int(os.readlink(_PROC / "self"))
        return ProcessMark(host, pid, start_ticks(pid) or 0, _place())

    def is_alive(self, mark: ProcessMark) -> bool:
        return start_ticks(mark.pid) == mark.start_ticks


def _place() -> str:
    """This boot and this set of process ids: a host name and a pid mean nothing outside of them."""
    pids = os.readlink(_PROC / "self/ns/pid")
    return hashlib.sha256(f"{boot_id()} {pids}".encode()).hexdigest()[:12]


def boot_id() -> str:
    """Of this boot: start times of processes count from it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """When a process was started; None: it does not exist, or has ended and only waits for its parent to notice."""
    after_name = _stat(pid)
    if not after_name or after_name[_STATE_AFTER_NAME] in _ENDED:
        return None
    return int(after_name[_START_TIME_AFTER_NAME])


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, and may be continued."""
    return _stat(pid)[:1] == ["T"]


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the command name, which may hold spaces; none of a process that there is not."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


# Account ------------------------------------------------------------------------------------------


def account() -> str:
    """Whose process this is: not what LOGNAME says, which anybody sets. Its number where the account has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
