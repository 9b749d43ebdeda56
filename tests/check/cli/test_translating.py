"""`offsets translate`: the topic ids of answers, what a reset file holds and what it leaves out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.histories import examples
from tests.support.ledger_rows import copied_to
from tests.support.operated import (
    LaterClock,
    Operated,
    WrittenLedger,
    operated_copy,
    own_mark,
)

pytestmark = pytest.mark.long

TRANSLATE = ("offsets", "translate", "--flow", "east-to-west")
OUTPUTS = examples(check=["table", "kafka-reset"], soak=["table", "json", "csv", "kafka-reset"])


def written(folder: Path, empty_ledger: Path) -> WrittenLedger:
    """Ten offsets copied and ten lost; groups at 4 and beyond, one gone, one in the loss."""
    made = WrittenLedger(copied_to(folder, empty_ledger), LaterClock())
    made.writer("claimed", own_mark(), epoch=1)
    made.copied({("orders", 0): 10})
    made.lost("orders", 0, 10, 20)
    for group, offset in (
        ("steady", 4),
        ("vanished", 5),
        ("unlucky", 12),
        ("gone-unlucky", 13),
        ("fast", 99),
    ):
        made.append("checkpoints", commit(group, offset))
    for group in ("vanished", "gone-unlucky"):
        made.append("checkpoints", {**commit(group, None), "absence": "gone", "read_at_ms": 7})
    return made


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    return written(tmp_path_factory.mktemp("lossy"), empty_ledger)


@pytest.fixture
def flow(lossy: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    return operated_copy(tmp_path, lossy, capsys)


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    """More partitions: 1 holds records at the target, 2 holds none, and a topic `bills` that one group reads."""
    made = written(tmp_path_factory.mktemp("partial"), empty_ledger)
    made.append("writers", {"writer_epoch": 1, "round": 0, "event": "claimed", "host": own_mark()})
    made.copied({("orders", 1): 10, ("orders", 2): 10, ("bills", 0): 10})
    for topic, partition, log_start, end in (
        ("orders", 1, 4, 10),
        ("orders", 2, 10, 10),
        ("bills", 0, 0, 10),
    ):
        at = {"topic": f"east.{topic}", "topic_id": f"id-of-east.{topic}", "partition": partition}
        ends = {"log_start": log_start, "high_watermark": end, "last_stable": end, "read_at_ms": 1}
        made.append("high_watermarks", {"cluster": "west", **at, **ends})
    made.topic("orders", "observed")
    made.append("topics", {"cluster": "east", "topic": "quiet", "topic_id": "id-of-quiet", "partitions": 2})
    made.append("checkpoints", commit("steady", 3, "bills"))
    return made


@pytest.fixture
def partly(partial: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    return operated_copy(tmp_path, partial, capsys)


def commit(group: str, offset: int | None, topic: str = "orders") -> dict[str, object]:
    at = {"topic": topic, "topic_id": f"id-of-{topic}", "partition": 0}
    return {
        "cluster": "east",
        "group_id": group,
        **at,
        "committed_offset": offset,
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


BETWEEN = ("offsets", "translate", "--from", "east", "--to", "west")


@pytest.mark.parametrize("asked", examples(check=[BETWEEN], soak=[TRANSLATE, BETWEEN]))
def test_an_answer_that_goes_by_commits_of_long_ago_says_so(flow: Operated, asked: tuple[str, ...]) -> None:
    """Three full sweeps, of 300 s each, are nothing; of another cluster nothing is said."""
    now_ms = flow.clock.now_ms()

    def recorded(cluster: str, minutes_ago: int) -> None:
        at_ms = now_ms - minutes_ago * 60_000
        row = {**commit("steady", 4), "cluster": cluster, "writer": f"recorder:{cluster}"}
        flow.append("checkpoints", row, at_ms=at_ms)

    recorded("west", 120)
    assert flow.command(*asked).err == ""
    recorded("east", 61)
    for output in OUTPUTS:
        told = flow.command(*asked, "-o", output).err
        assert "commits of east were recorded last at " in told
        assert ", 1 h 1 min before: what groups have committed since is not in this answer" in told
    recorded("east", 14)
    assert "recorded last" not in flow.command(*asked).err


def test_groups_without_a_translation_are_named_beside_the_answer(flow: Operated) -> None:
    at = {"cluster": "east", "read_at_ms": 1}
    flow.append("groups", {**at, "event": "all_listed"})
    flow.append("groups", {**at, "group_id": "steady", "group_type": "classic", "event": "present"})
    assert flow.command(*TRANSLATE).err == ""
    assert flow.command(*TRANSLATE, "--show-cut").err.startswith("cut v2.")
    flow.append("groups", {**at, "group_id": "sharing", "group_type": "share", "event": "present"})
    flow.append("groups", {**at, "group_id": "lost\x1b[2J", "event": "unavailable", "reason": "NOT_NOW"})
    for output in OUTPUTS:
        done = flow.command(*TRANSLATE, "-o", output)
        assert "sharing" not in done.out
        assert [word in done.err for word in ("sharing", "share_group", "unavailable", "NOT_NOW")] == [
            True
        ] * 4
        assert "\x1b" not in done.err
    one = flow.command(*TRANSLATE, "--group", "steady")
    assert "sharing" not in one.err
    refused = flow.command(*TRANSLATE, "--group", "sharing")
    assert (refused.code, refused.out) == (5, "")
    assert "share_group" in refused.err


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
        (("-o", "kafka-reset", "--accept", "no_map"), "no_map"),
        (("-o", "csv", "--accept", "lost"), "nothing was translated"),
    ],
)
def test_what_cannot_be_accepted_is_refused(flow: Operated, arguments: tuple[str, ...], telling: str) -> None:
    done = flow.command("offsets", "translate", "--flow", "east-to-west", *arguments)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err


def told(flow: Operated, *arguments: str) -> list[dict[str, Any]]:
    done = flow.command(*TRANSLATE, "-o", "json", *arguments)
    assert done.code == 0, done.err
    return list(json.loads(done.out))


def test_partitions_without_a_commit_are_rows(partly: Operated) -> None:
    rows = told(partly, "--group", "steady")
    places = ("source_topic", "source_partition", "committed_offset", "target_offset", "status")
    assert [tuple(row[name] for name in places) for row in rows] == [
        ("bills", 0, 3, 3, "exact"),
        ("orders", 0, 4, 4, "exact"),
        ("orders", 1, None, 4, "no_commit"),
        ("orders", 2, None, 10, "no_commit_empty"),
    ]


def test_what_nobody_can_skip_is_in_the_file_and_what_somebody_can_when_accepted(partly: Operated) -> None:
    reset = (*TRANSLATE, "-o", "kafka-reset", "--group", "steady")
    taken = ("--accept", "no_commit", "--accept", "expired_on_target")
    plain, accepted = partly.command(*reset), partly.command(*reset, *taken)
    assert plain.out.splitlines() == ["steady,east.bills,0,3", "steady,east.orders,0,4"]
    assert plain.code == 4
    assert "of 1 partitions that hold records, or may, the group has no commit" in plain.err
    assert "auto.offset.reset = latest" in plain.err
    assert accepted.out.splitlines()[2:] == ["steady,east.orders,1,4", "steady,east.orders,2,10"]
    assert accepted.code == 0


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--topic", "bills"), {("steady", "bills", 0)}),
        (("--topic", "orders", "--partition", "1", "--group", "steady"), {("steady", "orders", 1)}),
        (
            ("--topic", "orders", "--partition", "0", "--group", "steady", "--group", "fast"),
            {("steady", "orders", 0), ("fast", "orders", 0)},
        ),
        (("--group", "fast"), {("fast", "orders", 0), ("fast", "orders", 1), ("fast", "orders", 2)}),
    ],
)
def test_groups_are_filtered(partly: Operated, arguments: tuple[str, ...], found: set[object]) -> None:
    rows = told(partly, *arguments)
    assert {(row["group_id"], row["source_topic"], row["source_partition"]) for row in rows} == found


@pytest.mark.parametrize(
    ("arguments", "code", "telling"),
    [
        (("--offset", "4"), 2, "--offset needs --topic and --partition"),
        (("--topic", "orders", "--offset", "4"), 2, "--offset needs --topic and --partition"),
        (("--partition", "0"), 2, "--partition needs --topic"),
        (
            ("--group", "steady", "--topic", "orders", "--partition", "0", "--offset", "4"),
            2,
            "--offset and --group do not go together",
        ),
        (
            ("--topic", "orders", "--partition", "0", "--offset", "4", "-o", "kafka-reset"),
            2,
            "--offset and -o kafka-reset do not go together",
        ),
        (
            ("--topic", "order"),
            2,
            "the ledger knows no topic 'order' at east; it knows bills,",
        ),
        (("--topic", "order", "--partition", "0", "--offset", "4"), 2, "the ledger knows no topic 'order'"),
        (
            ("--topic", "orders", "--partition", "3"),
            2,
            "topic orders at east has no partition 3",
        ),
        (("--topic", "orders", "--partition", "3", "--offset", "4"), 2, "has no partition 3"),
        (("--group", "steadi"), 5, "no committed offset of group 'steadi'"),
        (("--group", "steady", "--group", "steadi"), 5, "no committed offset of group 'steadi'"),
        (("--group", "fast", "--topic", "bills"), 5, "no committed offset of group 'fast', topic 'bills'"),
    ],
)
def test_what_does_not_go_together_or_does_not_exist_is_refused_by_name(
    partly: Operated, arguments: tuple[str, ...], code: int, telling: str
) -> None:
    done = partly.command(*TRANSLATE, *arguments)
    assert (done.code, done.out) == (code, "")
    assert telling in done.err
    assert "nothing was translated" in done.err


def test_a_partition_that_exists_and_is_not_copied_has_no_map(partly: Operated) -> None:
    [row] = told(partly, "--topic", "quiet", "--partition", "1", "--offset", "4")
    assert (row["status"], row["target_offset"]) == ("no_map", None)


def test_a_commit_beyond_the_map_is_ahead_whoever_is_at_work(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    idle.append("checkpoints", {**commit("fresh", 12), "read_at_ms": idle.clock.now_ms()})
    [row] = told(idle)
    assert (row["status"], row["target_offset"], row["ahead"]) == ("ahead", 10, 2)
    sides = ("--param", "from_cluster=east", "--param", "to_cluster=west")
    done = idle.command("query", "offset_translation", *sides, "-o", "json")
    assert [row["status"] for row in json.loads(done.out)] == ["ahead"]
    done = idle.command(*TRANSLATE, "-o", "kafka-reset", "--accept", "ahead")
    assert (done.code, done.out) == (0, "fresh,east.orders,0,10\n")
