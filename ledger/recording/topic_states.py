"""What happened to topics between two reads of a cluster."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.facts import TopicState
from ledger.ports.ledger import Row


class TopicEvent(StrEnum):
    """What a row of `topics` says. One read can yield several rows for a topic, in this order."""

    OBSERVED = "observed"  # seen for the first time by this recorder, or with another replication factor
    DELETED = "deleted"  # no longer there: this topic id has ended
    CREATED = "created"  # new since the last read
    RECREATED = "recreated"  # another topic id than at the last read: the former incarnation has ended
    PARTITIONS_ADDED = "partitions_added"
    CONFIGURATION_CHANGED = "configuration_changed"


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
