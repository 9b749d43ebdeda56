"""A switchover under load: no record is lost, none is processed twice."""

import json

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.following import name_of, values
from tests.support.plans import TravellingApplications, both_ways, verified
from tests.support.recorded import operations, rows
from tests.support.runs import FLOW, running
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.waiting import eventually

_HOOKS_MAY_TAKE_S = 30
_PARTITIONS = 12
_STEPS_MAY_TAKE_S = 60
"""On a machine that is busy; 15 seconds where nothing else is at work."""


def test_a_promoted_cluster_takes_over_and_is_mirrored_back_from_the_cut(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured(both_ways(topic))
    create_topics(east, [topic], partitions=_PARTITIONS)
    moving = TravellingApplications(
        site.folder, Shop(topic, _PARTITIONS), Desk(name_of("billing")), east, west
    )
    shop, desk = moving.shop, moving.desk
    with site.running(config), beside(moving.work):
        eventually(lambda: desk.is_at_work(200), "the group is at work")
        shut = (
            "--fence",
            "shut",
            "--accept=producers_stopped",
            "--quiet-seconds",
            "1",
            "--most-quiet-seconds",
            "3",
        )
        plan_id = site.planned(
            config,
            *("switchover", *shut, "--accept=mirror_not_shut_out"),
            *("--topic", topic, "--group", desk.group, *moving.hooks),
        )
        written_when_planned = len(shop.written)
        applied = site.done(config, "apply", plan_id, "--reason", "a drill", "--yes")
    assert written_when_planned < moving.written_at_source < len(shop.written)
    figures = operations(config, "apply_ended")[-1]["figures"]
    downtime_s, between = figures["downtime_seconds"], figures["forecast"]
    took_s = sum(one["took"] for one in between.values())
    with site.capsys.disabled():
        print(
            f"\n{_PARTITIONS} partitions, shut: {took_s:.1f} s of {downtime_s:.1f} s without a cluster: {between}"
        )
    assert {"fence", "drain", "shut_out", "cut", "move_groups", "audit"} <= between.keys()
    assert took_s < _STEPS_MAY_TAKE_S
    assert moving.nowhere_to_write_s <= downtime_s < moving.nowhere_to_write_s + _HOOKS_MAY_TAKE_S
    assert "applications had no cluster to write to for" in applied.err
    [operation_id] = applied.out.split()
    code, found = verified(site.capsys, config, operation_id)
    assert {check: status for check, status in found.items() if status != "ok"} == {"shut_out": "accepted"}
    assert code == 0
    assert shop.refused == []
    assert sorted(desk.processed) == sorted(shop.written)
    refused = site.command(config, "undo", operation_id, "--reason", "back", "--yes")
    assert refused.code == 5
    assert "an application has written at offset" in refused.err
    assert "plan switchover --from west --to east" in refused.err
    back = site.command(config, "plan", "show", plan_id, "-o", "json")
    [receipts] = [one for one in json.loads(back.out)[0]["applies"]]
    assert receipts["operation_id"] == operation_id
    waits = site.command(config, "status", FLOW, "--check")
    assert (waits.code, f"run west-to-east --from-cut {operation_id}" in " ".join(waits.out.split())) == (
        4,
        True,
    )
    with running(config, site.spark, "west-to-east", from_cut=operation_id):
        eventually(lambda: sorted(values(east, topic)) == sorted(shop.written), "all is copied back")
        stands = site.command(config, "status", FLOW, "--check")
        assert stands.code == 0, stands.out
    assert_receipts_of_classic_steps(config, operation_id)


def assert_receipts_of_classic_steps(config: MirrorConfig, operation_id: str) -> None:
    """A row for each step of the runbook's table, but for a failure and what only a failure leaves behind."""
    made = [row for row in rows(config, "operations") if row["operation_id"] == operation_id]
    kinds = {row["kind"] for row in made}
    stopped = [row["cause"] for row in operations(config, "partition_stopped")]
    pairs = [row for row in rows(config, "offset_syncs") if row["kind"] == "copied"]
    cut = [row for row in rows(config, "cut_offsets") if row["operation_id"] == operation_id]
    starts = {row["partition"]: row["reverse_start"] for row in cut if row["side"] == "target"}
    back = [row for row in rows(config, "offset_syncs") if row["flow"] == "west-to-east"]
    assert {row["flow"] for row in pairs} == {FLOW, "west-to-east"}, "mirrored, and pairs recorded"
    assert {"fence", "promoted", "mirror_shut_out"} <= kinds, "replication stopped"
    assert stopped.count("promoted") == _PARTITIONS
    assert {(row["side"], row["partition"]) for row in cut if row["high_watermark"]} == {
        (side, partition) for side in ("source", "target") for partition in range(_PARTITIONS)
    }, "high watermarks recorded"
    assert {"handed_over", "offsets_set", "offsets_set_result"} <= kinds, "failed over"
    assert starts.keys() == set(range(_PARTITIONS)), "pairs looked up"
    assert None not in starts.values()
    begun = {row["source_partition"]: row["source_start"] for row in back if row["kind"] == "started"}
    assert begun == starts, "reverse started"
