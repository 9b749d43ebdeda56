"""What is killed during a life: the driver, a recorder, the brokers; each is there again afterwards."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from ledger.config.mirror import MirrorConfig
from ledger.errors import ClusterUnavailableError
from ledger.sandbox import Sandbox
from tests.support.drivers import Driver, Recorder

_STARTS_WITHIN_S = 300


class Victims:
    """A driver and a recorder of east at work, and the brokers; `killed`: what was, in that order."""

    def __init__(self, config: MirrorConfig, sandbox: Sandbox, folder: Path, chance: random.Random) -> None:
        self._config = config
        self._sandbox = sandbox
        self._chance = chance
        self._logs = {"driver": folder / "driver.log", "recorder": folder / "recorder.log"}
        self._left: list[str] = []
        self.killed: list[str] = []

    def __enter__(self) -> Self:
        self._recorder = Recorder(self._config, self._logs["recorder"], "east")
        self._driver = Driver(self._config, self._logs["driver"])
        return self

    def __exit__(self, *_failure: object) -> None:
        for process in (self._driver, self._recorder):
            process.kill_with_workers()
        for name, log in self._logs.items():
            print(f"-- {name}\n{log.read_text(encoding='utf-8')[-8000:]}")

    def require_alive(self) -> None:
        """Nothing that a cluster did has ended one of them, but for a driver that found one away when it began.

        Such a one is started again, as a service manager does.
        """
        code = self._driver.process.poll()
        last_line = self._logs["driver"].read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
        if code == ClusterUnavailableError.exit_code and "could not be reached" in last_line:
            self.killed.append("driver that began")
            self._start_driver()
        else:
            assert code is None, last_line
        assert self._recorder.process.poll() is None

    def kill_one(self) -> None:
        """Each in turn, in an order by chance."""
        self.require_alive()
        kills: dict[str, Callable[[], None]] = {
            "driver": self._kill_driver,
            "recorder": self._kill_recorder,
            "source": lambda: self._restart("east"),
            "target": lambda: self._restart("west"),
        }
        self._left = self._left or self._chance.sample(list(kills), k=len(kills))
        self.killed.append(self._left.pop())
        kills[self.killed[-1]]()

    def _kill_driver(self) -> None:
        self._driver.kill()
        self._start_driver()

    def _start_driver(self) -> None:
        self._driver.end()
        self._driver = Driver(self._config, self._logs["driver"])

    def _kill_recorder(self) -> None:
        self._recorder.kill()
        self._recorder = Recorder(self._config, self._logs["recorder"], "east")

    def _restart(self, alias: str) -> None:
        end = self._chance.choice((self._sandbox.kill, self._sandbox.stop))
        end(alias)
        deadline_s = time.monotonic() + _STARTS_WITHIN_S
        while True:
            try:
                self._sandbox.start(alias)
                return
            except ClusterUnavailableError:  # after a kill it reads a thousand logs again
                if time.monotonic() > deadline_s:
                    raise
