"""`mirror-ledger` as a user types it, carried out in this process: imports would take longer than most commands."""

import json
from dataclasses import dataclass

import pytest

from ledger.cli.main import main
from ledger.config.mirror import MirrorConfig
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
