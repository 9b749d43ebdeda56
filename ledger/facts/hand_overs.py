"""Settings and permissions that a cluster was given when a direction changed, as it is recorded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Self

from ledger.facts.codec import key
from ledger.facts.operations import SETTINGS_CHANGE, OperationContent, OperationKind
from ledger.facts.permissions import Permission
from ledger.facts.tables import Row
from ledger.topics.following import REQUIRED_AT_TARGET, SettingsChange, is_fence
from ledger.topics.naming import matches_any

# Settings -----------------------------------------------------------------------------------------
# Settings of topics when a pair of clusters changes its direction.
#
# Rules
#    H1  a topic where applications come to write gets the settings that its other side has of its own, also those that
#        a flow never follows; of `min.insync.replicas` no more than it has replicas
#    H2  what copying needed, and what the flow had set, is removed there where the other side has no such setting
#    H3  what somebody else has set there stays, and so do settings that belong to one cluster
#    H4  a fence (tiny `max.message.bytes`) is never carried: the limit before it is. A fence on the topic itself stays
#    H5  nothing is kept for less long, or in less room: that deletes records, and cannot be undone
#    H6  a topic to which a flow is to copy gets what copying needs: the bytes and times as they are, batches as large
#        and kept as long as at the source of the flow
#    H8  while retention is held nothing is deleted, whatever H1, H5 and H6 want; what a topic had before is its own
#    H7  what H6 has given to the other side is never carried: its settings before that are those of applications


Settings = Mapping[str, str]

OF_ONE_CLUSTER = (
    r"(leader|follower)\.replication\.throttled\.replicas",
    r"message\.format\.version",
    r"remote\..*",
    r"local\.retention\..*",
    r"confluent\..*",
)
"""Settings that say something about brokers or their storage, and nothing to applications."""

LIMIT = "max.message.bytes"
"""The setting by which a topic is fenced."""
_IN_SYNC = "min.insync.replicas"
RETENTION = ("retention.ms", "retention.bytes")
"""The settings by which brokers delete."""
_UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a topic that is left to people."""

    words: str
    topic: str


def in_words(remarks: Iterable[Remark]) -> tuple[str, ...]:
    """A line for each kind of remark, with the topics that it is about."""
    topics: dict[str, list[str]] = {}
    for remark in remarks:
        topics.setdefault(remark.words, []).append(remark.topic)
    return tuple(f"{', '.join(sorted(names))}: {words}" for words, names in sorted(topics.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHandOver:
    """Settings of one topic to be set and removed; `former`: own values until then, None: the cluster's default."""

    topic: str
    topic_id: str
    change: SettingsChange = field(metadata=SETTINGS_CHANGE)
    former: Mapping[str, str | None] = field(metadata=key("before"))

    @classmethod
    def of(cls, topic: str, topic_id: str, change: SettingsChange, own: Settings) -> "TopicHandOver":
        names = (*change.to_set, *change.to_remove)
        return cls(
            topic=topic, topic_id=topic_id, change=change, former={name: own.get(name) for name in names}
        )

    @property
    def key(self) -> tuple[str, str]:
        """Which incarnation it is about."""
        return self.topic, self.topic_id

    def is_made(self, own: Settings) -> bool:
        """Whether the topic's own settings are as wanted."""
        is_set = all(own.get(name) == value for name, value in self.change.to_set.items())
        return is_set and not any(name in own for name in self.change.to_remove)

    def lacking(self, own: Settings) -> "TopicHandOver | None":
        """What of it is as it was before, None: nothing; what somebody has changed to something else is not lacking."""
        to_set = {
            name: value
            for name, value in self.change.to_set.items()
            if own.get(name) == self.former[name] != value
        }
        to_remove = tuple(
            name for name in self.change.to_remove if name in own and own[name] == self.former[name]
        )
        change = SettingsChange(to_set, to_remove)
        return TopicHandOver.of(self.topic, self.topic_id, change, own) if change else None

    def way_back(self, own: Settings) -> SettingsChange:
        """What restores the former values; of what somebody has changed since then, nothing."""
        wanted: dict[str, str | None] = {
            **self.change.to_set,
            **dict.fromkeys(self.change.to_remove),
        }
        mine = [name for name, value in wanted.items() if own.get(name) == value != self.former[name]]
        to_set = {name: value for name in mine if (value := self.former[name]) is not None}
        return SettingsChange(to_set, tuple(sorted(name for name in mine if self.former[name] is None)))

    def before(self, own: Settings) -> dict[str, str]:
        """All own settings as they were before; what somebody has changed since then stays."""
        back = self.way_back(own)
        return {**{name: value for name, value in own.items() if name not in back.to_remove}, **back.to_set}

    def changed_since(self, own: Settings) -> tuple[str, ...]:
        """Names of settings that are neither as they were made nor as they were before."""
        wanted = {**self.change.to_set, **dict.fromkeys(self.change.to_remove)}
        return tuple(
            sorted(name for name in wanted if own.get(name) not in (wanted[name], self.former[name]))
        )


def merged(parts: Iterable[TopicHandOver]) -> list[TopicHandOver]:
    """One for each incarnation of a topic, of what several runs did in turn: the first former values, the last ones."""
    by_topic: dict[tuple[str, str], TopicHandOver] = {}
    for part in parts:
        before = by_topic.get(part.key)
        by_topic[part.key] = part if before is None else _after(before, part)
    return list(by_topic.values())


def _after(before: TopicHandOver, part: TopicHandOver) -> TopicHandOver:
    wanted: dict[str, str | None] = {
        **before.change.to_set,
        **dict.fromkeys(before.change.to_remove),
        **part.change.to_set,
        **dict.fromkeys(part.change.to_remove),
    }
    change = SettingsChange(
        {name: value for name, value in wanted.items() if value is not None},
        tuple(sorted(name for name, value in wanted.items() if value is None)),
    )
    former = {**part.former, **before.former}
    return TopicHandOver(topic=part.topic, topic_id=part.topic_id, change=change, former=former)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopic:
    """A topic as its cluster describes it: its own settings, and all that are in effect."""

    name: str
    topic_id: str
    replication_factor: int
    own: Settings
    effective: Settings


def before_fence(own: Settings, earlier: Sequence[Settings]) -> Settings | None:
    """H4: own settings with the limit before a fence, from `earlier` ones, the latest last; None: nobody knows it."""
    if not is_fence(LIMIT, own.get(LIMIT)):
        return own
    others = {name: value for name, value in own.items() if name != LIMIT}
    for settings in reversed(earlier):
        limit = settings.get(LIMIT)
        if not is_fence(LIMIT, limit):
            return others if limit is None else {**others, LIMIT: limit}
    return None


def for_applications(
    topic: LiveTopic, former_side: Settings, *, limit_is_known: bool, set_by_mirror: frozenset[str]
) -> tuple[SettingsChange, list[Remark]]:
    """H1 to H5. `former_side`: own settings of the topic where applications wrote before; see `before_fence`."""
    carried = {name: value for name, value in former_side.items() if not matches_any(OF_ONE_CLUSTER, name)}
    unknown = carried.keys() - topic.effective.keys()
    wanted = {name: value for name, value in carried.items() if name not in unknown}
    remarks = [
        Remark(f"its cluster knows no setting {name}, it was left out", topic.name) for name in unknown
    ]
    if int(wanted.get(_IN_SYNC, 0)) > topic.replication_factor:
        remarks.append(_too_few_replicas(topic, wanted[_IN_SYNC]))
        wanted[_IN_SYNC] = str(topic.replication_factor)
    left_alone = set(RETENTION) - wanted.keys()
    for name, value in _kept_for_longer(wanted, topic.effective):
        remarks.append(
            Remark(f"{name} is {topic.effective[name]}, not {value}: to lower it deletes records", topic.name)
        )
        left_alone.add(name)
    if is_fence(LIMIT, topic.own.get(LIMIT)):
        remarks.append(Remark(f"fenced by {LIMIT} {topic.own[LIMIT]}: lift the fence", topic.name))
        left_alone.add(LIMIT)
    elif not limit_is_known:
        remarks.append(Remark(f"{LIMIT} before the fence is not recorded: set it by hand", topic.name))
        left_alone.add(LIMIT)
    removable = (topic.own.keys() & (REQUIRED_AT_TARGET.keys() | set_by_mirror)) - wanted.keys()
    own = {name for name in removable if not matches_any(OF_ONE_CLUSTER, name)}
    to_set = {name: value for name, value in wanted.items() if topic.own.get(name) != value}
    return _without(SettingsChange(to_set, tuple(sorted(own))), left_alone), remarks


def _kept_for_longer(wanted: Settings, effective: Settings) -> Iterator[tuple[str, str]]:
    """H5: what is wanted and would keep less than now."""
    for name in RETENTION:
        if name in wanted and _bound(wanted[name]) < _bound(effective[name]):
            yield name, wanted[name]


def _too_few_replicas(topic: LiveTopic, wanted: str) -> Remark:
    words = f"{_IN_SYNC} is {topic.replication_factor} instead of {wanted}: it has no more replicas"
    return Remark(words, topic.name)


def _without(change: SettingsChange, left_alone: set[str]) -> SettingsChange:
    return SettingsChange(
        {name: value for name, value in sorted(change.to_set.items()) if name not in left_alone},
        tuple(name for name in change.to_remove if name not in left_alone),
    )


def for_copying(topic: LiveTopic, source: Settings) -> tuple[SettingsChange, list[Remark]]:
    """H6. `source`: all settings in effect at the topic that is to be copied here."""
    wanted = {name: value for name, value in REQUIRED_AT_TARGET.items() if name in topic.effective}
    wanted |= dict(_at_least(topic.effective, source))
    remarks = []
    if is_fence(LIMIT, topic.effective.get(LIMIT)):
        wanted.pop(LIMIT, None)
        words = f"fenced by {LIMIT} {topic.effective[LIMIT]}: nothing can be copied to it before the fence is lifted"
        remarks.append(Remark(words, topic.name))
    to_set = {name: value for name, value in sorted(wanted.items()) if topic.effective.get(name) != value}
    return SettingsChange(to_set), remarks


def _at_least(target: Settings, source: Settings) -> Iterator[tuple[str, str]]:
    """Limits that are lower than those of the source; what is not reported is not compared."""
    if not is_fence(LIMIT, source.get(LIMIT)) and int(target.get(LIMIT, 0)) < int(source.get(LIMIT, 0)):
        yield LIMIT, source[LIMIT]
    if "delete" in target.get("cleanup.policy", "delete"):
        for name in RETENTION:
            if name in source and name in target and _bound(target[name]) < _bound(source[name]):
                yield name, source[name]


def _bound(value: str) -> float:
    return float("inf") if int(value) == _UNLIMITED else int(value)


# Receipts -----------------------------------------------------------------------------------------
# What a cluster was given when applications, or a mirror, came to it from another one, as it is recorded.


class Purpose(StrEnum):
    """For whom a cluster is made ready."""

    APPLICATIONS = "applications"  # they come to write and read there
    MIRROR = "mirror"  # the reverse flow is to copy there
    RETENTION = "retention"  # for nobody: what lies there is not to be deleted yet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes(OperationContent):
    """Settings and permissions of `cluster`; `former`: the cluster that they come from, or that is read next."""

    cluster: str
    cluster_id: str
    former: str
    purpose: str
    topics: tuple[TopicHandOver, ...]
    permissions: tuple[Permission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver(_Changes):
    """Settings and permissions of a cluster are about to be those that applications, or the mirror, need
    ("Hand-overs").

    By `mirror-ledger hand-over apply` before it changes a cluster. `flow` of the row is null. What several rows of one
    operation and cluster list is one change: of each setting the first value `before` counts.

    Keys: `cluster` (alias of the one that is changed), `cluster_id`, `former` (alias of the other one of the pair),
    `purpose` (`applications`, `mirror`; `retention`: retention is held, and `former` is the cluster itself), `topics`:
    `topic`, `topic_id`, `set` (settings), `removed` (names), `before` (own values of these; null: the cluster's
    default) each; `permissions`: those to be created, each with the columns of `permissions` that are not null: `kind`,
    `entity`, `setting`, `value`, `host`, `operation`, `permission_type`, `resource_type`, `resource_name`,
    `pattern_type`; `unknown` (what could not be compared, in words), `manual` (what is left to people, in words).
    """

    kind: ClassVar = OperationKind.HANDED_OVER
    unknown: tuple[str, ...]
    manual: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverUndone(_Changes):
    """What an operation had handed over is about to be undone.

    By `mirror-ledger hand-over undo` before it changes a cluster back. `flow` of the row is null.

    Keys: `cluster`, `cluster_id`, `former`, `purpose`, `topics`: `topic`, `topic_id`, `set`, `removed`, `before` each
    (what is restored, and what it was then); `permissions`: those to be deleted (`kind`, `entity`, `setting`, `value`,
    as above); `handed_over` (the operation id that is undone), `left` (what somebody has changed since, in words).
    """

    kind: ClassVar = OperationKind.HAND_OVER_UNDONE
    handed_over: str
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverResult(OperationContent):
    """What became of an intention to hand over, or to undo that, as it was read back.

    With the operation id of the intention. Without this row it is unknown which parts are done.

    Keys: `of` (`handed_over`, `hand_over_undone`), `cluster`, `failed` (what was refused or not read back, in words).
    """

    kind: ClassVar = OperationKind.HAND_OVER_RESULT
    of: str
    cluster: str
    failed: tuple[str, ...]


HAND_OVER_KINDS = (OperationKind.HANDED_OVER, OperationKind.HAND_OVER_UNDONE, OperationKind.HAND_OVER_RESULT)
_CONTENTS = {kind.kind: kind for kind in (HandedOver, HandOverUndone, HandOverResult)}


@dataclass(frozen=True, slots=True)
class UndoneParts:
    """What was undone of an operation at a cluster, attempt by attempt.

    `open_under`: the operation of the last one, None: it is read back.
    """

    parts: tuple[HandOverUndone, ...] = ()
    open_under: str | None = None


@dataclass(frozen=True, slots=True)
class HandOvers:
    """All that is recorded of them, in the order of the operators' serial: operation id and content."""

    rows: tuple[tuple[str, OperationContent], ...] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `HAND_OVER_KINDS`, in the order of their stamps."""
        return cls(tuple((row["operation_id"], _CONTENTS[row["kind"]].of_row(row)) for row in rows))

    def handed_over(self, operation_id: str) -> Sequence[HandedOver]:
        return [
            content
            for found, content in self.rows
            if found == operation_id and isinstance(content, HandedOver)
        ]

    def given_to_mirror(self, cluster: str) -> dict[tuple[str, str], TopicHandOver]:
        """By topic and its id what a cluster has for a copy to it, until it is undone or applications come there."""
        parts: dict[str, tuple[TopicHandOver, ...]] = {}
        for operation_id, content in self.rows:
            match content:
                case HandedOver() if content.cluster != cluster or content.purpose == Purpose.RETENTION:
                    continue
                case HandedOver() if content.purpose == Purpose.MIRROR:
                    parts[operation_id] = (*parts.get(operation_id, ()), *content.topics)
                case HandedOver():
                    parts = {}
                case HandOverUndone() if content.cluster == cluster:
                    parts.pop(content.handed_over, None)
        return {one.key: one for one in merged(part for found in parts.values() for part in found)}

    def held(self, cluster: str) -> dict[str, list[TopicHandOver]]:
        """By operation what it has changed so that nothing is deleted at a cluster, of topics that are held still.

        A release of which nobody has read back that all is done has released nothing.
        """
        parts: dict[str, list[TopicHandOver]] = {}
        released: dict[str, HandOverUndone] = {}
        for operation_id, content in self.rows:
            match content:
                case HandedOver() if (content.cluster, content.purpose) == (cluster, Purpose.RETENTION):
                    parts[operation_id] = merged((*parts.get(operation_id, ()), *content.topics))
                case HandOverUndone() if (content.cluster, content.purpose) == (cluster, Purpose.RETENTION):
                    released[operation_id] = content
                case HandOverResult() if operation_id in released and content.of == HandOverUndone.kind:
                    of = released.pop(operation_id)
                    keys = {one.key for one in of.topics} if not content.failed else set()
                    left = [one for one in parts.get(of.handed_over, ()) if one.key not in keys]
                    parts[of.handed_over] = left
        return {operation_id: found for operation_id, found in parts.items() if found}

    def before_held(self, cluster: str) -> dict[tuple[str, str], TopicHandOver]:
        """The same by topic and its id."""
        return {
            one.key: one for one in merged(part for found in self.held(cluster).values() for part in found)
        }

    def parts(self, operation_id: str, cluster: str, purpose: Purpose | None = None) -> list[HandedOver]:
        """What an operation has handed over at a cluster, for whom (None: for anybody), attempt by attempt."""
        found = [one for one in self.handed_over(operation_id) if one.cluster == cluster]
        return [one for one in found if purpose in (None, one.purpose)]

    def undone(self, operation_id: str, cluster: str) -> UndoneParts:
        """What is recorded of undoing it there."""
        parts: list[HandOverUndone] = []
        open_under: str | None = None
        for found, content in self.rows:
            match content:
                case HandOverUndone() if (content.handed_over, content.cluster) == (operation_id, cluster):
                    parts.append(content)
                    open_under = found
                case HandOverResult() if content.of == OperationKind.HAND_OVER_UNDONE and not content.failed:
                    open_under = None if (found, content.cluster) == (open_under, cluster) else open_under
        return UndoneParts(tuple(parts), open_under)

    def unfinished(self, cluster: str, former: str, purpose: Purpose) -> str | None:
        """The last operation of the kind, when nobody has read back that all of it is done; None: it is, or undone."""
        last: str | None = None
        for operation_id, content in self.rows:
            match content:
                case HandedOver() if (content.cluster, content.former, content.purpose) == (
                    cluster,
                    former,
                    purpose,
                ):
                    last = operation_id
                case HandOverResult() if content.of == OperationKind.HANDED_OVER and not content.failed:
                    is_its = operation_id == last and content.cluster == cluster
                    last = None if is_its else last
                case HandOverUndone() if content.handed_over == last:
                    last = None
        return last
