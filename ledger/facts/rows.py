"""Facts as rows of their tables, and back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from ledger.facts.codec import decode, encode
from ledger.facts.history import AdoptionHistory, FormerCopy
from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
)
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    MAPPED,
    FlowPosition,
    OffsetRange,
    OffsetSync,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    holding,
    source_may_be_deleted,
)
from ledger.facts.tables import Row


class TopicEvent(StrEnum):
    """What a row of `topics` says. One read can yield several rows for a topic, in this order."""

    OBSERVED = "observed"  # seen for the first time by this recorder, or with another replication factor
    DELETED = "deleted"  # no longer there: this topic id has ended
    CREATED = "created"  # new since the last read
    RECREATED = "recreated"  # another topic id than at the last read: the former incarnation has ended
    PARTITIONS_ADDED = "partitions_added"
    CONFIGURATION_CHANGED = "configuration_changed"


_COLUMNS = tuple(field.name for field in fields(Permission))
IDENTITY = tuple(column for column in _COLUMNS if column != "value")
"""The columns that say which permission a row is about; of a row about a whole kind all but `kind` are null."""


def recorded_permissions(rows: Sequence[Mapping[str, Any]]) -> Permissions:
    """What is known by the last row of each permission and of each kind."""
    readings = {row["kind"]: PermissionEvent(row["event"]) for row in rows if row["entity"] is None}
    present = [permission_of(row) for row in rows if row["event"] == PermissionEvent.PRESENT]
    return {
        PermissionKind(kind): PermissionsOfKind(
            reading, frozenset(permission for permission in present if permission.kind == kind)
        )
        for kind, reading in readings.items()
    }


def permission_of(row: Mapping[str, Any]) -> Permission:
    """The permission that a row is about, with the value that it has or had."""
    return decode(Permission, {name: row[name] for name in _COLUMNS if row[name] is not None})


# Sync rows ----------------------------------------------------------------------------------------
# Offset syncs as rows of `offset_syncs`.


@dataclass(frozen=True, slots=True)
class FlowIdentity:
    """What every row of a flow says about it."""

    flow: str
    source_cluster: str
    target_cluster: str
    producer_id: int | None = None


def sync_row(identity: FlowIdentity, sync: OffsetSync) -> Row:
    """One row without its stamp."""
    return {**encode(identity), **encode(sync)}


def recorded_sync(row: Mapping[str, Any]) -> RecordedSync:
    """The offset sync that a row tells, with its place in the order of recording."""
    return RecordedSync(row["writer_epoch"], row["round"], decode(OffsetSync, row), row["producer_id"])


def flow_position(row: Mapping[str, Any]) -> FlowPosition:
    """The position that a row of the query `flow_positions` tells."""
    return FlowPosition(
        source_topic=row["source_topic"],
        source_topic_id=row["source_topic_id"],
        partition=row["source_partition"],
        target_topic=row["target_topic"],
        target_topic_id=row["target_topic_id"],
        position=Position(
            source_offset=row["source_end"],
            target_offset=row["target_end"],
            next_sequence=row["next_sequence"],
            leader_epoch=row["source_leader_epoch"],
            source_may_be_deleted=source_may_be_deleted(
                SyncKind(row["kind"]), None if row["cause"] is None else SyncCause(row["cause"])
            ),
        ),
        producer_id=row["producer_id"],
        is_truncated=row["cause"] in LOST_AT_SOURCE,
    )


def former_copies(rows: Iterable[Mapping[str, Any]]) -> list[FormerCopy]:
    """What holds of offset syncs of any flows, by flow and source partition."""
    return [
        FormerCopy(group[0]["source_topic"], group[0]["target_cluster"], syncs)
        for group in _by_partition(rows)
        if (syncs := tuple(holding(recorded_sync(row) for row in group)))
    ]


def adoptions(rows: Iterable[Mapping[str, Any]]) -> list[AdoptionHistory]:
    """Rows of any flows, by flow and source partition, oldest first."""
    return [
        [recorded.sync for recorded in sorted(map(recorded_sync, group), key=lambda recorded: recorded.place)]
        for group in _by_partition(rows)
    ]


def written_ranges(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], list[OffsetRange]]:
    """By target topic id and partition what rows of any flows say that these have written there, and that holds."""
    found: dict[tuple[str, int], list[OffsetRange]] = {}
    for group in _by_partition(rows):
        for sync in holding(recorded_sync(row) for row in group):
            if sync.records:
                place = sync.target.topic_id, sync.target.partition
                found.setdefault(place, []).append((sync.target_start, sync.target_end))
    return found


CopyKey = tuple[str, int, str]
"""Source topic id, source partition, target topic id."""


def copying_flows(rows: Iterable[Mapping[str, Any]]) -> dict[CopyKey, str]:
    """By source partition and target topic the flow whose map holds records there, the first by name of several."""
    found: dict[CopyKey, str] = {}
    for group in _by_partition(rows):
        flow = group[0]["flow"]
        for sync in holding(recorded_sync(row) for row in group):
            if sync.kind in MAPPED and sync.records:
                key = (sync.source.topic_id, sync.source.partition, sync.target.topic_id)
                found[key] = min(flow, found.get(key, flow))
    return found


def _by_partition(rows: Iterable[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """Rows of the same flow and source partition together."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (row["flow"], row["source_topic_id"], row["source_partition"])
        groups.setdefault(key, []).append(row)
    return groups.values()
