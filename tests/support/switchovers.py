"""Switchovers between the brokers of a test, as operators ask for them."""

import json

import pytest

from ledger.config.mirror import MirrorConfig
from tests.support.commands import Done, command
from tests.support.waiting import eventually


def planned(capsys: pytest.CaptureFixture[str], config: MirrorConfig, *options: str) -> str:
    """The id of a switchover from east to west, once nothing stands against it: all is recorded then."""
    tries: list[Done] = []

    def is_free() -> bool:
        asked = (
            "plan",
            "switchover",
            "--from",
            "east",
            "--to",
            "west",
            "--accept",
            "no_commit",
            "-o",
            "json",
        )
        tries.append(command(capsys, config, *asked, *options))
        return tries[-1].code == 0

    eventually(is_free, "a plan without blockers", within_s=30)
    return str(json.loads(tries[-1].out)[0]["plan_id"])
