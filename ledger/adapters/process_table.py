"""The processes of this host, from /proc."""

import hashlib
import os
import socket
from pathlib import Path

from ledger.domain.writer_roles import ProcessMark

_PROC = Path("/proc")
_STATE_AFTER_NAME, _START_TIME_AFTER_NAME = 0, 19
_ENDED = frozenset("ZX")


class LocalProcesses:
    """`roles.ProcessTable` of the host that this runs on."""

    def own(self) -> ProcessMark:
        host = socket.gethostname().replace(":", "-")
        return ProcessMark(host, os.getpid(), _start_ticks(os.getpid()) or 0, _place())

    def is_alive(self, mark: ProcessMark) -> bool:
        return _start_ticks(mark.pid) == mark.start_ticks


def _place() -> str:
    """This boot and this set of process ids: a host name and a pid mean nothing outside of them."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    pids = os.readlink(_PROC / "self/ns/pid")
    return hashlib.sha256(f"{boot} {pids}".encode()).hexdigest()[:12]


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, counted after the command name, which may hold spaces.

    None for a process that does not exist, or has ended and only waits for its parent to notice.
    """
    try:
        after_name = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if after_name[_STATE_AFTER_NAME] in _ENDED:
        return None
    return int(after_name[_START_TIME_AFTER_NAME])
