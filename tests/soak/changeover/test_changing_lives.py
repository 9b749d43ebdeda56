"""Applications go there and back by plans that are given up in between, and past topics that are left out."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from ledger.changeover.plans import BlockerCode, ChangeoverKind, StepName
from ledger.errors import PreconditionError
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changing_histories import PLACES, Fate, ScopedLife, TravellingPair
from tests.support.changing_pairs import (
    BILLING,
    FORWARD,
    REVERSE,
    SHOP,
    SWITCHOVER,
    TOPICS,
    at_clusters,
)
from tests.support.operator_processes import ProcessEnded


def stops(pair: TravellingPair, flow: str) -> set[str]:
    return {str(stop.cause) for stop in MemoryLedgerState(pair.ledger).stopped_partitions(flow).values()}


def begins(step: StepName) -> str:
    return f"ledger: apply operations step_begun {step}"


def test_applications_go_there_and_back_by_plans_and_an_undone_plan_leaves_all_as_it_was() -> None:
    pair = TravellingPair()
    settings = at_clusters(pair)["east settings"]
    pair.work()
    there = pair.switch()
    pair.work()
    pair.come_together()
    with pytest.raises(PreconditionError, match=r"plan switchover --from west --to east --reason"):
        pair.undo(there)
    with pytest.raises(
        PreconditionError, match=r"(?s)records behind what flow east-to-west has copied.*--keep-ends"
    ):
        pair.demote()

    pair.close_east()
    pair.recorders.record_all()
    before = at_clusters(pair)
    assert {
        one.entity for one in pair.east.acls if (one.permission_type, one.operation) == ("deny", "read")
    } == {BILLING}
    assert before["east settings"] != settings, "retention is held"
    with pytest.raises(ProcessEnded):
        pair.apply(
            pair.planned_way(), pair.outside.process(before=begins(StepName.START_APPLICATIONS).__eq__)
        )
    [given_up] = [one.operation_id for one in pair.applies() if one.operation_id != there]
    pair.undo(given_up)
    now = at_clusters(pair)
    assert {what: now[what] for what in now if "rules" in what} == {
        w: before[w] for w in before if "rules" in w
    }
    assert now == before
    pair.start_again()
    pair.work()  # at west still, and all of it comes to east
    pair.come_together()

    back = pair.switch()
    assert "mirror-ledger run east-to-west --from-cut " + back in pair.told(back)["reverse"]
    assert at_clusters(pair)["east settings"] == settings
    assert not any(pair.west.lets_write(SHOP, *place) for place in PLACES), "west is fenced"
    pair.work()
    pair.come_together()
    assert (stops(pair, FORWARD), stops(pair, REVERSE)) == (set(), {"promoted"})
    pair.require_once_each()
    pair.end()


def test_a_switchover_without_such_a_topic_leaves_it_and_its_readers_alone_and_so_does_its_undo() -> None:
    life = ScopedLife.of({"refunds": Fate.DESELECTED})
    pair = life.pair
    cast(dict[str, Any], pair.outside.hooks)["start-applications"] = lambda: None
    blocked = life.made(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    assert [one.code for one in blocked.blockers] == [BlockerCode.NOT_COPIED_ANY_MORE]
    assert "5 records known" in blocked.blockers[0].words

    operation_id = life.applied(ChangeoverKind.SWITCHOVER, replace(SWITCHOVER, progress_seconds=0.0))
    life.require_nothing_unguarded(operation_id)
    assert life.promoted(operation_id) == set(TOPICS)
    assert "refunds" not in life.set_at_west()
    assert pair.east.lets_write(SHOP, "refunds", 0)
    directions = MemoryLedgerState(pair.ledger).directions()
    assert directions.promotion("east", "west", "refunds") is None
    assert directions.promotion("east", "west", "what comes later") is not None

    pair.undo(operation_id)
    told = [
        json.loads(row["content"])
        for row in pair.rows("operations", operation_id)
        if row["kind"] == "demoted"
    ]
    assert [(one["topics"], one["later"], one["left_out"]) for one in told] == [
        (sorted(TOPICS), True, ["refunds"])
    ]
    directions = MemoryLedgerState(pair.ledger).directions()
    assert set(directions.promotions("east", "west", None).values()) == {None}
    pair.end()
