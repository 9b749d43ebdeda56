"""Topics, settings and permissions that were changed at a source and have not come to the target."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ledger.changeover.not_followed import NotFollowed, Part, not_followed, not_followed_words
from ledger.config.values import FlowConfig
from ledger.facts.acls import AclFollow, denial
from ledger.facts.fences import Fence
from ledger.facts.operations import AclAction, AclsFollowed, OperationContent, TopicAction, TopicFollowed
from ledger.facts.permissions import Permission, PermissionEvent, topic_acl
from ledger.facts.tables import OPERATIONS, PERMISSIONS, TOPICS, WRITERS
from ledger.topics.following import REQUIRED_AT_TARGET, ConfigurationFollow, SettingsChange
from ledger.topics.naming import NamingKind
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

IDENTITY: dict[str, Any] = {"topic_naming": NamingKind.IDENTITY}
FLOW = FlowConfig(name="f", source="east", target="west", topics=(".*",), acls=AclFollow.READ, **IDENTITY)


class Ledger:
    """What recorders of `east` and `west` have seen, each row a second behind the one before."""

    def __init__(self) -> None:
        self.rows = MemoryLedger()
        self.at_ms = 0

    def add(self, table: str, writer: str, **values: object) -> int:
        self.at_ms += 1_000
        stamp = {"writer": writer, "writer_epoch": 1, "round": self.at_ms, "recorded_at_ms": self.at_ms}
        self.rows.append(table, [row(table, **{**stamp, **values})])
        return self.at_ms

    def topic(
        self, cluster: str, name: str, *, partitions: int = 1, event: str = "observed", **own: str
    ) -> int:
        settings = {key.replace("_", "."): value for key, value in own.items()}
        return self.add(
            TOPICS.name,
            f"recorder:{cluster}",
            cluster=cluster,
            topic=name,
            topic_id=f"{cluster}-{name}",
            partitions=partitions,
            replication_factor=1,
            configuration=json.dumps(settings | ({} if cluster == "east" else dict(REQUIRED_AT_TARGET))),
            event=event,
        )

    def permission(self, cluster: str, one: Permission | None, event: str = "present") -> int:
        what: dict[str, object] = {"kind": "acl"} if one is None else one.recorded()
        about = {"cluster": cluster, "cluster_id": f"id-{cluster}", "event": event}
        return self.add(PERMISSIONS.name, f"recorder:{cluster}", **about, **what)

    def operation(self, content: OperationContent, flow: str | None = "f") -> None:
        self.add(
            OPERATIONS.name,
            "f",
            flow=flow,
            kind=str(content.kind),
            content=json.dumps(content.content()),
            operation_id="o",
        )

    def found(self, flow: FlowConfig = FLOW) -> dict[Part, NotFollowed]:
        state = MemoryLedgerState(self.rows)
        made = not_followed(state, [flow], lambda _flow, topic: topic != "left-out")
        return {one.part: one for one in made}


@pytest.fixture
def ledger() -> Ledger:
    """All has followed."""
    found = Ledger()
    for cluster in ("east", "west"):
        found.topic(cluster, "orders", retention_ms="5")
        found.permission(cluster, None, "readable")
        found.permission(cluster, topic_acl("orders", "User:a", "read"))
    found.topic("east", "left-out")
    found.add(
        WRITERS.name,
        "f",
        flow="f",
        event="claimed",
        source_cluster="east",
        source_cluster_id="id-east",
        target_cluster="west",
        target_cluster_id="id-west",
        config_hash="c",
        host="h",
    )
    return found


def test_all_has_followed(ledger: Ledger) -> None:
    found = ledger.found()
    assert {part: (one.changes, one.last_at_ms, one.why) for part, one in found.items()} == {
        part: (0, None, None) for part in Part
    }
    figures = [one.figures(90_000) for one in found.values()]
    assert (
        not_followed_words(figures)
        == "topics: all followed; settings: all followed; permissions: all followed"
    )


def test_a_topic_and_partitions_that_the_target_lacks(ledger: Ledger) -> None:
    ledger.topic("east", "orders", partitions=3, retention_ms="5", event="partitions_added")
    new_ms = ledger.topic("east", "new", event="created")
    ledger.topic("east", "new", event="configuration_changed", segment_ms="7")
    assert ledger.found()[Part.TOPICS] == NotFollowed(part=Part.TOPICS, changes=2, last_at_ms=new_ms)
    ledger.topic("west", "new", segment_ms="7")
    ledger.topic("west", "orders", partitions=3, retention_ms="5")
    assert ledger.found()[Part.TOPICS].changes == 0


def test_a_setting_counts_from_when_the_source_has_had_its_value(ledger: Ledger) -> None:
    first_ms = ledger.topic("east", "orders", retention_ms="9", event="configuration_changed")
    ledger.topic("east", "orders", retention_ms="9", cleanup_policy="delete", event="observed")
    ledger.topic("west", "orders", retention_ms="5", cleanup_policy="delete")
    assert ledger.found()[Part.SETTINGS] == NotFollowed(part=Part.SETTINGS, changes=1, last_at_ms=first_ms)
    ledger.topic("east", "orders", retention_ms="5", cleanup_policy="delete")
    assert ledger.found()[Part.SETTINGS].changes == 0, "it is as at the target again"
    again_ms = ledger.topic("east", "orders", retention_ms="9", cleanup_policy="delete")
    assert ledger.found()[Part.SETTINGS].last_at_ms == again_ms, "what it had had before is no matter"
    gone_ms = ledger.topic("east", "orders", cleanup_policy="delete")
    assert ledger.found()[Part.SETTINGS].changes == 0, "the flow has not set it, so it removes nothing"
    followed = SettingsChange({"retention.ms": "5"})
    ledger.operation(
        TopicFollowed(
            action=TopicAction.SETTINGS_CHANGED, topic="orders", topic_id="west-orders", change=followed
        )
    )
    assert ledger.found()[Part.SETTINGS] == NotFollowed(part=Part.SETTINGS, changes=1, last_at_ms=gone_ms)


def test_what_copying_needs_is_no_change_of_the_source_and_what_never_follows_is_none(ledger: Ledger) -> None:
    ledger.add(
        TOPICS.name,
        "recorder:west",
        cluster="west",
        topic="orders",
        topic_id="west-orders",
        partitions=1,
        replication_factor=1,
        configuration='{"retention.ms": "5"}',
        event="configuration_changed",
    )
    ledger.topic("east", "orders", retention_ms="5", compression_type="zstd", max_message_bytes="78")
    assert ledger.found()[Part.SETTINGS].changes == 0
    alone = FLOW.model_copy(update={"configuration_follow": ConfigurationFollow.CREATE})
    ledger.topic("east", "orders", retention_ms="9")
    assert ledger.found(alone)[Part.SETTINGS].why == "do not follow (configuration_follow)"


def test_rules_that_were_made_or_removed_and_those_of_fences(ledger: Ledger) -> None:
    new, fenced = topic_acl("orders", "User:b", "read"), denial("orders", "User:a", "read")
    made_ms = ledger.permission("east", new)
    ledger.permission("east", topic_acl("left-out", "User:b", "read"))
    ledger.permission("east", topic_acl("orders", "User:b", "write"))
    fence = Fence(
        cluster="east",
        cluster_id="id-east",
        topic="orders",
        topic_id="T",
        how="closed",
        proof="proven",
        denied_reading=("User:a",),
    )
    ledger.operation(fence, flow=None)
    ledger.permission("east", fenced)
    found = ledger.found()[Part.PERMISSIONS]
    assert found == NotFollowed(part=Part.PERMISSIONS, changes=1, last_at_ms=made_ms)
    ledger.permission("west", new)
    assert ledger.found()[Part.PERMISSIONS].changes == 0
    ledger.operation(AclsFollowed(AclAction.CREATED, (new,)))
    removed_ms = ledger.permission("east", new, PermissionEvent.REMOVED)
    found = ledger.found()[Part.PERMISSIONS]
    assert found == NotFollowed(part=Part.PERMISSIONS, changes=1, last_at_ms=removed_ms)
    without = FLOW.model_copy(update={"acls": AclFollow.NONE})
    assert ledger.found(without)[Part.PERMISSIONS].why == "do not follow (acls)"


@pytest.mark.parametrize("cluster", ["east", "west"])
def test_what_nobody_has_recorded_is_unknown_and_not_followed_by_nothing(cluster: str) -> None:
    ledger = Ledger()
    other = "west" if cluster == "east" else "east"
    ledger.topic(other, "orders")
    found = ledger.found()
    assert [one.changes for one in found.values()] == [None, None, None]
    assert found[Part.TOPICS].why == f"no topic of {cluster} is recorded"


def test_permissions_that_may_not_be_read_are_unknown(ledger: Ledger) -> None:
    ledger.permission("west", None, PermissionEvent.NOT_PERMITTED)
    found = ledger.found()[Part.PERMISSIONS]
    assert (found.changes, found.why) == (None, "access control lists of west: not permitted")


def test_the_words_say_how_long_ago_and_what_is_unknown() -> None:
    figures: list[Mapping[str, object]] = [
        NotFollowed(part=Part.TOPICS, changes=1, last_at_ms=1_767_225_600_000).figures(1_767_225_637_000),
        NotFollowed(part=Part.SETTINGS, changes=3).figures(1_767_225_637_000),
        NotFollowed(part=Part.PERMISSIONS, changes=None, why="not recorded").figures(0),
    ]
    assert figures[0] == {
        "part": "topics",
        "changes": 1,
        "last_changed_at_ms": 1_767_225_600_000,
        "age_seconds": 37.0,
        "why": None,
    }
    assert not_followed_words(figures) == (
        "topics: 1 change not followed, of 2026-01-01 00:00:00Z (37 s ago); settings: 3 changes not followed, since "
        "when is unknown; permissions: unknown (not recorded)"
    )
    assert not_followed_words(None).startswith("unknown of the past")
