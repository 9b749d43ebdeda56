"""What a driver that syncs groups reads of the ledger: commits, where they land, moves, and what is promoted."""

import json
from pathlib import Path

import pytest

from ledger.config.values import AppConfig
from ledger.facts.tables import place_of
from ledger.offsets.between_clusters import last_group_syncs
from ledger.offsets.setting import synced_before
from ledger.offsets.syncing import LedgerAnswers
from ledger.store.snapshots import open_ledger
from tests.support.operated import FLOW, Operated, own_mark


@pytest.fixture
def answers(idle: Operated) -> LedgerAnswers:
    """Of a flow that has copied 100 offsets of `orders`; `billing` and `audit` have commits there, at each side."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 100, ("orders", 1): 100})
    for cluster, topic, offsets in (("east", "orders", (30, 40)), ("west", "east.orders", (7,))):
        for number, offset in enumerate(offsets, start=1):
            idle.append(
                "checkpoints",
                *(commit(cluster, topic, group, offset, number) for group in ("audit", "billing")),
            )
    flow = idle.config.flow(FLOW).model_copy(update={"groups": ("billing",)})
    return LedgerAnswers(idle.config, flow)


def commit(cluster: str, topic: str, group: str, offset: int, number: int) -> dict[str, object]:
    at = {"cluster": cluster, "topic": topic, "topic_id": f"id-of-{topic}", "partition": 0}
    stamp = {"writer": f"recorder:{cluster}", "writer_epoch": 1, "round": number, "read_at_ms": 1000 * number}
    return {**at, **stamp, "group_id": group, "committed_offset": offset, "leader_epoch": 2}


def test_only_groups_of_the_flow_are_translated_each_with_what_it_left(answers: LedgerAnswers) -> None:
    assert dict(answers.commits()) == {("billing", "orders", 0): (40, 2, "id-of-orders", None, None)}
    (answer,) = answers.translate(["audit", "billing"])
    named = ("group_id", "source_partition", "committed_offset", "target_topic", "target_offset", "status")
    assert [answer[name] for name in named] == ["billing", 0, 40, "east.orders", 40, "exact"]
    left = answers.source_commits(["billing"])["billing", "orders", 0]
    assert (left.topic_id, left.leader_epoch, left.made_after_ms) == ("id-of-orders", 2, 1000)


def test_groups_of_an_application_are_followed_as_far_as_its_outputs_were_copied(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    for topic in ("orders", "invoices"):
        idle.copied({(topic, 0): 100})
    for number, (offset, end) in enumerate(((30, 100), (40, 120)), start=1):
        idle.append("checkpoints", commit("east", "orders", "billing", offset, number))
        at = {"topic": "invoices", "topic_id": "id-of-invoices", "partition": 0, "log_start": 0}
        stamp = {"writer": "recorder:east", "writer_epoch": 1, "round": number, "read_at_ms": 1000 * number}
        idle.append(
            "high_watermarks", {"cluster": "east", **at, **stamp, "last_stable": end, "high_watermark": end}
        )
    apps = {"billing": AppConfig(groups=("billing",), outputs=("invoices",))}
    config = idle.config.model_copy(update={"apps": apps})
    answers = LedgerAnswers(config, idle.config.flow(FLOW))
    [known] = answers.commits().values()
    assert known == (40, 2, "id-of-orders", None, place_of(1, 1)), "it changes with what was copied"
    (answer,) = answers.translate(["billing"])
    assert (answer["committed_offset"], answer["target_offset"], answer["last_committed_offset"]) == (
        30,
        30,
        40,
    )
    unknown = {"billing": AppConfig(groups=("billing",), outputs=("nobody-knows",))}
    config = idle.config.model_copy(update={"apps": unknown})
    (answer,) = LedgerAnswers(config, idle.config.flow(FLOW)).translate(["billing"])
    assert (answer["committed_offset"], answer["outputs"]) == (40, "not_copied")


def test_that_more_was_copied_is_seen(answers: LedgerAnswers, idle: Operated) -> None:
    before = answers.map_state()
    assert answers.map_state() == before
    idle.lost("orders", 0, 100, 120, round=9)
    assert answers.map_state() != before


BASIS: dict[str, object] = {"group_type": None, "cut": "c", "seen": []}
UNKNOWN = {"source_leader_epoch": None, "source_made_after_ms": None}


def test_the_last_move_away_from_the_target_says_what_it_left_there(
    answers: LedgerAnswers, idle: Operated
) -> None:
    for number, offset in enumerate((6, 7)):
        place = {"topic": "orders", "topic_id": "id-of-orders", "partition": 0, "former": None, "to": 40}
        left = {"source_topic": "east.orders", "source_topic_id": "id-of-east.orders", "source_partition": 0}
        intended = {"group": "billing", "source_cluster": "west", "target_cluster": "east", **BASIS}
        commits = [{**place, **left, **UNKNOWN, "source_offset": offset, "status": "exact"}]
        result = {"group": "billing", "results": [{**place, "result": "set"}]}
        operation = {"operation_id": f"back-{number}", "flow": None, "writer": "operator", "writer_epoch": 0}
        for kind, content in (
            ("offsets_set", {**intended, "commits": commits}),
            ("offsets_set_result", result),
        ):
            row = {**operation, "kind": kind, "content": json.dumps(content)}
            idle.append("operations", row, at_ms=9_000 - 1_000 * number)  # a clock of operators was ahead
    assert answers.known_offsets(["billing"]) == {("billing", "east.orders", 0): {7}}
    assert answers.known_offsets(["audit"]) == {}


def test_what_an_operator_has_set_at_the_target_is_known(answers: LedgerAnswers, idle: Operated) -> None:
    place = {"topic": "east.orders", "topic_id": "id-of-east.orders", "partition": 0, "former": 3, "to": 40}
    left = {
        "source_topic": "orders",
        "source_topic_id": "id-of-orders",
        "source_partition": 0,
        "source_offset": 40,
    }
    intended = {"group": "billing", "source_cluster": "east", "target_cluster": "west", **BASIS}
    idle.operation("offsets_set", {**intended, "commits": [{**place, **left, **UNKNOWN, "status": "exact"}]})
    assert answers.known_offsets(["billing"]) == {("billing", "east.orders", 0): {40}}


def test_what_was_synced_is_no_move_away(answers: LedgerAnswers, idle: Operated, tmp_path: Path) -> None:
    synced = {
        "flow": "west-to-east",
        "group_id": "billing",
        "source_cluster": "west",
        "source_topic": "east.orders",
        "source_partition": 0,
        "source_offset": 7,
        "target_cluster": "east",
        "target_topic": "orders",
        "target_partition": 0,
        "target_offset": 40,
        "event": "synced",
    }
    idle.append("group_syncs", synced)
    assert answers.known_offsets(["billing"]) == {}


def test_of_what_was_synced_the_last_and_what_was_begun_behind_it_is_known(idle: Operated) -> None:
    at = {"flow": FLOW, "group_id": "billing", "target_cluster": "west", "target_topic": "east.orders"}
    for event, offset in (("intended", 5), ("synced", 5), ("intended", 6), ("synced", 6), ("intended", 7)):
        idle.append("group_syncs", {**at, "target_partition": 0, "event": event, "target_offset": offset})
    idle.append("group_syncs", {**at, "target_partition": 1, "event": "intended", "target_offset": 9})
    idle.append("group_syncs", {**at, "flow": "other", "target_partition": 1, "event": "synced"})
    newest = open_ledger(idle.path).now()
    known = synced_before(last_group_syncs(newest, "west", FLOW))
    assert {place[2]: set(synced.own) for place, synced in known.items()} == {0: {6, 7}, 1: {9}}
    assert last_group_syncs(newest, "east", FLOW) == []
    assert len(last_group_syncs(newest, "west")) == len(last_group_syncs(newest, "west", FLOW)) + 1


def test_a_promotion_of_the_target_is_known_at_once(answers: LedgerAnswers, idle: Operated) -> None:
    assert answers.promotion()("east.orders") is None
    scope = {
        "cluster": "west",
        "cluster_id": "w",
        "former": "east",
        "former_id": "e",
        "topics": ["east.orders"],
    }
    idle.operation("promoted", scope)
    assert answers.promotion()("east.orders") is not None
    assert answers.promotion()("east.payments") is None
    idle.operation("demoted", scope)
    assert answers.promotion()("east.orders") is None
