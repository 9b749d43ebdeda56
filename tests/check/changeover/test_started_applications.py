"""Before applications are started it is read that they may write where they come to."""

import json

import pytest

from ledger.changeover.fencing import fence_topics, unfence_topics
from ledger.changeover.measures import LEAST_MESSAGE_BYTES, SETTING, AskedFence
from ledger.changeover.plans import ChangeoverKind
from ledger.context import Context
from ledger.errors import StepRefusedError
from ledger.facts.fences import FenceHow
from ledger.facts.operations import Why
from tests.support.changing_pairs import SHOP, SWITCHOVER, ChangingPair

pytestmark = pytest.mark.long


def test_who_comes_to_a_topic_that_takes_no_batch_is_not_started_before_that_is_lifted() -> None:
    """By what is printed: a fence that somebody has made by other tools is recorded, and lifted."""
    pair, asked = ChangingPair(), Why("what is printed")
    plan, shut = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER), list[str]()

    def shut_it_behind(_write: str) -> bool:
        done = [row for row in pair.ledger.rows("operations") if row["kind"] == "step_done"]
        if not shut and any(json.loads(row["content"])["step"] == "hand_over" for row in done):
            shut.append("orders")
            topic = pair.west.topic_by_name["orders"]
            topic.configuration = {**topic.configuration, SETTING: LEAST_MESSAGE_BYTES}
        return False

    with pytest.raises(
        StepRefusedError, match=r"orders: it takes no batch\. Step start_applications did nothing"
    ):
        pair.apply(plan, pair.outside.process(behind=shut_it_behind))
    assert not pair.west.lets_write(SHOP, "orders", 0)
    assert not [one for one in pair.taken if one[2].startswith("west")], "nobody was started"
    with pair.outside.seen_by(pair.outside.process()):
        fence_topics(
            Context(pair.config, asked),
            AskedFence(cluster="west", topics=("orders",), how=FenceHow.SHUT, producers_stopped=True),
            lambda _line: None,
        )
    with pytest.raises(
        StepRefusedError, match=r"it is fenced .shut.*mirror-ledger unfence west --reason WHY --topic"
    ):
        pair.apply(plan)
    with pair.outside.seen_by(pair.outside.process()):
        unfence_topics(Context(pair.config, asked), "west", ("orders",), lambda _line: None)
    pair.apply(plan)
    assert [one for one in pair.taken if one[2].startswith("west")], "applications write at west"
    pair.end()
