"""A process that carries out a plan dies behind each step in turn: the end is that of one that was not interrupted."""

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ledger.changeover.receipts import ApplyRecord
from ledger.config.mirror import MirrorConfig
from ledger.facts.changeovers import StepDone
from ledger.facts.operations import OperationContent
from ledger.sandbox.workload import create_topics
from tests.support.following import admin_of, consumed, name_of, produce, values
from tests.support.plans import both_ways
from tests.support.recorded import broken_invariants, query, rows
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually

_CHOICES = (
    "--fence",
    "shut",
    "--accept=producers_stopped",
    "--quiet-seconds",
    "0.2",
    "--accept=mirror_not_shut_out",
)
_OF_EACH_ATTEMPT = frozenset(
    {"apply_claimed", "apply_alive", "step_begun", "step_done", "mirror_shut_out", "sheet"}
)
"""Rows of which an apply has more when it was continued, and of which the last counts: what may have changed until the
cut is proved again, and sheets say what is there."""


class Crash(BaseException):
    """The process ends here: nothing of ours catches it."""


def crash_behind_each_step(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The receipt of each step is lost once, with the process; returns the steps as they come."""
    crashed: list[str] = []
    real = ApplyRecord.add

    def add(self: ApplyRecord, content: OperationContent) -> None:
        if isinstance(content, StepDone) and content.step not in crashed:
            crashed.append(content.step)
            raise Crash
        real(self, content)

    monkeypatch.setattr(ApplyRecord, "add", add)
    return crashed


def end_state(config: MirrorConfig, topic: str, group: str, operation_id: str) -> dict[str, Any]:
    """What an apply leaves behind at both clusters, and in the ledger, without names."""
    own = [row for row in rows(config, "operations") if row["operation_id"] == operation_id]
    found: dict[str, Any] = {
        "rows": Counter(row["kind"] for row in own if row["kind"] not in _OF_EACH_ATTEMPT),
        "receipts": {json.loads(row["content"])["step"] for row in own if row["kind"] == "step_done"},
    }
    found["cut"] = sum(row["operation_id"] == operation_id for row in rows(config, "cut_offsets"))
    for alias in ("east", "west"):
        with admin_of(config, alias) as admin:
            found[f"{alias} settings"] = admin.configurations([topic])[topic]
            ends = admin.ends([(topic, 0), (topic, 1)])
            found[f"{alias} ends"] = [end.high_watermark for _, end in sorted(ends.items())]
            commits = admin.commits(
                [one for one in admin.groups() if one.group_id == group],
                topic_ids={topic: admin.topics()[topic].topic_id},
            )
            found[f"{alias} commits"] = sorted(
                (one.partition, one.committed_offset) for one in commits if one.topic == topic
            )
    return found


def commit(servers: str, group: str, *places: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=list(places), asynchronous=False)
    consumer.close()


def test_an_apply_that_dies_behind_every_step_comes_to_the_end_of_one_that_does_not(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, west = site.servers
    name = name_of("orders")
    topics, group = [f"{name}-calm", f"{name}-crashed"], name_of("billing")
    config = site.configured(both_ways(f"{name}.*"))
    create_topics(east, topics, partitions=2)
    for topic in topics:
        for partition in (0, 1):
            produce(east, topic, *map(str, range(20)), partition=partition)
        commit(east, group, TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 20))
    applied: list[str] = []
    with site.running(config):
        eventually(
            lambda: sum(row["target_end"] for row in query(config, "flow_positions", flow=FLOW)) == 80,
            "all is copied",
        )
        plans = [site.planned(config, "switchover", *_CHOICES, "--group", group, "--topic", topics[0])]
        calm = site.done(config, "apply", plans[0], "--reason", "a drill", "--yes")
        applied += calm.out.split()
        plans.append(site.planned(config, "switchover", *_CHOICES, "--group", group, "--topic", topics[1]))
        crashed = crash_behind_each_step(monkeypatch)
        while len(applied) == 1:
            try:
                done = site.command(config, "apply", plans[1], "--reason", "a drill", "--yes")
            except Crash:
                continue
            assert done.code == 0, done.err
            applied += done.out.split()
    assert len(crashed) == len(set(crashed)) == 16
    one, other = (
        end_state(config, topic, group, operation_id)
        for topic, operation_id in zip(topics, applied, strict=True)
    )
    assert other == one
    assert other["receipts"] == set(crashed)
    assert other["west commits"] == [(0, 7), (1, 20)]
    assert other["west ends"] == [20, 20]
    assert len(consumed(west, topics[1], group)) == 13
    assert sorted(values(west, topics[1])) == sorted(values(east, topics[1]))
    assert broken_invariants(config) == {}
