"""A driver's recorder reads for every flow that touches the cluster: any of their drivers may be it."""

from pathlib import Path
from typing import Any, cast

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.roles import RoleVerdict
from ledger.kafka.admin import KafkaAdmin
from ledger.recorders.observation import Subject
from ledger.recorders.run import cluster_recorder
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.config_files import write_config
from tests.support.ledger_rows import append, row
from tests.support.recorded import rows

_ORDERS = 'topics = ["orders"]\ngroups = ["billing"]\n'
_OTHERS = {
    "invoices": 'topics = ["invoices"]\ngroups = ["audit"]\n',
    "unused": 'topics = ["spare"]\nenabled = false\n',
}


def recorded_ends(
    config: MirrorConfig, east: MemoryCluster, subjects: frozenset[Subject], *, partitions: int
) -> list[dict[str, Any]]:
    recorder = cluster_recorder(
        config,
        cast(KafkaAdmin, east),
        DeltaFactLog(config.ledger.path, SystemClock()),
        DeltaLedgerState(open_ledger(config.ledger.path)),
        subjects,
        partitions_of_one=lambda: [("orders", partition) for partition in range(partitions)],
    )
    assert recorder.take_role() is RoleVerdict.UNCLAIMED
    recorder.record_once()
    return rows(config, "high_watermarks")


@pytest.mark.parametrize(
    ("others", "topics", "groups"),
    [({}, {"orders"}, {"billing"}), (_OTHERS, {"orders", "invoices"}, {"audit", "billing"})],
)
def test_ends_and_groups_of_all_enabled_flows_are_recorded(
    tmp_path: Path, others: dict[str, str], topics: set[str], groups: set[str]
) -> None:
    config = write_config(
        tmp_path, {"east": "127.0.0.1:9", "west": "127.0.0.1:9"}, {"orders": _ORDERS, **others}
    )
    init_ledger(config)
    east = MemoryCluster("east", SystemClock())
    for topic in ("orders", "invoices", "spare"):
        east.create_topic(topic, partitions=1, replication_factor=1, configuration={})
        for group in ("audit", "billing", "shipping"):
            east.committed[group, topic, 0] = 0
    ends = recorded_ends(config, east, frozenset(Subject) - {Subject.PERMISSIONS}, partitions=1)
    assert {row["topic"] for row in ends} == topics
    assert {row["group_id"] for row in rows(config, "checkpoints")} == groups


def test_ends_of_what_was_copied_once_are_recorded_still(tmp_path: Path) -> None:
    """What lies behind their maps would stay behind in a change of direction, so it is to be known."""
    config = write_config(tmp_path, {"east": "127.0.0.1:9", "west": "127.0.0.1:9"}, {"orders": _ORDERS})
    init_ledger(config)
    east, copied = MemoryCluster("east", SystemClock()), {"deleted": "D", "refunds": "R"}
    for topic in ("orders", "refunds", "spare"):
        east.create_topic(topic, partitions=2, replication_factor=1, configuration={})
    claimed = row(
        "writers",
        writer="flow:former",
        writer_epoch=1,
        event="claimed",
        flow="former",
        source_cluster="east",
        source_cluster_id=east.cluster_id(),
        target_cluster="west",
        target_cluster_id="W",
        recorded_at_ms=1,
    )
    append(config.ledger.path, "writers", [claimed])
    append(
        config.ledger.path, "offset_syncs", [_copied(topic, topic_id) for topic, topic_id in copied.items()]
    )
    ends = recorded_ends(config, east, frozenset({Subject.HIGH_WATERMARKS}), partitions=2)
    assert {(one["topic"], one["partition"]) for one in ends} == {
        (topic, partition) for topic in ("orders", "refunds") for partition in (0, 1)
    }


def _copied(topic: str, topic_id: str) -> dict[str, object]:
    return row(
        "offset_syncs",
        flow="former",
        writer="flow:former",
        writer_epoch=1,
        round=1,
        recorded_at_ms=1,
        kind="copied",
        source_cluster="east",
        source_topic=topic,
        source_topic_id=topic_id,
        target_cluster="west",
        target_topic=topic,
        target_topic_id="W",
        source_end=3,
        target_end=3,
        records=3,
    )
