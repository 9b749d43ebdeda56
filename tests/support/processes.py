"""Finds processes below a driver."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Direct children of a process; none of one that has ended."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text(encoding="utf-8").split()]
    return found


def is_running(pid: int) -> bool:
    """Whether the process is there and has not merely ended unnoticed by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return [*below, *(deeper for child in below for deeper in descendants(child))]


def kill_python_worker(driver_pid: int) -> None:
    """kill -9 of the driver's Spark workers: processes that the worker daemon has forked."""
    daemons = [pid for pid in descendants(driver_pid) if "worker_daemon" in command_of(pid)]
    workers = [pid for pid in daemons if any(pid in children(daemon) for daemon in daemons)]
    assert workers, "the driver has no Python worker"
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> str:
    """The command line of a process, as one text; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
