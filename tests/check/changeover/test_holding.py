"""Retention that is held: what is changed and comes back, ended at any step; how long what lies there is kept yet."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import pytest

from ledger.changeover.hand_over import Ready
from ledger.changeover.holding import RetentionLeft, planned, retention_left
from ledger.errors import PreconditionError
from ledger.facts.hand_overs import HandOvers, Purpose
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import TOPICS
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, Place, SettingsAnswer, TopicSettings
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fenced_clusters import batch
from tests.support.hand_overs import DEFAULTS, WHY, CrashedError, Pairs, record_east
from tests.support.ledger_rows import row

OWN: Mapping[str, dict[str, str]] = {
    "orders": {"retention.ms": "900", "cleanup.policy": "delete"},
    "users": {"cleanup.policy": "compact", "retention.ms": "900"},
    "bills": {"cleanup.policy": "compact,delete", "retention.bytes": "5000"},
    "kept": {"retention.ms": "-1", "retention.bytes": "-1"},
}
HELD = {"retention.ms": "-1", "retention.bytes": "-1"}
WHILE_HELD = {**OWN, "orders": {**OWN["orders"], **HELD}, "bills": {**OWN["bills"], **HELD}}


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Pairs:
    found = Pairs()
    change = MemoryCluster.change_settings

    def stepped(cluster: MemoryCluster, name: str, **changes: Any) -> None:
        found.step()
        change(cluster, name, **changes)
        found.step()

    monkeypatch.setattr(MemoryCluster, "change_settings", stepped)
    found.west.default_settings = {**DEFAULTS, "retention.bytes": "70"}
    for topic, own in OWN.items():
        found.west.create_topic(topic, partitions=1, replication_factor=1, configuration=own)
    return found


def hold(pairs: Pairs) -> Ready:
    return pairs.changes.hand_over(planned(pairs.west, list(OWN)), pairs.state.hand_overs(), WHY)


def release(pairs: Pairs, *topics: str) -> None:
    recorded = pairs.state.hand_overs()
    for operation_id, held in recorded.held("west").items():
        names = {one.topic for one in held} & {*(topics or OWN)}
        if names:
            pairs.changes.undo(operation_id, recorded, WHY, names)


def held(pairs: Pairs) -> list[str]:
    found = pairs.state.hand_overs().held("west").values()
    return sorted(one.topic for those in found for one in those)


def test_what_is_deleted_is_held_and_what_is_compacted_alone_is_left() -> None:
    found = planned(_with(OWN), list(OWN))
    assert {one.topic: dict(one.change.to_set) for one in found.topics} == {"orders": HELD, "bills": HELD}
    assert found.manual == (
        "bills: cleanup.policy is compact,delete: deleting is held, compaction continues",
        "users: cleanup.policy is compact: it is left so, compaction continues",
    )


def _with(topics: Mapping[str, Mapping[str, str]]) -> MemoryCluster:
    cluster = Pairs().west
    cluster.default_settings = {**DEFAULTS, "retention.bytes": "70"}
    for topic, own in topics.items():
        cluster.create_topic(topic, partitions=1, replication_factor=1, configuration=own)
    return cluster


def test_ended_at_any_step_it_comes_to_the_same_and_what_was_own_comes_back(pairs: Pairs) -> None:
    crashed = 0
    for crash_at in count():
        pairs.steps, pairs.crash_at = count(), crash_at
        ends = crashed
        for act, after in ((hold, WHILE_HELD), (release, OWN)):
            try:
                act(pairs)
            except CrashedError:
                crashed += 1
                pairs.crash_at = None
                act(pairs)
            assert pairs.now()[0] == after, f"a crash at step {crash_at}"
            assert held(pairs) == (["bills", "orders"] if after is WHILE_HELD else [])
        if ends == crashed:
            break
        pairs.ledger = MemoryLedger()
    assert crashed > 14, "before and behind each change and each row, of both"


def test_topics_are_released_one_by_one_and_held_again(pairs: Pairs) -> None:
    hold(pairs)
    release(pairs, "orders")
    assert (held(pairs), pairs.now()[0]) == (["bills"], {**WHILE_HELD, "orders": OWN["orders"]})
    hold(pairs)
    assert (held(pairs), pairs.now()[0]) == (["bills", "orders"], WHILE_HELD)
    rows = pairs.recorded()
    assert hold(pairs).operation_id is None
    assert pairs.recorded() == rows, "twice is as once"
    release(pairs)
    assert (held(pairs), pairs.now()[0]) == ([], OWN)
    release(pairs)


def test_what_somebody_has_changed_since_stays_and_is_held_no_more(pairs: Pairs) -> None:
    hold(pairs)
    pairs.west.change_settings("orders", to_set={"retention.ms": "7"}, to_remove=[])
    release(pairs)
    assert pairs.now()[0]["orders"] == {"cleanup.policy": "delete", "retention.ms": "7"}
    assert held(pairs) == []


def test_where_settings_cannot_be_read_nothing_is_changed(pairs: Pairs) -> None:
    with pytest.raises(
        PreconditionError, match=r"settings of none of west cannot be read .*; nothing was changed"
    ):
        planned(pairs.west, ["orders", "none"])


def test_a_hold_is_no_setting_of_applications_and_leaves_what_the_mirror_was_given(pairs: Pairs) -> None:
    """What is recorded of east while it is held is not what west gets, and given to the mirror stays given."""
    record_east(pairs)
    given = pairs.known("orders").topics[0].settings
    hold(pairs)
    [(operation_id, _, content), _] = pairs.recorded()
    at_east = {**content, "cluster": "east"}
    at_east["topics"] = [
        {**one, "topic_id": "E-orders", "before": {"retention.ms": "900", "retention.bytes": None}}
        for one in content["topics"]
        if one["topic"] == "orders"
    ]
    made = HandOvers.of_rows([_operation(operation_id, at_east)])
    assert made.before_held("east")[("orders", "E-orders")].former["retention.ms"] == "900"
    for_mirror = {**at_east, "purpose": str(Purpose.MIRROR)}
    both = HandOvers.of_rows([_operation("m", for_mirror), _operation("h", at_east)])
    assert list(both.given_to_mirror("east")) == [("orders", "E-orders")]

    pairs.ledger.append("operations", [_operation(operation_id, at_east)])
    seen = row(
        TOPICS.name,
        writer="recorder:east",
        writer_epoch=1,
        round=9,
        cluster="east",
        topic="orders",
        topic_id="E-orders",
        configuration='{"message.timestamp.type": "LogAppendTime", "retention.ms": "-1", "retention.bytes": "-1"}',
        event="configuration_changed",
    )
    pairs.ledger.append(TOPICS.name, [seen])
    assert pairs.known("orders").topics[0].settings == given


def _operation(operation_id: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return row(
        "operations",
        kind="handed_over",
        operation_id=operation_id,
        content=json.dumps(content),
        writer="operator",
        writer_epoch=0,
        round=90,
    )


# How long it is kept ------------------------------------------------------------------------------


@dataclass
class Logs:
    """A cluster with one topic `t`: its settings, and by partition its log start, and the times of its records."""

    settings: Mapping[str, str]
    partitions: Mapping[int, tuple[int, tuple[int, ...]]]

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        return SettingsAnswer({name: TopicSettings({}, self.settings) for name in topics}, {})

    def ends(self, places: Sequence[Place]) -> dict[Place, PartitionEnds]:
        found = {}
        for topic, number in places:
            start, times = self.partitions[number]
            end = start + len(times)
            found[topic, number] = PartitionEnds(start, end, end, 0)
        return found

    def batches_at(self, partition: TopicPartition, offset: int) -> list[BatchHeader]:
        start, times = self.partitions[partition.partition]
        return [
            replace(batch(at), max_timestamp=time)
            for at, time in enumerate(times, start=start)
            if at >= offset
        ]


DAY = {"cleanup.policy": "delete", "retention.ms": "86400000", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("settings", "partitions", "seconds", "by_size"),
    [
        (DAY, {0: (0, (5_000, 9_000, 9_500))}, 86_397.0, False),  # the record at offset 1
        (DAY, {0: (2, (9_500, 9_600))}, 86_397.5, False),  # what lay before is deleted already
        (DAY, {0: (0, (5_000,))}, None, False),  # nothing lies behind the map
        (DAY, {0: (0, (1, 9_500)), 1: (0, (1, 9_000))}, 86_397.0, False),  # the oldest of all partitions
        ({**DAY, "retention.ms": "1000"}, {0: (0, (1, 9_500))}, -1.5, False),
        ({**DAY, "retention.ms": "-1"}, {0: (0, (1, 9_500))}, None, False),
        ({**DAY, "retention.ms": "-1", "retention.bytes": "9"}, {0: (0, (1, 9_500))}, None, True),
        ({**DAY, "cleanup.policy": "compact,delete"}, {0: (0, (1, 9_500))}, 86_397.5, False),
    ],
)
def test_it_is_told_how_long_the_oldest_record_behind_the_map_is_kept_yet(
    settings: Mapping[str, str],
    partitions: Mapping[int, tuple[int, tuple[int, ...]]],
    seconds: float | None,
    by_size: bool,  # of a table
) -> None:
    starts = {TopicPartition("t", "T", number): 1 for number in partitions}
    found = retention_left(cast(ClusterAdmin, Logs(settings, partitions)), starts, now_ms=12_000)
    assert found == [RetentionLeft(topic="t", seconds=seconds, by_size=by_size)]


def test_of_a_topic_that_is_compacted_alone_nothing_is_deleted() -> None:
    logs = Logs({**DAY, "cleanup.policy": "compact"}, {0: (0, (1, 9_500))})
    assert retention_left(cast(ClusterAdmin, logs), {TopicPartition("t", "T", 0): 1}, now_ms=12_000) == []


def test_what_is_left_of_the_time_is_said() -> None:
    said = [
        RetentionLeft(topic="t", seconds=one, by_size=by_size).words
        for one, by_size in ((7_200.0, False), (-1.0, True), (None, True))
    ]
    assert said == [
        "t: the oldest record behind the map may be deleted in 2 h",
        "t: the oldest record behind the map may be deleted at any moment; for room it may be deleted at any moment",
        "t: the oldest record behind the map is not deleted by age; for room it may be deleted at any moment",
    ]
