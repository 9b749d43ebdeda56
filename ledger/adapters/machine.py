"""Measurements of this machine for `doctor`."""

import sys

from ledger.adapters.jvm import check_java


class LocalMachine:
    """Implements `measurements.MachineProbe`."""

    def java(self) -> str:
        """Raises `SetupError` when there is none, or one that is too old."""
        return f"{check_java()}, 17 or later"

    def python(self) -> tuple[int, int, int]:
        return sys.version_info[:3]
