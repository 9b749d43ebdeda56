"""One flow examined, on both of its clusters: topics, permissions, sizes, retention."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ledger.clock import SystemClock
from ledger.config.flows import plain_names
from ledger.config.values import FlowConfig, TargetMode
from ledger.doctor import permissions, special_topics, topic_settings
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.cluster import ClusterMeasurements
from ledger.doctor.measurements import Operation, Permissions, Settings
from ledger.doctor.probes import LedgerProbe
from ledger.doctor.results import (
    LEDGER,
    CheckResult,
    Unmeasured,
    duration,
    known,
    measure,
    named,
    size,
    unknown,
)
from ledger.doctor.topic_settings import SideOfPair, TopicPair
from ledger.errors import Trouble
from ledger.facts.acls import may_write, writers
from ledger.facts.direction import Directions
from ledger.facts.findings import EXPLAINED, FindingName
from ledger.facts.permissions import Permission
from ledger.kafka.cluster import PartitionEnds, TopicDescription
from ledger.mirror.other_mirrors import signs_of_mirror_maker
from ledger.topics.following import BROKERS_DEFAULT, ConfiguredTopic, NewTopic, TopicFollowing
from ledger.topics.naming import (
    IdlePattern,
    NamePatterns,
    TakenTopics,
    TopicSelection,
    idle_patterns,
    left_out_in_words,
    matches_any,
    plain_name,
    taken_topics,
)
from ledger.words import counted, shell_word

# Retention ----------------------------------------------------------------------------------------
# Verdicts on retention: how long what is not copied yet stays at the source.
#
# Kafka deletes whole segments, when the largest timestamp in one is older than `retention.ms`, or the log
# without it is still larger than `retention.bytes`. So a record stays at least as long as reported here.


DEFAULT_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReading:
    """Where a flow stands on one partition beside what the source still has.

    Limits are None when there is none. `timestamp_ms`: of the batch at the position, None when there is
    no batch. `bytes`: of the partition, None when the cluster did not say.
    """

    topic: str
    partition: int
    position: int
    log_start: int
    end: int
    timestamp_ms: int | None
    bytes: int | None
    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)

    @property
    def lost(self) -> int:
        """Records (or gaps) between the position and the log start."""
        return max(0, self.log_start - self.position)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left of a limit on one partition."""

    reading: RetentionReading
    left: int
    limit: int

    @property
    def share(self) -> float:
        return self.left / self.limit if self.limit else 0.0


def retention(
    subject: str, readings: Sequence[RetentionReading] | Unmeasured, *, now_ms: int, share: float
) -> Iterator[CheckResult]:
    """The three verdicts on a flow, each with its worst partition."""
    if isinstance(readings, Unmeasured):
        for check in (Check.RETENTION_TIME, Check.RETENTION_BYTES, Check.TOMBSTONES):
            yield unknown(subject, check, readings)
        return
    yield _time(subject, readings, now_ms, share)
    yield _bytes(subject, readings, share)
    yield _tombstones(subject, readings, now_ms, share)


def _time(subject: str, readings: Sequence[RetentionReading], now_ms: int, share: float) -> CheckResult:
    check = Check.RETENTION_TIME
    lost = [reading for reading in readings if reading.lost]
    if lost:
        worst = max(lost, key=lambda reading: reading.lost)
        measured = (
            f"{named([reading.name for reading in lost])}: the flow stands at {worst.position} of {worst.name}, "
            f"the log starts at {worst.log_start}: {worst.lost:,} offsets were deleted"
        )
        advice = "what was deleted is recorded as lost when the flow runs; see on_loss, resume and skip-to"
        return CheckResult(subject, check, Verdict.FAILED, measured, advice)
    found = [
        Headroom(s, s.timestamp_ms + s.retention_ms - now_ms, s.retention_ms)
        for s in _behind(readings)
        if s.retention_ms is not None and s.timestamp_ms is not None
    ]
    advice = "let the flow catch up, or raise retention.ms at the source"
    return _by_worst(subject, check, readings, found, share, duration, advice)


def _bytes(subject: str, readings: Sequence[RetentionReading], share: float) -> CheckResult:
    check = Check.RETENTION_BYTES
    bounded = [s for s in _behind(readings) if s.retention_bytes is not None]
    unsized = [s.name for s in bounded if s.bytes is None]
    if unsized:
        advice = "allow the mirror's principal to Describe the cluster at the source, which tells sizes"
        reason = f"the source does not tell the size of {named(unsized)}"
        return unknown(subject, check, Unmeasured(reason, at=subject, advice=advice))
    found = [
        Headroom(s, s.retention_bytes - _bytes_after_position(s), s.retention_bytes)
        for s in bounded
        if s.retention_bytes is not None
    ]
    advice = "let the flow catch up, or raise retention.bytes at the source"
    return _by_worst(subject, check, readings, found, share, size, advice)


def _tombstones(subject: str, readings: Sequence[RetentionReading], now_ms: int, share: float) -> CheckResult:
    found = [
        Headroom(s, s.timestamp_ms + s.delete_retention_ms - now_ms, s.delete_retention_ms)
        for s in _behind(readings)
        if s.delete_retention_ms is not None and s.timestamp_ms is not None
    ]
    advice = (
        "tombstones may be dropped before they are copied: deleted keys would remain at the target; "
        "let the flow catch up, or raise delete.retention.ms"
    )
    return _by_worst(subject, Check.TOMBSTONES, readings, found, share, duration, advice)


def _behind(readings: Sequence[RetentionReading]) -> list[RetentionReading]:
    return [reading for reading in readings if reading.lag]


def _bytes_after_position(reading: RetentionReading) -> int:
    """From the share of offsets: batches are taken to be of one size."""
    offsets = reading.end - reading.log_start
    return (reading.bytes or 0) * reading.lag // offsets if offsets else 0


def _by_worst(
    subject: str,
    check: Check,
    readings: Sequence[RetentionReading],
    found: Sequence[Headroom],
    share: float,
    shown: Callable[[int], str],
    advice: str,
) -> CheckResult:
    if not found:
        lag = sum(reading.lag for reading in readings)
        why = "no limit applies" if lag else "caught up"
        measured = f"{counted(len(readings), 'partition')}, {lag:,} records behind: {why}"
        return CheckResult(
            subject, check, Verdict.OK, measured if readings else "the flow has no position yet"
        )
    worst = min(found, key=lambda headroom: headroom.share)
    at_risk = sum(headroom.share < share for headroom in found)
    left = (
        f"{shown(worst.left)} of {shown(worst.limit)} left"
        if worst.left > 0
        else "may be deleted at any time"
    )
    measured = f"worst {worst.reading.name}: {left}, {worst.reading.lag:,} records behind"
    if at_risk:
        measured = f"{counted(at_risk, 'partition')} at risk; {measured}"
        return CheckResult(subject, check, Verdict.WARNING, measured, advice)
    return CheckResult(subject, check, Verdict.OK, measured)


# Selection ----------------------------------------------------------------------------------------
# Verdicts on what a flow selects: its topics, the groups that are recorded, and patterns that do nothing.


_ALL = ".*"


def selected_topics(
    subject: str,
    cluster: str,
    topics: Sequence[str] | Unmeasured,
    idle: Sequence[IdlePattern],
    left_out: str = "",
) -> CheckResult:
    """`topics` that are selected, patterns that do nothing at the source `cluster`, and what is left out for its
    name."""
    wrong = [pattern.described(cluster) for pattern in idle if not pattern.is_guard]
    guards = [pattern.pattern for pattern in idle if pattern.is_guard]
    advice = "correct the patterns; or topics do not exist yet, or the principal may not describe them"
    if left_out:
        wrong.append(f"not mirrored: {left_out}")
        advice = EXPLAINED[FindingName.TOPICS_LEFT_OUT].next + (f"; {advice}" if wrong[1:] else "")
    return _finding(subject, Check.SELECTED_TOPICS, topics, "topic", wrong, guards, advice)


def selected_groups(
    subject: str, cluster: str, groups: Sequence[str] | Unmeasured, patterns: NamePatterns
) -> CheckResult:
    """`groups`: all that the principal is shown."""
    if isinstance(groups, Unmeasured):
        return unknown(subject, Check.SELECTED_GROUPS, groups)
    selected = [*filter(patterns.matches, groups)]
    unmatched = [pattern for pattern in patterns.exclude if not any(_matching(pattern, groups))]
    wrong = [
        *(f"groups has '{p}'" for p in patterns.include if p != _ALL and not any(_matching(p, selected))),
        *(f"groups_exclude has '{p}'" for p in unmatched if plain_name(p) is not None),
    ]
    problems = [
        f"{pattern}: no group of {cluster} that this principal is shown matches it" for pattern in wrong
    ]
    guards = [pattern for pattern in unmatched if plain_name(pattern) is None]
    advice = "correct the patterns; or groups do not exist yet, or the principal may not describe them"
    return _finding(subject, Check.SELECTED_GROUPS, selected, "group", problems, guards, advice)


def _matching(pattern: str, names: Sequence[str]) -> Iterator[str]:
    return (name for name in names if matches_any([pattern], name))


def _finding(
    subject: str,
    check: Check,
    selected: Sequence[str] | Unmeasured,
    kind: str,
    wrong: Sequence[str],
    guards: Sequence[str],
    advice: str,
) -> CheckResult:
    if isinstance(selected, Unmeasured):
        return unknown(subject, check, selected)
    listed = f"{counted(len(selected), kind)}: {named(list(selected))}" if selected else f"no {kind}"
    so_far = [f"nothing to exclude so far: {named(guards)}"] if guards else []
    measured = "; ".join([listed, *wrong, *so_far])
    return CheckResult(
        subject, check, Verdict.WARNING if wrong else Verdict.OK, measured, advice if wrong else None
    )


# Topic names --------------------------------------------------------------------------------------
# Verdict on names: topics whose names differ in `.` and `_` alone are one topic in Kafka's metrics.


def metric_name(topic: str) -> str:
    """The name that Kafka's metrics know a topic by, as its own admin does (`Topic.unifyCollisionChars`)."""
    return topic.replace(".", "_")


def conflicts(subject: str, taken: TakenTopics | Unmeasured) -> Iterator[CheckResult]:
    """Why a driver leaves topics out."""
    if not isinstance(taken, Unmeasured) and taken.conflicts:
        measured = "; ".join(dict.fromkeys(taken.conflicts.values()))
        advice = EXPLAINED[FindingName.TARGET_NAME_CONFLICT].next
        yield CheckResult(subject, Check.TOPIC_NAMES, Verdict.FAILED, measured, advice)


def topic_names(
    subject: str, wanted: Sequence[str] | Unmeasured, there: Collection[str] | Unmeasured
) -> CheckResult:
    """`wanted`: target topics of the flow; `there`: all topics that the target has."""
    check = Check.TOPIC_NAMES
    for names in (wanted, there):
        if isinstance(names, Unmeasured):
            return unknown(subject, check, names)
    assert not isinstance(wanted, Unmeasured)
    assert not isinstance(there, Unmeasured)
    shared = _shared(wanted, there)
    if not shared:
        return CheckResult(subject, check, Verdict.OK, f"{counted(len(wanted), 'name')} of their own")
    measured = named([f"{' and '.join(names)} are both {metric_name(names[0])}" for names in shared])
    missing = [name for names in shared for name in names if name not in there]
    refused = f"; brokers refuse to create {named(missing)} beside the other" if missing else ""
    advice = f"rename one of them by a rename rule, or exclude it: metrics do not tell them apart{refused}"
    return CheckResult(subject, check, Verdict.WARNING, measured, advice)


def _shared(wanted: Sequence[str], there: Collection[str]) -> list[list[str]]:
    """Topics of one name in metrics, as far as the flow makes one of them."""
    topics: dict[str, set[str]] = {}
    for name in {*wanted, *there}:
        topics.setdefault(metric_name(name), set()).add(name)
    made = {metric_name(name) for name in wanted}
    return [sorted(topics[name]) for name in sorted(made) if len(topics[name]) > 1]


# Target writers -----------------------------------------------------------------------------------
# Verdict on who may write to target topics beside the mirror, before they are promoted.


_CHECK = Check.TARGET_WRITERS
_ADVICE = (
    "records of others stop the flow (foreign_write): allow it when topics are promoted, deny it until then"
)


def target_writers(
    subject: str, topics: Sequence[str], acls: frozenset[Permission] | Unmeasured, mirror: str | None
) -> CheckResult:
    """`topics`: the flow's own at its target, none of them promoted; `mirror`: its principal, None: not known."""
    if isinstance(acls, Unmeasured):
        return unknown(subject, _CHECK, acls)
    who = {topic: _others(topic, acls, mirror) for topic in topics}
    open_topics = sorted(topic for topic, others in who.items() if others)
    if not open_topics:
        measured = f"{counted(len(topics), 'topic')}: nobody else"
        return CheckResult(subject, _CHECK, Verdict.OK, measured)
    if mirror is None:
        reason = "which principal is the mirror's is not configured, so who else may write is not known"
        return unknown(subject, _CHECK, Unmeasured(reason, advice="set mirror_principal of the cluster"))
    principals = sorted(frozenset().union(*who.values()))
    measured = f"{named(principals)} may write to {named(open_topics)}"
    return CheckResult(subject, _CHECK, Verdict.WARNING, measured, _ADVICE)


def no_authorizer(subject: str) -> CheckResult:
    """Everybody may."""
    measured = "the cluster has no authorizer: everybody may write"
    advice = "an authorizer keeps applications away until the topics are promoted"
    return CheckResult(subject, _CHECK, Verdict.WARNING, measured, advice)


def _others(topic: str, acls: frozenset[Permission], mirror: str | None) -> frozenset[str]:
    allowed = writers(topic, acls) - {mirror}
    return frozenset(principal for principal in allowed if may_write(principal, topic, acls))


# Flow examination ---------------------------------------------------------------------------------


_BROKER_DEFAULTS = {
    "max.message.bytes": "message.max.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Settings of a topic by the broker's setting that they default to."""
_DEFAULT_REPLICAS = "default.replication.factor"


@dataclass(frozen=True)
class FlowMeasurements:
    """A flow with its two clusters."""

    flow: FlowConfig
    selection: TopicSelection
    source: ClusterMeasurements
    target: ClusterMeasurements
    ledger: LedgerProbe

    @property
    def subject(self) -> str:
        return f"flow {self.flow.name}"

    @cached_property
    def taken(self) -> TakenTopics | Unmeasured:
        """What the flow makes of the source's topics, by the rule that its driver goes by."""
        if isinstance(self.source.topics, Unmeasured):
            return self.source.topics
        internal = {name: topic.internal for name, topic in self.source.topics.items()}
        return taken_topics(
            self.selection, self.flow.naming, internal, same_cluster=self.source.is_one_with(self.target)
        )

    @cached_property
    def selected(self) -> Mapping[str, TopicDescription] | Unmeasured:
        """The source topics that it takes, by name."""
        return measure(lambda: {name: known(self.source.topics)[name] for name in known(self.taken).names})

    @cached_property
    def target_names(self) -> Mapping[str, str] | Unmeasured:
        """By source topic what it is called at the target."""
        return measure(lambda: {name: self.flow.naming.target_name(name) for name in known(self.selected)})

    @property
    def written_topics(self) -> frozenset[str]:
        """Names that the flow writes to at its target, as far as they are known."""
        return frozenset(() if isinstance(self.target_names, Unmeasured) else self.target_names.values())


def flow_findings(
    one: FlowMeasurements, *, also_target: frozenset[str], now_ms: int, share: float
) -> Iterator[CheckResult]:
    """All that is said of a flow. `also_target`: source topics that some flow writes to."""
    subject = one.subject
    if not one.flow.enabled:
        measured = "enabled = false: run refuses it"
        yield CheckResult(
            subject, Check.ENABLED, Verdict.WARNING, measured, "remove the line when it is to run"
        )
    yield from _selection(one)
    yield from conflicts(subject, one.taken)
    yield topic_names(subject, measure(lambda: [*known(one.target_names).values()]), one.target.topics)
    yield from _target_records(one)
    yield from _source_permissions(one, also_target)
    yield from _target_permissions(one)
    yield from retention(subject, measure(lambda: _retention_readings(one)), now_ms=now_ms, share=share)
    pairs = measure(lambda: _pairs(one))
    yield from topic_settings.batch_size(subject, pairs, one.target.broker_settings())
    yield from topic_settings.replication(subject, pairs, one.target.broker_count)
    yield from topic_settings.partitions(subject, pairs)
    yield from topic_settings.settings(subject, pairs, measure(lambda: _refused_settings(one)))
    yield from special_topics.tiered(subject, pairs)
    yield from special_topics.record_path(
        subject, pairs, is_filtered=not one.flow.filter.record_filter.keeps_all
    )
    yield from special_topics.tool_topics(subject, one.source.topics, one.selected)


def left_out(flow: FlowConfig) -> CheckResult:
    """What is said of a disabled flow that nobody named."""
    advice = f"mirror-ledger doctor {flow.name} examines it all the same"
    return CheckResult(f"flow {flow.name}", Check.ENABLED, Verdict.SKIPPED, "enabled = false", advice)


def _selection(one: FlowMeasurements) -> Iterator[CheckResult]:
    refusals = {} if isinstance(one.taken, Unmeasured) else one.taken.refusals
    cluster, idle = one.source.alias, list(idle_patterns(one.selection, refusals))
    left_out = left_out_in_words(one.selection.left_out(refusals, _copied(one)))
    yield selected_topics(one.subject, cluster, measure(lambda: list(known(one.selected))), idle, left_out)
    groups = one.source.ask(lambda: [group.group_id for group in one.source.admin.groups()])
    yield selected_groups(one.subject, cluster, groups, one.flow.group_patterns)


def _copied(one: FlowMeasurements) -> frozenset[str]:
    """Names that show of topics at the source that they are copies; what could not be asked shows nothing."""
    written = measure(lambda: one.ledger.state.written_topics(one.source.alias), LEDGER)
    found = (written, one.target.topics)
    return frozenset().union(*(names for names in found if not isinstance(names, Unmeasured)))


def _target_records(one: FlowMeasurements) -> Iterator[CheckResult]:
    """Of targets that others may write to by design, or that are the source of the way back, nothing is said."""
    if one.flow.target_mode is TargetMode.SHARED or one.flow.opposite is not None:
        return
    filled = measure(lambda: _filled(one))
    if isinstance(filled, Unmeasured):
        yield unknown(one.subject, Check.TARGET_RECORDS, filled)
    elif not filled:
        yield CheckResult(one.subject, Check.TARGET_RECORDS, Verdict.OK, "no record that is not the flow's")
    else:
        signs = measure(lambda: signs_of_mirror_maker(one.target.admin, SystemClock()))
        listed = named([f"{name} ({records:,} offsets)" for name, records in filled.items()])
        said = [signs.reason] if isinstance(signs, Unmeasured) else signs
        measured = f"records of others are there before the flow has copied any: {listed}"
        advice = (
            "where they are copies of the same source, as MirrorMaker 2 makes them: stop what made them, and "
            f"mirror-ledger adopt {shell_word(one.flow.name)} takes them over; else empty the topics, or give the "
            "flow others"
        )
        yield CheckResult(
            one.subject, Check.TARGET_RECORDS, Verdict.FAILED, "; ".join([measured, *said]), advice
        )


def _filled(one: FlowMeasurements) -> dict[str, int]:
    """By target topic how many offsets it holds, where the flow has copied nothing to a partition that has some."""
    there, selected = known(one.target.topics), known(one.selected)
    stopped = known(measure(lambda: one.ledger.stopped_at_others(one.flow.name), LEDGER))
    recorded = known(measure(lambda: one.ledger.state.positions(one.flow.name), LEDGER))
    copied = {
        at.pair.source.key
        for at in recorded
        if at.position.next_sequence or at.pair.source.key not in stopped
    }
    wanted = {
        (target, partition): (selected[source].topic_id, partition)
        for source, target in known(one.target_names).items()
        if target in there
        for partition in range(min(there[target].partitions, selected[source].partitions))
    }
    asked = [place for place, key in wanted.items() if key not in copied]
    ends = known(one.target.ask(lambda: one.target.admin.ends(asked))) if asked else {}
    found: dict[str, int] = {}
    for (topic, _), end in sorted(ends.items()):
        if end.high_watermark > end.log_start:
            found[topic] = found.get(topic, 0) + end.high_watermark - end.log_start
    return found


# Permissions -----------------------------------------------------------------------------------


def _source_permissions(one: FlowMeasurements, also_target: frozenset[str]) -> Iterator[CheckResult]:
    """Topics that the flow names are asked for too: what may not be described is in no listing."""
    seen = () if isinstance(one.selected, Unmeasured) else tuple(one.selected)
    asked = list(dict.fromkeys([*seen, *plain_names(one.flow.topics)]))
    found = _permissions(one, one.source, asked)
    operations = {} if isinstance(found, Unmeasured) else found.topics
    topics = [name for name in asked if name in seen or operations.get(name) is None]
    yield from permissions.source(one.subject, found, topics, one.source.granting, also_target=also_target)
    yield permissions.recorded(one.subject, one.source.alias, found, one.source.granting)


def _target_permissions(one: FlowMeasurements) -> Iterator[CheckResult]:
    wanted = [] if isinstance(one.target_names, Unmeasured) else [*one.target_names.values()]
    there = {} if isinstance(one.target.topics, Unmeasured) else one.target.topics
    found = _permissions(one, one.target, wanted)
    existing = [name for name in wanted if name in there]
    absent = [name for name in wanted if name not in there]
    yield from permissions.target(one.subject, found, existing, absent, one.target.granting)
    yield from _target_writers(one, wanted, found)
    yield permissions.recorded(one.subject, one.target.alias, found, one.target.granting)


def _target_writers(
    one: FlowMeasurements, wanted: Sequence[str], found: Permissions | Unmeasured
) -> Iterator[CheckResult]:
    """Of targets that others may write to by design nothing is said."""
    if one.flow.target_mode is TargetMode.SHARED:
        return
    if not isinstance(found, Unmeasured) and not found.enforced:
        yield no_authorizer(one.subject)
        return
    directions = measure(lambda: one.ledger.state.directions(), LEDGER)
    active = Directions() if isinstance(directions, Unmeasured) else directions
    own = [name for name in wanted if active.promotion(one.flow.source, one.flow.target, name) is None]
    acls = found if isinstance(found, Unmeasured) else one.target.ask(one.target.admin.topic_acls)
    if isinstance(acls, Unmeasured) and acls.trouble is Trouble.NOT_ALLOWED:
        acls = replace(acls, advice=one.target.granting.command([Operation.DESCRIBE], [("cluster", None)]))
    yield target_writers(one.subject, own, acls, one.target.probe.principal)


def _permissions(
    one: FlowMeasurements, cluster: ClusterMeasurements, topics: Sequence[str]
) -> Permissions | Unmeasured:
    if isinstance(one.selected, Unmeasured):
        return one.selected
    return cluster.ask(lambda: cluster.probe.permissions(topics, plain_names(one.flow.groups)))


# Retention -------------------------------------------------------------------------------------


def _retention_readings(one: FlowMeasurements) -> list[RetentionReading]:
    """Positions of earlier incarnations, and of topics that the flow left, have nothing to lose."""
    topic_ids = {(name, topic.topic_id) for name, topic in known(one.selected).items()}
    recorded = known(measure(lambda: one.ledger.state.positions(one.flow.name), LEDGER))
    positions = {
        (found.source_topic, found.partition): found.position.source_offset
        for found in recorded
        if (found.source_topic, found.source_topic_id) in topic_ids
    }
    return known(one.source.ask(lambda: _measured_readings(one.source, positions))) if positions else []


def _measured_readings(
    source: ClusterMeasurements, at: Mapping[tuple[str, int], int]
) -> list[RetentionReading]:
    ends = source.admin.ends(list(at))
    settings = source.admin.effective_settings(sorted({topic for topic, _ in at}))
    behind = {p: at[p] for p, found in ends.items() if found.log_start <= at[p] < found.last_stable}
    timestamps = source.probe.timestamps(behind)
    sizes = _sizes(source, settings, ends)
    return [
        RetentionReading(
            topic=topic,
            partition=partition,
            position=at[topic, partition],
            log_start=found.log_start,
            end=found.last_stable,
            timestamp_ms=timestamps.get((topic, partition)),
            bytes=sizes.get((topic, partition)),
            retention_ms=_limit(settings[topic], "retention.ms", "delete"),
            retention_bytes=_limit(settings[topic], "retention.bytes", "delete"),
            delete_retention_ms=_limit(settings[topic], "delete.retention.ms", "compact"),
        )
        for (topic, partition), found in sorted(ends.items())
        if topic in settings
    ]


def _sizes(
    source: ClusterMeasurements,
    settings: Mapping[str, Settings],
    ends: Mapping[tuple[str, int], PartitionEnds],
) -> Mapping[tuple[str, int], int]:
    """Only of topics that are bounded by size; none when the cluster does not tell them."""
    bounded = {
        topic: 1 + max(partition for name, partition in ends if name == topic)
        for topic in {name for name, _ in ends}
        if _limit(settings.get(topic, {}), "retention.bytes", "delete") is not None
    }
    found = measure(lambda: source.probe.sizes(bounded)) if bounded else {}
    return {} if isinstance(found, Unmeasured) else found


def _limit(settings: Settings, name: str, policy: str) -> int | None:
    """A limit that applies under the topic's cleanup policy; Kafka writes -1 for none."""
    applies = policy in settings.get("cleanup.policy", "delete").split(",")
    value = int(settings.get(name, -1)) if applies else -1
    return value if value >= 0 else None


# Pairs -----------------------------------------------------------------------------------------


def _pairs(one: FlowMeasurements) -> tuple[TopicPair, ...]:
    names, selected, there = known(one.target_names), known(one.selected), known(one.target.topics)
    source, target = one.source, one.target
    wanted = [name for name in names.values() if name in there]
    existing = known(target.ask(lambda: target.admin.effective_settings(wanted)))
    described = known(source.ask(lambda: source.admin.effective_settings(list(selected))))
    sides = [_side(selected[name], settings) for name, settings in described.items()]
    absent = _absent_sides(one, [side for side in sides if names[side.name] not in existing])
    targets = {name: _side(there[name], settings) for name, settings in existing.items()} | absent
    return tuple(TopicPair(side, targets[names[side.name]], names[side.name] in existing) for side in sides)


def _side(topic: TopicDescription, settings: Settings) -> SideOfPair:
    return SideOfPair(topic.name, topic.partitions, topic.replication_factor, settings)


def _absent_sides(one: FlowMeasurements, sources: Sequence[SideOfPair]) -> dict[str, SideOfPair]:
    """Target topics as the flow will create them: their settings, over the defaults of the target's brokers."""
    if not sources:
        return {}
    brokers = next(iter(known(one.target.broker_settings()).values()), {})
    inherited = {name: brokers[default] for name, default in _BROKER_DEFAULTS.items()}
    return {
        made.name: SideOfPair(
            made.name,
            made.partitions,
            int(brokers[_DEFAULT_REPLICAS])
            if made.replication_factor == BROKERS_DEFAULT
            else made.replication_factor,
            {**inherited, **made.configuration},
        )
        for made in _created(one, sources)
    }


def _created(one: FlowMeasurements, sources: Sequence[SideOfPair | TopicDescription]) -> Sequence[NewTopic]:
    """How the flow will create the target topics of these."""
    own = known(one.source.ask(lambda: one.source.admin.configurations([side.name for side in sources])))
    flow = one.flow
    following = TopicFollowing(
        flow.naming, len(one.target.node_ids), flow.replication_factor, flow.settings_following
    )
    return [
        following.creation(
            ConfiguredTopic(side.name, "", side.partitions, side.replication_factor, own.get(side.name, {}))
        )
        for side in sources
    ]


def _refused_settings(one: FlowMeasurements) -> Mapping[str, str]:
    """By target topic that will be created why the target does not take a setting of it."""
    names, there = known(one.target_names), known(one.target.topics)
    absent = [topic for name, topic in known(one.selected).items() if names[name] not in there]
    wanted = _created(one, absent) if absent else ()
    return known(one.target.ask(lambda: one.target.admin.refused_settings(wanted))) if wanted else {}
