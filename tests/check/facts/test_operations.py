"""What is read of `operations`: what only a later program knows is passed over, what is broken is refused."""

import json
from typing import Any

import pytest

from ledger.errors import InvalidValueError
from ledger.facts.every_kind import content_of
from ledger.facts.operations import (
    FindingRaised,
    OperationKind,
    PartitionStopped,
    RecordedStop,
    created_acls,
    followed_settings,
    open_findings,
    stopped_partitions,
)
from ledger.facts.requests import REQUEST_CLASSES, Acceptance, FlowRequests, Receipt, RequestKind, acceptances
from tests.support import operation_contents


def row(kind: str, content: object, number: int = 1) -> dict[str, Any]:
    return {
        "operation_id": f"operation-{number}",
        "kind": kind,
        "operator": "anna",
        "reason": None,
        "ticket": None,
        "content": json.dumps(content),
        "writer_epoch": 1,
        "round": number,
        "recorded_at_ms": number,
    }


def example(kind: OperationKind) -> dict[str, Any]:
    return operation_contents.content_of(kind).content()


@pytest.mark.parametrize("kind", OperationKind)
def test_a_key_that_is_not_known_is_passed_over(kind: OperationKind) -> None:
    def with_more(value: object) -> object:
        if isinstance(value, list):
            return [with_more(one) for one in value]
        return {**value, "of_tomorrow": [1]} if isinstance(value, dict) else value

    content = {
        key: with_more(value) if isinstance(value, list) else value for key, value in example(kind).items()
    }
    assert content_of(row(kind, with_more(content))) == operation_contents.content_of(kind)


def test_a_kind_that_is_not_known_is_passed_over() -> None:
    unheard_of = row("kind_of_tomorrow", ["not", "an", "object"])
    assert content_of(unheard_of) is None
    asked = FlowRequests.of_rows([unheard_of, row("pause", {"topic": None}, 2)])
    assert [request.kind for request in asked.waiting] == [RequestKind.PAUSE]


def test_a_result_that_is_not_known_answers_and_is_not_done() -> None:
    receipt = {
        **example(OperationKind.RECEIPT),
        "request": "operation-1",
        "result": "postponed",
        "accepted": [],
    }
    rows = [row("resume", {"topic": None, "partition": None}), row("receipt", receipt, 2)]
    assert FlowRequests.of_rows(rows).waiting == ()
    read = Receipt.of_row(rows[1])
    assert (read.result, read.is_done) == ("postponed", False)
    assert read.content()["result"] == "postponed"


def test_a_cause_and_a_finding_that_are_not_known_are_kept_as_they_are() -> None:
    stopped = row("partition_stopped", {**example(OperationKind.PARTITION_STOPPED), "cause": "of_tomorrow"})
    assert PartitionStopped.of_row(stopped).cause == "of_tomorrow"
    raised = row("finding_raised", {**example(OperationKind.FINDING_RAISED), "finding": "of_tomorrow"})
    assert FindingRaised.of_row(raised).key == ("of_tomorrow", "orders", 0)
    assert open_findings([raised]) == {("of_tomorrow", "orders", 0)}


def test_an_access_control_list_that_is_not_known_is_passed_over() -> None:
    content = example(OperationKind.ACLS_FOLLOWED)
    [known] = content["acls"]
    others = [{**known, "pattern": "of_tomorrow"}, {**known, "permission": "of_tomorrow"}]
    found = created_acls([row("acls_followed", {**content, "acls": [*others, known]})])
    assert [acl.resource_name for acl in found] == ["east.orders"]
    replaced = row("acls_followed", {**content, "action": "of_tomorrow"}, 2)
    assert created_acls([replaced]) == frozenset()
    assert created_acls([row("acls_followed", content), replaced]) == found


def test_settings_are_those_that_were_set_and_not_removed_whatever_was_done() -> None:
    content = {**example(OperationKind.TOPIC_FOLLOWED), "action": "of_tomorrow"}
    first = {**content, "set": {"a": "1", "b": "2"}, "removed": []}
    rows = [row("topic_followed", first), row("topic_followed", {**content, "set": {}, "removed": ["a"]}, 2)]
    assert followed_settings(rows) == {content["topic_id"]: frozenset({"b"})}


def test_of_acceptances_of_a_place_the_last_one_counts() -> None:
    first, last = example(OperationKind.RECEIPT), example(OperationKind.RECEIPT)
    [told] = first["accepted"]
    last["accepted"] = [{**told, "below": 1600}]
    found = acceptances([row("receipt", first), row("receipt", last, 2)])
    place = (told["topic_id"], told["partition"])
    assert found == {place: Acceptance(*place, told["target_topic_id"], told["target_end"], 1600)}


@pytest.mark.parametrize("content", [{"request_kind": "pause"}, [], None, 7])
def test_a_row_that_is_not_what_its_kind_has_is_told_and_not_read(content: object) -> None:
    with pytest.raises(InvalidValueError, match=r"operation operation-1 is no receipt .* it was not read"):
        Receipt.of_row(row("receipt", content))


@pytest.mark.parametrize("kind", [kind for kind in RequestKind if "topic" in REQUEST_CLASSES[kind].keys])
def test_a_request_that_names_less_is_about_all_of_it(kind: RequestKind) -> None:
    read = REQUEST_CLASSES[kind].of_row(row(kind, {"topic": "orders"}))
    assert (read.topic, read.partition, read.offset) == ("orders", None, None)
    assert read.concerns("orders", 7)
    assert not read.concerns("events", 7)


def test_a_partition_stands_still_by_its_last_event_and_of_one_round_by_the_stop() -> None:
    at = {"topic": "t", "topic_id": "T", "partition": 3}
    stop = {**at, "cause": "c", "message": "m", "next": None}

    def standing(*events: tuple[str, int]) -> dict[tuple[str, int], RecordedStop]:
        contents = {"partition_stopped": stop, "partition_resumed": at}
        return stopped_partitions([row(kind, contents[kind], number) for kind, number in events])

    stands = {("T", 3): RecordedStop("c", "m")}
    assert standing(("partition_stopped", 1)) == stands
    assert standing(("partition_stopped", 1), ("partition_resumed", 2)) == {}
    assert standing(("partition_resumed", 2), ("partition_stopped", 1)) == {}
    assert standing(("partition_stopped", 3), ("partition_resumed", 2)) == stands
    assert standing(("partition_stopped", 2), ("partition_resumed", 2)) == stands
