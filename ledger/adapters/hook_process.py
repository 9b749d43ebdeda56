"""Hooks as processes of this machine: `ports.Hooks`."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO
from urllib.parse import quote

from ledger.errors import UsageError
from ledger.ports.hooks import HookCommand, HookResult

_KEPT_BYTES = 4000
_ENDING_S = 5.0
_TOLD_EVERY_S = 5.0
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
            return process.wait(min(_TOLD_EVERY_S, left_s))
        waits(
            f"the hook {hook.command[0]} runs since {time.monotonic() - began_s:.0f} s, of {hook.seconds:g}"
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
