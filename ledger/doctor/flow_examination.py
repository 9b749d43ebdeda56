"""One flow examined, on both of its clusters: topics, permissions, sizes, retention."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.config.flow import FlowConfig, TargetMode
from ledger.doctor.check_results import CheckResult, Unmeasured, measure
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.cluster_examination import ClusterLook
from ledger.doctor.measurements import LedgerProbe, Operation, Operations, Permissions, Settings
from ledger.doctor.verdicts import (
    permissions,
    retention,
    selection,
    target_writers,
    topic_names,
    topic_settings,
)
from ledger.doctor.verdicts.places import LEDGER
from ledger.doctor.verdicts.retention import Standing
from ledger.doctor.verdicts.topic_settings import SideOfPair, TopicPair
from ledger.domain.operations.directions import Directions
from ledger.domain.topics.flow_rings import plain_names
from ledger.domain.topics.idle_patterns import idle_patterns
from ledger.domain.topics.naming import TakenTopics, TopicSelection, taken_topics
from ledger.domain.topics.topic_following import SourceTopic, TopicFollowing
from ledger.errors import Trouble
from ledger.ports.clusters import PartitionEnds, TopicDescription
from ledger.ports.ledger import FlowPosition

_BROKER_DEFAULTS = {
    "max.message.bytes": "message.max.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Settings of a topic by the broker's setting that they default to."""


@dataclass(frozen=True, slots=True)
class FlowLook:
    """A flow with its two clusters; `selected` are the source topics that it takes, by name."""

    flow: FlowConfig
    selection: TopicSelection
    source: ClusterLook
    target: ClusterLook
    ledger: LedgerProbe

    @property
    def subject(self) -> str:
        return f"flow {self.flow.name}"

    @property
    def taken(self) -> TakenTopics | Unmeasured:
        """What the flow makes of the source's topics, by the rule that its driver goes by."""
        if isinstance(self.source.topics, Unmeasured):
            return self.source.topics
        internal = {name: topic.internal for name, topic in self.source.topics.items()}
        return taken_topics(
            self.selection, self.flow.naming, internal, same_cluster=self.source.is_one_with(self.target)
        )

    @property
    def selected(self) -> Mapping[str, TopicDescription] | Unmeasured:
        taken = self.taken
        if isinstance(taken, Unmeasured) or isinstance(self.source.topics, Unmeasured):
            return taken if isinstance(taken, Unmeasured) else {}
        return {name: self.source.topics[name] for name in taken.names}

    @property
    def following(self) -> TopicFollowing:
        """How the flow makes target topics."""
        flow, brokers = self.flow, len(self.target.node_ids)
        return TopicFollowing(flow.naming, brokers, flow.replication_factor, flow.settings_following)


def flow_findings(
    look: FlowLook, *, also_target: frozenset[str], now_ms: int, share: float
) -> Iterator[CheckResult]:
    """All that is said of a flow. `also_target`: source topics that some flow writes to."""
    selected = look.selected
    if not look.flow.enabled:
        measured = "enabled = false: run refuses it"
        yield CheckResult(
            look.subject, Check.ENABLED, Verdict.WARNING, measured, "remove the line when it is to run"
        )
    yield from _selection(look, selected)
    yield from topic_names.conflicts(look.subject, look.taken)
    yield topic_names.topic_names(look.subject, _wanted(look, selected), look.target.topics)
    yield from _source_permissions(look, selected, also_target)
    yield from _target_permissions(look, selected)
    yield from retention.retention(look.subject, _standings(look, selected), now_ms=now_ms, share=share)
    pairs = _pairs(look, selected)
    yield from topic_settings.batch_size(look.subject, pairs, look.target.broker_settings())
    yield from topic_settings.replication(look.subject, pairs, look.target.broker_count)
    yield from topic_settings.partitions(look.subject, pairs)
    yield from topic_settings.settings(look.subject, pairs)


def left_out(flow: FlowConfig) -> CheckResult:
    """What is said of a disabled flow that nobody named."""
    advice = f"mirror-ledger doctor {flow.name} examines it all the same"
    return CheckResult(f"flow {flow.name}", Check.ENABLED, Verdict.SKIPPED, "enabled = false", advice)


def target_topics(look: FlowLook) -> frozenset[str]:
    """Names that the flow writes to at its target."""
    selected = look.selected
    return frozenset(() if isinstance(selected, Unmeasured) else map(look.flow.naming.target_name, selected))


def _wanted(look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured) -> list[str] | Unmeasured:
    return selected if isinstance(selected, Unmeasured) else [*map(look.flow.naming.target_name, selected)]


def _selection(
    look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured
) -> Iterator[CheckResult]:
    taken = look.taken
    refusals = {} if isinstance(taken, Unmeasured) else taken.refusals
    cluster, idle = look.source.alias, list(idle_patterns(look.selection, refusals))
    names = selected if isinstance(selected, Unmeasured) else list(selected)
    yield selection.selected_topics(look.subject, cluster, names, idle)
    listed = look.source.ask(look.source.probe.groups)
    groups = listed if isinstance(listed, Unmeasured) else [group.group_id for group in listed]
    yield selection.selected_groups(look.subject, cluster, groups, look.flow.group_patterns)


# Permissions -----------------------------------------------------------------------------------


def _source_permissions(
    look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured, also_target: frozenset[str]
) -> Iterator[CheckResult]:
    """Topics that the flow names are asked for too: what may not be described is in no listing."""
    seen = () if isinstance(selected, Unmeasured) else tuple(selected)
    asked = list(dict.fromkeys([*seen, *plain_names(look.flow.topics)]))
    found = _permissions(look, look.source, asked, selected)
    operations = {} if isinstance(found, Unmeasured) else found.topics
    topics = [name for name in asked if name in seen or _is_hidden(operations, name)]
    yield from permissions.source(look.subject, found, topics, look.source.granting, also_target=also_target)
    yield permissions.recorded(look.subject, look.source.alias, found, look.source.granting)


def _is_hidden(operations: Mapping[str, Operations | None], name: str) -> bool:
    return operations.get(name) is None


def _target_permissions(
    look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured
) -> Iterator[CheckResult]:
    names = () if isinstance(selected, Unmeasured) else tuple(selected)
    wanted = [look.flow.naming.target_name(name) for name in names]
    there = {} if isinstance(look.target.topics, Unmeasured) else look.target.topics
    found = _permissions(look, look.target, wanted, selected)
    existing = [name for name in wanted if name in there]
    absent = [name for name in wanted if name not in there]
    yield from permissions.target(look.subject, found, existing, absent, look.target.granting)
    yield from _target_writers(look, wanted, found)
    yield permissions.recorded(look.subject, look.target.alias, found, look.target.granting)


def _target_writers(
    look: FlowLook, wanted: Sequence[str], found: Permissions | Unmeasured
) -> Iterator[CheckResult]:
    """Of targets that others may write to by design nothing is said."""
    if look.flow.target_mode is TargetMode.SHARED:
        return
    if not isinstance(found, Unmeasured) and not found.enforced:
        yield target_writers.no_authorizer(look.subject)
        return
    directions = measure(look.ledger.directions, LEDGER)
    known = Directions() if isinstance(directions, Unmeasured) else directions
    own = [name for name in wanted if known.promotion(look.flow.source, look.flow.target, name) is None]
    acls = found if isinstance(found, Unmeasured) else look.target.ask(look.target.probe.topic_acls)
    if isinstance(acls, Unmeasured) and acls.trouble is Trouble.NOT_ALLOWED:
        acls = replace(acls, advice=look.target.granting.command([Operation.DESCRIBE], [("cluster", None)]))
    yield target_writers.target_writers(look.subject, own, acls, look.target.probe.principal)


def _permissions(
    look: FlowLook,
    cluster: ClusterLook,
    topics: Sequence[str],
    selected: Mapping[str, TopicDescription] | Unmeasured,
) -> Permissions | Unmeasured:
    if isinstance(selected, Unmeasured):
        return selected
    return cluster.ask(lambda: cluster.probe.permissions(topics, plain_names(look.flow.groups)))


# Retention -------------------------------------------------------------------------------------


def _standings(
    look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured
) -> list[Standing] | Unmeasured:
    if isinstance(selected, Unmeasured):
        return selected
    recorded = measure(lambda: look.ledger.positions(look.flow.name), LEDGER)
    if isinstance(recorded, Unmeasured):
        return recorded
    positions = [position for position in recorded if _is_of(position, selected)]
    return look.source.ask(lambda: _measured_standings(look.source, positions)) if positions else []


def _is_of(position: FlowPosition, selected: Mapping[str, TopicDescription]) -> bool:
    """Positions of earlier incarnations, and of topics that the flow left, have nothing to lose."""
    topic = selected.get(position.source_topic)
    return topic is not None and topic.topic_id == position.source_topic_id


def _measured_standings(source: ClusterLook, positions: Sequence[FlowPosition]) -> list[Standing]:
    at = {(known.source_topic, known.partition): known.position.source_offset for known in positions}
    topics = sorted({topic for topic, _ in at})
    ends = source.probe.ends(list(at))
    settings = source.probe.settings(topics)
    behind = {p: at[p] for p, found in ends.items() if found.log_start <= at[p] < found.last_stable}
    timestamps = source.probe.timestamps(behind)
    sizes = _sizes(source, settings, ends)
    return [
        _standing(partition, at[partition], found, settings[partition[0]], timestamps, sizes)
        for partition, found in sorted(ends.items())
        if partition[0] in settings
    ]


def _sizes(
    source: ClusterLook, settings: Mapping[str, Settings], ends: Mapping[tuple[str, int], PartitionEnds]
) -> Mapping[tuple[str, int], int]:
    """Only of topics that are bounded by size; none when the cluster does not tell them."""
    bounded = {
        topic: 1 + max(partition for name, partition in ends if name == topic)
        for topic in {name for name, _ in ends}
        if _limit(settings.get(topic, {}), "retention.bytes", "delete") is not None
    }
    found = measure(lambda: source.probe.sizes(bounded)) if bounded else {}
    return {} if isinstance(found, Unmeasured) else found


def _standing(
    partition: tuple[str, int],
    position: int,
    ends: PartitionEnds,
    settings: Settings,
    timestamps: Mapping[tuple[str, int], int],
    sizes: Mapping[tuple[str, int], int],
) -> Standing:
    return Standing(
        topic=partition[0],
        partition=partition[1],
        position=position,
        log_start=ends.log_start,
        end=ends.last_stable,
        timestamp_ms=timestamps.get(partition),
        bytes=sizes.get(partition),
        retention_ms=_limit(settings, "retention.ms", "delete"),
        retention_bytes=_limit(settings, "retention.bytes", "delete"),
        delete_retention_ms=_limit(settings, "delete.retention.ms", "compact"),
    )


def _limit(settings: Settings, name: str, policy: str) -> int | None:
    """A limit that applies under the topic's cleanup policy; Kafka writes -1 for none."""
    applies = policy in settings.get("cleanup.policy", "delete").split(",")
    value = int(settings.get(name, -1)) if applies else -1
    return value if value >= 0 else None


# Pairs -----------------------------------------------------------------------------------------


def _pairs(
    look: FlowLook, selected: Mapping[str, TopicDescription] | Unmeasured
) -> tuple[TopicPair, ...] | Unmeasured:
    there = look.target.topics
    if isinstance(selected, Unmeasured):
        return selected
    if isinstance(there, Unmeasured):
        return there
    wanted = [look.flow.naming.target_name(name) for name in selected]
    existing = look.target.ask(lambda: look.target.probe.settings([n for n in wanted if n in there]))
    if isinstance(existing, Unmeasured):
        return existing
    sources = look.source.ask(lambda: _source_sides(look, selected))
    if isinstance(sources, Unmeasured):
        return sources
    absent = _absent_sides(look, [side for side in sources if _target_of(look, side) not in existing])
    if isinstance(absent, Unmeasured):
        return absent
    sides = {name: _side(there[name], settings) for name, settings in existing.items()} | absent
    return tuple(
        TopicPair(side, sides[_target_of(look, side)], _target_of(look, side) in existing) for side in sources
    )


def _target_of(look: FlowLook, side: SideOfPair) -> str:
    return look.flow.naming.target_name(side.name)


def _source_sides(look: FlowLook, selected: Mapping[str, TopicDescription]) -> list[SideOfPair]:
    settings = look.source.probe.settings(list(selected))
    return [_side(selected[name], found) for name, found in settings.items()]


def _side(topic: TopicDescription, settings: Settings) -> SideOfPair:
    return SideOfPair(topic.name, topic.partitions, topic.replication_factor, settings)


def _absent_sides(look: FlowLook, sources: Sequence[SideOfPair]) -> dict[str, SideOfPair] | Unmeasured:
    """Target topics as the flow will create them: their settings, over the defaults of the target's brokers."""
    if not sources:
        return {}
    defaults = look.target.broker_settings()
    if isinstance(defaults, Unmeasured):
        return defaults
    own = look.source.ask(lambda: look.source.probe.own_settings([source.name for source in sources]))
    if isinstance(own, Unmeasured):
        return own
    brokers = next(iter(defaults.values()), {})
    inherited = {name: brokers[default] for name, default in _BROKER_DEFAULTS.items()}
    return {
        _target_of(look, source): _absent_side(look, source, own.get(source.name, {}), inherited)
        for source in sources
    }


def _absent_side(look: FlowLook, source: SideOfPair, own: Settings, inherited: Settings) -> SideOfPair:
    made = look.following.creation(
        SourceTopic(source.name, "", source.partitions, source.replication_factor, own)
    )
    return SideOfPair(
        made.name, made.partitions, made.replication_factor, {**inherited, **made.configuration}
    )
