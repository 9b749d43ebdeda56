"""Drivers as processes of their own: submitted, signalled, killed, taken over."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from ledger.config.mirror import MirrorConfig
from ledger.jvm import delta_jars
from ledger.sandbox.brokers import QUICK_JVM
from tests.support.checkout import CHECKOUT
from tests.support.runs import FLOW
from tests.support.waiting import eventually

_ENDED_WITHIN_S = 60

# -- Processes below a driver ----------------------------------------------------------------------


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


@contextmanager
def ended_afterwards(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a group of its own, which is asked to end, and killed where it does not, when the body ends."""
    with log.open("ab") as words:
        process = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# -- Drivers ---------------------------------------------------------------------------------------

ENDS_WITHIN_S = 120.0


def environment() -> dict[str, str]:
    """This process's environment, in which the checkout can be imported from anywhere."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT)}


class Command:
    """A command of ours that runs until it is stopped, with its words in a log."""

    def __init__(self, config: MirrorConfig, log: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, *arguments]
        with log.open("ab") as words:
            self.process = subprocess.Popen(
                command, stdout=words, stderr=words, env=environment(), start_new_session=True
            )

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(ENDS_WITHIN_S)

    def ask_to_stop(self, number: signal.Signals) -> int:
        """Send the signal; returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def ask_all_to_stop(self, number: signal.Signals) -> int:
        """Send the signal to it and to all that it has started, as service managers do; returns its code."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            os.kill(pid, number)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of it alone: a driver's JVM and its workers find out by themselves."""
        self.process.kill()
        self.wait()

    def kill_with_workers(self) -> None:
        """kill -9 of it and of all that it has started: a driver's workers would copy to the end of their round."""
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


class Driver(Command):
    """`mirror-ledger run`."""

    def __init__(
        self,
        config: MirrorConfig,
        log: Path,
        arguments: tuple[str, ...] = (),
        *,
        flow: str = FLOW,
    ) -> None:
        super().__init__(config, log, "run", flow, *arguments)


class Recorder(Command):
    """`mirror-ledger record` of a cluster."""

    def __init__(self, config: MirrorConfig, log: Path, cluster: str) -> None:
        super().__init__(config, log, "record", cluster)


# -- Jobs under spark-submit -----------------------------------------------------------------------


def submit_command(job: str, *arguments: str, master: str, jars: Sequence[Path] = ()) -> list[str]:
    """spark-submit of a job of the repository; `jars` beside those of Delta."""
    return [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", master, "--jars", ",".join(map(str, [*delta_jars(), *jars]))),
        *("--driver-java-options", " ".join(QUICK_JVM)),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(CHECKOUT / "jobs" / f"{job}.py"),
        *arguments,
    ]


def submit_environment() -> dict[str, str]:
    return {**environment(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def submit(job: str, *arguments: str, jars: Sequence[Path] = ()) -> "subprocess.CompletedProcess[str]":
    """A job on one machine, to its end."""
    return subprocess.run(
        submit_command(job, *arguments, master="local[2]", jars=jars),
        capture_output=True,
        text=True,
        env=submit_environment(),
        timeout=ENDS_WITHIN_S,
        check=False,
    )


def loaded(job: str) -> ModuleType:
    """The script of a job, to be carried out in this process: it takes the session that there is."""
    spec = importlib.util.spec_from_file_location(job, CHECKOUT / "jobs" / f"{job}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
