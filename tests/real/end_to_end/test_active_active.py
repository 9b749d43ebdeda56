"""The same topic names mirrored in all directions: each side ends up with everything once, and nothing loops."""

import logging
import threading
import time
from collections.abc import Mapping

import pytest

from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from ledger.sandbox.log_gaps import (
    CLEANED_AGAIN,
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    wait_until_cleaned,
)
from ledger.sandbox.workload import Delivery, RecordSource, Workload
from tests.support.mesh import (
    GOES_ON,
    PARTITIONS,
    applications,
    assert_at_rest,
    at_work,
    holds,
    mesh_of,
    recreate,
    write,
    written,
)
from tests.support.recorded import broken_invariants, query
from tests.support.site import RealSite
from tests.support.waiting import eventually

Pair = Mapping[str, SandboxCluster]
BOTH_WAYS = [("east", "west"), ("west", "east")]


@pytest.mark.fault(73)
def test_both_sides_are_written_while_mirrors_start_die_and_stop(
    site: RealSite, caplog: pytest.LogCaptureFixture
) -> None:
    mesh = mesh_of(site.pair, site.spark, site.folder, BOTH_WAYS)
    east, west = (applications(mesh, cluster) for cluster in ("east", "west"))
    with at_work([*east, *west]):
        with mesh.killed_afterwards("east-to-west"):
            eventually(lambda: holds(mesh, "west", "east-transactional"), "east's records reach west")
            with mesh.running("west-to-east"):  # for the first time, while the other one runs
                eventually(lambda: holds(mesh, "east", "west-transactional"), "west's records reach east")
        caplog.set_level(logging.INFO, logger="ledger")
        caplog.clear()
        everything = frozenset(Subject)
        with (
            mesh.running("east-to-west", recorded=everything),
            mesh.running("west-to-east", recorded=everything),
        ):
            after_the_kill = written(west).total()
            eventually(lambda: written(west).total() > after_the_kill + 100, "applications go on")
    alarming = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert alarming == [], "two flows that start together, and share their recorders, need nobody"
    assert "cluster east are recorded by this process" in caplog.text
    assert mesh.run_all() > 0
    assert_at_rest(mesh, written([*east, *west]))
    assert mesh.gaps("east-to-west")["mirror_write"] == written(west).total()
    assert mesh.gaps("west-to-east")["mirror_write"] == written(east).total()
    assert min(mesh.gaps(flow)["aborted"] for flow in mesh.config.flows) > 0


def test_a_recreated_topic_gets_its_history_back(site: RealSite) -> None:
    mesh = mesh_of(site.pair, site.spark, site.folder, BOTH_WAYS, extra=GOES_ON)
    first = [*applications(mesh, "east"), *applications(mesh, "west")]
    write(*first)
    mesh.run_all()
    assert_at_rest(mesh, written(first))
    recreate(mesh, "east")
    second = [*applications(mesh, "east", "-again"), *applications(mesh, "west", "-again")]
    write(*second)
    assert mesh.run_all() == written([*first, *second]).total(), "west gives east its first records back"
    assert_at_rest(mesh, written([*first, *second]))


def test_what_a_mirror_wrote_is_known_after_the_cleaner_came(site: RealSite) -> None:
    mesh = mesh_of(
        site.pair, site.spark, site.folder, BOTH_WAYS, configuration={**CLEANED_QUICKLY, **KEPT_AS_IT_IS}
    )
    workload = Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000 - 60_000)
    delivery = Delivery(mesh.servers["east"], {"batch.num.messages": "50"})
    for number, record in enumerate(RecordSource(workload).overwrite(mesh.topic, 2_000, keys=20)):
        delivery.send(mesh.topic, number % PARTITIONS, record)
    delivery.finish()
    mesh.run("west-to-east")
    assert mesh.run("east-to-west").records == 2_000
    ends = frozenset({Subject.HIGH_WATERMARKS, Subject.SWEEP})
    record_clusters(mesh.config, ["west"], ends, stop=threading.Event(), once=True)
    lag = query(mesh.config, "replication_lag", flow="west-to-east")
    assert sum(row["last_stable"] - row["mirrored_end"] for row in lag) == 2_000
    assert {(row["lag_records"], row["status"]) for row in lag} == {(0, "caught_up")}, (
        "mirrors wrote all of it"
    )
    configure(mesh.servers["west"], mesh.topic, CLEANED_AGAIN)
    holes = sum(wait_until_cleaned(mesh.servers["west"], mesh.topic).values())
    assert holes > 500
    assert mesh.run("west-to-east").records == 0
    gaps = mesh.gaps("west-to-east")
    assert gaps["mirror_write"] > 0
    assert set(gaps) <= {"mirror_write", "compacted"}
    assert sum(gaps.values()) == 2_000
    assert broken_invariants(mesh.config) == {}
