"""`mirror-ledger` as a user types it, carried out in this process, and flows whose clusters do not answer."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.cli.main import main
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from tests.support.config_files import write_config
from tests.support.runs import FLOW


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def mirror_ledger(capture: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Carry out a command line; whatever goes wrong, nobody sees a traceback."""
    capture.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capture.readouterr()
    assert "Traceback" not in captured.err
    return Done(int(str(ended.value.code)), captured.out, captured.err)


def command(capture: pytest.CaptureFixture[str], config: MirrorConfig, *arguments: str) -> Done:
    """The same with `--config`."""
    return mirror_ledger(capture, "--config", config.file, *arguments)


def driver_state(capture: pytest.CaptureFixture[str], config: MirrorConfig, flow: str = FLOW) -> str:
    """What `status` says of a flow's driver."""
    done = command(capture, config, "status", flow, "-o", "json")
    assert done.code == 0, done.err
    return str(json.loads(done.out)[0]["driver"]["state"])


# -- Clusters that do not answer -------------------------------------------------------------------

EAST_TO_WEST = "east-to-west"


@dataclass(frozen=True)
class UnreachableFlow:
    """`port`: where both of its clusters are looked for."""

    config: MirrorConfig
    port: int
    capture: pytest.CaptureFixture[str]

    def refused(self, *arguments: str, code: int) -> str:
        """The message of a command that fails with `code`, prints no data and commits nothing."""
        before = self.commits()
        done = command(self.capture, self.config, *arguments)
        assert (done.code, done.out) == (code, ""), done.err
        assert self.commits() == before
        return done.err

    def commits(self) -> dict[str, int]:
        """How many each table of the ledger has."""
        logs = Path(self.config.ledger.path).glob("*/_delta_log")
        return {log.parent.name: len(list(log.glob("*.json"))) for log in logs}

    def with_line(self, line: str) -> "UnreachableFlow":
        """The flow with one more line of configuration."""
        file = Path(self.config.file)
        file.write_text(f"{file.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
        return UnreachableFlow(load_config(file), self.port, self.capture)


def unreachable_flow(folder: Path, capture: pytest.CaptureFixture[str]) -> UnreachableFlow:
    """Without a ledger so far."""
    port = dead_port()
    nobody = f"127.0.0.1:{port}"
    config = write_config(folder, {"east": nobody, "west": nobody}, {EAST_TO_WEST: 'topics = [".*"]'})
    return UnreachableFlow(config, port, capture)


def dead_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
