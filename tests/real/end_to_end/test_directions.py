"""A promoted target belongs to applications: nothing is appended there, whatever a driver finds at its source."""

import time
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.app.tables import init_ledger
from ledger.app.wiring import operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.directions import Demoted, DirectionChange, Promoted
from ledger.mirror.driver.run_summary import RunEnd
from ledger.sandbox.workload import create_topics
from tests.support.following import Pair, admin_of, config_of, copying, name_of, produce, values
from tests.support.recorded import operations, query
from tests.support.runs import FLOW, run, running
from tests.support.waiting import eventually

_QUIET_S = 3.0
"""Several rounds, and looks at topics."""


def change(config: MirrorConfig, kind: type[DirectionChange], topic: str) -> None:
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        ids = {"cluster_id": west.cluster_id(), "former_id": east.cluster_id()}
    direction = kind(cluster="west", former="east", topics=(topic,), **ids)
    operator_operations(config).record(direction, flow=None, reason="a fire")


def test_a_driver_at_work_and_the_next_ones_leave_a_promoted_topic_alone(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    east, west = (broker_pair[alias].bootstrap_servers for alias in ("east", "west"))
    topic, other = name_of("orders"), name_of("other")
    names = f'topics = ["{topic}", "{other}"]\ntopic_naming = "identity"'
    config = config_of(tmp_path, broker_pair, {FLOW: names})
    init_ledger(config)
    create_topics(east, [topic, other], partitions=1)
    produce(east, topic, "e0", "e1")
    with running(config, spark):
        eventually(lambda: _holds(config, west, topic, [b"e0", b"e1"]), "what there was is copied")
        change(config, Promoted, topic)
        eventually(lambda: operations(config, "partition_stopped") != [], "the partition stops")
        produce(west, topic, "w2")
        produce(east, topic, "extra")
        with admin_of(config, "east") as admin:
            admin.change_settings(topic, to_set={"retention.ms": "86400000"}, to_remove=[])
        produce(east, other, "o0")
        eventually(lambda: _holds(config, west, other, [b"o0"]), "the other topic is copied")
        time.sleep(_QUIET_S)
    assert [row["cause"] for row in operations(config, "partition_stopped")] == ["promoted"]
    again = run(config, spark)
    assert (again.end, [(one.topic, one.cause) for one in again.stopped]) == (
        RunEnd.NOT_CAUGHT_UP,
        [(topic, "promoted")],
    )
    assert values(west, topic) == [b"e0", b"e1", b"w2"]
    with admin_of(config, "west") as admin:
        assert "retention.ms" not in admin.configurations([topic])[topic]
    [stopped] = [row for row in query(config, "flow_status", flow=FLOW) if row["source_topic"] == topic]
    assert (stopped["status"], stopped["stop_cause"]) == ("stopped", "promoted")


def test_it_continues_where_it_stood_when_it_is_demoted(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    east, west = (broker_pair[alias].bootstrap_servers for alias in ("east", "west"))
    topic = name_of("orders")
    config = config_of(tmp_path, broker_pair, {FLOW: copying(topic, 'topic_naming = "identity"')})
    init_ledger(config)
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "e0", "e1")
    assert run(config, spark).records == 2
    change(config, Promoted, topic)
    produce(east, topic, "e2")
    assert run(config, spark).records == 0
    change(config, Demoted, topic)
    assert (run(config, spark).records, values(west, topic)) == (1, [b"e0", b"e1", b"e2"])
    assert len(operations(config, "partition_resumed")) == 1


def _holds(config: MirrorConfig, servers: str, topic: str, expected: list[bytes]) -> bool:
    with admin_of(config, "west") as west:
        is_there = topic in west.topics()
    return is_there and values(servers, topic) == expected
