"""`offsets translate`: the topic ids of answers, what a reset file holds and what it leaves out."""

import json

import pytest

from tests.support.operated import Operated, own_mark


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """Ten offsets copied and ten lost; groups at 4 and beyond, one gone, one in the loss."""
    idle.writer("claimed", own_mark(), epoch=1)
    idle.copied({("orders", 0): 10})
    idle.lost("orders", 0, 10, 20)
    for group, offset in (
        ("steady", 4),
        ("vanished", 5),
        ("unlucky", 12),
        ("gone-unlucky", 13),
        ("fast", 99),
    ):
        idle.append("checkpoints", commit(group, offset))
    for group in ("vanished", "gone-unlucky"):
        idle.append("checkpoints", {**commit(group, None), "round": 2, "absence": "gone", "read_at_ms": 7})
    return idle


def commit(group: str, offset: int | None) -> dict[str, object]:
    at = {"topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    return {
        "cluster": "east",
        "group_id": group,
        **at,
        "committed_offset": offset,
        "round": 1,
        "read_at_ms": 1,
    }


def test_answers_name_the_topic_id_and_what_is_not_there_any_more(flow: Operated) -> None:
    done = flow.command("offsets", "translate", "--flow", "east-to-west", "-o", "json")
    told = {row["group_id"]: row for row in json.loads(done.out)}
    assert {row["target_topic_id"] for row in told.values()} == {"id-of-east.orders"}
    assert {group: (row["target_offset"], row["status"]) for group, row in told.items()} == {
        "fast": (10, "ahead"),
        "gone-unlucky": (10, "lost"),
        "steady": (4, "exact"),
        "unlucky": (10, "lost"),
        "vanished": (5, "gone"),
    }
    assert (told["gone-unlucky"]["absence"], told["gone-unlucky"]["absent_since_ms"]) == ("gone", 7)
    assert (told["steady"]["absence"], told["steady"]["absent_since_ms"]) == (None, None)


@pytest.mark.parametrize(
    ("accepted", "held"),
    [
        ((), ["steady"]),
        (("lost",), ["steady", "unlucky"]),
        (("gone",), ["steady", "vanished"]),
        (("ahead", "hidden"), ["fast", "steady"]),
        (("lost", "gone", "ahead"), ["fast", "gone-unlucky", "steady", "unlucky", "vanished"]),
    ],
)
def test_a_reset_file_holds_what_is_accepted_by_name(
    flow: Operated, accepted: tuple[str, ...], held: list[str]
) -> None:
    named = [argument for status in accepted for argument in ("--accept", status)]
    done = flow.command("offsets", "translate", "--flow", "east-to-west", "-o", "kafka-reset", *named)
    assert [line.split(",")[0] for line in done.out.splitlines()] == held
    assert "id-of-east.orders" in done.err
    left_out = 5 - len(held)
    assert done.code == (4 if left_out else 0)
    assert (f"{left_out} commits have no target offset" in done.err) == bool(left_out)
    assert ("vanished" in done.err) == ("vanished" not in held)


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("-o", "kafka-reset", "--accept", "mirrored"), "mirrored"),
        (("-o", "kafka-reset", "--accept", "no_map"), "no_map"),
        (("-o", "csv", "--accept", "lost"), "nothing was translated"),
    ],
)
def test_what_cannot_be_accepted_is_refused(flow: Operated, arguments: tuple[str, ...], telling: str) -> None:
    done = flow.command("offsets", "translate", "--flow", "east-to-west", *arguments)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err
