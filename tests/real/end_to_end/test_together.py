"""Several flows in one process: one JVM and one endpoint for all, and each ends for itself."""

import signal
from pathlib import Path
from urllib.request import urlopen

from ledger.sandbox.workload import create_topics
from tests.support.drivers import Driver, descendants
from tests.support.following import copied, name_of, produce
from tests.support.recorded import query, rows
from tests.support.runs import run
from tests.support.scraped import free_port
from tests.support.site import RealSite
from tests.support.waiting import eventually

THERE, BACK, THIRD = "there", "back", "third"


def test_flows_share_a_process_and_end_each_for_itself(site: RealSite) -> None:
    east, west = site.servers
    topic, home, other = name_of("orders"), name_of("home"), name_of("other")
    create_topics(east, [topic, other], partitions=1)
    create_topics(west, [home], partitions=1)
    for servers, name in ((east, topic), (west, home), (east, other)):
        produce(servers, name, "0")
    quick = 'topic_naming = "identity"\nround_seconds = 1.0\n'
    config = site.configured(
        {
            THERE: f'topics = ["{topic}"]\n{quick}',
            BACK: f'source = "west"\ntarget = "east"\ntopics = ["{home}"]\n{quick}',
            THIRD: f'topics = ["{other}"]\n{quick}',
        }
    )
    listen, log = f"127.0.0.1:{free_port()}", site.folder / "log"
    driver = Driver(config, log, (BACK, THIRD, "--metrics", listen), flow=THERE)
    try:
        eventually(lambda: copied(west, topic) == [b"0"], "there")
        eventually(lambda: copied(east, home) == [b"0"], "and back")
        eventually(lambda: copied(west, other) == [b"0"], "and the third one")
        programs = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in descendants(driver.process.pid)]
        assert programs.count("java") == 1
        assert site.done(config, "health").out.count(": running") == 3

        def exported(flow: str, *, count: int) -> bool:
            text = urlopen(f"http://{listen}/metrics").read().decode()
            name = "mirror_ledger_driver_copied_records_total"
            assert text.count(f"# TYPE {name} ") == 1
            return any(
                line.startswith(f'{name}{{flow="{flow}"') and line.endswith(f" {count}.0")
                for line in text.splitlines()
            )

        for flow in (THERE, BACK, THIRD):
            eventually(lambda flow=flow: exported(flow, count=1), f"{flow} is exported")  # type: ignore[misc]

        run(config, site.spark, THIRD, take_over=True)
        eventually(lambda: f"error: {THIRD}" in log.read_text(), "the third one is shut out, and says so")
        site.done(config, "stop", BACK, "--reason", "no way back")
        eventually(lambda: f"{BACK}: ended as asked" in log.read_text(), "the way back ends as asked")
        produce(east, topic, "1")
        eventually(lambda: copied(west, topic) == [b"0", b"1"], "the first one copies on")
        driver.process.send_signal(signal.SIGHUP)
        eventually(lambda: f"{THERE}: reloaded" in log.read_text(), "and follows its file")
        assert driver.ask_to_stop(signal.SIGTERM) == 5
    finally:
        driver.end()

    last = log.read_text().splitlines()[-1]
    assert last.startswith("error: 1 of 3 flows: ")
    assert THIRD in last
    assert last.endswith("(exit 5)")
    claims = [
        row
        for row in rows(config, "writers")
        if row["event"] == "claimed" and row["writer"].startswith("flow:")
    ]
    assert len({row["host"] for row in claims}) == 2, "the process, and the one that took over"
    released = {row["writer"] for row in rows(config, "writers") if row["event"] == "released"}
    assert released >= {f"flow:{flow}" for flow in (THERE, BACK, THIRD)}
    assert query(config, "audit_l3_once") == []
