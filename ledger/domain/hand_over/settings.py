"""Settings of topics when a pair of clusters changes its direction.

Rules
    H1  a topic where applications come to write gets the settings that its other side has of its own, also those that
        a flow never follows; of `min.insync.replicas` no more than it has replicas
    H2  what copying needed, and what the flow had set, is removed there where the other side has no such setting
    H3  what somebody else has set there stays, and so do settings that belong to one cluster
    H4  a fence (tiny `max.message.bytes`) is never carried: the limit before it is. A fence on the topic itself stays
    H5  nothing is kept for less long, or in less room: that deletes records, and cannot be undone
    H6  a topic to which a flow is to copy gets what copying needs: the bytes and times as they are, batches as large
        and kept as long as at the source of the flow
    H7  what H6 has given to the other side is never carried: its settings before that are those of applications
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.topics.naming import matches_any
from ledger.domain.topics.topic_settings import REQUIRED_AT_TARGET, SettingsChange, is_fence

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
_RETENTION = ("retention.ms", "retention.bytes")
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
    change: SettingsChange
    former: Mapping[str, str | None]

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
    left_alone = set(_RETENTION) - wanted.keys()
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
    for name in _RETENTION:
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
        for name in _RETENTION:
            if name in source and name in target and _bound(target[name]) < _bound(source[name]):
                yield name, source[name]


def _bound(value: str) -> float:
    return float("inf") if int(value) == _UNLIMITED else int(value)
