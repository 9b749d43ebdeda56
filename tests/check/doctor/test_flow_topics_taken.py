"""`doctor` tells the topics that a driver would mirror, and refuses the names that a driver refuses."""

from typing import cast

import pytest

from ledger.config.values import FlowConfig, RenameConfig
from ledger.doctor import flow as topic_names
from ledger.doctor.checks import Verdict
from ledger.doctor.cluster import ClusterMeasurements
from ledger.doctor.flow import FlowMeasurements
from ledger.doctor.probes import ClusterProbe, LedgerProbe
from ledger.doctor.results import Unmeasured
from ledger.topics.naming import NamingKind, TopicSelection
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.memory_flows import Flow, follow

UNASKED = object()


def measured_cluster(cluster: MemoryCluster) -> ClusterMeasurements:
    """What `doctor` has measured of it; nothing more is asked."""
    return ClusterMeasurements(
        cast(ClusterProbe, UNASKED), {}, None, {}, cluster.cluster_id(), cluster.topics()
    )


def doctor_on(flow: Flow, config: FlowConfig) -> FlowMeasurements:
    selection = TopicSelection(config.topics, config.exclude, naming=config.naming)
    return FlowMeasurements(
        config,
        selection,
        measured_cluster(flow.east),
        measured_cluster(flow.west),
        cast(LedgerProbe, UNASKED),
    )


def renamed(pattern: str, target: str) -> FlowConfig:
    """Its two aliases may be one cluster's."""
    return FlowConfig(
        name="f",
        source="east",
        target="west",
        topics=(".*",),
        topic_naming=NamingKind.RENAME,
        rename=(RenameConfig(match=pattern, to=target),),
    )


@pytest.mark.parametrize("one_cluster", [False, True])
@pytest.mark.parametrize(
    ("config", "topics"),
    [
        (renamed("(.*)_REPLICA", r"\1"), ("a_REPLICA", "a", "b_REPLICA", "c", "__internal")),
        (renamed("(a|b)", r"copied.\1"), ("a", "b", "copied.a", "c")),
        (renamed("(.*)", r"copied.\1"), ("a", "copied.a", "copied.copied.a")),
        (renamed("(.*)_.", r"\1"), ("a_1", "a_2")),
        (renamed("(.*)", r"\1"), ("a",)),
    ],
    ids=["replica", "some", "copies of copies", "one name for two", "its own name"],
)
def test_topics_and_refused_names_are_those_of_a_driver(
    config: FlowConfig, topics: tuple[str, ...], one_cluster: bool
) -> None:
    flow = Flow(one_cluster=one_cluster)
    for topic in topics:
        flow.source(topic)
    seen = doctor_on(flow, config)
    refusals = [result.verdict for result in topic_names.conflicts("flow f", seen.taken)]
    assert not isinstance(seen.selected, Unmeasured)
    reported = list(seen.selected)
    assert not isinstance(seen.taken, Unmeasured)
    left_out = seen.taken.conflicts
    mirrored = sorted({source for source, _, _ in follow(flow.topics(config.naming))})
    assert [name for name in reported if name not in left_out] == mirrored
    assert refusals == ([Verdict.FAILED] if left_out else [])
