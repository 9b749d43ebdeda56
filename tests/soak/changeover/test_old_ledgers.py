"""Who plans with an older copy of the ledger is told so, and carries nothing out."""

import json
import shutil
import time
from pathlib import Path

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.sandbox.workload import create_topics
from tests.support.commands import command
from tests.support.drivers import Driver
from tests.support.following import Pair, config_of, name_of, produce, values
from tests.support.plans import UNFENCED, both_ways
from tests.support.recorded import operations, query, rows
from tests.support.runs import FLOW
from tests.support.waiting import eventually

_LONGER_THAN_A_ROUND_S = 16.0
"""More than three heartbeats: what the target has from then on no driver has left unrecorded."""


def test_a_plan_from_an_older_copy_is_blocked_and_changes_nothing(
    broker_pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    east, west = (broker_pair[alias].bootstrap_servers for alias in ("east", "west"))
    topic = name_of("orders")
    config = config_of(tmp_path, broker_pair, both_ways(topic))
    init_ledger(config)
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "a")
    driver = Driver(config, tmp_path / "driver.log")
    try:
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        old = tmp_path / "old"
        shutil.copytree(config.ledger.path, old)
        time.sleep(_LONGER_THAN_A_ROUND_S)
        produce(east, topic, "b")
        eventually(lambda: values(west, topic) == [b"a", b"b"], "more is copied")
    finally:
        driver.end()
    file = tmp_path / "old.toml"
    file.write_text(Path(config.file).read_text().replace(str(config.ledger.path), str(old)))
    former = load_config(file)
    before = len(rows(former, "operations"))
    asked = (
        "--from",
        "east",
        "--to",
        "west",
        *UNFENCED,
        "--accept=mirror_not_shut_out",
        "--accept=source_answers",
    )
    accepted = ("--accept", "not_recorded", "--accept", "permitted_listed")
    planned = command(capsys, former, "plan", "failover", *asked, *accepted, "-o", "json")
    [found] = json.loads(planned.out)
    assert planned.code == 4, planned.err
    assert [one["code"] for one in found["blockers"]] == ["unrecorded_copies"]
    assert "use the newest copy of the ledger" in found["blockers"][0]["advice"]
    applied = command(capsys, former, "apply", found["plan_id"], "--reason", "a fire", "--yes")
    assert (applied.code, applied.out) == (4, ""), applied.err
    assert "is blocked: unrecorded_copies; nothing was done" in applied.err
    assert len(rows(former, "operations")) == before + 1, "the plan alone"
    assert operations(former, "apply_claimed") == []
    newest = command(capsys, config, "plan", "failover", *asked, *accepted, "-o", "json")
    assert newest.code == 0, newest.out
