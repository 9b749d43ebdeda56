"""What of a read of a cluster is worth a row: what changed, came, or is not there any more."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from ledger.facts.groups import GroupFact, ShareOffset, UnreadGroup, has_members
from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    known_after,
    permission_changes,
)
from ledger.facts.rows import _COLUMNS, TopicEvent
from ledger.facts.syncs import Absence, Checkpoint, HighWatermark, TopicState
from ledger.facts.tables import Row
from ledger.kafka.cluster import GroupListing

# Group offsets ------------------------------------------------------------------------------------
# Which offsets of groups are worth a row: what changed, what is not there any more, all commits on a full
# sweep.
#
# They are committed offsets, rows of `checkpoints`, and share-partition start offsets, rows of
# `share_offsets`.


AnyOffset: TypeAlias = Checkpoint | ShareOffset
Offset = TypeVar("Offset", Checkpoint, ShareOffset)

OffsetKey = tuple[str, str, int]
"""Group, topic, partition: one offset of a cluster."""


def offset_key(offset: AnyOffset) -> OffsetKey:
    return offset.group_id, offset.topic, offset.partition


def offsets_by_key(offsets: Iterable[Offset]) -> dict[OffsetKey, Offset]:
    return {offset_key(offset): offset for offset in offsets}


def changed_offsets(
    last: Mapping[OffsetKey, Offset],
    read: Mapping[OffsetKey, Offset],
    *,
    absences: Mapping[OffsetKey, Absence],
    read_at_ms: int,
) -> list[Offset]:
    """Rows to append, by key. `absences` says why recorded offsets are not in `read`; it is recorded once."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    absent = [
        _absent(last[key], absence, read_at_ms)
        for key, absence in absences.items()
        if last[key].absence is not absence
    ]
    return sorted(changed + absent, key=offset_key)


def to_be_explained(
    last: Mapping[OffsetKey, AnyOffset],
    read: Mapping[OffsetKey, AnyOffset],
    *,
    was_read: Callable[[OffsetKey], bool],
) -> list[OffsetKey]:
    """Recorded offsets that `was_read` covers and `read` lacks, unless they are known to be `gone`."""
    return [
        key
        for key, row in last.items()
        if key not in read and was_read(key) and row.absence is not Absence.GONE
    ]


def not_read_again(
    last: Mapping[OffsetKey, Offset], read: Mapping[OffsetKey, Offset]
) -> dict[OffsetKey, Offset]:
    """A full sweep compares with nothing that was read: all of it is appended again."""
    return {key: row for key, row in last.items() if key not in read}


def _same(last: Offset, now: Offset) -> bool:
    """A group's state is not compared: it flaps with each rebalance and travels with the next row."""
    aligned = replace(now, read_at_ms=last.read_at_ms)
    if isinstance(aligned, Checkpoint) and isinstance(last, Checkpoint):
        aligned = replace(aligned, group_state=last.group_state)
    return aligned == last


def _absent(last: Offset, absence: Absence, read_at_ms: int) -> Offset:
    absent = replace(last, leader_epoch=None, read_at_ms=read_at_ms, absence=absence)
    if isinstance(absent, Checkpoint):
        return replace(
            absent, group_state=None, committed_offset=None, metadata=None, transaction_pending=None
        )
    return replace(absent, start_offset=None, lag=None)


# Topic states -------------------------------------------------------------------------------------
# What happened to topics between two reads of a cluster.


@dataclass(frozen=True, slots=True)
class TopicChange:
    """An event and the state after it; for `deleted`, the last state known."""

    event: TopicEvent
    state: TopicState


def topic_changes(
    last: Mapping[str, TopicState], now: Mapping[str, TopicState], *, unread_before: Collection[str] = ()
) -> list[TopicChange]:
    """Events by topic name. What was not read before, or could not be, is `observed`, not `created`."""
    changes = []
    for name in sorted(last.keys() | now.keys()):
        is_new = bool(last) and name not in unread_before
        appeared = TopicEvent.CREATED if is_new else TopicEvent.OBSERVED
        changes += _changes_of(last.get(name), now.get(name), appeared)
    return changes


def _changes_of(last: TopicState | None, now: TopicState | None, appeared: TopicEvent) -> list[TopicChange]:
    changes = []
    if last is not None and now is None:
        changes.append(TopicChange(TopicEvent.DELETED, last))
    elif last is None and now is not None:
        changes.append(TopicChange(appeared, now))
    elif last is not None and now is not None:
        changes += [TopicChange(event, now) for event in _events_between(last, now)]
    return changes


def _events_between(last: TopicState, now: TopicState) -> Sequence[TopicEvent]:
    if last.topic_id != now.topic_id:
        return [TopicEvent.RECREATED]
    differs = {
        TopicEvent.OBSERVED: last.replication_factor != now.replication_factor,
        TopicEvent.PARTITIONS_ADDED: last.partitions != now.partitions,
        TopicEvent.CONFIGURATION_CHANGED: last.configuration != now.configuration,
    }
    return [event for event, is_so in differs.items() if is_so]


def topic_row(change: TopicChange) -> Row:
    """A row of `topics`, without its stamp."""
    state = change.state
    return {
        "cluster": state.cluster,
        "topic": state.topic,
        "topic_id": state.topic_id,
        "partitions": state.partitions,
        "replication_factor": state.replication_factor,
        "configuration": json.dumps(dict(state.configuration), sort_keys=True),
        "event": change.event.value,
    }


# Groups -------------------------------------------------------------------------------------------
# Which groups are worth a row: those that were not recorded so, and the listing when it is worth more or
# less.


GroupFacts = Mapping[str | None, GroupFact]
"""By group; that of None is about the listing."""


def groups_by_id(facts: Iterable[GroupFact]) -> dict[str | None, GroupFact]:
    return {fact.group_id: fact for fact in facts}


def group_fact(
    cluster: str, group_id: str | None, group: GroupListing | None, why: UnreadGroup, read_at_ms: int
) -> GroupFact:
    """Of a group, as far as it is known; of None: what the listing is worth."""
    state = None if group is None else group.group_state
    return GroupFact(
        cluster=cluster,
        group_id=group_id,
        group_type=None if group is None else group.group_type,
        protocol_type=None if group is None else group.protocol_type,
        group_state=state,
        has_members=has_members(state),
        event=why.event,
        reason=why.reason,
        read_at_ms=read_at_ms,
    )


def changed_groups(last: GroupFacts, read: Sequence[GroupFact]) -> list[GroupFact]:
    """Rows to append: the listing first, then by group."""
    changed = [
        fact
        for fact in read
        if fact.group_id not in last or _without_state(last[fact.group_id]) != _without_state(fact)
    ]
    return sorted(changed, key=lambda fact: (fact.group_id is not None, fact.group_id or ""))


def _without_state(fact: GroupFact) -> GroupFact:
    """States are not compared: they change with each rebalance. That the last member left, or the first came, is."""
    return replace(fact, group_state=None, read_at_ms=0)


# Permissions --------------------------------------------------------------------------------------
# Rows of `permissions`: what changed between two reads of a cluster, and what the last rows say.


log = logging.getLogger(__name__)


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
                log.warning(
                    "cluster %(cluster)s: no %(kind)ss are recorded: %(cause)s",
                    {"cluster": self._cluster, "kind": kind, "cause": _WHY_UNREAD[event]},
                )
        self._known = known_after(self._known, read)

    def _row(self, event: PermissionEvent, kind: PermissionKind, permission: Permission | None) -> Row:
        reported = dict.fromkeys(_COLUMNS) if permission is None else permission.recorded()
        stated = {"cluster": self._cluster, "cluster_id": self._cluster_id, "event": event.value}
        return {**stated, **reported, "kind": kind.value}


# High watermarks ----------------------------------------------------------------------------------
# Which ends of partitions are worth a row: those that changed, all where no heartbeat can confirm them.


HighWatermarkKey = tuple[str, int]
"""Topic and partition of a cluster."""


def high_watermark_key(row: HighWatermark) -> HighWatermarkKey:
    return row.topic, row.partition


def high_watermarks_by_key(rows: Sequence[HighWatermark]) -> dict[HighWatermarkKey, HighWatermark]:
    return {high_watermark_key(row): row for row in rows}


def changed_high_watermarks(
    last: Mapping[HighWatermarkKey, HighWatermark], read: Mapping[HighWatermarkKey, HighWatermark]
) -> list[HighWatermark]:
    """Rows to append, by topic and partition; another topic id is a change."""
    changed = [
        row for key, row in read.items() if key not in last or _end_alone(last[key]) != _end_alone(row)
    ]
    return sorted(changed, key=high_watermark_key)


def _end_alone(row: HighWatermark) -> HighWatermark:
    """Whatever the row says of the read itself."""
    return replace(row, read_at_ms=0, confirms_others=None, previous_read_at_ms=None)
