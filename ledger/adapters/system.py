"""This machine: its clocks, and who this process is."""

import os
import socket
import time
from pathlib import Path


class SystemClock:
    """Implements `ports.Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def process_identity() -> str:
    """`hostname:pid:start_ticks`: unlike a process id alone it is not given to a later process."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def _start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[19])
