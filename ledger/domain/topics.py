"""Which topics a flow selects, how they are called at the target, and how the target topic follows.

Pure: takes what both clusters say about a topic and returns what to do.

Rules of following
    T1  a target topic has at least as many partitions as its source
    T2  copied settings never stop the mirror from writing: no fences, no throttles, no time bounds
    T3  the target keeps the times of the source: `message.timestamp.type` is CreateTime
    T4  `min.insync.replicas` never exceeds the replication factor of the target topic
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.errors import InvalidValueError, PreconditionError


class NamingKind(StrEnum):
    """How a target topic is called."""

    IDENTITY = "identity"  # as at the source
    PREFIX = "prefix"  # `{prefix}.{topic}`


@dataclass(frozen=True, slots=True)
class TopicNaming:
    """Source topic to target topic and back."""

    kind: NamingKind
    prefix: str = ""

    def __post_init__(self) -> None:
        if (self.kind is NamingKind.PREFIX) != bool(self.prefix):
            raise InvalidValueError(f"a prefix belongs to prefix naming, got {self.kind} and {self.prefix!r}")

    def target_name(self, topic: str) -> str:
        return topic if self.kind is NamingKind.IDENTITY else f"{self.prefix}.{topic}"

    def source_name(self, target: str) -> str | None:
        """The source topic of a target topic; None when this naming cannot have made the name."""
        if self.kind is NamingKind.IDENTITY:
            return target
        name = target.removeprefix(f"{self.prefix}.")
        return name if name and name != target else None


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Regular expressions that match whole names: one of `include` and none of `exclude`."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        return _matches_any(self.include, name) and not _matches_any(self.exclude, name)


INTERNAL_TOPICS = ("__.*", ".*[-.]internal", "mm2-.*")
"""Topics that belong to a cluster and its tools: Kafka's own, Connect's and MirrorMaker's."""


class SelectionRefusal(StrEnum):
    """Why a topic is not selected. The first that applies, in this order, is reported."""

    INTERNAL = "internal"  # Kafka's own, or a tool's bookkeeping
    MIRRORED_BACK = "mirrored_back"  # carries a prefix that marks it as a copy from the target
    NOT_INCLUDED = "not_included"  # matches none of the patterns
    EXCLUDED = "excluded"  # matches a pattern that excludes


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a flow; `mirrored_prefixes` mark copies that came from the target."""

    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    mirrored_prefixes: tuple[str, ...] = ()

    def refusal(self, topic: str, *, internal: bool = False) -> SelectionRefusal | None:
        """Why `topic` is not selected; None when it is. `internal` is the broker's own verdict."""
        if internal or _matches_any(INTERNAL_TOPICS, topic):
            return SelectionRefusal.INTERNAL
        if any(topic.startswith(f"{prefix}.") for prefix in self.mirrored_prefixes):
            return SelectionRefusal.MIRRORED_BACK
        if not _matches_any(self.patterns, topic):
            return SelectionRefusal.NOT_INCLUDED
        return SelectionRefusal.EXCLUDED if _matches_any(self.exclude, topic) else None

    def selects(self, topic: str, *, internal: bool = False) -> bool:
        return self.refusal(topic, internal=internal) is None


def _matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


# Settings of a topic ---------------------------------------------------------------------------

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

_UNBOUNDED_MS = str(2**63 - 1)
REQUIRED_AT_TARGET: Mapping[str, str] = {
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _UNBOUNDED_MS,
    "message.timestamp.after.max.ms": _UNBOUNDED_MS,
}
"""What a target topic needs so that records arrive as the bytes and times they were."""


def target_configuration(
    source: Mapping[str, str], *, exclude: Sequence[str], replication_factor: int
) -> dict[str, str]:
    """Settings for the target topic: the source's own ones that may be copied, and what copying needs."""
    copied = {
        name: value
        for name, value in source.items()
        if not _matches_any(NEVER_COPIED, name) and name not in exclude and not _is_fence(name, value)
    }
    in_sync = source.get("min.insync.replicas")
    if in_sync is not None and "min.insync.replicas" not in exclude:
        copied["min.insync.replicas"] = str(min(int(in_sync), replication_factor))
    return dict(sorted({**copied, **REQUIRED_AT_TARGET}.items()))


def _is_fence(name: str, value: str) -> bool:
    return name == "max.message.bytes" and int(value) <= FENCE_MAX_MESSAGE_BYTES


# Following -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A selected topic at the source, with the settings that were set on it."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that exists at the target."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int


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


FollowingAction = CreateTopic | AddPartitions


class FollowingFinding(StrEnum):
    """What is worth saying about a target topic; nothing is changed because of it."""

    REPLICATION_FACTOR_LOWERED = "replication_factor_lowered"  # fewer brokers at the target than replicas
    MORE_PARTITIONS = "more_partitions"  # the surplus stays empty
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

    @property
    def unproven_topics(self) -> tuple[str, ...]:
        """Target topics that exist and that the flow never wrote to: empty, or the flow must not write."""
        return tuple(w.topic for w in self.warnings if w.finding is FollowingFinding.EXISTS_ALREADY)


@dataclass(frozen=True, slots=True)
class TopicFollowing:
    """How a flow makes its target topics follow the source."""

    naming: TopicNaming
    target_brokers: int
    replication_factor: int | None = None
    configuration_exclude: tuple[str, ...] = ()

    def plan(
        self,
        sources: Sequence[SourceTopic],
        targets: Mapping[str, TargetTopic],
        *,
        written_topic_ids: frozenset[str],
    ) -> FollowingPlan:
        """Compare selected source topics with what the target has.

        `written_topic_ids`: target topic ids that this flow has offset syncs for.
        """
        self._check_feasible()
        self._check_name_lengths(sources)
        actions: list[FollowingAction] = []
        warnings: list[FollowingWarning] = []
        for source in sorted(sources, key=lambda topic: topic.name):
            target = targets.get(self.naming.target_name(source.name))
            if target is None:
                actions.append(self._creation(source))
                warnings += self._creation_warnings(source)
            else:
                actions += _growth(source, target)
                warnings += _existing_warnings(source, target, written_topic_ids)
        return FollowingPlan(tuple(actions), tuple(warnings))

    def _check_feasible(self) -> None:
        if self.target_brokers < 1:
            raise PreconditionError("the target cluster reports no broker; no topic was created")
        if self.replication_factor is not None and self.replication_factor > self.target_brokers:
            raise PreconditionError(
                f"replication_factor {self.replication_factor} needs as many brokers, "
                f"the target has {self.target_brokers}; no topic was created"
            )

    def _check_name_lengths(self, sources: Sequence[SourceTopic]) -> None:
        for source in sources:
            name = self.naming.target_name(source.name)
            if len(name) > _MAX_TOPIC_NAME_LENGTH:
                raise PreconditionError(
                    f"a topic name has at most {_MAX_TOPIC_NAME_LENGTH} characters, the target name of "
                    f"{source.name} would have {len(name)}; no topic was created"
                )

    def _replication_factor_for(self, source: SourceTopic) -> int:
        if self.replication_factor is not None:
            return self.replication_factor
        return min(source.replication_factor, self.target_brokers)

    def _creation(self, source: SourceTopic) -> CreateTopic:
        replication_factor = self._replication_factor_for(source)
        configuration = target_configuration(
            source.configuration, exclude=self.configuration_exclude, replication_factor=replication_factor
        )
        name = self.naming.target_name(source.name)
        return CreateTopic(name, source.partitions, replication_factor, configuration)

    def _creation_warnings(self, source: SourceTopic) -> list[FollowingWarning]:
        if self._replication_factor_for(source) >= source.replication_factor:
            return []
        message = (
            f"{source.name} has {source.replication_factor} replicas at the source, "
            f"its target topic gets {self._replication_factor_for(source)}"
        )
        name = self.naming.target_name(source.name)
        return [FollowingWarning(name, FollowingFinding.REPLICATION_FACTOR_LOWERED, message)]


_MAX_TOPIC_NAME_LENGTH = 249


def _growth(source: SourceTopic, target: TargetTopic) -> list[FollowingAction]:
    if target.partitions >= source.partitions:
        return []
    return [AddPartitions(target.name, source.partitions)]


def _existing_warnings(
    source: SourceTopic, target: TargetTopic, written_topic_ids: frozenset[str]
) -> list[FollowingWarning]:
    warnings = []
    if target.partitions > source.partitions:
        message = (
            f"{target.name} has {target.partitions} partitions, its source {source.partitions}: "
            "the surplus gets nothing, and applications at the target spread keys differently"
        )
        warnings.append(FollowingWarning(target.name, FollowingFinding.MORE_PARTITIONS, message))
    if target.topic_id not in written_topic_ids:
        message = (
            f"{target.name} exists and the ledger knows no write of this flow to it: "
            "it is used only if all it holds is this flow's own"
        )
        warnings.append(FollowingWarning(target.name, FollowingFinding.EXISTS_ALREADY, message))
    return warnings
