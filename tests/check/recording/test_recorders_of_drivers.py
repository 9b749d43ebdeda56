"""A driver's recorder reads for every flow that touches the cluster: any of their drivers may be it."""

from pathlib import Path
from typing import Any, cast

import pytest

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.app.tables import init_ledger
from ledger.app.wiring import cluster_recorder
from ledger.domain.writer_roles import RoleVerdict
from ledger.recording.observation import Subject
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.config_files import write_config
from tests.support.recorded import rows

_ORDERS = 'topics = ["orders"]\ngroups = ["billing"]\n'
_OTHERS = {
    "invoices": 'topics = ["invoices"]\ngroups = ["audit"]\n',
    "unused": 'topics = ["spare"]\nenabled = false\n',
}


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
    recorder = cluster_recorder(
        config,
        cast(KafkaAdmin, east),
        DeltaFactLog(config.ledger.path, SystemClock()),
        DeltaLedgerState(open_ledger(config.ledger.path)),
        frozenset(Subject) - {Subject.PERMISSIONS},
        partitions_of_one=lambda: [("orders", 0)],
    )
    assert recorder.take_role() is RoleVerdict.UNCLAIMED
    recorder.record_once()
    ends: list[dict[str, Any]] = rows(config, "high_watermarks")
    assert {row["topic"] for row in ends} == topics
    assert {row["group_id"] for row in rows(config, "checkpoints")} == groups
