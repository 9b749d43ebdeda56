"""Plans on real clusters: made until nothing stands against them, and carried out."""

import json

import pytest

from ledger.config.mirror import MirrorConfig
from tests.support.commands import Done, command
from tests.support.following import copying
from tests.support.runs import FLOW
from tests.support.waiting import eventually

OFTEN = "checkpoint_seconds = 0.5\nhigh_watermark_seconds = 0.5\nheartbeat_seconds = 5\n"


def planned(capsys: pytest.CaptureFixture[str], config: MirrorConfig, kind: str, *options: str) -> str:
    """The id of a plan from east to west, once nothing stands against it: all is recorded then."""
    tries: list[Done] = []
    asked = ("plan", kind, "--from", "east", "--to", "west", "--accept", "no_commit", "-o", "json")

    def is_free() -> bool:
        tries.append(command(capsys, config, *asked, *options))
        return tries[-1].code == 0

    try:
        eventually(is_free, "a plan without blockers", within_s=30)
    finally:
        print(*(one.err for one in tries[-1:]))
    return str(json.loads(tries[-1].out)[0]["plan_id"])


def both_ways(topic: str, *more: str) -> dict[str, str]:
    """Flows of the same names in both directions, of which one holds."""
    names = 'topic_naming = "identity"\n' + OFTEN
    return {
        FLOW: f'opposite = "west-to-east"\n{copying(topic, names, *more)}',
        "west-to-east": f'source = "west"\ntarget = "east"\nopposite = "{FLOW}"\n{copying(topic, names, *more)}',
    }
