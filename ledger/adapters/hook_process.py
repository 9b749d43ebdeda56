"""Hooks as processes of this machine: `ports.Hooks`."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import IO

from ledger.errors import UsageError
from ledger.ports.hooks import HookCommand, HookResult

_KEPT_BYTES = 4000
_ENDING_S = 5.0
_TOLD_EVERY_S = 5.0


class HookProcesses:
    """Runs a command in a process group of its own, which ends with it when its time is over."""

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        with tempfile.TemporaryFile() as output:
            process = _started(hook, output)
            try:
                exit_code = _waited(process, hook, waits)
            finally:
                _end(process)
            return HookResult(exit_code, _shortened(output))


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


def _shortened(output: IO[bytes]) -> str:
    """The beginning and the end of what was printed: a reason stands at either."""
    size = output.seek(0, os.SEEK_END)
    half = _KEPT_BYTES // 2
    output.seek(0)
    if size <= _KEPT_BYTES:
        return output.read().decode(errors="replace")
    first = output.read(half)
    output.seek(size - half)
    last = output.read()
    left_out = f"\n[{size - 2 * half} bytes left out]\n"
    return first.decode(errors="replace") + left_out + last.decode(errors="replace")
