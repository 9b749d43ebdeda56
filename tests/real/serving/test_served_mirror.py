"""A real mirror while it is served: figures are those that clients count on both sides, also where nobody copies."""

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import ends
from ledger.sandbox.workload import create_topics
from tests.support.asked_pages import value
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.following import name_of, produce, values
from tests.support.runs import FLOW
from tests.support.scraped import free_port, samples_at, serving, text_at
from tests.support.waiting import eventually

FLOW_LINES = 'topic_naming = "identity"\nround_seconds = 1\nheartbeat_seconds = 5\nhigh_watermark_seconds = 1'


@pytest.mark.xdist_group("served")
@pytest.mark.fault(38)
def test_what_is_served_is_what_clients_count(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> None:
    servers, topic = servers_of(broker_pair), name_of("served")
    east, west = servers["east"], servers["west"]
    create_topics(east, [topic], partitions=1)
    produce(east, topic, *(f"value {number}" for number in range(500)))
    config = write_config(tmp_path, servers, {FLOW: f'topics = ["{topic}"]\n{FLOW_LINES}'})
    init_ledger(config)
    own = f"http://127.0.0.1:{free_port()}"
    driver = Driver(config, tmp_path / "driver.log", ("--metrics", own.removeprefix("http://")))
    try:
        with serving(config, tmp_path / "serve.log") as url:
            eventually(lambda: value(samples_at(url), "flow_copied_records", flow=FLOW) == 500, "it is shown")
            read = values(west, topic)
            assert len(read) == 500, "a consumer of the target reads what is shown"
            eventually(lambda: value(samples_at(url), "flow_lag_records", flow=FLOW) == 0, "nothing waits")
            of_driver = samples_at(own)
            assert value(of_driver, "driver_copied_records_total") == len(read)
            assert value(of_driver, "driver_lag_offsets") == 0
            batches = value(of_driver, "driver_copied_batches_total", form="raw")
            assert value(of_driver, "driver_record_latency_seconds_count") == batches
            assert value(of_driver, "driver_append_duration_seconds_count") != 0
            assert "caught up" in text_at(url)

            assert driver.ask_to_stop(signal.SIGINT) == 0
            assert samples_at(own) == {}, "nobody answers any more"
            produce(east, topic, *(f"later {number}" for number in range(70)))
            assert sum(ends(east, [topic]).values()) - len(values(west, topic)) == 70
            eventually(lambda: value(samples_at(url), "driver_alive", flow=FLOW) == 0, "it has ended")
            eventually(
                lambda: value(samples_at(url), "flow_lag_records", flow=FLOW) is None,
                "nobody reads the source, so its lag is unknown, and not 0",
            )
            assert "lag unknown" in text_at(url)
    finally:
        driver.end()
