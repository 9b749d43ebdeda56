"""A switchover where brokers ask who somebody is, by rules for each principal; undone, nothing of it is left."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.recorders.observation import Subject
from tests.support.guarded import GuardedPair
from tests.support.guarded_journeys import journey
from tests.support.recorded import broken_invariants
from tests.support.runs import running
from tests.support.waiting import eventually


def test_it_is_undone_to_the_last_rule_and_the_mirror_copies_on(
    guarded_pair: GuardedPair, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The producer never stops by itself: the fence keeps it out."""
    of = journey(guarded_pair, tmp_path, capsys)
    with running(of.config, spark, recorded=frozenset(Subject)):
        with of.selling():
            of.is_under_way()
            plan_id = of.planned()
            before = of.standing()
            operation = of.applied(plan_id)
        assert of.shop.refused != [], "it wrote all the time"
        assert of.standing() != before
        verified = of.ask("verify", operation)
        assert verified.code == 0, verified.out
        undone = of.undo(operation)
        assert undone.code == 0, undone.err
        assert of.standing() == before
        of.sell("east", 20)
        eventually(lambda: of.holds_all("west"), "the mirror copies on")
    assert of.holds_all("east")
    assert broken_invariants(of.config) == {}
