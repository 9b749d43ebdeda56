"""Verdicts on names that differ in `.` and `_` alone."""

import uuid
from collections.abc import Mapping
from contextlib import closing

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.doctor.checks import Verdict
from ledger.doctor.flow import topic_names
from ledger.doctor.results import Unmeasured
from ledger.errors import MirrorLedgerError
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import SandboxCluster


def test_names_of_their_own() -> None:
    found = topic_names("flow f", ["east.a", "east.a_b"], {"east.a": 1, "east-a": 1, "x.y": 1, "x_y": 1})
    assert (found.verdict, found.measured, found.advice) == (Verdict.OK, "2 names of their own", None)


@pytest.mark.parametrize(
    ("wanted", "there", "measured", "refused"),
    [
        (["a.b", "a_b"], ["a.b", "a_b"], "a.b and a_b are both a_b", ""),
        (["a.b", "a_b"], [], "a.b and a_b are both a_b", "refuse to create a.b, a_b beside"),
        (["east.a"], ["east_a"], "east.a and east_a are both east_a", "refuse to create east.a beside"),
        (
            ["a.b.c", "d.e"],
            ["a_b.c", "a_b_c", "d_e", "x.y", "x_y"],
            "a.b.c and a_b.c and a_b_c are both a_b_c, d.e and d_e are both d_e",
            "refuse to create a.b.c, d.e beside",
        ),
    ],
)
def test_names_that_metrics_do_not_tell_apart(
    wanted: list[str], there: list[str], measured: str, refused: str
) -> None:
    found = topic_names("flow f", wanted, there)
    assert (found.verdict, found.measured) == (Verdict.WARNING, measured)
    assert found.advice is not None
    assert refused in found.advice
    assert bool(refused) is ("refuse" in found.advice)


def test_topics_that_are_not_known() -> None:
    away = Unmeasured("no broker answers")
    assert topic_names("flow f", away, []).verdict is Verdict.UNKNOWN
    assert topic_names("flow f", [], away).measured == "no broker answers"


def test_a_broker_refuses_the_second_of_two_such_topics(broker_pair: Mapping[str, SandboxCluster]) -> None:
    west = broker_pair["west"]
    config = ClusterConfig(name="west", bootstrap_servers=west.bootstrap_servers)
    first = f"names-{uuid.uuid4().hex[:6]}.a"
    with closing(KafkaAdmin("west", config, SystemClock())) as admin:
        admin.create_topic(first, partitions=1, replication_factor=1, configuration={})
        with pytest.raises(MirrorLedgerError, match="collides with existing topic"):
            admin.create_topic(first.replace(".", "_"), partitions=1, replication_factor=1, configuration={})
