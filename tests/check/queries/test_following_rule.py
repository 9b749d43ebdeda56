"""What settings of a target topic are wanted: SQL and `SettingsFollowing` say the same."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.store import catalog
from ledger.store.sql import run_query
from ledger.topics.following import REQUIRED_AT_TARGET, SettingsFollowing
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.generated_examples import examples
from tests.support.ledger_rows import row

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


PARTIES = st.tuples(configurations, configurations, st.integers(1, 3))
"""Settings at the source and at the target, and the replicas of both."""
Parties = tuple[dict[str, str], dict[str, str], int]


def drift(topics: list[Parties]) -> list[dict[str, str]]:
    """Status by setting, for topics that one ledger tells of."""
    ledger = MemoryLedger()
    for number, (source, target, replicas) in enumerate(topics):
        sides = (("east", f"source-{number}", source), ("west", f"target-{number}", target))
        ledger.append("offset_syncs", [row("offset_syncs", flow=FLOW, **_pair(number))])
        ledger.append("topics", [_state(replicas, *side) for side in sides])
    answer = run_query(catalog.query("topic_drift"), {"flow": FLOW}, ledger.at(ledger.latest()))
    found: list[dict[str, str]] = [{} for _ in topics]
    for told in answer.to_pylist():
        found[int(told["source_topic"])][told["setting"]] = told["status"]
    return found


def _pair(number: int) -> dict[str, str]:
    return {
        "source_cluster": "east",
        "source_topic": str(number),
        "source_topic_id": f"source-{number}",
        "target_cluster": "west",
        "target_topic": f"east.{number}",
        "target_topic_id": f"target-{number}",
    }


def _state(replicas: int, cluster: str, topic_id: str, configuration: dict[str, str]) -> dict[str, object]:
    return row(
        "topics",
        cluster=cluster,
        topic_id=topic_id,
        replication_factor=replicas,
        configuration=json.dumps(configuration),
        event="observed",
    )


@settings(max_examples=examples(check=8, soak=16), deadline=None)
@given(st.lists(PARTIES, min_size=5, max_size=5))
def test_drift_is_what_following_would_change(topics: list[Parties]) -> None:
    for found, (source, target, replicas) in zip(drift(topics), topics, strict=True):
        change = SettingsFollowing().change(
            source, target, replication_factor=replicas, set_by_mirror=frozenset(target)
        )
        wanted = {name for name, status in found.items() if status in ("missing", "differs")}
        assert wanted == set(change.to_set)
        assert {name for name, status in found.items() if status == "surplus"} == set(change.to_remove)
        assert found.keys() == source.keys() | target.keys() | REQUIRED_AT_TARGET.keys()
