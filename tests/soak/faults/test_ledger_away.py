"""A driver whose ledger's folder is away for longer than an append is tried: it waits, and goes the whole way after."""

import time
from contextlib import ExitStack
from pathlib import Path

from ledger.sandbox.reading import Record, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver
from tests.support.following import name_of
from tests.support.recorded import broken_invariants, query, rows
from tests.support.runs import FLOW
from tests.support.shops import Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually

_AWAY_S = 60.0
_APPENDS_END_WITHIN_S = 40.0


def test_a_driver_waits_for_a_folder_that_was_moved_away(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured({FLOW: f'topics = ["{topic}"]\nround_seconds = 1'})
    create_topics(east, [topic], partitions=3)
    shop, log = Shop(topic, 3), site.folder / "driver.log"
    folder, elsewhere = Path(config.ledger.path), site.folder / "elsewhere"
    with ExitStack() as stack:
        stack.callback(lambda: print(log.read_text(encoding="utf-8")[-6000:]))
        driver = Driver(config, log)
        stack.callback(driver.kill_with_workers)
        with shop.selling(east):
            eventually(
                lambda: query(config, "flow_positions", flow=FLOW) != [], "it is at work", within_s=120
            )
            folder.rename(elsewhere)
            folder.mkdir()  # as a mount point without its mount
            time.sleep(_APPENDS_END_WITHIN_S)
            at_target = records_of(west, f"east.{topic}")
            time.sleep(_AWAY_S - _APPENDS_END_WITHIN_S)
            assert records_of(west, f"east.{topic}") == at_target, "nothing is copied that cannot be recorded"
            assert site.command(config, "health", FLOW).code != 0
            assert "waits for the ledger" in log.read_text(encoding="utf-8")
            assert not list(folder.iterdir()), "nobody began another ledger there"
            folder.rmdir()
            elsewhere.rename(folder)
            known = len(rows(config, "offset_syncs"))
            eventually(lambda: len(rows(config, "offset_syncs")) > known, "at work again", within_s=120)
        written = records_of(east, topic)
        eventually(lambda: records_of(west, f"east.{topic}") == written, "all is there once", within_s=120)
        assert driver.process.poll() is None
    assert broken_invariants(config) == {}


def records_of(servers: str, topic: str) -> dict[int, list[Record]]:
    """By partition, in their order."""
    found = read_topics(servers, [topic])
    return {partition: [one.record for one in placed] for (_, partition), placed in found.items()}
