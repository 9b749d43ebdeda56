"""What `accept-cluster` is asked, held against the ledger and the cluster that answers."""

import pytest

from ledger.changeover.directions import acceptance_consequences, judge_acceptance
from ledger.errors import PreconditionError, UsageError
from ledger.facts.identity import ClusterIdentities
from tests.support.claims import claimed

KNOWN = ClusterIdentities.of_rows([claimed("f", 2, producer_id=7)], [])


def test_another_cluster_is_accepted_and_named() -> None:
    accepted = judge_acceptance(KNOWN, "west", "W2", live_id="W2", rebuilt=False)
    assert accepted is not None
    assert (accepted.cluster_id, accepted.former_id, accepted.retired_epochs) == ("W2", "W", {})
    assert "west stands for W2 from now on, no longer for W" in acceptance_consequences(accepted)


def test_of_two_that_first_claims_met_one_is_accepted() -> None:
    elsewhere = {**claimed("g", 1, producer_id=9), "target_cluster_id": "W2"}
    both = ClusterIdentities.of_rows([claimed("f", 2, producer_id=7), elsewhere], [])
    for cluster_id in ("W", "W2"):
        accepted = judge_acceptance(both, "west", cluster_id, live_id=cluster_id, rebuilt=False)
        assert accepted is not None
        assert (accepted.cluster_id, accepted.former_id) == (cluster_id, None)
        assert f"west stands for {cluster_id} from now on: flows" in acceptance_consequences(accepted)


def test_a_rebuilt_cluster_retires_what_was_claimed_there() -> None:
    accepted = judge_acceptance(KNOWN, "west", "W", live_id="W", rebuilt=True)
    assert accepted is not None
    assert accepted.retired_epochs == {"flow:f": 2}
    assert "was formatted again" in acceptance_consequences(accepted)


def test_what_is_so_already_is_nothing_to_do() -> None:
    assert judge_acceptance(KNOWN, "west", "W", live_id="W", rebuilt=False) is None


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_cluster_that_does_not_answer_there_is_refused(rebuilt: bool) -> None:
    with pytest.raises(PreconditionError, match="behind west has the Kafka cluster id W, not W2; nothing"):
        judge_acceptance(KNOWN, "west", "W2", live_id="W", rebuilt=rebuilt)


def test_nothing_can_be_accepted_for_an_alias_that_nobody_ran_with() -> None:
    with pytest.raises(PreconditionError, match="nobody ever ran with north"):
        judge_acceptance(KNOWN, "north", "N", live_id="N", rebuilt=False)


def test_another_id_is_no_rebuilt_cluster() -> None:
    with pytest.raises(UsageError, match="leave --rebuilt out; nothing was recorded"):
        judge_acceptance(KNOWN, "west", "W2", live_id="W2", rebuilt=True)
