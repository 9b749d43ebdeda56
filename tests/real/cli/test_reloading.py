"""A driver at work follows its configuration file: asked through the ledger from anywhere, or by SIGHUP."""

import json
import signal
from pathlib import Path

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver
from tests.support.following import copied, name_of, produce
from tests.support.recorded import operations, query, rows
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually


def changed(config: MirrorConfig, before: str, after: str) -> None:
    file = Path(config.file)
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def events(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_driver_follows_its_file_and_keeps_its_role(site: RealSite) -> None:
    east, west = site.servers
    first, second, third = name_of("first"), name_of("second"), name_of("third")
    create_topics(east, [first, second, third], partitions=1)
    for topic in (first, second, third):
        produce(east, topic, "0")
    config = site.configured({FLOW: f'topics = ["{first}"]\ntopic_naming = "identity"'})
    with Path(config.file).open("a") as file:
        file.write('\n[logs]\nformat = "json"\n')
    log = site.folder / "log"
    driver = Driver(config, log)
    try:
        eventually(lambda: copied(west, first) == [b"0"], "what it selects is copied")

        changed(config, f'["{first}"]', f'["{first}", "{second}"]')
        done = site.done(config, "reload", FLOW, "--reason", "another topic", "--wait", "30")
        assert f"done: from now on: flows.{FLOW}.topics is another" in done.err
        eventually(lambda: copied(west, second) == [b"0"], "the other topic is copied")

        changed(config, f'"{second}"]', f'"{third}"]')
        refused = site.command(config, "reload", FLOW, "--wait", "30")
        assert refused.code == 4
        assert f"{second}: not selected" in refused.err
        produce(east, second, "1")
        eventually(lambda: copied(west, second) == [b"0", b"1"], "it copies on as before")

        changed(config, f'"{third}"]', f'"{second}", "{third}"]\ntasks = 2')
        driver.process.send_signal(signal.SIGHUP)
        eventually(lambda: copied(west, third) == [b"0"], "the third topic is copied")
        produce(east, first, "1")
        eventually(lambda: copied(west, first) == [b"0", b"1"], "and the first")
        assert site.done(config, "health", FLOW).out.startswith(f"{FLOW}: running")
        assert driver.ask_to_stop(signal.SIGTERM) == 0
    finally:
        driver.end()

    claims = [
        row
        for row in rows(config, "writers")
        if row["event"] == "claimed" and row["writer"] == f"flow:{FLOW}"
    ]
    assert [row["writer_epoch"] for row in claims] == [1, 2, 3]
    assert len({row["host"] for row in claims}) == 1
    released = [
        row
        for row in rows(config, "writers")
        if row["event"] == "released" and row["writer"] == f"flow:{FLOW}"
    ]
    assert [row["writer_epoch"] for row in released] == [3]
    assert [row["changed"] for row in operations(config, "configuration_changed")] == [
        None,
        ["topics"],
        ["topics"],
    ]
    assert query(config, "audit_l3_once") == []
    said = events(log)
    assert any(one.get("flow") == FLOW and "reloaded" in str(one["message"]) for one in said)
    assert any("tasks is another" in str(one["message"]) for one in said)
    assert site.command(config, "health", FLOW).code == 4
