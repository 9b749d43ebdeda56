"""The topics of a running flow: what the source has, what the target must have, which partitions pair up.

What one topic is refused is a finding of that topic; the others are copied.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ledger.clock import Clock
from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.acls import AclFollow
from ledger.facts.findings import EXPLAINED, Finding, FindingName, Side
from ledger.facts.hand_overs import RETENTION
from ledger.facts.operations import FindingKey
from ledger.facts.syncs import PartitionPair, TopicPartition
from ledger.kafka.cluster import ClusterAdmin, SettingsAnswer, TopicDescription
from ledger.mirror.assignment import Hold, StopCause, nothing_held
from ledger.mirror.target_changes import TargetChanges, settings_of
from ledger.mirror.targets import (
    FollowingRecord,
    MirroredTopic,
    SourceDeletions,
    TopicAdmin,
    follow_acls,
    target_findings,
)
from ledger.topics.following import (
    ConfiguredTopic,
    FollowingPlan,
    TopicFollowing,
)
from ledger.topics.naming import (
    Refusals,
    SelectionRefusal,
    TakenTopics,
    TopicSelection,
    idle_patterns,
    left_out_in_words,
    matches_any,
    taken_topics,
)

# Paced settings -----------------------------------------------------------------------------------
# Settings of many topics, as one refresh after the other needs them.
#
# A broker takes seconds to describe thousands of topics, and rounds wait for a refresh. What was read is
# used again for twenty times as long as reading took: with a few topics every refresh reads again, with
# thousands one refresh in many. A topic that was not read yet is read at once, and so is one that was
# changed.


_TIMES_AS_LONG = 20


class PacedSettings:
    """Settings of one cluster's topics by topic id: another incarnation of a topic is another topic."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._read: dict[str, SettingsAnswer] = {}
        self._read_again_at = float("-inf")

    def of(self, topics: Iterable[TopicDescription]) -> SettingsAnswer:
        wanted = list(topics)
        if self._clock.monotonic() >= self._read_again_at:
            self._read.clear()
        is_due = not self._read
        started = self._clock.monotonic()
        self._read_missing([topic for topic in wanted if topic.topic_id not in self._read])
        if is_due:
            ended = self._clock.monotonic()
            self._read_again_at = ended + _TIMES_AS_LONG * (ended - started)
        found = [self._read[topic.topic_id] for topic in wanted if topic.topic_id in self._read]
        return SettingsAnswer(
            {name: settings for part in found for name, settings in part.read.items()},
            {name: reason for part in found for name, reason in part.refused.items()},
        )

    def forget(self, topic_id: str) -> None:
        """The topic was changed."""
        self._read.pop(topic_id, None)

    def _read_missing(self, topics: list[TopicDescription]) -> None:
        if not topics:
            return
        found = self._admin.topic_settings([topic.name for topic in topics])
        for topic in topics:
            if topic.name in found.read:
                self._read[topic.topic_id] = SettingsAnswer({topic.name: found.read[topic.name]}, {})
            elif topic.name in found.refused:
                self._read[topic.topic_id] = SettingsAnswer({}, {topic.name: found.refused[topic.name]})


# Flow topics --------------------------------------------------------------------------------------


log = logging.getLogger(__name__)

Described = Mapping[str, TopicDescription]
_BLOCKING = frozenset({FindingName.TARGET_TOPIC_NOT_CREATED, FindingName.PARTITIONS_NOT_ADDED})
_NAMES_OTHERS = frozenset({FindingName.TOPICS_LEFT_OUT, FindingName.SETTINGS_NOT_CHANGED})


class FlowTopics:
    """Lists the selected topics and makes the target follow. Holds what was said, so that it is said once."""

    def __init__(
        self,
        selection: TopicSelection,
        following: TopicFollowing,
        source: TopicAdmin,
        target: TopicAdmin,
        record: FollowingRecord,
        clock: Clock,
        *,
        delete_topics: bool,
        acls: AclFollow,
    ) -> None:
        self._selection = selection
        self._following = following
        self._source = source
        self._target = target
        self._record = record
        self._deletions = SourceDeletions(source, target, record, delete_topics=delete_topics)
        self._acls = acls
        self._source_settings = PacedSettings(source, clock)
        self._target_settings = PacedSettings(target, clock)
        self.changes = TargetChanges(target, record, clock, self._target_settings.forget)
        self._warned: set[str] = set()
        self._selects_nothing = False
        self._said: dict[FindingKey, str] = {}
        self._is_first_refresh = True
        self._paired: list[PartitionPair] = []
        self._mirrored: dict[str, MirroredTopic] | None = None
        self._same_cluster: bool | None = None
        self._cluster_ids: Mapping[str, str] = {}
        self.blocked: Mapping[str, str] = {}
        """Source topics that may not be copied for now, with the reason."""
        self.cleanup_policies: Mapping[str, str] = {}
        """Of source topics, as of the last refresh, as far as their settings may be described."""
        self.cleaned_targets: frozenset[str] = frozenset()
        """Target topics whose records may be removed by a cleaner, as of the last refresh."""

    def source_partitions(self) -> list[tuple[str, int]]:
        """Source partitions as of the last refresh, for recorders."""
        return [pair.source.place for pair in self._paired]

    def target_partitions(self) -> list[tuple[str, int]]:
        """Target partitions as of the last refresh, for recorders."""
        return [pair.target.place for pair in self._paired]

    def follow(
        self,
        *,
        written_topic_ids: frozenset[str],
        hold: Hold = nothing_held,
    ) -> list[PartitionPair]:
        """Make the target follow, then pair every selected source partition.

        Topics of the target that may not be written to (`hold`) are paired and left as they are. Of promoted ones,
        which are of applications now, what the target lacks and nobody has mirrored is a finding.
        Topics that cannot have the names that they would get are left out, with a finding.
        Raises `PreconditionError` when another cluster answers at either side than at the first refresh.
        """
        listed = self._source.topics()
        targets = self._target.topics()
        self._require_same_clusters()
        taken = self._taken(listed)
        self._selects_nothing = not taken.names
        conflicts = self._conflicts(taken, listed)
        sources = {name: listed[name] for name in taken.names if name not in conflicts}
        at_source = self._source_settings.of(sources.values())
        at_target = self._target_settings.of(self._targets_of(sources, targets).values())
        naming = self._following.naming
        followed = {name: topic for name, topic in sources.items() if hold(naming.target_name(name)) is None}
        refused = self._bring_up(followed, targets, at_source, at_target, written_topic_ids)
        if refused is not None:
            targets = self._target.topics()
            at_target = self._target_settings.of(self._targets_of(sources, targets).values())
        findings = [
            Finding(name=FindingName.TARGET_NAME_CONFLICT, topic=topic, message=f"{reason}; it is not copied")
            for topic, reason in conflicts.items()
        ]
        findings += [*(refused or ()), *self._unmirrored(sources, targets, hold)]
        findings += self._findings_about(followed, targets, at_source, at_target)
        mirrored = [
            topic
            for topic in self._all_mirrored().values()
            if self._selection.selects(topic.source) and hold(topic.target) is None
        ]
        findings += self._deletions.refresh(mirrored, listed, targets)
        findings += self._idle_patterns(taken.refusals, findings)
        findings += self._left_out(taken.refusals, targets)
        if self._acls is not AclFollow.NONE:
            findings += follow_acls(self._source, self._target, self._record, naming, sources.keys(), hold)
        self._renew(findings)
        self._record.findings.report(findings)
        self.blocked = self._blocked(sources, findings)
        self.cleanup_policies = {
            name: settings.effective.get("cleanup.policy", "delete")
            for name, settings in at_source.read.items()
        }
        self.cleaned_targets = frozenset(
            name
            for name, settings in at_target.read.items()
            if "compact" in settings.effective.get("cleanup.policy", "delete")
        )
        self._paired = list(self._pairs(sources, targets))
        self._remember(self._paired)
        self._is_first_refresh = False
        return self._paired

    def _unmirrored(self, sources: Described, targets: Described, hold: Hold) -> Iterator[Finding]:
        """Topics that began at the source once applications had left it."""
        for name, topic in sources.items():
            at_target = self._following.naming.target_name(name)
            if at_target in targets or topic.topic_id in self._all_mirrored():
                continue
            stop = hold(at_target)
            if stop is not None and stop.cause is StopCause.PROMOTED:
                message = f"{name} of {self._source.alias} is not copied: {stop.message}"
                way = f"{self._target.alias} --over {self._source.alias}"
                advice = EXPLAINED[FindingName.NEW_BEHIND_PROMOTION].next.replace("CLUSTER --over OTHER", way)
                yield Finding(
                    name=FindingName.NEW_BEHIND_PROMOTION, topic=name, message=message, advice=advice
                )

    def _require_same_clusters(self) -> None:
        """Asked after the topics were listed: another cluster says of all that they were deleted, or are new."""
        found = {admin.alias: admin.cluster_id() for admin in (self._source, self._target)}
        known = self._cluster_ids = self._cluster_ids or found
        for alias, cluster_id in found.items():
            if known[alias] != cluster_id:
                raise PreconditionError(
                    f"another cluster answers behind {alias}: its Kafka cluster id is {cluster_id}, this driver "
                    f"began with {known[alias]}; nothing was created, deleted or stopped because of it"
                )

    def existing(self) -> list[PartitionPair]:
        """Pair what exists on both sides; nothing is created."""
        listed = self._source.topics()
        taken = self._taken(listed)
        conflicts = self._conflicts(taken, listed)
        sources = {name: listed[name] for name in taken.names if name not in conflicts}
        return list(self._pairs(sources, self._target.topics()))

    # -- selecting -------------------------------------------------------------------------------

    def require_selected(self) -> None:
        """Raise `UnsafeError` when the last refresh found nothing to mirror: that is not all that was asked for."""
        if self._selects_nothing:
            raise UnsafeError(
                f"no topic of {self._source.alias} is selected by topics ({', '.join(self._selection.patterns)}), so "
                "there was nothing to catch up with; status says of each pattern why"
            )

    def _idle_patterns(self, refusals: Refusals, findings: Sequence[Finding]) -> list[Finding]:
        """A topic that was mirrored and was deleted is reported as such, and not for its pattern as well."""
        deleted = [
            str(finding.topic) for finding in findings if finding.name is FindingName.SOURCE_TOPIC_DELETED
        ]
        found = [
            Finding(
                name=FindingName.PATTERN_MATCHES_NOTHING,
                topic=idle.pattern,
                message=idle.described(self._source.alias),
            )
            for idle in idle_patterns(self._selection, refusals)
            if not idle.is_guard and not any(matches_any([idle.pattern], topic) for topic in deleted)
        ]
        self._remind(found)
        return found

    def _left_out(self, refusals: Refusals, targets: Described) -> list[Finding]:
        """One for all; each driver says it again."""
        left_out = self._selection.left_out(refusals, targets.keys())
        if SelectionRefusal.MIRRORED_BACK in left_out:
            written = self._record.state.written_topics(self._source.alias)
            left_out = self._selection.left_out(refusals, {*targets, *written})
        message = f"not mirrored: {left_out_in_words(left_out)}"
        finding = Finding(name=FindingName.TOPICS_LEFT_OUT, message=message)
        self._said.setdefault(finding.key, "")
        return [finding] if left_out else []

    def _renew(self, findings: Iterable[Finding]) -> None:
        """What names settings, or names of topics, is raised again when it names others."""
        for finding in findings:
            if finding.name in _NAMES_OTHERS:
                if self._said.setdefault(finding.key, finding.message) != finding.message:
                    self._record.findings.forget(finding)
                self._said[finding.key] = finding.message

    def _remind(self, found: Sequence[Finding]) -> None:
        """What an earlier driver raised is not raised again; a driver that starts says it all the same."""
        for finding in found if self._is_first_refresh else ():
            if finding.key in self._record.findings.already_open():
                log.warning(
                    "%(finding)s: %(what)s",
                    {"finding": finding.name, "topic": finding.topic, "what": finding.message},
                )

    def _taken(self, listed: Described) -> TakenTopics:
        internal = {name: topic.internal for name, topic in listed.items()}
        taken = taken_topics(
            self._selection, self._following.naming, internal, same_cluster=self._is_one_cluster()
        )
        for name, refusal in sorted(taken.refusals.items()):
            if refusal is SelectionRefusal.NOT_NAMED:
                self._warn_once(f"{name}: no rename rule matches; it is not mirrored")
        for name in sorted(taken.own_copies):
            self._warn_once(f"{name}: is what this flow makes of another topic; it is not mirrored again")
        return taken

    def _is_one_cluster(self) -> bool:
        """Two aliases may name the same cluster."""
        if self._same_cluster is None:
            self._same_cluster = self._source.cluster_id() == self._target.cluster_id()
        return self._same_cluster

    def _conflicts(self, taken: TakenTopics, listed: Described) -> dict[str, str]:
        """Why topics are left out for the names that they would get; what is copied under such a name already stays."""
        target_name, mirrored = self._following.naming.target_name, self._all_mirrored()

        def is_copied(name: str) -> bool:
            known = mirrored.get(listed[name].topic_id)
            return known is not None and known.target == target_name(name)

        return {name: reason for name, reason in taken.conflicts.items() if not is_copied(name)}

    def _all_mirrored(self) -> dict[str, MirroredTopic]:
        if self._mirrored is None:
            self._mirrored = self._record.mirrored_topics()
        return self._mirrored

    def _remember(self, paired: list[PartitionPair]) -> None:
        for pair in paired:
            mirrored = MirroredTopic(
                pair.source.topic, pair.source.topic_id, pair.target.topic, pair.target.topic_id
            )
            self._all_mirrored().setdefault(pair.source.topic_id, mirrored)

    # -- following -------------------------------------------------------------------------------

    def _bring_up(
        self,
        sources: Described,
        targets: Described,
        at_source: SettingsAnswer,
        at_target: SettingsAnswer,
        written_topic_ids: frozenset[str],
    ) -> list[Finding] | None:
        """Carry out what is to be done and return what was refused; None when nothing was to be done."""
        existing = self._targets_of(sources, targets)
        at_both = (
            [_configured(topic, at_source) for topic in sources.values()],
            {name: _configured(topic, at_target) for name, topic in existing.items()},
        )
        plan = self._planned(*at_both, written_topic_ids)
        if any(settings_of(one).keys() & {*RETENTION} for one in plan.actions):
            plan = self._planned_beside_holds(*at_both, written_topic_ids)
        for warning in plan.warnings:
            self._warn_once(warning)
        if not plan.actions:
            self.changes.carry_out((), targets)
            return None
        return self.changes.carry_out(plan.actions, targets)

    def _planned(
        self,
        sources: Sequence[ConfiguredTopic],
        targets: Mapping[str, ConfiguredTopic],
        written_topic_ids: frozenset[str],
        held: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> FollowingPlan:
        return self._following.plan(
            sources,
            targets,
            written_topic_ids=written_topic_ids,
            set_by_mirror=self._record.set_by_mirror(),
            held=held,
        )

    def _planned_beside_holds(
        self,
        sources: Sequence[ConfiguredTopic],
        targets: Mapping[str, ConfiguredTopic],
        written_topic_ids: frozenset[str],
    ) -> FollowingPlan:
        """T6, by what the ledger has of retention that is held at either side."""
        recorded = self._record.state.hand_overs()
        at_source, at_target = (recorded.before_held(one.alias) for one in (self._source, self._target))
        before = [
            replace(topic, configuration=held.before(topic.configuration))
            if (held := at_source.get((topic.name, topic.topic_id))) and topic.configuration is not None
            else topic
            for topic in sources
        ]
        names = {topic_id: tuple(held.former) for (_, topic_id), held in at_target.items()}
        return self._planned(before, targets, written_topic_ids, names)

    def _targets_of(self, sources: Described, targets: Described) -> dict[str, TopicDescription]:
        names = [self._following.naming.target_name(name) for name in sources]
        return {name: targets[name] for name in names if name in targets}

    def _findings_about(
        self, sources: Described, targets: Described, at_source: SettingsAnswer, at_target: SettingsAnswer
    ) -> Iterator[Finding]:
        """What the target topics are like now, after all changes."""
        for side, settings in ((Side.SOURCE, at_source), (Side.TARGET, at_target)):
            for name, reason in settings.refused.items():
                message = f"{name} at the {side}: {reason}"
                yield Finding(name=FindingName.SETTINGS_NOT_READ, topic=name, message=message)
        for name, topic in sources.items():
            target = targets.get(self._following.naming.target_name(name))
            if target is None:
                continue
            if target.partitions > topic.partitions:
                message = (
                    f"{target.name} has {target.partitions} partitions, its source {topic.partitions}: "
                    "the surplus gets nothing"
                )
                yield Finding(name=FindingName.MORE_PARTITIONS, topic=target.name, message=message)
            found, compared = at_target.read.get(target.name), at_source.read.get(name)
            if found is not None:
                yield from target_findings(
                    target.name,
                    source=compared.effective if compared else {},
                    target=found.effective,
                    replicas=target.replication_factor,
                )

    def _blocked(self, sources: Described, findings: list[Finding]) -> dict[str, str]:
        refused = {finding.topic: finding.message for finding in findings if finding.name in _BLOCKING}
        refused |= dict.fromkeys(self.changes.waiting, "a quota of the target lets it be made later")
        naming = self._following.naming
        return {
            name: refused[naming.target_name(name)] for name in sources if naming.target_name(name) in refused
        }

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning("%s", message)

    # -- pairing ---------------------------------------------------------------------------------

    def _pairs(self, sources: Described, targets: Described) -> Iterator[PartitionPair]:
        for name, topic in sources.items():
            if name in self.blocked:
                continue
            target = targets.get(self._following.naming.target_name(name))
            if target is None:
                self._warn_once(f"{name}: its target topic is not described yet; it is copied when it is")
                continue
            for partition in range(min(topic.partitions, target.partitions)):
                yield PartitionPair(
                    TopicPartition(name, topic.topic_id, partition),
                    TopicPartition(target.name, target.topic_id, partition),
                )


def _configured(topic: TopicDescription, settings: SettingsAnswer) -> ConfiguredTopic:
    found = settings.read.get(topic.name)
    return ConfiguredTopic(
        topic.name, topic.topic_id, topic.partitions, topic.replication_factor, found.own if found else None
    )
