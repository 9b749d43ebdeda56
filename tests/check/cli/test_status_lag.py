"""`status` and `query replication_lag`: how far a flow is behind, how old that is, and when nobody knows."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.words import instant
from tests.support.operated import FLOW, Operated, operated, own_mark
from tests.support.told_status import flat, report, text

pytestmark = pytest.mark.long


@pytest.fixture
def flow(at_work: Operated) -> Operated:
    return at_work


@contextmanager
def time_machine(*, seconds: int) -> Iterator[None]:
    """Programs that look at the clock meanwhile find that so much time has passed."""
    now_ms = SystemClock.now_ms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + seconds * 1000)
        yield


INTERVALS_S = 180
"""Three intervals of its default."""


def test_a_running_flow_whose_clusters_nobody_records_needs_attention(idle: Operated) -> None:
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 2 * INTERVALS_S * 1000)
    idle.writer("alive", own_mark(), round_number=1)
    idle.watermark("orders", 0, end=5, at_ms=now_ms - (INTERVALS_S + 60) * 1000)
    found = report(idle, "--check", code=4)
    since = instant(now_ms - (INTERVALS_S + 60) * 1000)
    assert found["needs_attention"] == [f"nobody records east since {since}", "nobody has recorded west"]
    assert [recording["ends_at_ms"] is None for recording in found["recordings"]] == [False, True]
    told = text(idle)
    assert "recorded  source east: groups never, ends 4 min" in told
    assert "recorded  target west: groups never, ends never" in told
    idle.sign(round_number=9, at_ms=now_ms - (INTERVALS_S - 60) * 1000)
    assert report(idle, "--check", code=4)["needs_attention"] == ["nobody has recorded west"]


def test_lag_that_was_not_measured_lately_is_unknown_and_needs_attention(idle: Operated) -> None:
    """Also where nothing was to be copied: it is not 0 any more."""
    now_ms = idle.clock.now_ms()
    long_ago_ms = now_ms - (INTERVALS_S + 60) * 1000
    idle.writer("claimed", own_mark(), at_ms=long_ago_ms - 2_000)
    idle.writer("alive", own_mark(), round_number=1)
    idle.copied({("orders", 0): 5, ("orders", 1): 5}, at_ms=long_ago_ms - 1_000)
    idle.watermark("orders", 0, end=5, at_ms=long_ago_ms)
    idle.watermark("orders", 1, end=12, at_ms=long_ago_ms)
    unknown = f"lag is unknown: last known 7 records at {instant(long_ago_ms)}"
    found = report(idle, "--check", code=4)
    assert unknown in found["needs_attention"]
    assert (found["lag"]["state"], found["lag"]["records"], found["lag"]["last_known_records"]) == (
        "unknown",
        None,
        7,
    )
    assert {row["lag_status"] for row in found["partitions"]} == {"unknown"}
    assert {row["lag_records"] for row in found["partitions"]} == {None}
    told = text(idle)
    assert told.count(instant(long_ago_ms)) >= 2, "no line ends within an instant"
    assert f"lag unknown, last known 7 records at {instant(long_ago_ms)} (4 min" in flat(told)
    idle.sign(round_number=9)
    idle.sign(round_number=9, cluster="west")
    found = report(idle, "--check")
    assert (found["lag"]["state"], found["lag"]["records"], found["lag"]["age_seconds"] < 60) == (
        "behind",
        7,
        True,
    )
    assert (found["lag"]["seconds"] >= INTERVALS_S, found["lag"]["seconds_bound"]) == (True, "at_least")


def test_what_waits_behind_an_open_transaction_is_shown_beside_a_lag_of_nothing(idle: Operated) -> None:
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 20_000)
    idle.copied({("orders", 0): 5, ("orders", 1): 5}, at_ms=now_ms - 15_000)
    idle.watermark("orders", 0, end=1_006, last_stable=5, at_ms=now_ms - 10_000)
    idle.watermark("orders", 1, end=5, at_ms=now_ms - 10_000)
    idle.sign(round_number=9)
    lag = report(idle)["lag"]
    assert (lag["state"], lag["records"]) == ("caught_up", 0)
    assert (lag["records_behind_transactions"], lag["open_since_ms"]) == (1_001, now_ms - 10_000)
    since = (
        f"0 records (1,001 more behind open transactions, since {instant(now_ms - 10_000)}) in 2 partitions"
    )
    assert since in flat(text(idle))


def test_a_flow_with_a_limit_says_so_where_it_says_how_far_it_is_behind(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 5})
    file = Path(idle.config.file)
    file.write_text(file.read_text().replace("topics = ", "byte_rate = 20_000_000\ntopics = ", 1))
    assert "; at most 20.0 MB are read in a second" in flat(text(idle))
    assert report(idle)["byte_rate"] == 20_000_000


def test_under_load_lag_is_as_old_as_the_last_read_of_any_end(idle: Operated) -> None:
    """A read that finds one end changed says of the others that they are as they were."""
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 130_000)
    idle.copied({("orders", 0): 5, ("orders", 1): 5}, at_ms=now_ms - 120_000)
    of_recorder = {"writer": "recorder:east", "writer_epoch": 1, "cluster": "east", "topic": "orders"}

    def read(number: int, ends: dict[int, int], *, seconds_ago: int, confirms: bool | None = True) -> None:
        at_ms = now_ms - seconds_ago * 1000
        rows = [
            {
                **{"partition": partition, "last_stable": end, "high_watermark": end, "read_at_ms": at_ms},
                **of_recorder,
                **{"topic_id": "id-of-orders", "confirms_others": confirms, "round": number},
            }
            for partition, end in ends.items()
        ]
        idle.append("high_watermarks", *rows, at_ms=at_ms)

    def age() -> tuple[int, float]:
        lag = report(idle)["lag"]
        return lag["records"], round(lag["age_seconds"])

    read(1, {0: 5, 1: 5}, seconds_ago=100)
    read(2, {0: 9}, seconds_ago=80, confirms=None)
    assert age()[0] == 4
    assert age()[1] >= 100, "nobody has said whether all ends were read"
    read(3, {0: 12}, seconds_ago=60, confirms=False)
    assert age()[1] >= 100, "some could not be read"
    read(4, {0: 15}, seconds_ago=2)
    assert (age()[0], age()[1] < 60) == (10, True)


def test_the_query_of_lag_alone_knows_what_is_too_old(idle: Operated) -> None:
    long_ago_ms = idle.clock.now_ms() - (INTERVALS_S + 60) * 1000
    idle.writer("claimed", own_mark(), at_ms=long_ago_ms - 2_000)
    idle.copied({("orders", 0): 5}, at_ms=long_ago_ms - 1_000)
    idle.watermark("orders", 0, end=5, at_ms=long_ago_ms)

    def lag(*arguments: str) -> tuple[str, int | None, int]:
        asked = ("query", "replication_lag", "--param", f"flow={FLOW}", "-o", "json", *arguments)
        [row] = json.loads(idle.command(*asked).out)
        return row["status"], row["lag_records"], row["measured_at_ms"]

    assert lag() == ("unknown", None, long_ago_ms)
    assert lag("--as-of", str(long_ago_ms + 1_000)) == ("caught_up", 0, long_ago_ms)
    assert lag("--param", f"fresh_since_ms={long_ago_ms}") == ("caught_up", 0, long_ago_ms)


def test_a_source_that_does_not_answer_makes_the_last_measurement_the_last_that_is_known(
    flow: Operated,
) -> None:
    source = {
        "finding": "source_unreachable",
        "partition": None,
        "message": "east does not answer: refused",
        "next": "look",
    }
    flow.operation("finding_raised", {**source, "topic": "events"})
    assert report(flow, "--check", code=4)["lag"]["records"] == 1_204
    flow.operation("finding_raised", {**source, "topic": None})
    found = report(flow, "--check", code=4)
    assert (found["lag"]["state"], found["lag"]["records"]) == ("unknown", None)
    assert found["needs_attention"][0].startswith("source east does not answer since 20")
    assert "lag is unknown: last known 1,204 records at" in found["needs_attention"][2]
    partitions = report(flow, "--partitions")["partitions"]
    assert {(row["lag_status"], row["lag_records"], row["lag_ms"]) for row in partitions} == {
        ("unknown", None, None)
    }


def test_partitions_that_were_never_measured_are_told_and_need_attention_in_time(flow: Operated) -> None:
    flow.copied({("events", 0): 7})
    told = text(flow, "--check")
    assert told.startswith("east-to-west: lag of 1 partition is unknown: never measured\n")
    assert "lag unknown of 1 of 3 partitions, never measured; 1,204 records" in flat(told)
    flow.copied({("older", 0): 7}, at_ms=flow.clock.now_ms() - (INTERVALS_S + 60) * 1000)
    assert report(flow, "--check", code=4)["needs_attention"] == [
        "lag of 2 partitions is unknown: never measured"
    ]


def test_topics_that_the_flow_does_not_mirror_any_more_are_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path
) -> None:
    flow = operated(tmp_path, empty_ledger, capsys, topics='["orders"]')
    flow.writer("claimed", own_mark())
    flow.copied({("orders", 0): 5, ("events", 0): 5}, at_ms=1_000)
    flow.watermark("orders", 0, end=5)
    lag = report(flow, "--check")["lag"]
    assert (lag["state"], lag["partitions"]) == ("caught_up", 1)


def test_a_flow_that_ended_is_not_said_to_be_up_to_date(flow: Operated) -> None:
    ended_ms = flow.clock.now_ms()
    flow.writer("released", own_mark(), epoch=3, round_number=9, at_ms=ended_ms)
    told = flat(text(flow, "--check", code=4))
    ended = f"east-to-west: its driver ended at {instant(ended_ms)}, and "
    assert told.startswith(f"{ended}1,204 records wait for it: mirror-ledger run east-to-west driver ")
    with time_machine(seconds=INTERVALS_S + 60):
        told = flat(text(flow, "--check", code=4))
        assert told.startswith(f"{ended}what waits for it is unknown: mirror-ledger run east-to-west driver ")
        assert "lag unknown, last known 1,204 records at" in told


def with_objectives(flow: Operated, *lines: str) -> None:
    """In the configuration file that commands read."""
    file = Path(flow.config.file)
    text = file.read_text(encoding="utf-8").split("[objectives]")[0]
    file.write_text("\n".join((text, "[objectives]", *lines)), encoding="utf-8")


def test_a_flow_that_does_not_keep_to_an_objective_does_not_pass(idle: Operated) -> None:
    now_ms = idle.clock.now_ms()
    idle.writer("claimed", own_mark(), at_ms=now_ms - 40_000)
    idle.copied({("orders", 0): 5}, at_ms=now_ms - 39_000)
    idle.watermark("orders", 0, end=5, at_ms=now_ms - 30_000)
    idle.watermark("orders", 0, end=12, at_ms=now_ms - 20_000)
    idle.sign(round_number=9)
    idle.sign(round_number=9, cluster="west")
    with_objectives(idle, "max_lag_records = 6", "max_lag_seconds = 3600", "max_loss_records = 6")
    done = idle.command("status", "--check")
    lines = [line for line in done.err.splitlines() if line.startswith("objectives: ")]
    assert (done.code, len(lines)) == (4, 2)
    assert lines[0] == f"objectives: {FLOW}: lag is 7 records, max_lag_records allows 6 records"
    assert re.search("lose is [78] records, max_loss_records allows 6 records", lines[1]), (
        "one may have come since"
    )
    assert done.err.splitlines()[-1] == "error: 2 reasons to act, named above"
    as_json = idle.command("status", "--check", "-o", "json")
    assert sum("max_lag_records allows 6 records" in line for line in as_json.err.splitlines()) == 1
    with_objectives(idle, "max_lag_records = 7", "max_loss_seconds = 3600")
    kept = idle.command("status", "--check")
    assert (kept.code, "objectives" in kept.err) == (0, False)
    with_objectives(idle, "max_loss_seconds = 29")
    assert "max_loss_seconds allows 29 s" in idle.command("status", "--check").err


def test_a_figure_that_nobody_knows_does_not_pass(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 5})
    with_objectives(idle, "max_loss_records = 1000")
    done = idle.command("status", "--check")
    assert done.code == 4
    assert f"{FLOW}: what a failover would lose is unknown, max_loss_records allows 1,000 records" in done.err
    assert idle.command("status").code == 0


def test_a_way_back_that_by_design_never_ran_is_no_alarm_until_its_source_is_promoted(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 5})
    idle.watermark("orders", 0, end=5)
    idle.sign(round_number=9)
    idle.sign(round_number=9, cluster="west")
    file, back = Path(idle.config.file), "west-to-east"
    keeps_names = 'topic_naming = "identity"\nopposite = '
    forward = file.read_text(encoding="utf-8").replace("topics = ", f'{keeps_names}"{back}"\ntopics = ', 1)
    backward = f'[flows.{back}]\nsource = "west"\ntarget = "east"\n{keeps_names}"{FLOW}"\n'
    file.write_text(f'{forward}{backward}topics = ["orders"]\n', encoding="utf-8")
    with_objectives(idle, "max_lag_records = 10", "max_loss_records = 10")
    calm = idle.command("status", "--check")
    assert (calm.code, calm.err) == (0, "")
    assert f"{back}: it stands by for a change of direction; has never run\n" in calm.out
    probed = idle.command("health")
    assert (probed.code, probed.out.splitlines()[1]) == (
        0,
        f"{back}: never_ran, stands by for a change of direction",
    )
    assert idle.command("health", back).code == 4, "whoever names it wants it to run"
    west = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E", "topics": None}
    promoted = {"kind": "promoted", "flow": None, "writer": "operator", "content": json.dumps(west)}
    idle.append("operations", {**promoted, "operation_id": "o1", "operator": "ann"})
    idle.writer("released", own_mark(), round_number=9)
    late = idle.command("status", "--check")
    assert (late.code, idle.command("health").code) == (4, 4)
    assert "what is written at west is not mirrored back to east" in late.out
