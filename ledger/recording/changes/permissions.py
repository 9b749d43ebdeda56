"""Rows of `permissions`: what changed between two reads of a cluster, and what the last rows say."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from ledger.domain.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    known_after,
    permission_changes,
)
from ledger.ports.ledger import Row

log = logging.getLogger(__name__)

_COLUMNS = tuple(field.name for field in fields(Permission))
IDENTITY = tuple(column for column in _COLUMNS if column != "value")
"""The columns that say which permission a row is about; of a row about a whole kind all but `kind` are null."""


_WHY_UNREAD = {
    PermissionEvent.NOT_PERMITTED: "the mirror's principal may not describe them",
    PermissionEvent.REFUSED: "the cluster refused to describe them",
}


class PermissionRecord:
    """What the ledger holds of the permissions of one cluster, by Kafka cluster id."""

    def __init__(self, cluster: str, cluster_id: str, known: Permissions) -> None:
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._known = known

    def rows(self, read: Permissions) -> list[Row]:
        """What was not known so, as rows without their stamps; a right that was lost is one row."""
        return [self._row(*change) for change in permission_changes(self._known, read)]

    def recorded(self, read: Permissions) -> None:
        """The rows of this read are in the ledger."""
        for event, kind, permission in permission_changes(self._known, read):
            if permission is None and event in _WHY_UNREAD:
                log.warning("cluster %s: no %ss are recorded: %s", self._cluster, kind, _WHY_UNREAD[event])
        self._known = known_after(self._known, read)

    def _row(self, event: PermissionEvent, kind: PermissionKind, permission: Permission | None) -> Row:
        told = dict.fromkeys(_COLUMNS) if permission is None else asdict(permission)
        stated = {"cluster": self._cluster, "cluster_id": self._cluster_id, "event": event.value}
        return {**stated, **told, "kind": kind.value}


def recorded_permissions(rows: Sequence[Mapping[str, Any]]) -> Permissions:
    """What is known by the last row of each permission and of each kind."""
    readings = {row["kind"]: PermissionEvent(row["event"]) for row in rows if row["entity"] is None}
    present = [_permission(row) for row in rows if row["event"] == PermissionEvent.PRESENT]
    return {
        PermissionKind(kind): PermissionsOfKind(
            reading, frozenset(permission for permission in present if permission.kind == kind)
        )
        for kind, reading in readings.items()
    }


def _permission(row: Mapping[str, Any]) -> Permission:
    return Permission(**{**{name: row[name] for name in _COLUMNS}, "kind": PermissionKind(row["kind"])})
