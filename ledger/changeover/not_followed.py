"""What was changed at the source of a pair and has not followed to the target: topics, settings, permissions.

Records are not all that moves: who starts at the target before a new topic, a setting or a rule has come there finds
something else than there was. All of it is of the ledger, as recorders of both clusters have seen it last, compared by
the rules that the flows follow.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from ledger.config.values import FlowConfig
from ledger.facts.acls import AclFollow, acl_change, wanted_acls
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind, Permissions
from ledger.facts.state import LedgerState
from ledger.facts.syncs import TopicState
from ledger.topics.following import (
    REQUIRED_AT_TARGET,
    AddPartitions,
    ChangeSettings,
    ConfigurationFollow,
    ConfiguredTopic,
    NewTopic,
    TopicFollowing,
)
from ledger.words import counted, duration, instant

Selects = Callable[[FlowConfig, str], bool]
"""Whether a flow copies this topic of its source."""
Changed = tuple[int, TopicState]
"""When a state of a topic was recorded, ms, and the state."""
_BROKERS = 1_000_000
"""How many the target has is no matter for what has not followed."""


class Part(StrEnum):
    """What follows beside records."""

    TOPICS = "topics"
    SETTINGS = "settings"
    PERMISSIONS = "permissions"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFollowed:
    """Changes of one part at the source that the target lacks.

    `changes` None: it is not known, and `why` says why. `last_at_ms`: when the last of them was recorded, None: there
    is none, or nobody has recorded it. `why` with 0: nothing of the part follows.
    """

    part: Part
    changes: int | None
    last_at_ms: int | None = None
    why: str | None = None

    def figures(self, at_ms: int) -> dict[str, Any]:
        """As a forecast has it; `age_seconds` up to `at_ms`."""
        age_s = None if self.last_at_ms is None else max(0.0, (at_ms - self.last_at_ms) / 1000)
        return {
            "part": str(self.part),
            "changes": self.changes,
            "last_changed_at_ms": self.last_at_ms,
            "age_seconds": age_s,
            "why": self.why,
        }


def not_followed_words(figures: Iterable[Mapping[str, Any]] | None) -> str:
    """What a forecast says of it, in a line; None: it was not asked, for the plan is as of the past."""
    if figures is None:
        return "unknown of the past: topics, settings and permissions are compared as they are recorded now"
    return "; ".join(map(_words, figures))


def _words(one: Mapping[str, Any]) -> str:
    if one["changes"] is None:
        return f"{one['part']}: unknown ({one['why']})"
    if one["why"] is not None:
        return f"{one['part']}: {one['why']}"
    if not one["changes"]:
        return f"{one['part']}: all followed"
    if one["last_changed_at_ms"] is None:
        return f"{one['part']}: {counted(one['changes'], 'change')} not followed, since when is unknown"
    last = f"{instant(one['last_changed_at_ms'])} ({duration(one['age_seconds'])} ago)"
    of = "of" if one["changes"] == 1 else "the last of"
    return f"{one['part']}: {counted(one['changes'], 'change')} not followed, {of} {last}"


def not_followed(
    state: LedgerState, flows: Sequence[FlowConfig], selects: Selects
) -> tuple[NotFollowed, ...]:
    """By part, of flows from one cluster to another one; from the newest ledger. Without a flow nothing follows."""
    if not flows:
        return ()
    source, target = flows[0].source, flows[0].target
    history = state.topic_changes(source)
    there = {one.topic: one for one in state.last_topic_states(target)}
    if lacking := [alias for alias, known in ((source, history), (target, there)) if not known]:
        unknown = f"no topic of {' and '.join(lacking)} is recorded"
        topics = tuple(
            NotFollowed(part=part, changes=None, why=unknown) for part in (Part.TOPICS, Part.SETTINGS)
        )
    else:
        topics = _topics_and_settings(state, flows, selects, history, there)
    return (*topics, _permissions(state, flows, selects))


# Topics and settings ------------------------------------------------------------------------------


def _topics_and_settings(
    state: LedgerState,
    flows: Sequence[FlowConfig],
    selects: Selects,
    history: Sequence[Changed],
    there: Mapping[str, TopicState],
) -> tuple[NotFollowed, ...]:
    recorded = state.hand_overs()
    before = recorded.before_held(flows[0].source)
    held = {
        topic_id: tuple(one.former) for (_, topic_id), one in recorded.before_held(flows[0].target).items()
    }
    here = state.last_topic_states(flows[0].source)
    times: dict[Part, list[int | None]] = {Part.TOPICS: [], Part.SETTINGS: []}
    for flow in flows:
        selected = {one.topic: one for one in here if selects(flow, one.topic)}
        following = TopicFollowing(flow.naming, _BROKERS, settings=flow.settings_following)
        plan = following.plan(
            [_configured(one, before) for one in selected.values()],
            {name: _configured(one, {}) for name, one in there.items()},
            written_topic_ids=frozenset(one.topic_id for one in there.values()),
            set_by_mirror=state.followed_settings(flow.name),
            held=held,
        )
        sources = {flow.naming.target_name(name): one for name, one in selected.items()}
        for action in plan.actions:
            topic = sources[action.name]
            match action:
                case NewTopic():
                    times[Part.TOPICS].append(_since(history, topic, lambda _one: True))
                case AddPartitions():
                    has_them = partial(_has_partitions, topic.partitions)
                    times[Part.TOPICS].append(_since(history, topic, has_them))
                case ChangeSettings():
                    times[Part.SETTINGS] += _setting_times(history, topic, action.change.names)
    follows = any(
        flow.settings_following.follow in (ConfigurationFollow.INCREMENTAL, ConfigurationFollow.WHOLE)
        for flow in flows
    )
    return (
        _of(Part.TOPICS, times[Part.TOPICS]),
        _of(Part.SETTINGS, times[Part.SETTINGS], None if follows else "do not follow (configuration_follow)"),
    )


def _setting_times(
    history: Sequence[Changed], topic: TopicState, names: Collection[str]
) -> Iterator[int | None]:
    """Of settings that the source has, or had; what copying itself needs was not changed there."""
    for name in sorted(names - REQUIRED_AT_TARGET.keys()):
        yield _since(history, topic, partial(_has_it, name, _value(topic, name)))


def _has_it(name: str, value: str | None, one: TopicState) -> bool:
    return _value(one, name) == value


def _value(topic: TopicState, name: str) -> str | None:
    return dict(topic.configuration).get(name)


def _has_partitions(number: int, one: TopicState) -> bool:
    return one.partitions == number


def _since(history: Sequence[Changed], topic: TopicState, is_so: Callable[[TopicState], bool]) -> int | None:
    """When it was recorded first that it is as now, up to now without a break."""
    found: int | None = None
    broken = True
    for at_ms, one in history:
        if one.topic_id != topic.topic_id:
            continue
        if not is_so(one):
            found, broken = None, True
        elif broken:
            found, broken = at_ms, False
    return found


def _configured(topic: TopicState, before: Mapping[tuple[str, str], Any]) -> ConfiguredTopic:
    own = dict(topic.configuration)
    held = before.get((topic.topic, topic.topic_id))
    return ConfiguredTopic(
        topic.topic,
        topic.topic_id,
        topic.partitions,
        topic.replication_factor,
        own if held is None else held.before(own),
    )


def _of(part: Part, times: Sequence[int | None], why: str | None = None) -> NotFollowed:
    known = [one for one in times if one is not None]
    return NotFollowed(part=part, changes=len(times), last_at_ms=max(known, default=None), why=why)


# Permissions --------------------------------------------------------------------------------------


def _permissions(state: LedgerState, flows: Sequence[FlowConfig], selects: Selects) -> NotFollowed:
    """Rules about topics that flows are to follow; all others come with the promotion, or by people."""
    following = [flow for flow in flows if flow.acls is not AclFollow.NONE]
    if not following:
        return NotFollowed(part=Part.PERMISSIONS, changes=0, why="do not follow (acls)")
    source, target = flows[0].source, flows[0].target
    known: dict[str, frozenset[Permission]] = {}
    for alias in (source, target):
        cluster_id = state.identities().recorded_id(alias)
        found = {} if cluster_id is None else state.last_permissions(alias, cluster_id)
        if (why := _unreadable(found)) is not None:
            return NotFollowed(
                part=Part.PERMISSIONS, changes=None, why=f"access control lists of {alias}: {why}"
            )
        known[alias] = frozenset(
            one for one in found[PermissionKind.ACL].found if one.resource_type == "topic"
        )
    topics = {one.topic for one in state.last_topic_states(source)}
    changed_at = state.permission_changes(source)
    times: list[int | None] = []
    for flow in following:
        selected = {topic for topic in topics if selects(flow, topic)}
        wanted = {
            one: rule
            for rule in known[source] - state.denied_by_fences(source)
            for one in wanted_acls([rule], naming=flow.naming, topics=selected)
        }
        change = acl_change(frozenset(wanted), known[target], created_by_mirror=state.created_acls(flow.name))
        times += [changed_at[wanted[one]] for one in change.to_create]
        removed = {
            one: at_ms
            for rule, at_ms in changed_at.items()
            if rule not in known[source]
            for one in wanted_acls([rule], naming=flow.naming, topics=selected)
        }
        times += [removed.get(one) for one in change.to_remove]
    return _of(Part.PERMISSIONS, times)


def _unreadable(found: Permissions) -> str | None:
    if PermissionKind.ACL not in found:
        return "not recorded"
    reading = found[PermissionKind.ACL].reading
    return None if reading is PermissionEvent.READABLE else str(reading).replace("_", " ")
