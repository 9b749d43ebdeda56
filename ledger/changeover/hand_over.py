"""What a cluster lacks when applications, or the mirror back, come to it: planned, made with a receipt, undone."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.changeover.pairs import Pair
from ledger.changeover.permissions import (
    NotCarried,
    PermissionGaps,
    Side,
    TopicNames,
    permission_gaps,
)
from ledger.changeover.permissions import in_words as permission_words
from ledger.clock import Clock
from ledger.config.values import FlowConfig, TargetMode
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.direction import Directions
from ledger.facts.hand_overs import (
    LIMIT,
    HandedOver,
    HandOverResult,
    HandOvers,
    HandOverUndone,
    LiveTopic,
    Purpose,
    Remark,
    Settings,
    TopicHandOver,
    before_fence,
    for_applications,
    for_copying,
    in_words,
    merged,
)
from ledger.facts.operations import OperationContent, Why
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind, Permissions
from ledger.facts.state import LedgerState, OperationLog
from ledger.facts.syncs import TopicState
from ledger.kafka.cluster import ClusterAdmin, PermissionAdmin, require_recorded
from ledger.topics.following import SettingsChange
from ledger.topics.naming import NamingKind
from ledger.words import counted, listed

# Known --------------------------------------------------------------------------------------------
# What the ledger knows of the cluster where applications were: its topics, their settings, its permissions.


Selects = Callable[[FlowConfig, str], bool]
"""Whether a flow copies this topic of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic of the pair. `settings`: its own at the former cluster, without fences and what it has for a copy back.

    `settings` None: they are not recorded. `is_promotable`: applications take it over from the mirror, under its name.
    `set_by_mirror`: by topic id at the other cluster.
    """

    source: str
    target: str
    flow: str
    is_promotable: bool
    settings: Settings | None
    limit_is_known: bool = True
    set_by_mirror: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPair:
    """`former`: where applications were; `cluster`: where they come to."""

    former: str
    cluster: str
    topics: tuple[KnownTopic, ...]
    at_former: frozenset[str]
    permissions: Permissions
    not_carried: NotCarried

    def names(self, at_cluster: Iterable[str]) -> TopicNames:
        """Of its topics those that are there now."""
        there = frozenset(at_cluster)
        carried = {topic.source: topic.target for topic in self.topics if topic.target in there}
        return TopicNames.of(carried, at_source=self.at_former, at_target=there)


def known_pair(
    state: LedgerState,
    pair: Pair,
    flows: Sequence[FlowConfig],
    selects: Selects,
    mirrors: frozenset[str],
) -> KnownPair:
    """From the newest ledger; raises `PreconditionError` when it knows no topic of the pair.

    `mirrors`: principals of mirrors at both clusters.
    """
    fences = [one.fence for one in state.fences().at(pair.former)]
    limits = {fence.topic: fence.former[LIMIT] for fence in fences if LIMIT in fence.former}
    recorded = state.hand_overs()
    given, held = recorded.given_to_mirror(pair.former), recorded.before_held(pair.former)
    states = {
        one.topic: _before(_before(one, held.get(key)), given.get(key))
        for one in state.last_topic_states(pair.former)
        for key in [(one.topic, one.topic_id)]
    }
    earlier = _history(state, pair.former, states, limits)
    topics = [topic for flow in flows for topic in _topics_of(flow, state, states, earlier, selects)]
    wanted = [topic for topic in topics if pair.topics is None or topic.target in pair.topics]
    missing = set(pair.topics or ()) - {topic.target for topic in wanted}
    if missing or not wanted:
        raise PreconditionError(
            f"the ledger knows no topic {', '.join(sorted(missing)) or 'at all'} that was copied from {pair.former} to "
            f"{pair.cluster}; nothing was changed"
        )
    former_id = state.identities().recorded_id(pair.former)
    return KnownPair(
        former=pair.former,
        cluster=pair.cluster,
        topics=tuple({topic.target: topic for topic in wanted}.values()),
        at_former=frozenset(states),
        permissions={} if former_id is None else state.last_permissions(pair.former, former_id),
        not_carried=NotCarried(mirrors, state.denied_by_fences(pair.former)),
    )


def _before(topic: TopicState, given: TopicHandOver | None) -> TopicState:
    """With its settings before they were changed for a copy, or to hold what lies there; what somebody has changed
    since stays."""
    if given is None:
        return topic
    return replace(topic, configuration=tuple(sorted(given.before(dict(topic.configuration)).items())))


def _history(
    state: LedgerState, cluster: str, states: Mapping[str, TopicState], limits: Mapping[str, str | None]
) -> dict[str, list[Settings]]:
    """Earlier settings of fenced topics by topic id; what receipts of fences say counts before what was seen."""
    fenced = [one for one in states.values() if before_fence(dict(one.configuration), ()) is None]
    found: dict[str, list[Settings]] = {}
    if any(one.topic not in limits for one in fenced):
        for one in state.topic_history(cluster):
            found.setdefault(one.topic_id, []).append(dict(one.configuration))
    for one in fenced:
        if one.topic in limits:
            limit = limits[one.topic]
            found[one.topic_id] = [{} if limit is None else {LIMIT: limit}]
    return found


def _topics_of(
    flow: FlowConfig,
    state: LedgerState,
    states: Mapping[str, TopicState],
    earlier: Mapping[str, Sequence[Settings]],
    selects: Selects,
) -> list[KnownTopic]:
    copied = {position.source_topic for position in state.positions(flow.name)}
    selected = {topic for topic in states if selects(flow, topic)}
    followed = state.followed_settings(flow.name)
    is_promotable = flow.topic_naming is NamingKind.IDENTITY and flow.target_mode is TargetMode.EXCLUSIVE
    return [
        _known_topic(topic, flow, states.get(topic), earlier, followed, is_promotable=is_promotable)
        for topic in sorted(copied | selected)
        if flow.naming.names(topic)
    ]


def _known_topic(
    topic: str,
    flow: FlowConfig,
    state: TopicState | None,
    earlier: Mapping[str, Sequence[Settings]],
    followed: Mapping[str, frozenset[str]],
    *,
    is_promotable: bool,
) -> KnownTopic:
    own = None if state is None else dict(state.configuration)
    unfenced = None if own is None or state is None else before_fence(own, earlier.get(state.topic_id, ()))
    is_known = own is None or unfenced is not None
    return KnownTopic(
        source=topic,
        target=flow.naming.target_name(topic),
        flow=flow.name,
        is_promotable=is_promotable,
        settings=own if unfenced is None else unfenced,
        limit_is_known=is_known,
        set_by_mirror=followed,
    )


def require_promoted(known: KnownPair, directions: Directions) -> None:
    """Raise `PreconditionError` while a flow may write to one of the topics and follow its settings there."""
    topics = [topic for topic in known.topics if topic.is_promotable]
    waiting = [one for one in topics if directions.promotion(known.former, known.cluster, one.target) is None]
    if waiting:
        names = ", ".join(sorted(topic.target for topic in waiting))
        raise PreconditionError(
            f"{names} of {known.cluster} is not promoted over {known.former}: flow "
            f"{' and '.join(sorted({topic.flow for topic in waiting}))} may write there and set what copying needs; "
            f"nothing was changed. First: mirror-ledger promote {known.cluster} --over {known.former} --reason WHY"
        )


# Planning -----------------------------------------------------------------------------------------
# What would be changed at a cluster: from what the ledger knows, compared with what the cluster has now.


def hand_over_rows(plan: HandedOver) -> list[dict[str, object]]:
    """One for each change, and for each thing that is unknown or left to people."""
    found = [
        *(("setting", name, what) for topic in plan.topics for name, what in _changes(topic)),
        *(("permission", one.entity, f"create: {permission_words(one)}") for one in plan.permissions),
        *(("unknown", None, words) for words in plan.unknown),
        *(("manual", None, words) for words in plan.manual),
    ]
    return [
        {"cluster": plan.cluster, "part": part, "name": name, "change": what} for part, name, what in found
    ]


def _changes(topic: TopicHandOver) -> Iterator[tuple[str, str]]:
    for name, value in topic.change.to_set.items():
        before = topic.former[name]
        yield topic.topic, f"set {name} to {value} ({'default' if before is None else before} now)"
    for name in topic.change.to_remove:
        yield topic.topic, f"remove {name} ({topic.former[name]} now)"


class _Settings:
    """Settings of topics of one cluster, as they are now."""

    def __init__(self, admin: ClusterAdmin, names: Sequence[str]) -> None:
        self._alias = admin.alias
        described = admin.topics()
        self._described = {name: described[name] for name in names if name in described}
        self._answer = admin.topic_settings(sorted(self._described))

    def topic(self, name: str) -> LiveTopic | None:
        """None: it is not there, or its settings may not be read."""
        if name not in self._described or name not in self._answer.read:
            return None
        described, settings = self._described[name], self._answer.read[name]
        return LiveTopic(
            name=name,
            topic_id=described.topic_id,
            replication_factor=described.replication_factor,
            own=settings.own,
            effective=settings.effective,
        )

    def why_unknown(self, name: str) -> Remark:
        if name in self._answer.refused:
            return Remark(f"settings at {self._alias} may not be read: {self._answer.refused[name]}", name)
        return Remark(f"not at {self._alias}, or not shown to the principal that asks", name)


Change = Callable[[KnownTopic, LiveTopic], tuple[SettingsChange, list[Remark]]]


def planned_for_applications(
    known: KnownPair, target: ClusterAdmin, permissions: PermissionAdmin
) -> HandedOver:
    """What applications need at the cluster where they come to. The former one is not asked for anything."""
    promotable = [topic for topic in known.topics if topic.is_promotable]
    there = _Settings(target, [topic.target for topic in known.topics])
    recorded = [topic for topic in promotable if topic.settings is not None]
    unrecorded = [
        Remark(f"settings at {known.former} are not recorded", topic.target)
        for topic in promotable
        if topic.settings is None
    ]

    def change(topic: KnownTopic, live: LiveTopic) -> tuple[SettingsChange, list[Remark]]:
        assert topic.settings is not None, "those without were left out above"
        set_by_mirror = topic.set_by_mirror.get(live.topic_id, frozenset())
        return for_applications(
            live, topic.settings, limit_is_known=topic.limit_is_known, set_by_mirror=set_by_mirror
        )

    topics, unknown, remarks = _compared(recorded, there, lambda topic: topic.target, change)
    sides = Side(known.former, known.permissions), Side(target.alias, permissions.permissions())
    gaps = permission_gaps(*sides, known.names(target.topics()), known.not_carried)
    return _hand_over(
        target, known.former, Purpose.APPLICATIONS, topics, [*unrecorded, *unknown], remarks, gaps
    )


def planned_for_mirror(known: KnownPair, former: ClusterAdmin, cluster: ClusterAdmin) -> HandedOver:
    """What the former cluster needs so that a flow can copy back to it, from where applications are now."""
    promotable = [topic for topic in known.topics if topic.is_promotable]
    there = _Settings(former, [topic.source for topic in promotable])
    written = _Settings(cluster, [topic.target for topic in promotable])
    sources = {topic.target: written.topic(topic.target) for topic in promotable}
    readable = [topic for topic in promotable if sources[topic.target] is not None]
    unread = [written.why_unknown(name) for name, source in sources.items() if source is None]

    def change(topic: KnownTopic, live: LiveTopic) -> tuple[SettingsChange, list[Remark]]:
        source = sources[topic.target]
        assert source is not None, "those that are not there were left out"
        return for_copying(live, source.effective)

    topics, unknown, remarks = _compared(readable, there, lambda topic: topic.source, change)
    unknown = [*unread, *unknown]
    return _hand_over(former, cluster.alias, Purpose.MIRROR, topics, unknown, remarks, PermissionGaps())


def _compared(
    topics: Sequence[KnownTopic], there: _Settings, name: Callable[[KnownTopic], str], change: Change
) -> tuple[list[TopicHandOver], list[Remark], list[Remark]]:
    """Changes, what is unknown, and remarks."""
    changes: list[TopicHandOver] = []
    unknown: list[Remark] = []
    remarks: list[Remark] = []
    for topic in topics:
        live = there.topic(name(topic))
        if live is None:
            unknown.append(there.why_unknown(name(topic)))
            continue
        wanted, about = change(topic, live)
        remarks += about
        if wanted:
            changes.append(TopicHandOver.of(live.name, live.topic_id, wanted, live.own))
    return changes, unknown, remarks


def _hand_over(
    admin: ClusterAdmin,
    former: str,
    purpose: Purpose,
    topics: Sequence[TopicHandOver],
    unknown: Sequence[Remark],
    remarks: Sequence[Remark],
    gaps: PermissionGaps,
) -> HandedOver:
    return HandedOver(
        cluster=admin.alias,
        cluster_id=admin.cluster_id(),
        former=former,
        purpose=purpose,
        topics=tuple(sorted(topics, key=lambda topic: topic.topic)),
        permissions=gaps.to_create,
        unknown=(*in_words(unknown), *gaps.unknown),
        manual=(*in_words(remarks), *gaps.manual),
    )


# Carrying out -------------------------------------------------------------------------------------
# Changing a cluster as planned, with a receipt before and one behind; and changing it back.
#
# What is about to be changed is recorded before, with the values until then, and what was read back behind
# it, under one operation id. So where there is an intention without a result, each of its parts is done or
# not; carrying it out again does what is lacking under the same operation, and undoing it finds all parts.


READ_BACK_S = 15.0
"""How long brokers may take to show what was changed."""
_POLL_S = 0.2
_PERMISSIONS_AT_ONCE = 500
_TOPICS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What became of it; `operation_id` None: nothing was to be done, and nothing was recorded."""

    operation_id: str | None
    words: str
    settings: int = 0
    permissions: int = 0
    unknown: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {
            "settings": self.settings,
            "permissions": self.permissions,
            "unknown": list(self.unknown),
            "manual": list(self.manual),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChanges:
    """Changes one cluster, reads back, and records both.

    `permissions`: with the credentials that may change them. `progress`: gets a line for each part.
    """

    admin: ClusterAdmin
    permissions: PermissionAdmin
    operations: OperationLog
    clock: Clock
    sleep: Callable[[float], None]
    progress: Callable[[str], None] = lambda _words: None
    read_back_s: float = READ_BACK_S

    def hand_over(self, plan: HandedOver, recorded: HandOvers, why: Why) -> Ready:
        """Carry out a plan. An operation that did not end for the same clusters is continued, unless `why` names one.

        Raises `UnsafeError` when parts of it were refused, or not read back, and `PreconditionError` when all were;
        both after the others are done and recorded.
        """
        begun = recorded.unfinished(plan.cluster, plan.former, Purpose(plan.purpose))
        why = replace(why, operation_id=why.operation_id or begun)
        before = (
            []
            if why.operation_id is None
            else recorded.parts(why.operation_id, plan.cluster, Purpose(plan.purpose))
        )
        if plan.topics or plan.permissions:
            operation_id = self._carry_out(plan, why, create=True)
            return self._ready(operation_id, plan, [*before, plan])
        if begun is None or begun != why.operation_id:
            return self._ready(None, plan, before)
        self._record_result(HandedOver, [], why)
        return self._ready(begun, plan, before)

    def _ready(self, operation_id: str | None, plan: HandedOver, parts: Sequence[HandedOver]) -> Ready:
        """`parts`: all that the operation has changed there, earlier attempts among them."""
        topics, permissions = _all_of(parts)
        words = (
            f"{self.admin.alias}: {_counted(topics, permissions)} as at {plan.former}"
            if topics or permissions
            else f"{self.admin.alias} lacks nothing that is known of {plan.former}"
        )
        more = [f"{len(plan.unknown)} unknown"] * bool(plan.unknown)
        more += [f"{len(plan.manual)} left to people"] * bool(plan.manual)
        return Ready(
            operation_id=operation_id,
            words="; ".join([words, *more]),
            settings=sum(len(topic.former) for topic in topics),
            permissions=len(permissions),
            unknown=plan.unknown,
            manual=plan.manual,
        )

    def undo(
        self, operation_id: str, recorded: HandOvers, why: Why, topics: Collection[str] | None = None
    ) -> Ready:
        """Undo what the rows of an operation list of this cluster, of these topics (None: all), and is still as it was
        made.

        What somebody has changed since then stays, and is named. Raises as `hand_over`, and `PreconditionError` where
        the operation did nothing to this cluster, or another cluster answers behind its alias now.
        """
        parts = recorded.parts(operation_id, self.admin.alias)
        live_id = self.admin.cluster_id()
        if not parts or {one.cluster_id for one in parts} != {live_id}:
            raise PreconditionError(
                f"operation {operation_id} changed nothing of cluster {self.admin.alias} with id {live_id}; nothing "
                "was undone"
            )
        undoing = self._undoing(operation_id, parts, topics)
        before = recorded.undone(operation_id, self.admin.alias)
        if undoing.topics or undoing.permissions:
            undo_id = self._carry_out(undoing, why, create=False)
            return self._undone(undo_id, undoing, [*before.parts, undoing])
        if before.open_under is not None:
            self._record_result(HandOverUndone, [], replace(why, operation_id=before.open_under))
        return self._undone(None, undoing, before.parts)

    def _undone(self, undo_id: str | None, undoing: HandOverUndone, parts: Sequence[HandOverUndone]) -> Ready:
        """`parts`: all that was undone there, by earlier attempts too."""
        topics, permissions = _all_of(parts)
        done = f"{self.admin.alias}: {_counted(topics, permissions)} as before"
        return Ready(
            operation_id=undo_id,
            words="; ".join([done, *(["left: " + ", ".join(undoing.left)] if undoing.left else [])]),
            settings=sum(len(topic.former) for topic in topics),
            permissions=len(permissions),
            manual=undoing.left,
        )

    def _undoing(
        self, operation_id: str, parts: Sequence[HandedOver], names: Collection[str] | None
    ) -> HandOverUndone:
        last = parts[-1]
        every, created = _all_of(parts)
        topics = [one for one in every if names is None or one.topic in names]
        own, found = self._own(topics), self._found({one.kind for one in created})
        kept = [topic for topic in topics if topic.key in own]
        changed = {one.identity for one in found - created if one.kind is PermissionKind.QUOTA}
        left = [
            *(f"{topic.topic} (another topic, or not shown)" for topic in topics if topic.key not in own),
            *(f"{name} of {topic.topic}" for topic in kept for name in topic.changed_since(own[topic.key])),
            *sorted(permission_words(one) for one in created - found if one.identity in changed),
        ]
        back = (
            TopicHandOver.of(topic.topic, topic.topic_id, topic.way_back(settings), settings)
            for topic in kept
            for settings in [own[topic.key]]
        )
        return HandOverUndone(
            cluster=last.cluster,
            cluster_id=last.cluster_id,
            former=last.former,
            purpose=last.purpose,
            # What is held no more is listed, also where somebody has changed it since.
            topics=tuple(topic for topic in back if topic.change or last.purpose == Purpose.RETENTION),
            permissions=tuple(sorted(created & found, key=permission_words)),
            handed_over=operation_id,
            left=tuple(left),
        )

    # -- what is there ---------------------------------------------------------------------------

    def _own(self, topics: Iterable[TopicHandOver]) -> dict[tuple[str, str], Settings]:
        """Own settings by topic and id, of topics that have the same id."""
        described = self.admin.topics()
        names = {topic.topic for topic in topics} & described.keys()
        read = self.admin.topic_settings(sorted(names)).read
        return {(name, described[name].topic_id): settings.own for name, settings in read.items()}

    def _found(self, kinds: Collection[PermissionKind]) -> frozenset[Permission]:
        """Permissions of these kinds; raises `PreconditionError` where nobody knows which there are."""
        if not kinds:
            return frozenset()
        read = self.permissions.permissions()
        for kind in kinds:
            if read[kind].reading is not PermissionEvent.READABLE:
                raise PreconditionError(
                    f"cluster {self.admin.alias}: permissions of kind {kind} cannot be read ({read[kind].reading}), so "
                    "it is unknown which are there; nothing more was changed. Grant Describe and DescribeConfigs on "
                    "the cluster to the principal that asks"
                )
        return frozenset(one for kind in kinds for one in read[kind].found)

    # -- changes ---------------------------------------------------------------------------------

    def _carry_out(self, plan: HandedOver | HandOverUndone, why: Why, *, create: bool) -> str:
        """With the intention before and what was read back behind it; returns the operation id."""
        operation_id = self.operations.record_parts([plan], why)
        failed = self._changed(plan.topics, plan.permissions, create=create)
        self._record_result(type(plan), failed, replace(why, operation_id=operation_id))
        if not failed:
            return operation_id
        message = (
            f"cluster {self.admin.alias}, operation {operation_id}: {len(failed)} parts were not done or not read "
            "back; mend the cause and ask again, or undo:",
            *listed(failed),
        )
        are_all = len(failed) == len(plan.topics) + len(plan.permissions)
        raise PreconditionError(*message) if are_all else UnsafeError(*message)

    def _record_result(self, of: type[OperationContent], failed: Sequence[str], why: Why) -> None:
        result = HandOverResult(of=of.kind.value, cluster=self.admin.alias, failed=tuple(failed))
        self.operations.record_parts([result], why)

    def _changed(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        """Change all; returns what was refused, and what is not read back in time, in words."""
        refused: dict[str, str] = {}
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            some = topics[start : start + _TOPICS_AT_ONCE]
            refused |= self._set(some)
            self.progress(f"{self.admin.alias}: settings of {start + len(some)} of {len(topics)} topics")
        not_allowed = self._allowed(permissions, create=create)
        done_topics = [topic for topic in topics if topic.topic not in refused]
        not_kept = self._not_read_back(done_topics, () if not_allowed else permissions, create=create)
        return [*refused.values(), *not_allowed, *not_kept]

    def _set(self, topics: Sequence[TopicHandOver]) -> dict[str, str]:
        """By topic why it was refused. All at once; where one of many is refused, each by itself, to know which."""
        changes = {one.topic: {**one.change.to_set, **dict.fromkeys(one.change.to_remove)} for one in topics}
        try:
            self.admin.change_settings_of(changes)
        except PreconditionError as error:
            if len(topics) == 1:
                return {topics[0].topic: f"settings of {topics[0].topic}: {error}"}
            return {topic: words for one in topics for topic, words in self._set([one]).items()}
        return {}

    def _allowed(self, permissions: Sequence[Permission], *, create: bool) -> list[str]:
        """Why some were refused."""
        change = self.permissions.create_permissions if create else self.permissions.delete_permissions
        refused = []
        for start in range(0, len(permissions), _PERMISSIONS_AT_ONCE):
            some = permissions[start : start + _PERMISSIONS_AT_ONCE]
            try:
                change(some)
            except PreconditionError as error:
                refused.append(f"{len(some)} permissions: {error}")
            self.progress(f"{self.admin.alias}: {start + len(some)} of {len(permissions)} permissions")
        return refused

    def _not_read_back(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        self.progress(f"{self.admin.alias}: what was set is read back, for {self.read_back_s:g} s at most")
        deadline = self.clock.monotonic() + self.read_back_s
        while (
            unlike := self._unlike(topics, permissions, create=create)
        ) and self.clock.monotonic() < deadline:
            self.sleep(_POLL_S)
        return unlike

    def _unlike(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        own, there = self._own(topics), self._found({one.kind for one in permissions})
        state = "not there" if create else "still there"
        return [
            *(
                f"settings of {one.topic}: not as they were set"
                for one in topics
                if not one.is_made(own.get(one.key, {}))
            ),
            *(f"{permission_words(one)}: {state}" for one in permissions if (one in there) != create),
        ]


def _all_of(
    parts: Sequence[HandedOver] | Sequence[HandOverUndone],
) -> tuple[list[TopicHandOver], set[Permission]]:
    """What several rows of one operation and cluster list is one change."""
    topics = merged(topic for part in parts for topic in part.topics)
    return topics, {one for part in parts for one in part.permissions}


def _counted(topics: Sequence[TopicHandOver], permissions: Collection[Permission]) -> str:
    settings = sum(len(topic.former) for topic in topics)
    verb = "is" if settings + len(permissions) == 1 else "are"
    return (
        f"{counted(settings, 'setting')} of {counted(len(topics), 'topic')} and "
        f"{counted(len(permissions), 'permission')} {verb}"
    )


# Hand over ----------------------------------------------------------------------------------------
# Making a cluster of a pair ready for applications or for the mirror, and changing it back.


def show_hand_over(
    context: Context, pair: Pair, purpose: Purpose, mirrors: Collection[str] = ()
) -> HandedOver:
    """What would be changed now; changes nothing. `mirrors`: further principals of mirrors."""
    return _planned(context, purpose, _known(context, pair, mirrors))


def hand_over(
    context: Context,
    pair: Pair,
    purpose: Purpose,
    progress: Callable[[str], None],
    mirrors: Collection[str] = (),
) -> Ready:
    """Change it, as an operation of its own or as a part of another one.

    Raises where a flow may still write there, and what `ClusterChanges.hand_over` raises.
    """
    known = _known(context, pair, mirrors)
    require_promoted(known, context.state.directions())
    plan = _planned(context, purpose, known)
    changes = cluster_changes(context, plan.cluster, progress)
    return changes.hand_over(plan, context.state.hand_overs(), context.why)


def undo_hand_over(context: Context, operation_id: str, progress: Callable[[str], None]) -> list[Ready]:
    """Undo an operation at each cluster that it changed."""
    recorded = context.state.hand_overs()
    clusters = sorted({one.cluster for one in recorded.handed_over(operation_id)})
    if not clusters:
        raise UsageError(f"no hand-over has the operation id {operation_id!r}; nothing was undone")
    done = []
    for alias in clusters:
        require_recorded(context.state, context.administered(alias))
        changes = cluster_changes(context, alias, progress)
        done.append(changes.undo(operation_id, recorded, context.why))
    return done


def _known(context: Context, pair: Pair, mirrors: Collection[str]) -> KnownPair:
    config = context.config

    def selects(flow: FlowConfig, topic: str) -> bool:
        return config.topic_selection(flow.name).selects(topic)

    configured = [config.cluster(alias).mirror_principal for alias in (pair.cluster, pair.former)]
    flows = pair.flows_of(config.flows.values(), config.copies)
    return known_pair(context.state, pair, flows, selects, frozenset({*mirrors, *filter(None, configured)}))


def _planned(context: Context, purpose: Purpose, known: KnownPair) -> HandedOver:
    """The plan for the cluster that it names. Who applications leave is asked for nothing."""
    cluster = context.administered(known.cluster)
    require_recorded(context.state, cluster)
    if purpose is Purpose.APPLICATIONS:
        return planned_for_applications(known, cluster, cluster)
    former = context.administered(known.former)
    require_recorded(context.state, former)
    return planned_for_mirror(known, former, cluster)


def cluster_changes(context: Context, alias: str, progress: Callable[[str], None]) -> ClusterChanges:
    """What changes a cluster with the credentials of its administrator."""
    admin = context.administered(alias)
    return ClusterChanges(
        admin=admin,
        permissions=admin,
        operations=context.operations,
        clock=context.clock,
        sleep=time.sleep,
        progress=progress,
    )
