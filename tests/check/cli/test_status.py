"""`status`: where a flow stands, why, what to type; and `--check` for those who watch it."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.changeover.plans import Plan
from ledger.facts.changeovers import PlanRecorded
from ledger.words import instant
from tests.support.changeovers import ORDERS, plan
from tests.support.documents import command_of
from tests.support.histories import examples
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process, own_mark
from tests.support.told_status import flat, report, text


@pytest.fixture
def flow(at_work: Operated) -> Operated:
    return at_work


def test_a_flow_at_work_needs_nothing(flow: Operated) -> None:
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert "driver    running: epoch 3, process" in told
    lag = r"lag 1,204 records, about 0 bytes, for an unknown time in 2 partitions; measured \S+ s ago"
    assert re.search(lag, flat(told)), told
    assert max(map(len, told.splitlines())) <= 80
    for absent in ("stopped", "gone", "loss", "paused", "waiting", "finding", "receipt", "east.orders"):
        assert absent not in told


@pytest.mark.parametrize(
    ("event", "mark", "at_ms", "state", "attention"),
    [
        ("claimed", own_mark(), None, "running", None),
        ("alive", "elsewhere:1:1", None, "running", None),
        (
            "released",
            mark_of_a_gone_process(),
            1_000,
            "released",
            "its driver ended at 1970-01-01 00:00:01Z, and what waits for it is unknown: mirror-ledger run east",
        ),
        ("claimed", mark_of_a_gone_process(), None, "dead", "its driver is dead: nothing recorded since 20"),
        ("alive", mark_of_a_gone_process(), None, "dead", "its driver is dead: nothing recorded since 20"),
        ("claimed", "elsewhere:1:1", 1_000, "silent", "its driver is silent: nothing recorded since 1970"),
    ],
    ids=["claimed", "alive", "released", "dead", "dead-after-a-sign", "silent"],
)
def test_states_of_a_driver(
    idle: Operated, event: str, mark: str, at_ms: int | None, state: str, attention: str | None
) -> None:
    claimed_at_ms = idle.clock.now_ms() - 60_000
    idle.writer("claimed", mark, at_ms=claimed_at_ms)
    idle.writer(event, mark, round_number=1, at_ms=at_ms)
    found = report(idle, "--check", code=4 if attention else 0)
    assert (found["driver"]["state"], found["driver"]["claimed_at_ms"]) == (state, claimed_at_ms)
    assert [reason.startswith(attention or "?") for reason in found["needs_attention"]] == [True] * bool(
        attention
    )


def test_what_it_costs_that_a_target_takes_only_ids_that_it_gave_is_said(idle: Operated) -> None:
    """It refused the first id; of a flow whose first id it gave, before others were drawn, nothing is to be said."""
    drawn = 5112233445566778
    at_west = {"flow": FLOW, "writer": f"flow:{FLOW}", "event": "claimed", "host": own_mark(), "round": 0}
    at_west |= {"target_cluster": "west", "target_cluster_id": "W"}

    def remarks(epoch: int, producer_id: int, former: int | None) -> list[str]:
        ids = {"producer_id": producer_id, "former_producer_id": former}
        idle.append("writers", {**at_west, **ids, "writer_epoch": epoch})
        return [one for one in report(idle)["remarks"] if "producer id" in one]

    assert remarks(1, 0, None) == remarks(2, drawn, 0) == []
    [said] = remarks(3, 7, drawn)
    assert said == (
        "its target gave its producer id: what an application of another cluster writes with the same one counts "
        "as the mirror's, so it is not copied back, and may be taken for a repetition and lost"
    )
    assert said in flat(text(idle, FLOW))


ENDS = [(None, False, False), ("stop", True, True), (None, True, True), ("stop", False, True)]


@pytest.mark.parametrize(
    ("behind_start", "until_caught_up", "is_wanted"), examples(check=ENDS[:2], soak=ENDS)
)
def test_a_driver_that_ended_while_work_waits_is_wanted_away_or_missed(
    idle: Operated, behind_start: str | None, *, until_caught_up: bool, is_wanted: bool
) -> None:
    """Whoever types `stop`, or runs the flow until it has caught up, knows; a signal may come from anybody."""
    idle.operation("stop")
    idle.operation("driver_starting", {"host": own_mark(), "until_caught_up": until_caught_up})
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 5})
    idle.watermark("orders", 0, end=9)
    if behind_start is not None:
        idle.operation(behind_start)
    idle.writer("released", own_mark(), round_number=9)
    found = report(idle, "--check", code=0 if is_wanted else 4)
    assert [reason.split("Z, and ")[-1] for reason in found["needs_attention"]] == [
        "4 records wait for it: mirror-ledger run east-to-west"
    ] * (not is_wanted)
    assert any(remark.startswith("ended at ") for remark in found["remarks"]) == is_wanted
    idle.copied({("orders", 0): 9}, writer_epoch=2)
    idle.watermark("orders", 0, end=9)
    assert report(idle, "--check")["needs_attention"] == [], "nothing waits"


def test_groups_that_could_never_be_read_are_a_reason_to_act(flow: Operated) -> None:
    seen = {"cluster": "east", "read_at_ms": 1}
    flow.append("groups", {**seen, "event": "all_listed"})
    assert report(flow, "--check")["needs_attention"] == [], "it may have none"
    flow.append("groups", {**seen, "event": "permitted_listed", "round": 7})
    told = text(flow, "--check", code=4)
    assert flat(told).startswith(
        "east-to-west: no group of east could be read: permitted listed: grant DESCRIBE on the cluster and all "
    )
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0, "read_at_ms": 1}
    flow.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 3})
    assert report(flow, "--check")["needs_attention"] == [], "some are read, and others may be"


def test_reasons_are_a_line_each_and_said_once(flow: Operated) -> None:
    for partition in (0, 1):
        flow.stopped("orders", partition, "lost")
    for number in range(30):
        key = {"finding": f"finding-{number}", "topic": f"topic-{number}", "partition": None}
        flow.operation("finding_raised", {**key, "message": f"message {number}", "next": "look"})
    done = flow.command("status", "--check")
    heads = [line for line in done.out.splitlines() if line.startswith("east-to-west: ")]
    assert [re.sub(" since .*", "", line) for line in heads] == [
        "east-to-west: 2 partitions stopped",
        "east-to-west: 30 findings open",
    ]
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err == "error: 2 reasons to act, named above\n"
    lines = [line for line in done.out.splitlines() if "message" in line]
    assert len(lines) == len(set(lines)) == 30
    as_json = flow.command("status", "--check", "-o", "json").err.splitlines()
    assert [line for line in as_json if line.startswith("east-to-west: ")] == heads


OPERATION = "9f1d2c3b4a5e46708192a3b4c5d6e7f8"


def changing(flow: Operated, *steps: str, failed: str | None = None, host: str = "elsewhere:1:1:") -> Plan:
    """An apply that has done these steps, and stands at another."""
    of = replace(plan(), topics=(replace(ORDERS, flow=FLOW),))
    recorded = PlanRecorded(plan_id=of.plan_id, plan=of.content(), blockers=(), cut="c", forecast={})
    flow.operation("plan", recorded.content())
    claimed = {"plan_id": of.plan_id, "host": host, "is_continued": False}
    rows = [("apply_claimed", claimed)]
    for step in steps:
        rows += [
            ("step_begun", {"step": step}),
            ("step_done", {"step": step, "words": "so", "read_back": {}, "hook": None}),
        ]
    if failed is not None:
        rows += [("step_begun", {"step": failed}), ("step_failed", {"step": failed, "words": "not in 15 s"})]
        rows.append(("apply_ended", {"result": "failed", "words": "no", "figures": {}}))
    for number, (kind, content) in enumerate(rows):
        of_apply = {"writer": "apply", "writer_epoch": 1, "round": number, "operation_id": OPERATION}
        said = {"kind": kind, "operator": "anna", "reason": "fire", "content": json.dumps(content)}
        flow.append("operations", {**of_apply, **said, "flow": None})
    return of


def test_a_change_of_direction_that_has_not_ended_comes_first_until_it_has(flow: Operated) -> None:
    of = changing(flow, "check", "stop_producers", "fence", "drain", failed="stop_groups")
    told = text(flow, "--check", code=4)
    assert told.startswith("switchover from east to west has begun, and has not come to its end\n")
    head = told.split(f"\n{FLOW}: ")[0]
    assert "  step      stop_groups failed: not in 15 s\n" in head
    assert "  so far    producers are stopped, east is fenced\n" in head
    commands = [
        f"mirror-ledger apply {of.plan_id}",
        f"mirror-ledger undo {OPERATION}",
    ]
    assert [line.strip() for line in head.splitlines() if "mirror-ledger" in line] == commands
    for command in commands:
        name, *arguments = shlex.split(command.removeprefix("mirror-ledger "))
        command_of(name).make_context(name, [*arguments, "--reason", "a drill"])
    assert f"{FLOW}: nothing needs attention\n" in told, "the flow itself does not"
    found = report(flow, "--check", code=4)
    assert (found["open_apply"]["step"], found["open_apply"]["failed"]) == ("stop_groups", "not in 15 s")
    assert found["open_apply"]["state"] == "open"
    begun = {"plan_id": of.plan_id, "host": mark_of_a_gone_process(), "is_continued": False}
    of_apply = {"writer": "apply", "writer_epoch": 2, "operation_id": OPERATION, "operator": "anna"}
    flow.append("operations", {**of_apply, "kind": "undo_begun", "content": json.dumps(begun), "flow": None})
    told = text(flow, "--check", code=4)
    assert told.startswith("switchover from east to west is being undone, and has not come to its end\n")
    assert [line.strip() for line in told.splitlines() if "mirror-ledger" in line] == commands[1:]
    undone = json.dumps({"steps": {}, "read_back": {}})
    flow.append("operations", {**of_apply, "kind": "undone", "content": undone, "flow": None})
    assert text(flow, "--check").startswith(f"{FLOW}: nothing needs attention\n")
    assert report(flow)["open_apply"] is None


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (own_mark(), "its process is at work"),
        (mark_of_a_gone_process(), "nobody is at work on it"),
        ("elsewhere:1:1:", "perhaps it is at work"),
    ],
    ids=["alive", "gone", "elsewhere"],
)
def test_whether_anybody_is_at_work_on_it_is_said(flow: Operated, host: str, words: str) -> None:
    changing(flow, "check", host=host)
    assert f"; {words}, last recorded 20" in flat(text(flow, "--check", code=4))


@pytest.mark.parametrize(
    ("event", "mark", "seconds", "state"),
    [
        ("alive", own_mark(), 1, "running"),
        ("alive", "elsewhere:1:1", 1, "running"),
        ("alive", "elsewhere:1:1", 300, "silent"),
        ("alive", own_mark(), 300, "silent"),
        ("alive", mark_of_a_gone_process(), 1, "dead"),
        ("released", own_mark(), 1, "released"),
    ],
    ids=["here", "elsewhere", "silent", "silent-here", "dead", "released"],
)
def test_whether_a_driver_is_at_work(idle: Operated, event: str, mark: str, seconds: int, state: str) -> None:
    last_ms = idle.clock.now_ms() - seconds * 1000
    idle.writer("claimed", mark, at_ms=last_ms - 1000)
    idle.writer(event, mark, round_number=1, at_ms=last_ms)
    done = idle.command("health")
    assert done.out.startswith(f"{FLOW}: {state}, last recorded ")
    assert done.code == (0 if state == "running" else 4)
    hangs = state == "silent" and mark == own_mark()
    assert idle.command("health", "--hung").code == (4 if hangs else 0), "no start here mends the others"


def test_whether_a_driver_is_at_work_is_not_known_without_a_ledger(idle: Operated) -> None:
    shutil.rmtree(idle.config.ledger.path)
    done = idle.command("health", FLOW)
    assert (done.code, done.out) == (2, "")
    assert idle.command("health", "nobody").code == 2


def test_a_ledger_that_cannot_be_read_ends_no_driver(idle: Operated) -> None:
    for file in Path(idle.config.ledger.path, "writers", "_delta_log").iterdir():
        file.write_text("?")
    assert idle.command("health").code == 1
    done = idle.command("health", "--hung")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("whether a driver hangs is unknown, and no start mends that: ")


def test_a_flow_that_never_ran(idle: Operated) -> None:
    assert idle.command("health", FLOW).out == f"{FLOW}: never_ran\n"
    told = text(idle, "--check", code=4)
    assert told.startswith("east-to-west: it has never run: mirror-ledger run east-to-west\n")
    assert "driver    has never run" in told
    assert report(idle)["driver"] == {
        "state": "never_ran",
        "ends_by_itself": False,
        "was_id_refused": False,
        **dict.fromkeys(
            (
                *("host", "process", "epoch", "claimed_at_ms", "last_recorded_at_ms", "silent_seconds"),
                *("starting_since_ms", "failed_start_at_ms", "asked_to_stop"),
            )
        ),
    }


CAUSES = {
    "a cause of a later version": None,
    "foreign_write": "mirror-ledger accept-foreign east-to-west --topic orders --partition 1",
    "lost": "mirror-ledger resume east-to-west --topic orders --partition 2",
    "shut_out": None,
    "target_out_of_range": "mirror-ledger accept-foreign east-to-west --topic orders --partition 4",
}
"""Why partitions 0 to 4 stopped, and what to type."""


def test_a_stopped_partition_has_a_command_to_type(flow: Operated) -> None:
    for partition, cause in enumerate(CAUSES):
        flow.stopped("orders", partition, cause)
    told = text(flow, FLOW, "--check", code=4)
    assert told.startswith("east-to-west: 5 partitions stopped since 20")
    stopped = report(flow)["stopped"]
    for (partition, (cause, command)), stop in zip(enumerate(CAUSES.items()), stopped, strict=True):
        since = instant(stop.pop("stopped_at_ms"))
        said = f"stopped orders partition {partition}: {cause} since {since}: what was seen next: what to do "
        assert said + (command or "") in flat(told)
    assert [line for line in told.splitlines() if "mirror-ledger" in line] == [
        " " * 12 + command for command in CAUSES.values() if command is not None
    ]
    assert stopped == [
        {
            "topic": "orders",
            "partitions": [partition],
            "cause": cause,
            "message": "what was seen",
            "differing": 0,
            "next": "what to do",
            "commands": [] if command is None else [command],
        }
        for partition, (cause, command) in enumerate(CAUSES.items())
    ]


def test_what_was_promoted_since_is_given_no_command_that_would_be_refused(flow: Operated) -> None:
    flow.stopped("orders", 1, "foreign_write")
    pair = {"cluster": "west", "cluster_id": "w", "former": "east", "former_id": "e"}
    flow.operation("promoted", {**pair, "topics": ["east.orders"]})
    [stopped] = report(flow)["stopped"]
    assert (stopped["cause"], stopped["commands"]) == ("foreign_write", [])
    assert "plan switchover" in stopped["next"]
    assert "accept-foreign" not in text(flow, FLOW, "--check", code=4)
    flow.operation("demoted", {**pair, "topics": ["east.orders"]})
    [stopped] = report(flow)["stopped"]
    assert stopped["commands"] == ["mirror-ledger accept-foreign east-to-west --topic orders --partition 1"]


def test_several_partitions_that_stopped_alike_are_one_entry_with_one_command(flow: Operated) -> None:
    for partition in (0, 1, 2, 5):
        flow.stopped("orders", partition, "lost")
    told = text(flow, FLOW, "--check", code=4)
    assert told.startswith("east-to-west: 4 partitions stopped since 20")
    assert "stopped   orders partitions 0-2, 5: lost since 20" in told
    assert [line.strip() for line in told.splitlines() if "mirror-ledger" in line] == [
        "mirror-ledger resume east-to-west --topic orders"
    ]
    found = report(flow)
    [entry] = found["stopped"]
    assert entry["partitions"] == [0, 1, 2, 5]
    assert {row["stop_message"] for row in found["partitions"]} == {"what was seen"}


def test_a_resumed_partition_is_not_stopped(flow: Operated) -> None:
    flow.stopped("orders", 1, "lost")
    flow.operation("partition_resumed", {"topic": "orders", "topic_id": "id-of-orders", "partition": 1})
    assert "stopped" not in text(flow, "--check")


def test_pauses_and_waiting_requests_are_told_and_pass_the_check(flow: Operated) -> None:
    answered = flow.operation("pause", {"topic": "orders"})
    flow.receipt(answered, "pause", "done", "orders is paused")
    assert flow.command("pause", FLOW, "--reason", "a move", "--ticket", "OPS-7").code == 0
    told = text(flow, "--check")
    assert told.startswith("east-to-west: the whole flow is paused; paused: orders\n")
    told = flat(told)
    assert re.search(
        r"paused the whole flow, by \S+ 20\S+ \S+, a move, OPS-7; operation \S+ paused topic orders, by", told
    )
    [operation] = flow.operations()
    assert f", a move, OPS-7; operation {operation['operation_id']} " in told
    assert "waiting pause of the flow, asked for by" in told
    assert "receipt pause of topic orders done" in told
    assert told.endswith(f"orders is paused; operation {answered}")
    found = report(flow)
    assert found["paused"] == {"whole_flow": True, "topics": ["orders"]}
    assert [waiting["operation_id"] for waiting in found["waiting"]] == [operation["operation_id"]]
    assert [(receipt["request"], receipt["result"]) for receipt in found["receipts"]] == [(answered, "done")]


def test_the_last_receipts_come_first(flow: Operated) -> None:
    requests = [flow.operation("resume", {"topic": "orders", "partition": 1}) for _ in range(7)]
    for number, request in enumerate(requests):
        flow.receipt(request, "resume", "refused", f"answer {number}")
    flow.receipt(requests[0], "resume", "done", "the first answer counts")
    receipts = report(flow)["receipts"]
    assert [receipt["message"] for receipt in receipts] == [f"answer {number}" for number in (6, 5, 4, 3, 2)]
    assert {receipt["operator"] for receipt in receipts} == {"somebody"}
    assert [(receipts[0][key]) for key in ("topic", "partition", "offset")] == ["orders", 1, None]


def test_losses_are_told_by_cause_and_pass_the_check(flow: Operated) -> None:
    flow.append(
        "offset_syncs",
        flow.lost_row("orders", 0, 100, 140),
        flow.lost_row("orders", 0, 140, 150, round=3, cause="skipped"),
        flow.lost_row("orders", 1, 50, 52),
        flow.lost_row("orders", 1, 51, 52, round=3, kind="superseded", cause="resync"),
        flow.lost_row(
            "orders", 1, 51, 51, round=4, kind="unpaired", cause="accepted", target_end=54, records=3
        ),
        {"flow": "west-to-east", "kind": "lost", "cause": "deleted_records", "source_end": 9},
    )
    told = flat(text(flow, "--check"))
    assert "loss lost, retention: 41 source offsets, last recorded 20" in told
    assert "loss unpaired, accepted: 3 records at the target, last recorded 20" in told
    assert [
        (loss["kind"], loss["cause"], loss["source_offsets"], loss["records"], loss["rows"])
        for loss in report(flow)["losses"]
    ] == [
        ("lost", "retention", 41, 0, 2),
        ("lost", "skipped", 10, 0, 1),
        ("superseded", "resync", 1, 0, 1),
        ("unpaired", "accepted", 0, 3, 1),
    ]


def test_what_differs_is_counted_by_topic_and_cause_where_somebody_asks(flow: Operated) -> None:
    flow.append(
        "offset_syncs",
        flow.lost_row("orders", 0, 100, 140, cause="skipped"),
        flow.lost_row("orders", 0, 140, 150, round=3, cause="skipped"),
        flow.lost_row("orders", 1, 50, 52, cause="skipped"),
    )
    assert report(flow)["differences"] is None
    assert "differs" not in text(flow)
    counted = report(flow, "--differences")["differences"]
    [lost] = [one for one in counted if one["status"] == "lost"]
    assert lost == {
        "subject": "records",
        "status": "lost",
        "cause": "skipped",
        "topic": "orders",
        "rows": 3,
        "offsets": 52,
    }
    told = flat(text(flow, "--differences"))
    assert "differs records lost (skipped): 52 offsets: orders (52)" in told
    assert "differs setting unknown: 4: orders (4)" in told


def test_nothing_differs(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    assert "differs nothing, as both clusters were read last" in flat(text(idle, "--differences"))


def test_what_was_paired_after_all_is_no_loss(flow: Operated) -> None:
    """A settled tail: found at the target without its source, and read again beside it."""
    settled = {"kind": "unpaired", "cause": "lost_source", "target_end": 53, "records": 3}
    flow.append("offset_syncs", flow.lost_row("orders", 1, 50, 50, **settled))
    assert [(loss["kind"], loss["cause"]) for loss in report(flow)["losses"]] == [("unpaired", "lost_source")]
    told = flat(text(flow))
    assert "settled 3 records at the target, copied by a driver that died, not lost; last recorded" in told
    assert "loss " not in told
    paired = {"kind": "superseded", "cause": "settled"}
    flow.append("offset_syncs", flow.lost_row("orders", 1, 50, 50, round=7, **paired))
    assert report(flow)["losses"] == []


def test_a_loss_that_was_taken_back_whole_is_none(flow: Operated) -> None:
    flow.append(
        "offset_syncs",
        flow.lost_row("orders", 1, 50, 52),
        flow.lost_row("orders", 1, 50, 52, round=3, kind="superseded", cause="resync"),
    )
    assert [loss["kind"] for loss in report(flow)["losses"]] == ["superseded"]


def test_what_stopped_and_is_gone_at_the_source_needs_nothing(flow: Operated) -> None:
    flow.stopped("orders", 0, "denied")
    flow.topic("orders", "observed")
    assert flow.command("status", "--check").code == 4
    flow.topic("orders", "deleted")
    flow.copied({("events", 0): 7})
    flow.topic("events", "observed", "deleted")
    told = text(flow, "--check")
    assert told.startswith("east-to-west: nothing needs attention\n")
    assert (
        "gone orders partition 0: its topic, id id-of-orders, ended at the source while it was stopped "
        "(denied); 1,204 records were not copied"
    ) in flat(told)
    assert (
        "events partition 0: its topic, id id-of-events, ended at the source; an unknown number of"
        in flat(told)
    )
    assert "lag       no partition is left to copy" in told
    found = report(flow)
    assert (found["stopped"], found["lag"]["state"], found["lag"]["unknown_partitions"]) == (
        [],
        "caught_up",
        0,
    )
    assert [gone["stop_cause"] for gone in found["gone"]] == [None, "denied"]
    assert "neither paused nor stopped" in flow.command("resume", FLOW, "--topic", "orders").err


def test_a_recreated_topic_that_stopped_is_not_gone(flow: Operated) -> None:
    flow.topic("orders", "observed")
    flow.topic("orders", "recreated", topic_id="new")
    flow.stopped("orders", 0, "source_recreated", topic_id="new")
    assert "stopped   orders partition 0: source_recreated since" in text(flow, "--check", code=4)


def test_all_copied_before_it_ended_is_not_worth_a_line(flow: Operated) -> None:
    flow.copied({("events", 0): 7})
    flow.watermark("events", 0, end=7)
    flow.topic("events", "observed", "deleted")
    assert "gone" not in text(flow)


def test_open_findings_are_told_until_they_are_cleared(flow: Operated) -> None:
    said = {"message": "compression.type is gzip", "next": "set it"}
    for topic in ("orders", "events"):
        found = {"finding": "recompressed", "topic": topic, "partition": None}
        flow.operation("finding_raised", {**found, **said})
    flow.operation("finding_cleared", found)
    told = text(flow, "--check", code=4)
    [finding] = report(flow)["findings"]
    since = instant(finding["open_since_ms"])
    assert told.startswith(f"east-to-west: 1 finding open since {since}\n")
    assert (
        f"finding recompressed of topic orders since {since}: compression.type is gzip next: set it"
        in flat(told)
    )
    assert finding["topic"] == "orders"
    assert finding["open_since_ms"] == finding["raised_at_ms"] > 0


def test_a_source_that_could_not_be_compared_is_told_and_alarms_nobody(flow: Operated) -> None:
    said = {"message": "one side has deleted it", "next": "compare"}
    flow.operation(
        "finding_raised", {"finding": "source_not_compared", "topic": "orders", "partition": 0, **said}
    )
    told = text(flow, "--check")
    assert "finding source_not_compared of orders partition 0" in flat(told)
    assert "nothing needs attention" in told


def test_what_other_flows_have_does_not_show(flow: Operated) -> None:
    flow.operation("pause", {"topic": None}, flow="west-to-east")
    finding = {"finding": "f", "topic": None, "partition": None, "message": "m"}
    flow.operation("finding_raised", finding, flow="west-to-east")
    told = text(flow, "--check")
    assert "nothing needs attention" in told
    assert "paused" not in told


def test_a_past_cut_does_not_tell_whether_the_driver_lived(flow: Operated) -> None:
    cut = flow.command("query", "replication_lag", "--param", f"flow={FLOW}", "--show-cut").err.split()[-1]
    flow.stopped("orders", 0, "lost")
    told = text(flow, "--as-of", cut, "--check")
    assert "driver    claimed: epoch 3" in told
    assert "stopped" not in told


def test_partitions_as_a_table_and_as_csv(flow: Operated) -> None:
    assert "east.orders" in text(flow, "--partitions")
    lines = text(flow, "-o", "csv").splitlines()
    assert lines[0].startswith("flow,source_topic,")
    assert len(lines) == 3
