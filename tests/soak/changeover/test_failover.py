"""The source dies by kill -9 under load: applications go on at the target, and what is lost is told to the record."""

import json
from collections import Counter
from collections.abc import Mapping

import pytest

from ledger.config.mirror import MirrorConfig
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import PlacedRecord, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.commands import driver_state
from tests.support.following import name_of, values
from tests.support.plans import both_ways, lost_now
from tests.support.recorded import Row, broken_invariants, operations, query, rows
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop
from tests.support.site import RealSite
from tests.support.waiting import eventually

_UNDER_WAY_MS = 1000
"""For so long at most a record was on its way when the ends were read that it is behind."""
_NOT_FENCED = (
    "--fence",
    "none",
    "--accept=unproven=east is dead",
    "--accept=mirror_not_shut_out",
    "--accept",
    "ahead",
)


def extra_at_source(config: MirrorConfig) -> Counter[int]:
    """Offsets by partition that the ledger knows at east, and that never came to west."""
    found: Counter[int] = Counter()
    for row in query(config, "one_sided_records", from_cluster="west", to_cluster="east"):
        assert (row["status"], row["cluster"]) == ("extra", "east")
        found[row["partition"]] += row["offsets"]
    return found


def copied_to(config: MirrorConfig) -> int:
    return sum(row["map_end"] or 0 for row in lost_now(config).values())


def at_risk(config: MirrorConfig) -> int:
    return sum(row["records_at_risk"] or 0 for row in lost_now(config).values())


def is_ahead_by_the_ledger(config: MirrorConfig, group: str) -> bool:
    """Whether the recorded commits of a group are behind all copies: then none of them is given to it again."""
    committed: dict[int, int] = {}
    for row in rows(config, "checkpoints"):
        if row["group_id"] == group:
            committed[row["partition"]] = max(
                committed.get(row["partition"], 0), row["committed_offset"] or 0
            )
    return all(committed.get(at, 0) >= row["map_end"] for at, row in lost_now(config).items())


def at_source_alone(pair: Mapping[str, SandboxCluster], topic: str) -> dict[int, list[PlacedRecord]]:
    """By partition what east holds and west does not."""
    there = set(values(pair["west"].bootstrap_servers, topic))
    held = read_topics(pair["east"].bootstrap_servers, [topic])
    return {
        partition: [one for one in placed if one.record.value not in there]
        for (_, partition), placed in held.items()
    }


def assert_reported(report: Row, lost: list[PlacedRecord]) -> None:
    """What was reported is lost, record for record; what is lost besides was written after the ends were read."""
    offsets = [one.offset for one in lost]
    assert report["records"] > 0
    assert offsets[: report["records"]] == list(range(report["copied_to"], report["known_end"]))
    unseen = lost[report["records"] :]
    assert all(one.record.timestamp_ms >= report["read_at_ms"] - _UNDER_WAY_MS for one in unseen)


def assert_told_to_others(
    site: RealSite, config: MirrorConfig, plan_id: str, topic: str, reports: Mapping[int, Row]
) -> None:
    """The report for people who were not there has the same losses, and all steps."""
    made = json.loads(site.done(config, "report", "failover", plan_id, "--format", "json").out)
    tables = {table["name"]: table["rows"] for section in made["sections"] for table in section["tables"]}
    told = {
        row["partition"]: (row["records"], row["copied up to"], row["known end"]) for row in tables["losses"]
    }
    assert told == {
        f"{topic} partition {number}": (one["records"], one["copied_to"], one["known_end"])
        for number, one in reports.items()
    }
    assert tables["steps"][-1]["step"] == "report"
    assert {row["result"] for row in tables["steps"]} == {"done"}
    assert all(row["records read again"] == 0 for row in tables["groups"])


@pytest.mark.fault(4, 30)
def test_what_was_copied_is_processed_once_and_the_rest_is_told_to_the_record(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=2)
    shop, billing, slow = Shop(topic, 2, 1500), Desk(name_of("billing")), Desk(name_of("slow"))
    try:
        with site.running(config):
            with shop.selling(east):
                with billing.open(east, [topic]):
                    with slow.open(east, [topic]):
                        eventually(lambda: slow.is_at_work(100), "the group is at work")
                    eventually(lambda: copied_to(config) > len(slow.processed) + 200, "more is copied")
                    site.done(config, "pause", FLOW, "--reason", "a drill", "--wait", "60")
                    eventually(lambda: at_risk(config) > 100, "the mirror lags")
                    eventually(lambda: is_ahead_by_the_ledger(config, billing.group), "it read what lags")
                site.sandbox.kill("east")
            groups = ("--group", billing.group, "--group", slow.group)
            plan_id = site.planned(config, "failover", *_NOT_FENCED, "--topic", topic, *groups)
            applied = site.done(config, "apply", plan_id, "--reason", "east is dead", "--yes")
        copied = values(west, topic)
        acknowledged, processed = set(shop.written), list(slow.processed)
        figures = operations(config, "apply_ended")[-1]["figures"]
        assert figures["downtime_since"] == "decision"
        assert f"{figures['records_lost']:,} records not copied" in applied.err
        with billing.open(west, [topic]), slow.open(west, [topic]):
            shop.sell(west, 20)
            wanted = {*copied, *shop.written[-20:]}
            eventually(lambda: set(billing.processed) >= wanted, "all is processed")
            eventually(lambda: set(slow.processed) >= wanted, "all is processed by the other")
        assert sorted(slow.processed) == sorted({*processed, *wanted}), "nothing skipped, nothing repeated"
        assert billing.repeated.total() == 0
        before = values(west, topic)
    finally:
        site.sandbox.start("east")
    lost = at_source_alone(site.pair, topic)
    lost_values = {one.record.value for placed in lost.values() for one in placed}
    assert acknowledged - set(copied) <= lost_values <= (acknowledged | set(shop.refused)) - set(copied)
    reports = {report["partition"]: report for report in figures["losses"]}
    assert figures["records_lost"] == sum(report["records"] for report in reports.values())
    really_lost = sum(len(placed) for placed in lost.values())
    assert figures["records_at_least"] <= really_lost <= figures["records_at_most"]
    assert reports.keys() == lost.keys() == {0, 1}
    for partition, report in reports.items():
        assert_reported(report, lost[partition])
    assert_told_to_others(site, config, plan_id, topic, reports)
    site.done(config, "resume", FLOW, "--reason", "east is back")
    with site.running(config):
        ends = {number: placed[-1].offset + 1 for number, placed in lost.items()}
        eventually(
            lambda: {at: row["high_watermark"] for at, row in lost_now(config).items()} == ends,
            "the ends of east were read again",
        )
        eventually(lambda: driver_state(site.capsys, config) == "running", "the driver is back")
        said = site.command(config, "status", FLOW, "--check")
    assert values(west, topic) == before, "nothing is appended behind applications"
    assert {at: row["records_at_risk"] for at, row in lost_now(config).items()} == {
        at: len(placed) for at, placed in lost.items()
    }
    assert {row["cluster"] for row in query(config, "cluster_reach")} == {"east"}, "the failure was observed"
    assert extra_at_source(config) == {at: len(placed) for at, placed in lost.items()}, (
        "what is extra was found"
    )
    words = " ".join(said.out.split())
    assert said.code == 4
    assert words.startswith(f"{FLOW}: fence of {topic} at east: unproven {FLOW}: "), (
        "what is to be done first is said first"
    )
    assert f"mirror-ledger fence east --topic {topic} --reason WHY proves it" in words
    assert "2 partitions stopped" in words
    assert (
        "mirror-ledger plan failback --from west --to east --reason WHY (with --stop-before switch" in words
    )
    assert broken_invariants(config) == {}
