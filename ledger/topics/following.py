"""How target topics follow their sources: what to create, to extend and to set.

Pure: takes what both clusters say and returns what to do.

Rule of following
    T1  a target topic has at least as many partitions as its source
T2 to T7 are about settings: `topic_settings`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from ledger.errors import PreconditionError
from ledger.topics.naming import NamePatterns, TopicNaming, matches_any

# Topic settings -----------------------------------------------------------------------------------
# Settings of target topics: what is wanted from the source's, and what to change.
#
# Rules
#    T2  copied settings never stop the mirror from writing: no fences, no throttles, no time bounds
#    T3  the target keeps the times of the source: `message.timestamp.type` is CreateTime
#    T4  `min.insync.replicas` never exceeds the replication factor of the target topic
#    T5  a fence (tiny `max.message.bytes`) on either side leaves the target's limit as it is
#    T6  what is held at the target (retention) is left as it is; of a source it is followed as it was before
#    T7  the target's `max.message.bytes` is never lowered: records as large as it allows may still come


class ConfigurationFollow(StrEnum):
    """How far the settings of target topics follow those of their sources."""

    NONE = "none"  # created with what copying needs, and nothing else
    CREATE = "create"  # copied when the topic is created
    INCREMENTAL = "incremental"  # changes follow; removed is what the mirror had set
    WHOLE = "whole"  # settings that only the target has are removed too


FENCE_MAX_MESSAGE_BYTES = 128
"""`max.message.bytes` at or below this is a fence against producers, not a size limit."""

NEVER_COPIED = (
    r"(leader|follower)\.replication\.throttled\.replicas",
    r"message\.timestamp\..*",
    r"message\.downconversion\.enable",
    r"message\.format\.version",
    r"unclean\.leader\.election\.enable",
    r"remote\..*",
    r"local\.retention\..*",
    r"confluent\..*",
    r"min\.insync\.replicas",
    r"compression\..*",
)
"""Settings that belong to one cluster, or that `target_configuration` decides itself."""

BROKERS_DEFAULT = -1
"""As a replication factor: as many replicas as the brokers of the target give a topic by default."""

_UNBOUNDED_MS = str(2**63 - 1)
REQUIRED_AT_TARGET: Mapping[str, str] = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _UNBOUNDED_MS,
    "message.timestamp.after.max.ms": _UNBOUNDED_MS,
}
"""What a target topic needs so that records arrive as the bytes and times they were."""


def target_configuration(
    source: Mapping[str, str], *, copied: NamePatterns, replication_factor: int
) -> dict[str, str]:
    """Settings for the target topic: the source's own ones that may be copied, and what copying needs."""
    taken = {
        name: value
        for name, value in source.items()
        if not matches_any(NEVER_COPIED, name) and copied.matches(name) and not is_fence(name, value)
    }
    in_sync = source.get(_IN_SYNC)
    # Who has the brokers choose how many replicas there are leaves to them as well how many are to be in sync, until
    # the topic is there.
    if in_sync is not None and replication_factor != BROKERS_DEFAULT and copied.matches(_IN_SYNC):
        taken[_IN_SYNC] = str(min(int(in_sync), replication_factor))
    return dict(sorted({**taken, **REQUIRED_AT_TARGET}.items()))


_IN_SYNC = "min.insync.replicas"
_LIMIT = "max.message.bytes"


def is_fence(name: str, value: str | None) -> bool:
    """Whether a setting keeps producers out."""
    return name == _LIMIT and value is not None and int(value) <= FENCE_MAX_MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """What to set and what to remove, so that the cluster's default holds again."""

    to_set: Mapping[str, str] = field(default_factory=dict)
    to_remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.to_set or self.to_remove)

    @property
    def names(self) -> frozenset[str]:
        """Of the settings that are changed."""
        return frozenset((*self.to_set, *self.to_remove))


@dataclass(frozen=True, slots=True)
class SettingsFollowing:
    """Which settings follow, and how far."""

    follow: ConfigurationFollow = ConfigurationFollow.INCREMENTAL
    patterns: NamePatterns = field(default_factory=lambda: NamePatterns((".*",)))

    def at_creation(self, source: Mapping[str, str], *, replication_factor: int) -> dict[str, str]:
        taken = {} if self.follow is ConfigurationFollow.NONE else source
        return target_configuration(taken, copied=self.patterns, replication_factor=replication_factor)

    def change(
        self,
        source: Mapping[str, str],
        target: Mapping[str, str],
        *,
        replication_factor: int,
        set_by_mirror: frozenset[str],
        held: Collection[str] = (),
    ) -> SettingsChange:
        """What brings the target's own settings to what is wanted now, less what is `held` there (T6)."""
        if self.follow in (ConfigurationFollow.NONE, ConfigurationFollow.CREATE):
            return SettingsChange()
        wanted = target_configuration(source, copied=self.patterns, replication_factor=replication_factor)
        # T5: what a fence hides at the source is unknown, and a fence at the target is somebody's wish.
        fenced = is_fence(_LIMIT, source.get(_LIMIT)) or is_fence(_LIMIT, target.get(_LIMIT))
        is_lower = _LIMIT in target and int(wanted.get(_LIMIT, 0)) < int(target[_LIMIT])  # T7
        left_alone = {*held, _LIMIT} if fenced or is_lower else {*held}
        to_set = {
            name: value
            for name, value in wanted.items()
            if target.get(name) != value and name not in left_alone and self.patterns.matches(name)
        }
        surplus = target.keys() - wanted.keys() - left_alone
        removable = surplus if self.follow is ConfigurationFollow.WHOLE else surplus & set_by_mirror
        return SettingsChange(to_set, tuple(sorted(name for name in removable if self._may_remove(name))))

    def _may_remove(self, name: str) -> bool:
        of_the_cluster = matches_any(NEVER_COPIED, name) and name != _IN_SYNC
        return not of_the_cluster and self.patterns.matches(name)


# Topic following ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfiguredTopic:
    """A topic at either side, with the settings that were set on it; None: they cannot be read."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created."""

    name: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Bring the target topic to `total` partitions."""

    name: str
    total: int


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Set and remove settings of the target topic."""

    name: str
    topic_id: str
    change: SettingsChange


FollowingAction = NewTopic | AddPartitions | ChangeSettings


@dataclass(frozen=True, slots=True)
class FollowingPlan:
    """What makes the target topics follow: actions in order of name, and what to warn of, which changes nothing."""

    actions: tuple[FollowingAction, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicFollowing:
    """How a flow makes its target topics follow the source."""

    naming: TopicNaming
    target_brokers: int
    replication_factor: int | None = None
    settings: SettingsFollowing = field(default_factory=SettingsFollowing)

    def plan(
        self,
        sources: Sequence[ConfiguredTopic],
        targets: Mapping[str, ConfiguredTopic],
        *,
        written_topic_ids: frozenset[str],
        set_by_mirror: Mapping[str, frozenset[str]],
        held: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> FollowingPlan:
        """Compare selected source topics with what the target has.

        `written_topic_ids`: target topic ids that this flow has offset syncs for. `set_by_mirror`:
        the names of settings that this flow had set, by target topic id; `held`: of those that are left as they are.
        """
        self._check_feasible()
        actions: list[FollowingAction] = []
        warnings: list[str] = []
        for source in sorted(sources, key=lambda topic: topic.name):
            target = targets.get(self.naming.target_name(source.name))
            if target is None:
                actions.append(created := self.creation(source))
                if 0 < created.replication_factor < source.replication_factor:
                    warnings.append(
                        f"{source.name} has {source.replication_factor} replicas at the source, "
                        f"its target topic gets {created.replication_factor}"
                    )
            else:
                if target.partitions < source.partitions:
                    actions.append(AddPartitions(target.name, source.partitions))
                actions += self._settings(source, target, set_by_mirror, held)
                if target.topic_id not in written_topic_ids:
                    warnings.append(
                        f"{target.name} exists and the ledger knows no write of this flow to it: "
                        "it is used only if all it holds is this flow's own"
                    )
        return FollowingPlan(tuple(actions), tuple(warnings))

    def _check_feasible(self) -> None:
        if self.target_brokers < 1:
            raise PreconditionError("the target cluster reports no broker; no topic was created")
        if self.replication_factor is not None and self.replication_factor > self.target_brokers:
            raise PreconditionError(
                f"replication_factor {self.replication_factor} needs as many brokers, "
                f"the target has {self.target_brokers}; no topic was created"
            )

    def creation(self, source: ConfiguredTopic) -> NewTopic:
        """How the target topic of a source topic is made."""
        replication_factor = self.replication_factor
        if replication_factor is None:
            replication_factor = min(source.replication_factor, self.target_brokers)
        configuration = self.settings.at_creation(
            source.configuration or {}, replication_factor=replication_factor
        )
        name = self.naming.target_name(source.name)
        return NewTopic(name, source.partitions, replication_factor, configuration)

    def _settings(
        self,
        source: ConfiguredTopic,
        target: ConfiguredTopic,
        set_by_mirror: Mapping[str, frozenset[str]],
        held: Mapping[str, Collection[str]],
    ) -> list[FollowingAction]:
        if source.configuration is None or target.configuration is None:
            return []
        change = self.settings.change(
            source.configuration,
            target.configuration,
            replication_factor=target.replication_factor,
            set_by_mirror=set_by_mirror.get(target.topic_id, frozenset()),
            held=held.get(target.topic_id, ()),
        )
        return [ChangeSettings(target.name, target.topic_id, change)] if change else []
