"""The same topic names mirrored in all directions while mirrors start, die and stop."""

import logging

import pytest

from ledger.recorders.observation import Subject
from tests.support.mesh import (
    BOTH_WAYS,
    GOES_ON,
    applications,
    assert_at_rest,
    at_work,
    holds,
    mesh_of,
    recreate,
    write,
    written,
)
from tests.support.site import RealSite
from tests.support.waiting import eventually


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
