"""What would be changed at a cluster: from what the ledger knows, compared with what the cluster has now."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.hand_over.gaps import PermissionGaps, Side, permission_gaps
from ledger.domain.hand_over.permissions import in_words as permission_words
from ledger.domain.hand_over.receipts import HandedOver, Purpose
from ledger.domain.hand_over.settings import (
    LiveTopic,
    Remark,
    Settings,
    TopicHandOver,
    for_applications,
    for_copying,
    in_words,
)
from ledger.domain.permissions import Permission
from ledger.domain.topics.topic_settings import SettingsChange
from ledger.operations.hand_over.known import KnownPair, KnownTopic
from ledger.ports.clusters import ClusterAdmin, PermissionAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What is to be changed at `cluster`, of which nothing is known, and what is left to people."""

    cluster: str
    cluster_id: str
    former: str
    purpose: Purpose
    topics: tuple[TopicHandOver, ...]
    permissions: tuple[Permission, ...]
    unknown: tuple[str, ...]
    manual: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.topics or self.permissions)

    @property
    def content(self) -> HandedOver:
        return HandedOver(
            cluster=self.cluster,
            cluster_id=self.cluster_id,
            former=self.former,
            purpose=self.purpose,
            topics=self.topics,
            permissions=self.permissions,
            unknown=self.unknown,
            manual=self.manual,
        )

    def rows(self) -> list[dict[str, object]]:
        """One for each change, and for each thing that is unknown or left to people."""
        return [
            *(self._row("setting", name, what) for topic in self.topics for name, what in _changes(topic)),
            *(
                self._row("permission", one.entity, f"create: {permission_words(one)}")
                for one in self.permissions
            ),
            *(self._row("unknown", None, words) for words in self.unknown),
            *(self._row("manual", None, words) for words in self.manual),
        ]

    def _row(self, part: str, name: str | None, what: str) -> dict[str, object]:
        return {"cluster": self.cluster, "part": part, "name": name, "change": what}


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
) -> HandOver:
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


def planned_for_mirror(known: KnownPair, former: ClusterAdmin, cluster: ClusterAdmin) -> HandOver:
    """What the former cluster needs so that a flow can copy back to it, from where applications are now."""
    promotable = [topic for topic in known.topics if topic.is_promotable]
    there = _Settings(former, [topic.source for topic in promotable])
    written = _Settings(cluster, [topic.target for topic in promotable])
    readable = [topic for topic in promotable if written.topic(topic.target) is not None]
    unread = [
        written.why_unknown(topic.target) for topic in promotable if written.topic(topic.target) is None
    ]

    def change(topic: KnownTopic, live: LiveTopic) -> tuple[SettingsChange, list[Remark]]:
        return for_copying(live, _effective(written, topic))

    topics, unknown, remarks = _compared(readable, there, lambda topic: topic.source, change)
    unknown = [*unread, *unknown]
    return _hand_over(former, cluster.alias, Purpose.MIRROR, topics, unknown, remarks, PermissionGaps())


def _effective(settings: _Settings, topic: KnownTopic) -> Settings:
    live = settings.topic(topic.target)
    assert live is not None, "those that are not there were left out"
    return live.effective


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
) -> HandOver:
    return HandOver(
        cluster=admin.alias,
        cluster_id=admin.cluster_id(),
        former=former,
        purpose=purpose,
        topics=tuple(sorted(topics, key=lambda topic: topic.topic)),
        permissions=gaps.to_create,
        unknown=(*in_words(unknown), *gaps.unknown),
        manual=(*in_words(remarks), *gaps.manual),
    )
