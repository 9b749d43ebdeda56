"""A change of direction and the way back: nothing is read twice, copied twice, or taken for somebody else's."""

import random

import pytest

from ledger.errors import PreconditionError, UsageError
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.requests import AcceptForeign
from ledger.mirror.starts import require_usable
from tests.simulation.crash_points import CrashPoint
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.calm_flows import BACK, FORWARD, CalmPair, live_in_storms, live_with_changes


@pytest.fixture
def promoted() -> CalmPair:
    """East's records are at west, and applications write at west by now."""
    pair = CalmPair()
    pair.write("east", "e0", "e1")
    assert pair.run(FORWARD) is None
    return pair


def test_the_way_back_begins_at_the_cut(promoted: CalmPair) -> None:
    cut = promoted.promote()
    promoted.write("west", "w2", "w3")
    assert promoted.run(BACK, from_cut=cut) is None
    assert promoted.syncs(BACK) == [("started", "cut", 2, 2, 2, 2), ("copied", None, 2, 4, 2, 4)]
    assert promoted.values("east") == promoted.values("west") == ["e0", "e1", "w2", "w3"]
    assert promoted.broken_invariants() == {}


def test_markers_at_both_ends_are_passed(promoted: CalmPair) -> None:
    promoted.mark("west")
    promoted.mark("east")
    cut = promoted.promote()
    promoted.mark("east")
    promoted.write("west", "w2")
    assert promoted.run(BACK, from_cut=cut) is None
    assert promoted.syncs(BACK)[0] == ("started", "cut", 3, 3, 3, 3)
    assert promoted.values("east") == ["e0", "e1", "w2"]


def test_the_same_cut_is_not_applied_twice(promoted: CalmPair) -> None:
    cut = promoted.promote()
    promoted.write("west", "w2")
    promoted.run(BACK, from_cut=cut)
    promoted.write("west", "w3")
    assert promoted.run(BACK, from_cut=cut) is None
    assert [row[0] for row in promoted.syncs(BACK)] == ["started", "copied", "copied"]
    assert promoted.values("east") == ["e0", "e1", "w2", "w3"]


def test_what_was_written_at_the_target_after_the_cut_stops_it(promoted: CalmPair) -> None:
    cut = promoted.promote()
    promoted.write("east", "extra")
    promoted.write("west", "w2")
    promoted.run(BACK, from_cut=cut)
    assert promoted.stop(BACK) == "foreign_write"
    assert (
        "was written to since, from offset 2 on: applications were not kept from it"
        in promoted.stop_message(BACK)
    )
    assert promoted.values("east") == ["e0", "e1", "extra"]


@pytest.mark.parametrize(("alias", "end"), [("east", 1), ("west", 1)])
def test_a_log_that_ends_before_the_cut_stops_it(promoted: CalmPair, alias: str, end: int) -> None:
    cut = promoted.promote()
    promoted.log(alias).lose_end(end)
    promoted.run(BACK, from_cut=cut)
    assert (promoted.stop(BACK), promoted.syncs(BACK)) == ("cut_not_held", [])
    assert f"orders partition 0 of {alias} ended at 2 then, and ends at {end} now" in promoted.stop_message(
        BACK
    )


def test_another_incarnation_is_none_of_the_cut(promoted: CalmPair) -> None:
    cut = promoted.promote()
    promoted.clusters["east"].recreate_topic("orders")
    promoted.run(BACK, from_cut=cut)
    assert promoted.syncs(BACK)[0][:2] == ("started", "earliest")


def test_without_a_cut_nothing_is_appended_behind_what_was_there(promoted: CalmPair) -> None:
    promoted.change(Promoted)
    promoted.write("west", "w2")
    promoted.run(BACK)
    assert promoted.stop(BACK) == "foreign_write"
    assert promoted.values("east") == ["e0", "e1"]


# -- one direction at a time ---------------------------------------------------------------------


def test_the_flow_that_was_started_first_holds_and_the_other_one_stands_still(promoted: CalmPair) -> None:
    promoted.write("west", "w0")
    promoted.run(BACK)
    assert (promoted.stop(BACK), promoted.syncs(BACK)) == ("opposite_holds", [])
    assert promoted.values("east") == ["e0", "e1"]


def test_a_driver_that_waits_copies_once_its_source_is_promoted_and_no_longer(promoted: CalmPair) -> None:
    back = promoted.start(BACK)
    promoted.schedule.wait(5)
    cut = promoted.promote()
    back.stop.is_asked = True
    promoted.schedule.wait(5)
    promoted.run(BACK, from_cut=cut)
    back = promoted.start(BACK)
    promoted.write("west", "w2")
    promoted.schedule.wait(5)
    promoted.change(Demoted)
    promoted.schedule.wait(5)
    promoted.write("west", "w3")
    promoted.schedule.wait(5)
    back.stop.is_asked = True
    promoted.schedule.wait(5)
    assert promoted.values("east") == ["e0", "e1", "w2"]
    assert promoted.stop(BACK) == "opposite_holds"


# -- and back again ------------------------------------------------------------------------------


@pytest.fixture
def returned(promoted: CalmPair) -> CalmPair:
    """West's own records are at east, and everything is still."""
    cut = promoted.promote()
    promoted.write("west", "w2", "w3")
    assert promoted.run(BACK, from_cut=cut) is None
    return promoted


def test_the_forward_flow_continues_behind_what_was_written_meanwhile(returned: CalmPair) -> None:
    returned.demote()
    returned.write("east", "e4")
    assert returned.run(FORWARD) is None
    assert returned.syncs(FORWARD)[-2:] == [("copied", None, 2, 4, 4, 4), ("copied", None, 4, 5, 4, 5)]
    [passed] = [row for row in returned.ledger.rows("offset_syncs") if row["gaps"] and row["flow"] == FORWARD]
    assert [(gap["source_start"], gap["source_end"], gap["cause"]) for gap in passed["gaps"]] == [
        (2, 4, "mirror_write")
    ]
    assert returned.values("west") == returned.values("east") == ["e0", "e1", "w2", "w3", "e4"]
    assert returned.broken_invariants() == {}


def test_it_writes_with_another_producer_id(returned: CalmPair) -> None:
    returned.demote()
    returned.write("east", "e4")
    returned.run(FORWARD)
    claims = [
        row for row in returned.ledger.rows("writers") if row["flow"] == FORWARD and row["event"] == "claimed"
    ]
    assert claims[-1]["former_producer_id"] == claims[0]["producer_id"] != claims[-1]["producer_id"]
    assert returned.run(FORWARD) is None
    again = [
        row for row in returned.ledger.rows("writers") if row["flow"] == FORWARD and row["event"] == "claimed"
    ]
    assert again[-1]["producer_id"] == claims[-1]["producer_id"]


def test_a_driver_at_work_ends_for_that_and_the_next_one_continues(promoted: CalmPair) -> None:
    forward = promoted.start(FORWARD)
    promoted.schedule.wait(3)
    cut = promoted.promote()
    promoted.schedule.wait(3)
    promoted.write("west", "w2")
    assert promoted.run(BACK, from_cut=cut) is None
    promoted.demote()
    promoted.schedule.wait(5)
    assert isinstance(forward.actor.error, PreconditionError)
    assert "start it again" in str(forward.actor.error)
    promoted.write("east", "e3")
    assert promoted.run(FORWARD) is None
    assert promoted.values("west") == ["e0", "e1", "w2", "e3"]


def test_where_nothing_came_back_the_target_alone_moves(promoted: CalmPair) -> None:
    """West has a marker of applications more than the forward flow knows, and nothing was brought to east."""
    cut = promoted.promote()
    promoted.mark("west")
    promoted.run(BACK, from_cut=cut)
    promoted.demote()
    promoted.write("east", "e2")
    assert promoted.run(FORWARD) is None
    assert ("unpaired", "cut", 2, 2, 3, 3) in promoted.syncs(FORWARD)
    assert promoted.values("west") == ["e0", "e1", "e2"]
    assert promoted.broken_invariants() == {}


def test_extras_are_read_and_copied_by_the_forward_flow(promoted: CalmPair) -> None:
    """They lay at east at the first cut, and the forward flow had been cut where it stood."""
    promoted.change(Promoted)
    promoted.write("east", "extra")
    cut = promoted.cut(FORWARD)
    promoted.write("west", "w2")
    assert promoted.run(BACK, from_cut=cut) is None
    promoted.demote()
    assert promoted.run(FORWARD) is None
    assert promoted.values("east") == ["e0", "e1", "extra", "w2"]
    assert promoted.values("west") == ["e0", "e1", "w2", "extra"]
    assert promoted.broken_invariants() == {}


def test_a_second_time_round_the_way_back_passes_the_copies(returned: CalmPair) -> None:
    returned.demote()
    returned.write("east", "e4")
    assert returned.run(FORWARD) is None
    cut = returned.promote()
    returned.write("west", "w5")
    assert returned.run(BACK, from_cut=cut) is None
    assert ("copied", None, 4, 5, 5, 5) in returned.syncs(BACK)
    assert returned.values("east") == returned.values("west") == ["e0", "e1", "w2", "w3", "e4", "w5"]
    returned.demote()
    returned.write("east", "e6")
    assert returned.run(FORWARD) is None
    assert returned.values("west") == ["e0", "e1", "w2", "w3", "e4", "w5", "e6"]
    assert returned.broken_invariants() == {}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_may_be_a_copy_of_an_earlier_life_is_not_copied_by_guess(
    returned: CalmPair, is_deleted: bool
) -> None:
    """West has a record that nobody brought to east, and nobody knows whether the way back had begun to."""
    returned.write("west", "unread")
    returned.change(Demoted)
    returned.run(FORWARD)
    assert returned.stop(FORWARD) == "foreign_write"
    returned.operations.record(AcceptForeign(topic="orders"), flow=FORWARD, reason="a test")
    returned.write("east", "e5")
    returned.run(FORWARD)
    assert returned.values("west")[-2:] == ["unread", "e5"]
    if is_deleted:
        returned.log("west").delete_before(6)
    cut = returned.promote()
    returned.run(BACK, from_cut=cut)
    assert returned.stop(BACK) == "cut_not_held"
    assert "west holds at offset 4 what flow east-to-west has not copied there" in returned.stop_message(BACK)
    assert returned.values("east")[-1] == "e5"


def test_where_nothing_happened_nothing_is_recorded_again(promoted: CalmPair) -> None:
    cut = promoted.promote()
    assert [promoted.run(BACK, from_cut=cut), promoted.run(BACK, from_cut=cut)] == [None, None]
    assert promoted.syncs(BACK) == [("started", "cut", 2, 2, 2, 2)]
    promoted.demote()
    assert [promoted.run(FORWARD), promoted.run(FORWARD)] == [None, None]
    assert [row[0] for row in promoted.syncs(FORWARD)] == ["started", "copied"]


def test_a_driver_at_work_that_has_written_nothing_continues_behind_the_cut() -> None:
    pair = CalmPair()
    forward = pair.start(FORWARD)
    pair.schedule.wait(3)
    cut = pair.promote()
    pair.schedule.wait(3)
    pair.write("west", "w0")
    assert pair.run(BACK, from_cut=cut) is None
    pair.demote()
    pair.write("east", "e1")
    pair.schedule.wait(5)
    assert (pair.values("west"), pair.stop(FORWARD)) == (["w0", "e1"], None)
    forward.stop.is_asked = True
    pair.schedule.wait(5)


def test_a_topic_that_came_after_the_cut_is_copied_from_its_beginning(promoted: CalmPair) -> None:
    """Whatever the flow's `start` says of topics that are there when it runs first."""
    cut = promoted.promote()
    west = promoted.clusters["west"]
    west.create_topic("new", partitions=1, replication_factor=1, configuration={})
    west.log("new", 0).append(application_batch([content(b"k", b"v")], [0]), now_ms=0)
    drivers = promoted.drivers[BACK]
    drivers.flow = drivers.flow.model_copy(update={"start": "latest"})
    assert promoted.run(BACK, from_cut=cut) is None
    assert len(promoted.clusters["east"].log("new", 0).readable()) == 1


def test_ends_cannot_be_kept_of_a_flow_that_has_not_recorded_all(returned: CalmPair) -> None:
    """Its driver died after it had written."""
    returned.write("west", "w4")
    returned.run_to_death(BACK)
    assert returned.values("east")[-1] == "w4"
    with pytest.raises(PreconditionError, match="copies of flow west-to-east that it had not recorded"):
        returned.demote()
    assert returned.run(BACK) is None
    returned.schedule.jump(1.0)
    returned.demote()


# -- refused at the start ------------------------------------------------------------------------


def test_a_cut_without_a_live_side_is_refused(promoted: CalmPair) -> None:
    promoted.change(Promoted)
    promoted.clusters["east"].available = False
    with pytest.raises(PreconditionError, match="orders partition 0: east was not read itself"):
        require_usable(promoted.flows[BACK], promoted.cut(FORWARD))


def test_what_one_side_alone_had_at_the_cut_keeps_nothing_from_beginning(promoted: CalmPair) -> None:
    promoted.clusters["east"].create_topic("a", partitions=1, replication_factor=1, configuration={})
    promoted.clusters["west"].create_topic("b", partitions=1, replication_factor=1, configuration={})
    require_usable(promoted.flows[BACK], promoted.cut(FORWARD))


def test_a_cut_without_any_row_of_a_living_side_is_refused() -> None:
    """Nothing was ever copied or recorded, and east does not answer."""
    pair = CalmPair()
    pair.clusters["east"].available = False
    with pytest.raises(PreconditionError, match="east was not read itself"):
        require_usable(pair.flows[BACK], pair.cut(FORWARD))


def test_a_cut_of_another_flow_is_refused(promoted: CalmPair) -> None:
    cut = promoted.promote()
    with pytest.raises(UsageError, match="took no cut of flow west-to-east, but of east-to-west"):
        require_usable(promoted.flows[FORWARD], cut)
    with pytest.raises(UsageError, match="took no cut of flow east-to-west; nothing"):
        require_usable(promoted.flows[BACK], promoted.state.cut("none"))
    alone = promoted.flows[BACK].model_copy(update={"opposite": None})
    with pytest.raises(UsageError, match="has no opposite"):
        require_usable(alone, cut)


def test_what_stopped_it_as_foreign_before_the_cut_is_decided_by_the_cut(promoted: CalmPair) -> None:
    """Its driver was at work when west was promoted, and began before there was a cut."""
    back = promoted.start(BACK)
    promoted.schedule.wait(3)
    cut = promoted.promote()
    promoted.write("west", "w2")
    promoted.schedule.wait(5)
    assert promoted.stop(BACK) == "foreign_write"
    back.stop.is_asked = True
    promoted.schedule.wait(5)
    assert promoted.run(BACK, from_cut=cut) is None
    assert promoted.values("east") == ["e0", "e1", "w2"]
    assert (promoted.stop(BACK), promoted.broken_invariants()) == (None, {})


def test_a_driver_that_lives_through_two_changes_of_direction_goes_with_each(promoted: CalmPair) -> None:
    cut = promoted.promote()
    promoted.change(Demoted)
    back = promoted.start(BACK, from_cut=cut)
    for number, expected in ((2, 1), (3, 2), (4, 3)):
        promoted.change(Demoted)
        promoted.schedule.wait(5)
        assert promoted.stop(BACK) == "opposite_holds"
        promoted.change(Promoted)
        promoted.write("west", f"w{number}")
        promoted.schedule.wait(5)
        assert promoted.stop(BACK) is None
        resumed = [row for row in promoted.ledger.rows("operations") if row["kind"] == "partition_resumed"]
        assert len([row for row in resumed if row["flow"] == BACK]) == expected
    back.stop.is_asked = True
    promoted.schedule.wait(5)
    assert promoted.values("east") == promoted.values("west") == ["e0", "e1", "w2", "w3", "w4"]


def test_what_retention_deleted_of_the_copies_is_passed_all_the_same(returned: CalmPair) -> None:
    returned.mark("west")
    assert returned.run(BACK) is None
    returned.demote()
    returned.mark("west")
    returned.write("east", "e4", "e5")
    returned.run(FORWARD)
    returned.log("west").delete_before(returned.log("west").high_watermark)
    cut = returned.promote()
    returned.write("west", "w6")
    assert returned.run(BACK, from_cut=cut) is None
    assert returned.values("east") == ["e0", "e1", "w2", "w3", "e4", "e5", "w6"]


def test_what_was_settled_is_not_copied_a_second_time_behind_the_cut() -> None:
    """East and the driver died together with a tail that nobody had recorded; one record of east was never copied."""
    pair = CalmPair()
    pair.write("east", "e0", "e1")
    pair.run_to_death(FORWARD)
    assert pair.settle(FORWARD).records == 2
    pair.write("east", "extra")
    cut = pair.promote()
    pair.write("west", "w2")
    pair.run(BACK, from_cut=cut)
    assert pair.values("east") == ["e0", "e1", "extra", "w2"]
    pair.demote()
    pair.write("east", "e4")
    pair.run(FORWARD)
    assert pair.stop(FORWARD) == "foreign_write"
    assert pair.run(FORWARD) is None
    assert pair.values("west") == ["e0", "e1", "w2", "extra", "e4"]
    assert (pair.stop(FORWARD), pair.broken_invariants()) == (None, {})


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_between_changes_of_direction_each_record_is_at_both_sides_once(seed: int) -> None:
    """Drivers die anywhere, markers lie anywhere, retention deletes what was copied; both sides are still at a cut."""
    pair = CalmPair(frozenset(CrashPoint), chance=0.2)
    live_with_changes(pair, random.Random(seed))
    assert pair.broken_invariants() == {}


def test_so_it_is_in_a_storm_with_flows_that_people_settle_in_between() -> None:
    """Requests and answers are lost, drivers die, and what they left unrecorded is settled without their source."""
    live_in_storms((*range(7), 16))
