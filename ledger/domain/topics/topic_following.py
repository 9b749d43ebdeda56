"""How target topics follow their sources: what to create, to extend and to set.

Pure: takes what both clusters say and returns what to do.

Rule of following
    T1  a target topic has at least as many partitions as its source
T2 to T5 are about settings: `topic_settings`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.domain.topics.naming import TopicNaming
from ledger.domain.topics.topic_settings import SettingsChange, SettingsFollowing
from ledger.errors import PreconditionError


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A selected topic at the source, with the settings that were set on it; None: they cannot be read."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that exists at the target, with the settings that were set on it; None: they cannot be read."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create the target topic."""

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


FollowingAction = CreateTopic | AddPartitions | ChangeSettings


class FollowingFinding(StrEnum):
    """What is worth saying about a target topic; nothing is changed because of it."""

    REPLICATION_FACTOR_LOWERED = "replication_factor_lowered"  # fewer brokers at the target than replicas
    EXISTS_ALREADY = "exists_already"  # this flow never wrote to it: only an empty one may be used


@dataclass(frozen=True, slots=True)
class FollowingWarning:
    """A finding about one target topic, with the numbers behind it."""

    topic: str
    finding: FollowingFinding
    message: str


@dataclass(frozen=True, slots=True)
class FollowingPlan:
    """What makes the target topics follow: actions in order of name, and what to tell."""

    actions: tuple[FollowingAction, ...]
    warnings: tuple[FollowingWarning, ...]


@dataclass(frozen=True, slots=True)
class TopicFollowing:
    """How a flow makes its target topics follow the source."""

    naming: TopicNaming
    target_brokers: int
    replication_factor: int | None = None
    settings: SettingsFollowing = field(default_factory=SettingsFollowing)

    def plan(
        self,
        sources: Sequence[SourceTopic],
        targets: Mapping[str, TargetTopic],
        *,
        written_topic_ids: frozenset[str],
        set_by_mirror: Mapping[str, frozenset[str]],
    ) -> FollowingPlan:
        """Compare selected source topics with what the target has.

        `written_topic_ids`: target topic ids that this flow has offset syncs for. `set_by_mirror`:
        the names of settings that this flow had set, by target topic id.
        """
        self._check_feasible()
        actions: list[FollowingAction] = []
        warnings: list[FollowingWarning] = []
        for source in sorted(sources, key=lambda topic: topic.name):
            target = targets.get(self.naming.target_name(source.name))
            if target is None:
                actions.append(self.creation(source))
                warnings += self._creation_warnings(source)
            else:
                actions += _growth(source, target)
                actions += self._settings(source, target, set_by_mirror.get(target.topic_id, frozenset()))
                warnings += _existing_warnings(target, written_topic_ids)
        return FollowingPlan(tuple(actions), tuple(warnings))

    def _check_feasible(self) -> None:
        if self.target_brokers < 1:
            raise PreconditionError("the target cluster reports no broker; no topic was created")
        if self.replication_factor is not None and self.replication_factor > self.target_brokers:
            raise PreconditionError(
                f"replication_factor {self.replication_factor} needs as many brokers, "
                f"the target has {self.target_brokers}; no topic was created"
            )

    def _replication_factor_for(self, source: SourceTopic) -> int:
        if self.replication_factor is not None:
            return self.replication_factor
        return min(source.replication_factor, self.target_brokers)

    def creation(self, source: SourceTopic) -> CreateTopic:
        """How the target topic of a source topic is made."""
        replication_factor = self._replication_factor_for(source)
        configuration = self.settings.at_creation(
            source.configuration or {}, replication_factor=replication_factor
        )
        name = self.naming.target_name(source.name)
        return CreateTopic(name, source.partitions, replication_factor, configuration)

    def _settings(
        self, source: SourceTopic, target: TargetTopic, set_by_mirror: frozenset[str]
    ) -> list[FollowingAction]:
        if source.configuration is None or target.configuration is None:
            return []
        change = self.settings.change(
            source.configuration,
            target.configuration,
            replication_factor=target.replication_factor,
            set_by_mirror=set_by_mirror,
        )
        return [ChangeSettings(target.name, target.topic_id, change)] if change else []

    def _creation_warnings(self, source: SourceTopic) -> list[FollowingWarning]:
        if self._replication_factor_for(source) >= source.replication_factor:
            return []
        message = (
            f"{source.name} has {source.replication_factor} replicas at the source, "
            f"its target topic gets {self._replication_factor_for(source)}"
        )
        name = self.naming.target_name(source.name)
        return [FollowingWarning(name, FollowingFinding.REPLICATION_FACTOR_LOWERED, message)]


def _growth(source: SourceTopic, target: TargetTopic) -> list[FollowingAction]:
    if target.partitions >= source.partitions:
        return []
    return [AddPartitions(target.name, source.partitions)]


def _existing_warnings(target: TargetTopic, written_topic_ids: frozenset[str]) -> list[FollowingWarning]:
    warnings = []
    if target.topic_id not in written_topic_ids:
        message = (
            f"{target.name} exists and the ledger knows no write of this flow to it: "
            "it is used only if all it holds is this flow's own"
        )
        warnings.append(FollowingWarning(target.name, FollowingFinding.EXISTS_ALREADY, message))
    return warnings
