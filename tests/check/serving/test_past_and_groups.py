"""Groups, changes of direction and history on pages: what is recorded, in words; what is unknown, said to be so."""

import re
import time
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.serving.changes import read_changes
from ledger.serving.drawing import Point, curve, records
from ledger.serving.history import flow_lag
from tests.support.asked_pages import SCRAPED, Served, scraped, seen, value
from tests.support.operated import FLOW, Operated, mark_of_a_gone_process
from tests.support.served_changes import carried_out, planned, row

pytestmark = pytest.mark.long

NOW_MS = 1_795_000_000_000


def linked(served: Served, page: str, below: str) -> list[str]:
    return [link for link in seen(served.page(page)).links if link.startswith(below)]


# Groups -------------------------------------------------------------------------------------------


@pytest.fixture
def committed(flow: Operated) -> Operated:
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0, "read_at_ms": 1}
    for group, offset in (("billing", 40), ("<b>loud</b>", 100)):
        flow.append("checkpoints", {**at, "group_id": group, "committed_offset": offset})
    return flow


def test_groups_have_a_line_each_and_a_page(committed: Operated) -> None:
    served = Served.of(committed.config)
    words = seen(served.page("/groups")).words
    assert "From east to west" in words
    assert "billing 1 exact" in words
    assert "<b>loud</b>" in words
    assert not [link for link in linked(served, "/groups", "/groups/") if "billing" in link or "loud" in link]
    pages = [seen(served.page(link)).words for link in linked(served, "/groups", "/groups/")]
    [billing] = [one for one in pages if "Group billing" in one]
    assert "orders 0 40 east.orders 40 exact 0" in billing
    assert value(served.samples(), "group_partitions", source="east", target="west", status="exact") == 1


def test_groups_that_nobody_can_place_are_said_to_be_so(idle: Operated) -> None:
    served = Served.of(idle.config)
    words = seen(served.page("/groups")).words
    assert "From east to west" in words
    assert "exact" not in words
    assert value(served.samples(), "groups_repeated_records") is None


def test_groups_that_a_recorder_was_refused_are_counted(committed: Operated) -> None:
    """And none is not said to be none where nobody was shown all."""
    served = Served.of(committed.config, SCRAPED)
    assert value(served.samples(), "groups_unread") is None
    assert "others: not recorded" in seen(served.page("/groups")).words
    seen_at = {"cluster": "east", "writer": "recorder:east", "read_at_ms": 1}
    committed.append("groups", {**seen_at, "event": "permitted_listed"})
    for group, event in (("billing", "present"), ("audit", "hidden"), ("lost", "gone"), ("fraud", "hidden")):
        committed.append("groups", {**seen_at, "group_id": group, "event": event})
    served = Served.of(committed.config, SCRAPED)
    assert value(served.samples(), "groups_unread", cluster="east", status="hidden") == 2
    assert value(served.samples(), "groups_unread", status="unavailable") is None, (
        "nobody was shown all groups"
    )
    assert "2 groups hidden, others: permitted listed" in seen(served.page("/groups")).words
    committed.append("groups", {**seen_at, "event": "all_listed"})
    committed.append("groups", {**seen_at, "group_id": "audit", "event": "present"})
    served = Served.of(committed.config, SCRAPED)
    assert value(served.samples(), "groups_unread", cluster="east", status="hidden") == 1
    assert value(served.samples(), "groups_unread", cluster="east", status="unavailable") == 0


def test_groups_that_are_kept_at_the_target_are_counted(flow: Operated) -> None:
    assert value(scraped(flow.config), "flow_groups_synced") is None, "nobody wants them kept there"
    file = Path(flow.config.file)
    file.write_text(file.read_text().replace("topics = ", "sync_groups = true\ntopics = "))
    at = {"flow": FLOW, "target_cluster": "west", "target_topic": "east.orders", "target_offset": 5}
    for group, event in (("billing", "intended"), ("billing", "synced"), ("audit", "intended")):
        for partition in (0, 1):
            place = {"group_id": group, "target_partition": partition, "event": event}
            flow.append("group_syncs", {**at, **place})
    samples = scraped(flow.config)
    assert value(samples, "flow_groups_synced", flow=FLOW) == 1
    assert value(samples, "flow_groups_not_synced", flow=FLOW) == 0


# Changes of direction -----------------------------------------------------------------------------


def test_a_plan_is_a_checklist_with_receipts_and_a_clock(flow: Operated) -> None:
    plan = planned(flow)
    served = Served.of(flow.config)
    assert "switchover from east to west blocked" in seen(served.page("/changes")).words
    [link] = linked(served, "/changes", "/changes/")
    assert plan.plan_id not in link
    before = seen(served.page(link)).words
    assert "objective: 41 s behind" in before
    assert "objective: wait" in before
    assert "nowhere to write" not in before
    carried_out(flow, plan)
    served = Served.of(flow.config)
    after = seen(served.page(link)).words
    assert "done check : check what the plan was made from" in after
    assert "nothing has changed" in after
    assert "<i>stopped</i>" in after
    assert "failed fence : fence the source, and prove it east refused a rule" in after
    assert "to do drain" in after
    assert re.search(
        r"Applications have had nowhere to write for \S+ s, since producers were to be stopped at", after
    )
    assert f"mirror-ledger apply {plan.plan_id}" in after
    assert "begun, not ended" in seen(served.page("/changes")).words
    overview = seen(served.page("/")).words
    assert "switchover from east to west has begun, and has not come to its end" in overview
    begun_s = value(served.samples(), "changeover_begun_timestamp_seconds", kind="switchover")
    assert begun_s is not None
    assert abs(begun_s - time.time()) < 600


@pytest.mark.parametrize("is_gone", [False, True], ids=["at work", "gone"])
def test_an_apply_at_work_is_calm_and_offers_no_command(flow: Operated, is_gone: bool) -> None:
    """`undo` beside a process that is at work would take back what it is about to do."""
    plan = planned(flow)
    carried_out(flow, plan, by=mark_of_a_gone_process() if is_gone else None, is_failed=False)
    served = Served.of(flow.config)
    [link] = linked(served, "/changes", "/changes/")
    shows = [served.page(path) for path in (link, "/changes", "/")]
    shown = flow.command("plan", "show", plan.plan_id).out, flow.command("status").out
    texts = [*(seen(one).words for one in shows), *shown]
    for command in (f"mirror-ledger apply {plan.plan_id}", "mirror-ledger undo applied"):
        assert [command in text for text in texts] == [is_gone, False, is_gone, is_gone, is_gone]
    said = [bool(re.search(rf"at work, step 4 of {len(plan.steps)}, \d+ m?s ago", text)) for text in texts]
    assert said == [*(3 * [not is_gone]), False, not is_gone]
    assert ['class="tone run"' in shows[1].text, 'class="card run"' in shows[2].text] == 2 * [not is_gone]


def test_what_has_another_plans_id_is_not_shown_as_it(flow: Operated) -> None:
    plan = planned(flow)
    content = {
        "plan_id": plan.plan_id,
        "plan": {**plan.content(), "kind": "failover"},
        "blockers": [],
        "cut": "c",
    }
    flow.append("operations", row("plan", {**content, "forecast": {}}, "forged"))
    served = Served.of(flow.config)
    [link] = linked(served, "/changes", "/changes/")
    assert "cannot be shown" in seen(served.page(link)).words
    [change] = read_changes(Ledger.open(flow.config.file))
    assert change.plan is None


def test_no_plan_says_how_to_make_one(flow: Operated) -> None:
    assert "mirror-ledger plan switchover" in seen(Served.of(flow.config).page("/changes")).words


# History ------------------------------------------------------------------------------------------


def test_losses_findings_and_days_are_shown(flow: Operated) -> None:
    flow.lost("orders", 0, 100, 110)
    flow.operation(
        "finding_raised",
        {
            "finding": "sequence_unusual",
            "message": "a <b>jump</b>",
            "next": None,
            "topic": None,
            "partition": None,
        },
    )
    served = Served.of(flow.config)
    words = seen(served.page("/history")).words
    assert "orders 0 lost, retention source 100 to 109 holds" in words
    assert "sequence unusual a <b>jump</b>" in words


def lag_row(
    at_ms: int, partition: int, lag: int | None, *, lag_ms: int | None = None, age_ms: int = 0
) -> dict[str, object]:
    of = {"source_topic": "orders", "source_topic_id": "id", "source_partition": partition, "at_ms": at_ms}
    status = "unknown" if lag is None else "behind" if lag else "caught_up"
    return {**of, "lag_records": lag, "lag_ms": lag_ms, "age_ms": age_ms, "status": status}


def test_a_flows_lag_is_the_sum_and_unknown_where_one_is() -> None:
    found = flow_lag(
        [
            *(lag_row(1_000, 0, None), lag_row(1_000, 1, None)),
            *(lag_row(2_000, 0, 5, lag_ms=3_000, age_ms=500), lag_row(2_000, 1, None)),
            *(lag_row(3_000, 0, 0), lag_row(3_000, 1, 7, lag_ms=9_000)),
            *(lag_row(4_000, 0, None), lag_row(4_000, 1, 7, lag_ms=10_000)),
        ],
        fresh_ms=1_000,
    )
    assert [one.value for one in found.records] == [None, 5.0, 7.0, None]
    assert [one.value for one in found.reach_s] == [None, 3.5, 9.0, None]


def test_what_was_read_too_long_ago_is_no_lag_and_reaches_back_all_the_same() -> None:
    found = flow_lag(
        [lag_row(9_000, 0, 0, age_ms=1_000), lag_row(70_000, 0, 0, age_ms=61_000)], fresh_ms=60_000
    )
    assert [one.value for one in found.records] == [0.0, None], "unknown is not 0"
    assert [one.value for one in found.known_lost] == [0.0, 0.0]
    assert [one.value for one in found.reach_s] == [1.0, 61.0]


def test_a_curve_breaks_where_nobody_knows() -> None:
    points = [Point(NOW_MS + at * 1_000, what) for at, what in enumerate([0.0, 4.0, None, None, 2.0, 1.0])]
    drawn = curve("Lag", points, records)
    assert drawn is not None
    assert len(drawn.lines) == 2
    assert drawn.unknown == ((120.0, 360.0),)
    assert (drawn.highest, drawn.last) == ("4 records", "1 record")
    assert "unknown in parts" in drawn.words
    last = curve("Lag", [Point(1, None), Point(2, None), Point(3, 5.0)], records)
    assert last is not None
    [[begins, ends]] = [line.split() for line in last.lines]
    assert begins != ends, "one point is drawn too"
    unknown = curve("Lag", [Point(1, None), Point(2, None)], records)
    assert unknown is not None
    assert (unknown.lines, unknown.highest, unknown.last) == ((), "unknown", "unknown")
    assert curve("Lag", points[:1], records) is None
