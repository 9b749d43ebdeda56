"""Source and driver die by kill -9, with copies that nobody recorded: a failover, undone when the source is back."""

import csv
import json
from io import StringIO

import pytest

from ledger.sandbox.reading import read_topics
from tests.support import recorded
from tests.support.commands import command
from tests.support.flows import PARTITIONS, FlowUnderTest, flow_under_test, produce
from tests.support.following import consumed, name_of
from tests.support.plans import planned
from tests.support.recorded import operations
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually

FIRST = 300
NEVER_COPIED = 30
OF_EACH = FIRST // PARTITIONS
NOTHING_RECORDED_S = 120.0  # a round whose end the driver does not live to see
SETTLED_WITHIN_S = 60.0
_NOT_FENCED = (
    "--fence",
    "none",
    "--accept=unproven=east is burnt",
    "--accept=mirror_not_shut_out",
    "--accept",
    "ahead",
    "--watch",
    "1",
    "--wait-progress",
    "1",
)


def forecast(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Records that a failover would lose now, by its plan, and what settling has found."""
    done = command(capsys, flow.config, "plan", "failover", "--from", "east", "--to", "west", "-o", "json")
    found = json.loads(done.out)[0]["forecast"]
    return found["records_lost"], sum(row["settled"] for row in found["losses"])


def settle(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, str]], str]:
    """Exit code, the table, and what was said."""
    done = command(capsys, flow.config, "settle", FLOW, "--reason", "a fire", "-o", "csv")
    return done.code, list(csv.DictReader(StringIO(done.out))), done.err


def applied(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], group: str) -> str:
    """The operation id of a failover, carried out by nothing but its plan."""
    plan_id = planned(capsys, flow.config, "failover", *_NOT_FENCED, "--group", group)
    done = command(capsys, flow.config, "apply", plan_id, "--reason", "a fire", "--yes")
    assert done.code == 0, done.err
    return done.out.strip()


def at_source_alone(flow: FlowUnderTest) -> dict[int, list[int]]:
    """Offsets of records that the target does not have, by partition, as consumers see both."""
    west = read_topics(flow.pair["west"].bootstrap_servers, [flow.target_topic])
    there = {placed.record.value for records in west.values() for placed in records}
    east = read_topics(flow.pair["east"].bootstrap_servers, [flow.topic])
    return {
        partition: [one.offset for one in records if one.record.value not in there]
        for (_, partition), records in east.items()
    }


def read_on_at_target(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], group: str) -> list[bytes]:
    """What a group reads at the target that is set by hand, as for one that the plan left out."""
    asked = ("offsets", "set", "--from", "east", "--to", "west", "--group", group, "--reason", "a fire")
    done = command(capsys, flow.config, *asked, "--accept", "ahead", "--accept", "no_commit")
    assert done.code == 0, done.err
    return consumed(flow.pair["west"].bootstrap_servers, flow.target_topic, group)


def committed_at_target(flow: FlowUnderTest, group: str) -> dict[int, int | None]:
    listed = [one for one in flow.admin("west").groups() if one.group_id == group]
    return {one.partition: one.committed_offset for one in flow.admin("west").commits(listed, topic_ids={})}


@pytest.mark.fault(4, 32)
def test_what_was_not_recorded_when_both_died_is_counted_without_the_source_and_copied_once(
    site: RealSite,
) -> None:
    with flow_under_test(site.pair, site.folder, "settled", round_seconds=NOTHING_RECORDED_S) as flow:
        produce(flow, FIRST)
        flow.finish(site.spark)
        produce(flow, FIRST, start=FIRST)
        driver = flow.start()
        eventually(lambda: flow.target_records() == 2 * FIRST, "all records on the target")
        driver.kill_with_workers()
        produce(flow, NEVER_COPIED, start=2 * FIRST)
        group = name_of("billing")
        flow.commit(group, 0, offset=OF_EACH + 50)
        reader = name_of("reader")
        flow.commit(reader, 1, offset=OF_EACH + 20)
        site.done(flow.config, "record", "east", "--once")
        code, lines, said = settle(flow, site.capsys)
        assert (code, lines, "east answers" in said) == (5, [], True), "the source is there to pair them"
        site.sandbox.kill("east")
        try:
            assert forecast(flow, site.capsys) == (FIRST + NEVER_COPIED, 0), "all that nobody has recorded"
            operation_id = applied(flow, site.capsys, group)
            receipts = {row["step"]: row["read_back"] for row in operations(flow.config, "step_done")}
            assert [one["records"] for one in receipts["settle"][FLOW]["partitions"]] == [
                OF_EACH
            ] * PARTITIONS
            [figures] = [row["figures"] for row in operations(flow.config, "apply_ended")]
            assert figures["records_lost"] == receipts["cut"]["loss"]["records_lost"] == NEVER_COPIED
            assert figures["step_seconds"]["settle"] < SETTLED_WITHIN_S
            assert figures["groups_without_commit"] == [group], "nobody has started it"
            assert place_of(flow, site.capsys, offset=OF_EACH - 50) == OF_EACH - 50
            assert committed_at_target(flow, group) == {0: OF_EACH, 1: 0, 2: 0}, (
                "nobody knows which of them were read"
            )
            code, again, said = settle(flow, site.capsys)
            assert (code, {line["records"] for line in again}) == (0, {"0"}), said
            read = read_on_at_target(flow, site.capsys, reader)
            assert recorded.broken_invariants(flow.config) == {}
        finally:
            site.sandbox.start("east")
        reported = {
            one["partition"]: list(range(one["copied_to"], one["known_end"])) for one in figures["losses"]
        }
        assert reported == at_source_alone(flow), "record for record"
        assert_resumed(flow, read)
        site.done(flow.config, "undo", operation_id, "--reason", "east is back", "--yes")
        assert committed_at_target(flow, group) == {}
        produce(flow, FIRST, start=2 * FIRST + NEVER_COPIED)
        flow.finish(site.spark)
        assert flow.assert_same_records() == 3 * FIRST + NEVER_COPIED
        assert flow.recorded_records() == 3 * FIRST + NEVER_COPIED
        assert place_of(flow, site.capsys, offset=OF_EACH + 50) == OF_EACH + 50
        assert recorded.broken_invariants(flow.config) == {}


def assert_resumed(flow: FlowUnderTest, read: list[bytes]) -> None:
    """A group that had read the first records of partition 1 at east was given all others of west, none of them twice,
    and of what it had read those again of which nobody knew where they lie."""
    east = read_topics(flow.pair["east"].bootstrap_servers, [flow.topic])
    west = read_topics(flow.pair["west"].bootstrap_servers, [flow.target_topic])
    had_read = {one.record.value for one in east[flow.topic, 1] if one.offset < OF_EACH + 20}
    known = {one.record.value for one in east[flow.topic, 1] if one.offset < OF_EACH}
    there = {one.record.value for placed in west.values() for one in placed}
    assert len(read) == len(set(read))
    assert there - had_read <= set(read) == there - known


def place_of(flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], *, offset: int) -> int:
    """Where an offset of the first partition is at the target."""
    asked = ("--flow", FLOW, "--topic", flow.topic, "--partition", "0", "--offset", str(offset))
    done = command(capsys, flow.config, "offsets", "translate", *asked, "-o", "json")
    assert done.code in (0, 4), done.err
    [answer] = json.loads(done.out)
    return int(answer["target_offset"])
