"""What settings of a target topic are wanted: SQL and `SettingsFollowing` say the same."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import catalog
from ledger.adapters.duck.engine import run_query
from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.topic_settings import REQUIRED_AT_TARGET, SettingsFollowing
from ledger.schema import TABLE_BY_NAME
from tests.support.cases import default_row

FLOW = "east-to-west"
VALUES = {
    "retention.ms": ("1", "2"),
    "cleanup.policy": ("compact", "delete"),
    "min.insync.replicas": ("1", "2", "3"),
    "max.message.bytes": ("78", "128", "129", "5000"),
    "compression.type": ("producer", "zstd"),
    "compression.gzip.level": ("1", "2"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "message.timestamp.after.max.ms": ("5", str(2**63 - 1)),
    "message.format.version": ("2", "3"),
    "message.downconversion.enable": ("true", "false"),
    "unclean.leader.election.enable": ("true", "false"),
    "leader.replication.throttled.replicas": ("*",),
    "follower.replication.throttled.replicas": ("*",),
    "remote.storage.enable": ("true",),
    "local.retention.ms": ("5",),
    "confluent.tier.enable": ("true",),
}
configurations = st.fixed_dictionaries({}, optional={name: st.sampled_from(v) for name, v in VALUES.items()})


def drift(source: dict[str, str], target: dict[str, str], replicas: int) -> dict[str, str]:
    """Status by setting."""
    ledger = MemoryLedger()
    ledger.append("offset_syncs", [_row("offset_syncs", flow=FLOW, **_PAIR)])
    for cluster, configuration in (("east", source), ("west", target)):
        state = {
            "cluster": cluster,
            "topic_id": cluster,
            "replication_factor": replicas,
            "configuration": json.dumps(configuration),
            "event": "observed",
        }
        ledger.append("topics", [_row("topics", **state)])
    answer = run_query(catalog.query("topic_drift"), {"flow": FLOW}, ledger.at(ledger.latest()))
    return {row["setting"]: row["status"] for row in answer.to_pylist()}


_PAIR = {
    "source_cluster": "east",
    "source_topic_id": "east",
    "target_cluster": "west",
    "target_topic_id": "west",
}


def _row(table: str, **values: object) -> dict[str, object]:
    return {**default_row(TABLE_BY_NAME[table].columns), **values}


@settings(max_examples=80, deadline=None)
@given(configurations, configurations, st.integers(1, 3))
def test_drift_is_what_following_would_change(
    source: dict[str, str], target: dict[str, str], replicas: int
) -> None:
    found = drift(source, target, replicas)
    change = SettingsFollowing().change(
        source, target, replication_factor=replicas, set_by_mirror=frozenset(target)
    )
    assert {name for name, status in found.items() if status in ("missing", "differs")} == set(change.to_set)
    assert {name for name, status in found.items() if status == "surplus"} == set(change.to_remove)
    assert found.keys() == source.keys() | target.keys() | REQUIRED_AT_TARGET.keys()
