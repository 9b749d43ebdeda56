"""Operating system processes that outlive their starter, and are never mistaken for another.

A pid alone says little: after a process has ended its number is given to another. So a process is known
by pid and birth (boot id and start time from /proc), and every signal goes through a pidfd that was
opened before the birth was compared: what is signalled is what was checked.
"""

import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import MirrorLedgerError, SetupError
from ledger.machine import boot_id, is_stopped, start_ticks

PAUSE_POLL_S = 0.01


class StillRunningError(MirrorLedgerError):
    """A process did not end before the deadline."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process that runs, or ran."""

    pid: int
    birth: str


def spawn(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start a process in a session of its own, with its output appended to `log`."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    birth = birth_of(pid)
    if birth is None:
        raise SetupError("the sandbox needs Linux: /proc does not show the process just started")
    return Process(pid, birth)


def birth_of(pid: int) -> str | None:
    """What distinguishes this process from another of the same pid; None when no such process runs."""
    ticks = start_ticks(pid)
    return None if ticks is None else f"{boot_id()}:{ticks}"


def is_running(process: Process) -> bool:
    """Whether this very process runs (a stopped one does, a zombie does not)."""
    _reap(process.pid)
    return birth_of(process.pid) == process.birth


def is_paused(process: Process) -> bool:
    """Whether this very process was stopped by SIGSTOP."""
    return is_stopped(process.pid) and birth_of(process.pid) == process.birth


def pause(process: Process, timeout_s: float) -> bool:
    """Stop this very process and wait until it stands still; False when it runs no more."""
    if not send(process, signal.SIGSTOP):
        return False
    deadline_s = time.monotonic() + timeout_s
    while not is_paused(process):
        if time.monotonic() > deadline_s:
            raise StillRunningError(f"process {process.pid} still runs {timeout_s:g} s after SIGSTOP")
        time.sleep(PAUSE_POLL_S)
    return True


def send(process: Process, number: signal.Signals) -> bool:
    """Signal this very process; False when it runs no more."""
    with _handle(process) as handle:
        return handle is not None and _signalled(handle, number)


def end(process: Process, number: signal.Signals, timeout_s: float) -> None:
    """Signal this very process and wait until it has ended."""
    with _handle(process) as handle:
        if handle is None or not _signalled(handle, number):
            return
        _signalled(handle, signal.SIGCONT)  # a paused process would not see SIGTERM
        if not _ended(handle, timeout_s):
            raise StillRunningError(f"process {process.pid} still runs {timeout_s:g} s after {number.name}")
    _reap(process.pid)


@contextmanager
def _handle(process: Process) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle if is_running(process) else None
    finally:
        os.close(handle)


def _signalled(handle: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:  # it ended since it was checked
        return False
    return True


def _ended(handle: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):  # started by another process: not ours to reap
        os.waitpid(pid, os.WNOHANG)
