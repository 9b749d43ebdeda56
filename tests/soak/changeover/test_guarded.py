"""Where brokers ask who somebody is: permissions lack in the middle, and the whole way there, back, and there again."""

from pathlib import Path

import pytest
from kafka.admin import ACLOperation
from pyspark.sql import SparkSession

from ledger.recorders.observation import Subject
from tests.support.commands import driver_state
from tests.support.following import values
from tests.support.guarded import (
    ADMINISTRATOR,
    MIRROR,
    GuardedPair,
    Rule,
    on_cluster,
    on_group,
    on_topic,
)
from tests.support.guarded_journeys import GuardedJourney, journey
from tests.support.recorded import Row, broken_invariants, rows
from tests.support.runs import FLOW, running
from tests.support.waiting import eventually

# -- There and back --------------------------------------------------------------------------------


@pytest.fixture
def of(guarded_pair: GuardedPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> GuardedJourney:
    return journey(guarded_pair, tmp_path, capsys)


def test_permissions_that_lack_are_named_and_then_it_goes_on_to_the_end(
    of: GuardedJourney, spark: SparkSession
) -> None:
    west = of.pair["west"]
    alter, delete = on_cluster(ACLOperation.ALTER), on_group(of.desk.group, ACLOperation.DELETE)
    with running(of.config, spark, recorded=frozenset(Subject)):
        with of.selling():
            of.is_under_way()
            plan_id = of.planned()
            before = of.standing()
            west.forbid(ADMINISTRATOR, *alter)
            stuck = of.apply(plan_id)
            assert stuck.code != 0
            assert "shut_out: FAILED" in stuck.err, stuck.err
            west.allow(ADMINISTRATOR, *alter)
            operation = of.applied(plan_id)
        west.forbid(MIRROR, *delete)
        stuck = of.undo(operation)
        assert stuck.code == 5, stuck.err
        assert "the mirror's principal needs DELETE on the group" in stuck.err
        west.allow(MIRROR, *delete)
        of.undone(operation)
        assert of.standing() == before
        of.sell("east", 20)
        eventually(lambda: of.holds_all("west"), "the mirror copies on")
        plan_id = of.planned()
        with of.selling():
            operation = of.applied(plan_id)
            refused = len(of.shop.refused)
            eventually(lambda: len(of.shop.refused) > refused, "it is refused where it was")
        of.sell("west", 30)
        of.process("west", lambda: set(of.desk.processed) >= set(of.shop.written))
        assert sorted(of.desk.processed) == sorted(of.shop.written), "nothing skipped, nothing repeated"
        late = on_topic(of.topic, ACLOperation.WRITE)
        of.pair["east"].allow("late", *late)
        assert "User:late may write by now" in of.ask("verify", operation).out
        of.pair["east"].forbid("late", *late)
        refused_undo = of.undo(operation)
        assert (refused_undo.code, "an application has written at offset" in refused_undo.err) == (5, True)
        said = of.ask("status", FLOW, "--check")
        assert (said.code, "west-to-east" in said.out) == (4, True), said.out
        copies_back(of, spark, operation)
    starts_and_writes_nothing(of, spark)
    assert broken_invariants(of.config) == {}


def test_an_apply_that_sticks_while_east_is_opened_again_moves_nobody(
    of: GuardedJourney, spark: SparkSession
) -> None:
    east, west = of.pair["east"], of.pair["west"]
    read = on_group(of.desk.group, ACLOperation.READ)
    with running(of.config, spark, recorded=frozenset(Subject)):
        with of.selling():
            of.is_under_way()
            plan_id, before = of.planned(), of.standing()
            west.forbid(MIRROR, *read)
            stuck = of.apply(plan_id)
            assert "move_groups: FAILED" in stuck.err, stuck.err
            west.allow(MIRROR, *read)
            east.open_again(of.topic)
            refused = of.apply(plan_id)
            assert refused.code == 5
            assert "Step move_groups did nothing" in refused.err, (
                refused.err
            )  # for the fence, or what came already
            sold = len(of.shop.written)
            eventually(lambda: len(of.shop.written) > sold + 20, "the shop sells at east again")
        assert of.standing()["commits at west"] == before["commits at west"]
        refused = of.apply(plan_id)
        assert (refused.code, "an application has written at offset" in refused.err) == (5, True), refused.err
        assert of.standing()["commits at west"] == before["commits at west"]
        [operation] = {
            row["operation_id"] for row in rows(of.config, "operations") if row["kind"] == "step_begun"
        }
        of.undone(operation)
        assert of.standing() == before
        eventually(lambda: of.holds_all("west"), "the mirror copies what came")


def starts_and_writes_nothing(of: GuardedJourney, spark: SparkSession) -> None:
    """The forward driver, though a marker has shut its producer id out and it may not be given another one."""
    west = of.pair["west"]
    held = values(west.open, of.topic)
    claimed = len(claims_of(of))
    with running(of.config, spark):
        eventually(lambda: len(claims_of(of)) > claimed, "it has begun")
        eventually(lambda: driver_state(of.capture, of.config) == "running", "it stays")
    assert len({row["producer_id"] for row in claims_of(of)[claimed - 1 :]}) == 1
    assert values(west.open, of.topic) == held


def claims_of(of: GuardedJourney) -> list[Row]:
    """Of the forward flow, oldest first."""
    found = [row for row in rows(of.config, "writers") if (row["flow"], row["event"]) == (FLOW, "claimed")]
    return sorted(found, key=lambda row: row["writer_epoch"])


def copies_back(of: GuardedJourney, spark: SparkSession, operation: str) -> None:
    """As soon as the mirror may write there; then all stands as the direction says."""
    write: list[Rule] = on_topic(of.topic, ACLOperation.WRITE)
    of.pair["east"].allow(MIRROR, *write)
    with running(of.config, spark, "west-to-east", from_cut=operation):
        eventually(lambda: of.holds_all("east"), "all is copied back")
        said = of.ask("status", FLOW, "--check")
        assert said.code == 0, said.out


# -- Undone ----------------------------------------------------------------------------------------


def test_it_is_undone_to_the_last_rule_and_the_mirror_copies_on(
    of: GuardedJourney, spark: SparkSession
) -> None:
    """The producer never stops by itself: the fence keeps it out."""
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
        of.undone(operation)
        assert of.standing() == before
        of.sell("east", 20)
        eventually(lambda: of.holds_all("west"), "the mirror copies on")
    assert of.holds_all("east")
    assert broken_invariants(of.config) == {}
