"""`offsets translate --from --to`: groups and offsets between two clusters, and what is refused."""

import csv
import io
import json
from typing import Any

import pytest

from tests.support.histories import examples
from tests.support.operated import Operated, own_mark

pytestmark = pytest.mark.long

BETWEEN = ("offsets", "translate", "--from", "east", "--to", "west")


@pytest.fixture
def both(idle: Operated) -> Operated:
    """East's `orders` up to 10 at west as `east.orders`; groups at both sides, one without a commit for partition 1."""
    idle.writer("claimed", own_mark(), epoch=1)
    idle.copied({("orders", 0): 10, ("orders", 1): 10})
    for group, offset in (("steady", 4), ("fast", 12)):
        idle.append("checkpoints", commit(group, offset))
    return idle


def commit(group: str, offset: int, **values: object) -> dict[str, object]:
    at = {"topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    return {
        "cluster": "east",
        "group_id": group,
        **at,
        "committed_offset": offset,
        "read_at_ms": 1,
        **values,
    }


def rows(both: Operated, *arguments: str) -> list[dict[str, Any]]:
    done = both.command(*BETWEEN, *arguments, "-o", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_groups_continue_at_the_first_unread_record(both: Operated) -> None:
    found = {
        (row["group_id"], row["source_partition"]): (row["target_topic"], row["target_offset"], row["status"])
        for row in rows(both)
    }
    assert found == {
        ("steady", 0): ("east.orders", 4, "exact"),
        ("steady", 1): ("east.orders", 0, "no_commit"),
        ("fast", 0): ("east.orders", 10, "ahead"),
        ("fast", 1): ("east.orders", 0, "no_commit"),
    }


def test_what_it_costs_is_counted(both: Operated) -> None:
    [row] = rows(both, "--group", "fast", "--topic", "orders", "--partition", "0")
    assert (row["repeated"], row["ahead"], row["others"], row["expired"]) == (0, 2, 0, 0)


def test_one_offset_is_that_of_whoever_committed_it(both: Operated) -> None:
    [row] = rows(both, "--topic", "orders", "--partition", "1", "--offset", "7")
    assert (row["group_id"], row["committed_offset"], row["target_offset"], row["status"]) == (
        None,
        7,
        7,
        "exact",
    )


NAMED = [(), ("--from", "east", "--to", "west"), ("--from", "east"), ("--to", "west")]


@pytest.mark.parametrize("named", examples(check=NAMED[2:3], soak=NAMED))
def test_a_flow_is_asked_for_what_it_copies_from_its_source_to_its_target(
    both: Operated, named: tuple[str, ...]
) -> None:
    done = both.command("offsets", "translate", "--flow", "east-to-west", *named, "-o", "json")
    assert (done.code, json.loads(done.out)) == (0, rows(both))


def test_what_a_flow_does_not_copy_has_no_map(both: Operated) -> None:
    """Another flow copies `bills` there; asked about all flows the group has a place."""
    flow, writer = "bills-to-west", "flow:bills-to-west"
    claim = {"flow": flow, "writer": writer, "writer_epoch": 1, "round": 0, "event": "claimed"}
    both.append("writers", {**claim, "source_cluster": "east", "target_cluster": "west"})
    both.copied({("bills", 0): 10}, flow=flow, writer=writer)
    both.append("checkpoints", commit("steady", 4, topic="bills", topic_id="id-of-bills"))
    of_bills = ("--topic", "bills", "--partition", "0")
    assert [row["status"] for row in rows(both, *of_bills)] == ["exact"]
    assert [row["status"] for row in rows(both, "--flow", "east-to-west", *of_bills)] == ["no_map"]
    assert [row["status"] for row in rows(both, "--flow", "bills-to-west", *of_bills)] == ["exact"]
    [row] = rows(both, "--flow", "bills-to-west", *of_bills, "--offset", "7")
    assert (row["target_offset"], row["status"]) == (7, "exact")


def test_one_offset_is_that_of_the_topic_as_it_is_now(both: Operated) -> None:
    asked = ("--topic", "orders", "--partition", "1", "--offset", "7")
    both.topic("orders", "observed")
    assert [row["target_offset"] for row in rows(both, *asked)] == [7]
    both.topic("orders", "observed", topic_id="another-life")
    assert [row["target_offset"] for row in rows(both, *asked)] == [None]


def test_the_way_back_is_asked_for_in_the_same_way(both: Operated) -> None:
    at = {"cluster": "west", "topic": "east.orders", "topic_id": "id-of-east.orders"}
    both.append("checkpoints", commit("steady", 6, **at))
    done = both.command("offsets", "translate", "--from", "west", "--to", "east", "-o", "json")
    found = {
        (row["source_partition"], row["target_topic"], row["target_offset"]) for row in json.loads(done.out)
    }
    assert found == {(0, "orders", 6), (1, "orders", 0)}


@pytest.mark.parametrize(("at", "expected"), [("5000", (0, 0, 4)), ("5001", (10, 6, 0))])
def test_a_time_is_the_worse_alternative(both: Operated, at: str, expected: tuple[int, int, int]) -> None:
    """All that was copied has one time: the offset of a later one is the end, that of an earlier one the beginning."""
    both.copied({("bills", 0): 10}, last_timestamp_ms=5000)
    both.append("checkpoints", commit("steady", 4, topic="bills", topic_id="id-of-bills"))
    [row] = rows(both, "--topic", "bills", "--at", at)
    assert row["target_offset"] == 4
    assert (row["time_offset"], row["skipped"], row["repeated_by_time"]) == expected


BEEN_THERE: list[tuple[int | None, tuple[int, str, int, int], tuple[int, int], int]] = [
    (None, (4, "exact", 0, 3), (6, 0), 4),
    (13, (4, "exact", 3, 3), (6, 0), 7),
    (11, (4, "exact", 1, 3), (8, 0), 5),
]


@pytest.mark.parametrize(
    ("last_there", "by_place", "by_end", "by_beginning"), examples(check=BEEN_THERE[:2], soak=BEEN_THERE)
)
def test_a_time_passes_what_others_wrote_there_for_who_has_been_there(
    both: Operated,
    last_there: int | None,
    by_place: tuple[int, str, int, int],
    by_end: tuple[int, int],
    by_beginning: int,
) -> None:
    """West has three records behind what was copied; the group has read none of them, one, or all."""
    at = {"topic": "east.bills", "topic_id": "id-of-east.bills"}
    both.copied({("bills", 0): 10}, last_timestamp_ms=5000)
    both.watermark("east.bills", 0, end=13, cluster="west")
    both.append("checkpoints", commit("steady", 4, topic="bills", topic_id="id-of-bills"))
    if last_there is not None:
        both.append("checkpoints", commit("steady", last_there, cluster="west", **at))
    [late] = rows(both, "--topic", "bills", "--at", "5001")
    assert (late["target_offset"], late["status"], late["repeated"], late["others"]) == by_place
    assert (late["time_offset"], late["skipped"], late["repeated_by_time"]) == (13, *by_end)
    [early] = rows(both, "--topic", "bills", "--at", "5000")
    assert (early["time_offset"], early["skipped"], early["repeated_by_time"]) == (0, 0, by_beginning)


def test_who_comes_back_is_placed_at_what_others_wrote_there(both: Operated) -> None:
    there = {"cluster": "west", "topic": "east.orders", "topic_id": "id-of-east.orders"}
    both.watermark("east.orders", 0, end=13, cluster="west")
    both.append("checkpoints", commit("slow", 10), commit("slow", 11, **there))
    both.append("checkpoints", commit("new", 10))
    found = {
        row["group_id"]: (row["target_offset"], row["status"], row["others"])
        for row in rows(both, "--topic", "orders", "--partition", "0")
    }
    assert (found["slow"], found["new"]) == ((11, "others", 2), (10, "at_end", 3))
    [offset] = rows(both, "--topic", "orders", "--partition", "0", "--offset", "10")
    assert (offset["target_offset"], offset["status"], offset["others"]) == (10, "at_end", 3)


def test_records_of_which_nobody_knows_the_time_may_be_of_any(both: Operated) -> None:
    [row] = rows(both, "--group", "steady", "--topic", "orders", "--partition", "0", "--at", "5000")
    assert (row["time_offset"], row["skipped"], row["repeated_by_time"]) == (0, 0, 4)


def test_the_reset_file_holds_what_is_sure(both: Operated) -> None:
    done = both.command(*BETWEEN, "-o", "kafka-reset", "--accept", "no_commit")
    assert done.code == 4
    assert sorted(csv.reader(io.StringIO(done.out))) == [
        ["fast", "east.orders", "1", "0"],
        ["steady", "east.orders", "0", "4"],
        ["steady", "east.orders", "1", "0"],
    ]
    assert "fast" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--from", "east"), 2, "name the clusters (--from and --to), or a flow between them (--flow)"),
        (("--flow", "nowhere"), 2, "nowhere"),
        (
            ("--flow", "east-to-west", "--from", "west", "--to", "east"),
            2,
            "east-to-west copies from east to west, not from west to east",
        ),
        (("--flow", "east-to-west", "--to", "east"), 2, "not from east to east"),
        (("--from", "east", "--to", "mars"), 2, "no cluster 'mars'; known: east, west"),
        (("--from", "east", "--to", "east"), 2, "they are one cluster"),
        (("--from", "east", "--to", "west", "--at", "noon"), 2, "'noon' is no time"),
        (("--from", "east", "--to", "west", "--at", "2026-01-01T00:00:00"), 2, "needs an offset or Z"),
        (("--from", "east", "--to", "west", "--group", "nobody"), 5, "no committed offset of group 'nobody'"),
        (
            ("--from", "east", "--to", "west", "--topic", "moon", "--partition", "0", "--offset", "1"),
            2,
            "the ledger knows no topic 'moon' at east; it knows orders",
        ),
        (("--from", "east", "--to", "west", "--offset", "1"), 2, "--offset needs --topic and --partition"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    both: Operated, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = both.command("offsets", "translate", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_clusters_of_which_nothing_is_recorded_have_no_answer(idle: Operated) -> None:
    done = idle.command(*BETWEEN)
    assert done.code == 5
    assert "no flow from or to east or west has ever run" in done.err
