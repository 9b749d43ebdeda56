"""The driver as a process of its own: what a signal, a kill or a take-over does to it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ledger.config.mirror import MirrorConfig
from tests.support.checkout import CHECKOUT
from tests.support.processes import descendants, is_running
from tests.support.runs import FLOW
from tests.support.waiting import eventually

ENDS_WITHIN_S = 120.0


def environment() -> dict[str, str]:
    """This process's environment, in which the checkout can be imported from anywhere."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT)}


class Driver:
    """`mirror-ledger run`, with its words in a log."""

    def __init__(
        self, config: MirrorConfig, log: Path, arguments: tuple[str, ...] = (), *, flow: str = FLOW
    ) -> None:
        command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", flow]
        with log.open("ab") as words:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdout=words,
                stderr=words,
                env=environment(),
                start_new_session=True,
            )

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(ENDS_WITHIN_S)

    def ask_to_stop(self, number: signal.Signals) -> int:
        """Send the signal; returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def ask_all_to_stop(self, number: signal.Signals) -> int:
        """Send the signal to the driver and to all that it has started, as service managers do; returns its code."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            os.kill(pid, number)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the driver alone: its JVM and its workers find out by themselves."""
        self.process.kill()
        self.wait()

    def kill_with_workers(self) -> None:
        """kill -9 of the driver and of all that it has started: its workers would copy to the end of their round."""
        workers = descendants(self.process.pid)
        self.kill()
        self.end()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not any(map(is_running, workers)), "no worker is left")

    def end(self) -> None:
        """Whatever is left of it, its JVM included."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()
