"""Permissions as a recorder appends them: at its full sweeps, on change, and again for another cluster."""

import pytest

from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
)
from tests.support.fakes import SETTINGS, FakeCluster, FakeLedger, recorder_of, watched_cluster

ACL = PermissionKind.ACL


@pytest.fixture
def cluster() -> FakeCluster:
    return watched_cluster()


def acl(principal: str) -> Permission:
    return Permission(
        kind=ACL,
        entity=principal,
        host="*",
        operation="read",
        permission_type="allow",
        resource_type="topic",
        resource_name="orders",
        pattern_type="literal",
    )


def acls(*found: Permission) -> Permissions:
    return {ACL: PermissionsOfKind(PermissionEvent.READABLE, frozenset(found))}


NOT_PERMITTED: Permissions = {ACL: PermissionsOfKind(PermissionEvent.NOT_PERMITTED)}


def told(ledger: FakeLedger) -> list[tuple[object, object, object]]:
    """Of each row the cluster id, the event and the principal."""
    return [(row["cluster_id"], row["event"], row["entity"]) for row in ledger.rows("permissions")]


def test_permissions_are_read_at_full_sweeps_and_recorded_on_change(
    cluster: FakeCluster, ledger: FakeLedger
) -> None:
    cluster.permissions_now = acls(acl("User:a"))
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    recorder.record_due()
    first = [("cluster-id", "readable", None), ("cluster-id", "present", "User:a")]
    assert told(ledger) == first
    cluster.permissions_now = acls(acl("User:b"))
    ledger.clock.now_s += SETTINGS.full_sweep_seconds - 1
    recorder.record_due()
    assert told(ledger) == first
    ledger.clock.now_s += 1
    recorder.record_due()
    changed = [*first, ("cluster-id", "removed", "User:a"), ("cluster-id", "present", "User:b")]
    assert told(ledger) == changed
    ledger.clock.now_s += SETTINGS.full_sweep_seconds
    recorder.record_due()
    assert told(ledger) == changed


def test_another_recorder_goes_on_from_what_is_recorded(cluster: FakeCluster, ledger: FakeLedger) -> None:
    def swept(permissions: Permissions) -> int:
        """How many rows a new recorder appends."""
        before = len(told(ledger))
        cluster.permissions_now = permissions
        recorder = recorder_of(cluster, ledger)
        recorder.take_role()
        recorder.record_once()
        recorder.release()
        return len(told(ledger)) - before

    assert swept(acls(acl("User:a"), acl("User:b"))) == 3
    assert swept(acls(acl("User:a"), acl("User:b"))) == 0
    assert swept(NOT_PERMITTED) == 1
    assert swept(NOT_PERMITTED) == 0
    assert swept(acls(acl("User:b"))) == 2
    assert told(ledger)[-3:] == [
        ("cluster-id", "not_permitted", None),
        ("cluster-id", "readable", None),
        ("cluster-id", "removed", "User:a"),
    ]


def test_a_right_that_is_lacking_is_said_once(
    cluster: FakeCluster, ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.permissions_now = NOT_PERMITTED
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    for _ in range(2):
        recorder.record_due()
        ledger.clock.now_s += SETTINGS.full_sweep_seconds
    said = [message for message in caplog.messages if "acl" in message]
    assert said == ["cluster east: no acls are recorded: the mirror's principal may not describe them"]


def test_what_another_cluster_allows_is_recorded_from_the_start(
    cluster: FakeCluster, ledger: FakeLedger
) -> None:
    last = recorder_of(cluster, ledger)
    cluster.permissions_now = acls(acl("User:a"))
    last.take_role()
    last.record_once()
    assert ledger.last_permissions("east", "cluster-id") == acls(acl("User:a"))
    assert ledger.last_permissions("east", "another-id") == {}
