"""The processes of this host, from /proc."""

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
        return ProcessMark(
            socket.gethostname().replace(":", "-"), os.getpid(), _start_ticks(os.getpid()) or 0
        )

    def is_alive(self, mark: ProcessMark) -> bool:
        return _start_ticks(mark.pid) == mark.start_ticks


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, counted after the command name, which may hold spaces.

    None for a process that is gone, or has ended and only waits for its parent to notice.
    """
    try:
        after_name = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if after_name[_STATE_AFTER_NAME] in _ENDED:
        return None
    return int(after_name[_START_TIME_AFTER_NAME])
