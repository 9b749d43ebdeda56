"""Which cluster an alias stands for, and whose producer ids are whose there."""

import json
from typing import Any

import pytest

from ledger.errors import PreconditionError
from ledger.facts.identity import METADATA_LAG, ClusterIdentities, FlowProducer, LiveCluster
from tests.support.ledger_rows import claimed


def recorder(cluster: str, cluster_id: str) -> dict[str, Any]:
    return {
        **claimed("", 1, producer_id=None),
        "writer": f"recorder:{cluster}",
        "flow": None,
        "source_cluster": cluster,
        "source_cluster_id": cluster_id,
        "target_cluster": None,
        "target_cluster_id": None,
    }


def after(identities: ClusterIdentities, cluster: str, cluster_id: str, *, rebuilt: bool) -> dict[str, Any]:
    """The row of an acceptance as `operations` has it."""
    accepted = identities.accepting(cluster, cluster_id, rebuilt=rebuilt)
    return {"content": json.dumps(accepted.content())}


def test_an_alias_that_nobody_claimed_with_may_stand_for_any_cluster() -> None:
    nothing = ClusterIdentities.of_rows([], [])
    assert nothing.recorded_id("east") is None
    nothing.require("east", LiveCluster("whatever", None))


@pytest.mark.parametrize(("cluster", "cluster_id"), [("east", "E"), ("west", "W"), ("north", "N")])
def test_an_alias_stands_for_what_any_writer_claimed_with(cluster: str, cluster_id: str) -> None:
    identities = ClusterIdentities.of_rows([claimed("f", 1, producer_id=7), recorder("north", "N")], [])
    identities.require(cluster, LiveCluster(cluster_id, None))
    with pytest.raises(PreconditionError) as refused:
        identities.require(cluster, LiveCluster("other", None))
    assert f"its Kafka cluster id is other, the ledger knows {cluster_id}" in str(refused.value)
    assert f"mirror-ledger accept-cluster {cluster} --cluster-id other" in str(refused.value)
    assert identities.recorded_ids() == {"east": "E", "west": "W", "north": "N"}


def test_where_first_claims_met_two_clusters_an_operator_says_which() -> None:
    rows = [recorder("east", "E"), {**recorder("east", "E2"), "writer": "flow:g"}]
    both = ClusterIdentities.of_rows(rows, [])
    assert both.recorded_id("east") is None
    assert both.recorded_ids() == {"east": "E and E2"}
    for cluster_id in ("E", "E2"):
        with pytest.raises(PreconditionError, match="the ledger knows E and E2"):
            both.require("east", LiveCluster(cluster_id, None))
    told = ClusterIdentities.of_rows(rows, [after(both, "east", "E2", rebuilt=False)])
    told.require("east", LiveCluster("E2", None))


def test_the_last_acceptance_counts_whatever_was_claimed_before_and_back_again() -> None:
    rows = [claimed("f", 1, producer_id=7)]
    first = after(ClusterIdentities.of_rows(rows, []), "east", "E2", rebuilt=False)
    accepted = ClusterIdentities.of_rows(rows, [first])
    assert json.loads(first["content"])["former_id"] == "E"
    assert accepted.recorded_ids() == {"east": "E2", "west": "W"}
    back = after(accepted, "east", "E", rebuilt=False)
    later = [*rows, claimed("f", 2, producer_id=7, source="E2")]
    assert ClusterIdentities.of_rows(later, [first, back]).recorded_id("east") == "E"


def test_an_id_is_a_flows_for_ever_also_when_another_first_driver_recorded_one() -> None:
    rows = [claimed("f", 2, producer_id=3), claimed("f", 1, producer_id=5), claimed("g", 1, producer_id=9)]
    identities = ClusterIdentities.of_rows(rows, [])
    assert identities.producers("W") == {"f": FlowProducer(5, frozenset({3})), "g": FlowProducer(9)}
    assert identities.mirror_ids("W") == {3, 5, 9}
    assert identities.producers("E") == {}


def test_an_id_that_replaces_the_flows_is_written_with_and_the_former_stays_its_own() -> None:
    rows = [
        claimed("f", 1, producer_id=5),
        claimed("f", 2, producer_id=8, former=5),
        claimed("f", 3, producer_id=8),
        claimed("f", 4, producer_id=2, former=8),
    ]
    [producer] = ClusterIdentities.of_rows(rows, []).producers("W").values()
    assert producer == FlowProducer(2, frozenset({5, 8}))
    assert [producer.wrote(found) for found in (2, 5, 8, 3, -1)] == [True, True, True, False, False]


def test_what_replaces_an_id_that_is_not_the_flows_any_more_replaces_nothing() -> None:
    rows = [
        claimed("f", 1, producer_id=5),
        claimed("f", 2, producer_id=8, former=5),
        claimed("f", 3, producer_id=9, former=5),
    ]
    [producer] = ClusterIdentities.of_rows(rows, []).producers("W").values()
    assert producer == FlowProducer(8, frozenset({5, 9}))


def test_a_rebuilt_cluster_gives_ids_anew_and_the_old_ones_name_nobody() -> None:
    rows = [
        claimed("f", 3, producer_id=5),
        claimed("g", 1, producer_id=6),
        claimed("h", 1, producer_id=1, at="X"),
    ]
    rebuilt = after(ClusterIdentities.of_rows(rows, []), "west", "W", rebuilt=True)
    assert json.loads(rebuilt["content"])["retired_epochs"] == {"flow:f": 3, "flow:g": 1}
    identities = ClusterIdentities.of_rows(rows, [rebuilt])
    assert (identities.producers("W"), identities.mirror_ids("W")) == ({}, frozenset())
    assert identities.mirror_ids("X") == {1}
    assert identities.recorded_id("west") == "W"
    later = [*rows, claimed("f", 4, producer_id=6), claimed("g", 2, producer_id=0)]
    identities = ClusterIdentities.of_rows(later, [rebuilt])
    assert identities.producers("W") == {"f": FlowProducer(6), "g": FlowProducer(0)}
    again = after(identities, "west", "W", rebuilt=True)
    assert ClusterIdentities.of_rows(later, [rebuilt, again]).mirror_ids("W") == frozenset()


def test_a_cluster_that_is_accepted_keeps_the_ids_that_are_recorded_for_it() -> None:
    """Back at a cluster that never was formatted: it goes on giving ids, so the old ones are still whose they were."""
    rows = [claimed("f", 1, producer_id=5), claimed("f", 2, producer_id=5, at="W2")]
    back = after(ClusterIdentities.of_rows(rows, []), "west", "W", rebuilt=False)
    assert ClusterIdentities.of_rows(rows, [back]).producers("W") == {"f": FlowProducer(5)}


def test_a_cluster_whose_metadata_went_back_was_formatted_again() -> None:
    rows = [claimed("f", 1, producer_id=5, metadata=5000), claimed("g", 1, producer_id=6, metadata=4000)]
    identities = ClusterIdentities.of_rows(rows, [])
    identities.require("west", LiveCluster("W", None))
    identities.require("west", LiveCluster("W", 5000 - METADATA_LAG))
    identities.require("east", LiveCluster("E", 0))
    with pytest.raises(PreconditionError) as refused:
        identities.require("west", LiveCluster("W", 5000 - METADATA_LAG - 1))
    assert "its metadata went back from offset 5000 to 3799" in str(refused.value)
    assert "mirror-ledger accept-cluster west --cluster-id W --rebuilt" in str(refused.value)
    rebuilt = after(identities, "west", "W", rebuilt=True)
    later = ClusterIdentities.of_rows([*rows, claimed("f", 2, producer_id=5, metadata=100)], [rebuilt])
    later.require("west", LiveCluster("W", 20))


def test_what_a_later_program_says_besides_is_passed_over() -> None:
    rows = [claimed("f", 1, producer_id=7)]
    told = after(ClusterIdentities.of_rows(rows, []), "east", "E2", rebuilt=False)
    later = {"content": json.dumps({**json.loads(told["content"]), "unheard_of": 1})}
    assert ClusterIdentities.of_rows(rows, [later]).recorded_id("east") == "E2"
