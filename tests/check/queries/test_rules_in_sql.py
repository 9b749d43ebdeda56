"""SQL and the program say the same: open findings, wanted settings of topics, rules that cover others."""

import json
import random
from dataclasses import asdict, replace
from itertools import count, product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.changeover.permissions import covers
from ledger.facts.permissions import Permission, PermissionKind
from ledger.store import catalog
from ledger.store.sql import run_query
from ledger.topics.following import REQUIRED_AT_TARGET, SettingsFollowing
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.histories import examples
from tests.support.ledger_rows import row

# -- Open findings ---------------------------------------------------------------------------------

FLOW = "east-to-west"
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("finding_raised", "finding_cleared")),
        st.sampled_from((1_000, 1_001)),
        st.sampled_from(("recompressed", "more_partitions")),
        st.sampled_from((None, "orders")),
        st.sampled_from((None, 0)),
    ),
    min_size=20,  # of eight findings: some are never raised
    max_size=40,
)


@settings(deadline=None, max_examples=15)
@example([])
@given(EVENTS)
def test_open_findings_are_those_of_the_query(
    events: list[tuple[str, int, str, str | None, int | None]],
) -> None:
    ledger, numbers = MemoryLedger(), count(1)
    for kind, at_ms, finding, topic, partition in events:
        content = {"finding": finding, "topic": topic, "partition": partition, "message": "m", "next": None}
        number = next(numbers)
        event = row(
            "operations",
            writer_epoch=number // 10,
            round=number,
            operation_id=str(number),
            flow=FLOW,
            kind=kind,
            recorded_at_ms=at_ms,
            content=json.dumps(content),
        )
        ledger.append("operations", [event])
    at = ledger.at(ledger.latest())
    answer = run_query(catalog.query("flow_findings"), {"flow": FLOW}, at).to_pylist()
    told = {(found["finding"], found["source_topic"], found["source_partition"]) for found in answer}
    assert told == MemoryLedgerState(ledger).open_findings(FLOW)


# -- Settings --------------------------------------------------------------------------------------

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


# -- Permissions -----------------------------------------------------------------------------------

OPERATIONS = ("read", "write", "describe", "all", "alter", "alter_configs", "describe_configs", "create")
NAMES = (
    ("orders", "literal"),
    ("*", "literal"),
    ("users", "literal"),
    ("ord", "prefixed"),
    ("o", "prefixed"),
)
RULES = [
    Permission(
        kind=PermissionKind.ACL,
        entity="",
        host=host,
        operation=operation,
        permission_type=does,
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
    )
    for does, operation, resource, (name, pattern), host in product(
        ("allow", "deny"), OPERATIONS, ("topic", "group"), NAMES, ("*", "10.0.0.1")
    )
]


def test_the_query_and_the_rule_agree_on_what_is_covered() -> None:
    chosen = random.Random(7)
    pairs = [
        # Half of them differ in one thing alone.
        (one, replace(one, operation=other.operation) if number % 2 else other)
        for number in range(600)
        for one, other in [chosen.sample(RULES, 2)]
    ]
    ledger = MemoryLedger()
    of_side = {"east": 0, "west": 1}
    rows = [
        row(
            "permissions",
            writer_epoch=1,
            round=1,
            cluster=cluster,
            cluster_id=cluster,
            event="present",
            **{**asdict(pair[side]), "kind": "acl", "entity": f"User:{number}"},
        )
        for cluster, side in of_side.items()
        for number, pair in enumerate(pairs)
    ]
    readings = [
        row("permissions", writer_epoch=1, cluster=cluster, cluster_id=cluster, kind="acl", event="readable")
        for cluster in of_side
    ]
    ledger.append("permissions", [*rows, *readings])
    params = {"source": "east", "target": "west"}
    gaps = run_query(catalog.query("permission_gaps"), params, ledger.at(ledger.latest())).to_pylist()
    missing = {gap["entity"] for gap in gaps if gap["status"] == "missing"}
    expected = {
        f"User:{number}"
        for number, (wanted, there) in enumerate(pairs)
        if not covers(replace(there, entity="User:a"), replace(wanted, entity="User:a"))
    }
    assert 300 < len(expected) < 590
    assert missing == expected
