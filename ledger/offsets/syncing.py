"""Groups that read at the source keep a commit at the target, so that they can start there by themselves.

One pass: of groups whose commits changed, or whose place was not final, the translation is asked for again; of those
whose place is another one than what was committed last, the target is read; what may be committed is, and read back.
What is about to be committed is recorded before, so that no crash makes the flow's own commit a stranger's.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.errors import MirrorLedgerError, ShutOutError
from ledger.facts.direction import Promotion, nothing_promoted
from ledger.facts.groups import (
    RETRY_REFUSED_AFTER_MS,
    CommitRefusal,
    Hindrance,
    NewCommit,
    Place,
    Synced,
    SyncEvent,
)
from ledger.facts.tables import GROUP_SYNCS, OFFSET_SYNCS, Row
from ledger.facts.ways import Direction
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import ClusterAdmin
from ledger.offsets.between_clusters import (
    commits_beside_outputs,
    commits_of_groups,
    copied_up_to,
    last_group_syncs,
    left_offsets,
    source_commits,
    translate,
)
from ledger.offsets.maker_topics import Checkpoints, TargetTopics, heartbeats
from ledger.offsets.metadata import metadata_in_step
from ledger.offsets.moving import offsets_set_at
from ledger.offsets.setting import (
    Answer,
    OutputsStatus,
    SourceCommit,
    TargetGroups,
    answered_commit,
    beside_outputs,
    place_of,
    synced_before,
)
from ledger.offsets.statuses import TranslationStatus
from ledger.store import sql
from ledger.store.delta_tables import newest_version
from ledger.store.session import WriterSession
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.state import followed_state
from ledger.threads import beside

log = logging.getLogger(__name__)
CommitKey = tuple[str, str, int]
"""A group, and a topic and partition of it at the source."""

FINAL = frozenset(
    {
        TranslationStatus.EXACT,
        TranslationStatus.AT_END,
        TranslationStatus.BEFORE_FIRST,
        TranslationStatus.TRUNCATED,
        TranslationStatus.LOST,
        TranslationStatus.EXPIRED_ON_TARGET,
    }
)
"""Statuses of which nothing more comes while the commit stays; what is copied meanwhile changes the others."""


class SyncAnswers(Protocol):
    """What the ledger says, as of now."""

    def commits(self) -> Mapping[CommitKey, object]:
        """Commits at the source of the groups and topics of the flow, each as something that changes with it."""
        ...

    def map_state(self) -> object:
        """Something that changes with what is recorded as copied."""
        ...

    def translate(self, groups: Collection[str]) -> Sequence[Answer]:
        """Where commits of these groups land at the target, in topics that the flow writes."""
        ...

    def source_commits(self, groups: Collection[str]) -> Mapping[CommitKey, SourceCommit]:
        """What is known of the commits of these groups at the source."""
        ...

    def known_offsets(self, groups: Collection[str]) -> Mapping[Place, Collection[int]]:
        """By place at the target what operators have set there, and the commit from which the group's last recorded
        move away from there took it."""
        ...

    def promotion(self) -> Promotion:
        """Which target topics are promoted."""
        ...


@dataclass(frozen=True, slots=True)
class SyncPass:
    """What one pass came to: how many groups were translated, how many commits made, and why others were not.

    `waiting`: commits to which the map has not come yet.
    """

    translated: int
    synced: int
    hindered: Mapping[Place, Hindrance]
    waiting: int = 0


@dataclass(slots=True)
class GroupSync:
    """The passes of one run. `record` appends rows of `group_syncs` without their stamp, and reads back.

    `emit` gets all that is translated, in each pass. `commits` false: nothing is committed.
    """

    flow: str
    source_cluster: str
    target: ClusterAdmin
    answers: SyncAnswers
    record: Callable[[Sequence[Row]], None]
    clock: Clock
    synced: dict[Place, Synced] = field(default_factory=dict)
    emit: Callable[[Iterable[Answer]], None] | None = None
    commits: bool = True
    _commits: Mapping[CommitKey, object] = field(default_factory=dict)
    _found: dict[CommitKey, Answer] = field(default_factory=dict)
    _left: dict[CommitKey, SourceCommit] = field(default_factory=dict)
    _awaited: dict[tuple[Place, str], int] = field(default_factory=dict)
    """By place and topic id at the target, the lowest commit that was seen since: the map has to come to it."""
    _map_state: object = None
    _said: dict[Place, Hindrance] = field(default_factory=dict)
    _refused: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """Offsets that the target refused, and when."""

    def run_once(self) -> SyncPass:
        """Raises as the target and the ledger do; the next pass finds again what this one has not done."""
        translated = self._translate()
        known = [answer for answer in self._found.values() if self._is_known(answer)]
        waiting = len(self._found) - len(known) if self._found else len(self._commits)
        done = self._sync(known) if self.commits else SyncPass(0, 0, {})
        if self.emit is not None:  # last: a topic that cannot be written keeps no group from being synced
            self.emit(known)
        return replace(done, translated=translated, waiting=waiting)

    def _is_known(self, answer: Answer) -> bool:
        """Whether the map has come to the commit, or to one that the group has read on from since it was seen."""
        at, committed = (place_of(answer), answer["target_topic_id"]), answer["committed_offset"] or 0
        awaited = self._awaited[at] = min(committed, self._awaited.get(at, committed))
        return bool(committed - (answer["ahead"] or 0) >= awaited)

    def _sync(self, known: Iterable[Answer]) -> SyncPass:
        now_ms = self.clock.now_ms()
        wanted = {
            place_of(answer): answer
            for answer in known
            if self._of(place_of(answer)).is_due(answer["target_offset"] or 0, now_ms)
        }
        hindered, there = self._hindered(wanted, now_ms)
        self._forget(hindered)
        due = {place: answer for place, answer in wanted.items() if place not in hindered}
        self._say(hindered)
        synced = self._commit(due, there) if due and there is not None else 0
        return SyncPass(0, synced, hindered)

    # -- what is to be committed -----------------------------------------------------------------

    def _translate(self) -> int:
        """Of groups whose commits changed, and of those whose place may change with what was copied."""
        commits, map_state = self.answers.commits(), self.answers.map_state()
        changed = {key[0] for key, commit in commits.items() if self._commits.get(key) != commit}
        changed |= {key[0] for key in self._commits.keys() - commits.keys()}
        if map_state != self._map_state:
            open_ones = (key[0] for key, answer in self._found.items() if answer["status"] not in FINAL)
            changed |= {*open_ones, *(key[0] for key in commits.keys() - self._found.keys())}
        if changed:
            answers = self.answers.translate(sorted(changed))
            self._found = {key: found for key, found in self._found.items() if key[0] not in changed}
            self._found |= {_key(answer): answer for answer in answers if answer["target_topic"] is not None}
            self._left |= self.answers.source_commits(sorted(changed))
        self._commits, self._map_state = commits, map_state
        return len(changed)

    def _of(self, place: Place) -> Synced:
        return self.synced.get(place, Synced())

    def _forget(self, hindered: Mapping[Place, Hindrance]) -> None:
        """Answers about topics that are others by now: they are asked for again once something is copied there."""
        self._found = {
            key: answer
            for key, answer in self._found.items()
            if hindered.get(place_of(answer)) is not Hindrance.OTHER_TOPIC
        }

    # -- what may not be -------------------------------------------------------------------------

    def _hindered(
        self, wanted: Mapping[Place, Answer], now_ms: int
    ) -> tuple[dict[Place, Hindrance], TargetGroups | None]:
        """Beside it what the target has, where that had to be read."""
        judged = {place: self._by_itself(place, answer, now_ms) for place, answer in wanted.items()}
        rest = {place: wanted[place] for place, why in judged.items() if why is None}
        promotion = self.answers.promotion() if rest else nothing_promoted
        judged |= {place: Hindrance.PROMOTED for place in rest if promotion(place[1]) is not None}
        rest = {place: wanted[place] for place, why in judged.items() if why is None}
        there = TargetGroups.read(self.target, {place[0] for place in rest}) if rest else None
        if there is not None:
            strange = {
                place[0] for place in rest if not self._of(place).may_replace(there.committed.get(place), ())
            }
            known = self.answers.known_offsets(sorted(strange)) if strange else {}
            judged |= {place: self._at_target(place, answer, there, known) for place, answer in rest.items()}
        return {place: why for place, why in judged.items() if why is not None}, there

    def _by_itself(self, place: Place, answer: Answer, now_ms: int) -> Hindrance | None:
        """What hinders whatever the target has."""
        offset = answer["target_offset"]
        refused, at_ms = self._refused.get(place, (None, 0))
        if offset is not None and refused == offset and now_ms - at_ms < RETRY_REFUSED_AFTER_MS:
            return Hindrance.REFUSED
        if answer["committed_offset"] is None or answer["absence"] is not None:
            return Hindrance.NO_COMMIT
        if offset is None:
            return Hindrance.NO_ANSWER
        if answer.get("outputs") == OutputsStatus.NOT_COPIED:
            return Hindrance.OUTPUTS_NOT_COPIED
        return None

    def _at_target(
        self, place: Place, answer: Answer, there: TargetGroups, known: Mapping[Place, Collection[int]]
    ) -> Hindrance | None:
        group, topic, _ = place
        if group in there.denied:
            return Hindrance.GROUP_DENIED
        if there.is_share_group(group):
            return Hindrance.OTHER_TYPE
        if there.has_members(group):
            return Hindrance.HAS_MEMBERS
        if there.topic_ids.get(topic) != answer["target_topic_id"]:
            return Hindrance.OTHER_TOPIC
        if not self._of(place).may_replace(there.committed.get(place), known.get(place, ())):
            return Hindrance.OWN_COMMIT
        return None

    def _say(self, hindered: Mapping[Place, Hindrance]) -> None:
        """Once, until it is another one."""
        for place, why in hindered.items():
            if self._said.get(place) is not why:
                group, topic, partition = place
                log.info(
                    "%(flow)s: group %(group)s is not synced in %(topic)s partition %(partition)d: %(cause)s",
                    {
                        "flow": self.flow,
                        "group": group,
                        "topic": topic,
                        "partition": partition,
                        "cause": why,
                    },
                )
        self._said = dict(hindered)

    # -- committing ------------------------------------------------------------------------------

    def _commit(self, due: Mapping[Place, Answer], before: TargetGroups) -> int:
        self._note(SyncEvent.INTENDED, due, before)
        by_group: dict[str, list[Place]] = defaultdict(list)
        for place in due:
            by_group[place[0]].append(place)
        made: set[Place] = set()
        for group, places in sorted(by_group.items()):
            made |= self._commit_group(group, {place: due[place] for place in places}, before)
        there = TargetGroups.read(self.target, {place[0] for place in due})
        kept = {
            place: answer
            for place, answer in due.items()
            if place in made
            and there.committed.get(place) == answer["target_offset"]
            and there.topic_ids.get(place[1]) == answer["target_topic_id"]
        }
        self._note(SyncEvent.SYNCED, kept, before)
        return len(kept)

    def _commit_group(self, group: str, due: Mapping[Place, Answer], before: TargetGroups) -> set[Place]:
        """The places that took it. Whether they are promoted is asked once more, and nothing is replaced but what was
        read: while other groups were committed an apply may have moved this one."""
        promotion = self.answers.promotion()
        commits = [
            NewCommit(
                topic,
                partition,
                answer["target_offset"],
                answer["metadata"],
                replaces=(before.committed.get((group, topic, partition)),),
            )
            for (_, topic, partition), answer in due.items()
            if promotion(topic) is None
        ]
        if not commits:
            return set()
        refused = self.target.set_commits(group, commits)
        for (topic, partition), why in refused.items():
            if why is not CommitRefusal.MOVED:  # which is judged anew in the next pass
                place = group, topic, partition
                self._refused[place] = due[place]["target_offset"], self.clock.now_ms()
        tried = {(group, one.topic, one.partition) for one in commits}
        return tried - {(group, *at) for at in refused}

    def _note(self, event: SyncEvent, answers: Mapping[Place, Answer], before: TargetGroups) -> None:
        if not answers:
            return
        self.record(
            [self._row(event, answer, before.committed.get(place)) for place, answer in answers.items()]
        )
        now_ms = self.clock.now_ms()
        for place, answer in answers.items():
            self.synced[place] = self._of(place).after(event, answer["target_offset"], now_ms)

    def _row(self, event: SyncEvent, answer: Answer, former: int | None) -> Row:
        left = answered_commit(answer, self._left[_key(answer)])
        return {
            "flow": self.flow,
            "group_id": answer["group_id"],
            "source_cluster": self.source_cluster,
            "source_topic": answer["source_topic"],
            "source_topic_id": left.topic_id,
            "source_partition": answer["source_partition"],
            "source_offset": answer["committed_offset"],
            "source_leader_epoch": left.leader_epoch,
            "source_made_after_ms": left.made_after_ms,
            "target_cluster": self.target.alias,
            "target_topic": answer["target_topic"],
            "target_topic_id": answer["target_topic_id"],
            "target_partition": answer["target_partition"],
            "former_offset": former,
            "target_offset": answer["target_offset"],
            "status": answer["status"],
            "event": str(event),
        }


def _key(answer: Answer) -> CommitKey:
    return answer["group_id"], answer["source_topic"], answer["source_partition"]


# Sync thread --------------------------------------------------------------------------------------
# The passes of a group sync in a thread beside a driver: none delays a round, and all have an end.


PARTS_OF_TIME = 20
"""A pass takes at most one of so many parts of the time: the next one waits longer where the last one took long ..."""
LATER_BY = 10
"""... up to so many intervals: then it takes more of the time, and commits at the target are no older than that."""


def pause_s(interval_s: float, took_s: float, *, is_waiting: bool = False) -> float:
    """How long to wait after a pass: not longer for what it took where commits wait for the map to come to them."""
    return max(interval_s, took_s if is_waiting else min(PARTS_OF_TIME * took_s, LATER_BY * interval_s))


class SyncThread:
    """A context: a pass at once, then one after the other; at the end a last one, so that a short run syncs too."""

    def __init__(self, passes: GroupSync, seconds: float, flow: str) -> None:
        self._passes = passes
        self._seconds = seconds
        self._flow = flow
        self._ended = threading.Event()
        self._waiting = 0
        self._defect: BaseException | None = None
        self._thread = beside(self._work, name=f"sync_groups:{flow}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None and self._defect is None:
            self._pass()
        if error is None and self._defect is not None:
            raise self._defect

    def _work(self) -> None:
        try:
            self._pass_after_pass()
        except (
            Exception
        ) as error:  # the end of a thread: what nobody foresaw is reported by whoever waits for it
            log.exception("%s: groups are synced no more", self._flow)
            self._defect = error

    def _pass_after_pass(self) -> None:
        waited_s = 0.0
        while not self._ended.wait(waited_s):
            began = time.monotonic()
            if not self._pass():
                return
            took_s = time.monotonic() - began
            waited_s = pause_s(self._seconds, took_s, is_waiting=self._waiting > 0)

    def _pass(self) -> bool:
        """Whether there may be another one; what it failed with is said, and found again by the next."""
        try:
            done = self._passes.run_once()
        except ShutOutError:
            return False  # the driver ends by the same
        except (MirrorLedgerError, OSError) as error:
            about = {"flow": self._flow, "cause": error}
            log.warning("%(flow)s: groups are not synced for now: %(cause)s", about)
            return True
        counts = {"flow": self._flow, "commits": done.synced, "waiting": done.waiting}
        if done.synced:
            log.info("%(flow)s: synced %(commits)d commits of groups", counts)
        if done.waiting and not self._waiting:
            log.info(
                "%(flow)s: %(waiting)d commits of groups wait until what they are behind is copied", counts
            )
        self._waiting = done.waiting
        return True


# Group syncing ------------------------------------------------------------------------------------
# Beside a driver of a flow with `sync_groups`: commits at the target for groups that read at the source.


@contextmanager
def syncing(
    config: MirrorConfig, flow: FlowConfig, target: KafkaAdmin, session: WriterSession
) -> Iterator[None]:
    """The context in which groups are synced, one pass at least, and what MirrorMaker would write beside is written.

    Nothing where the flow does none of it.
    """
    with ExitStack() as begun:
        if flow.emit_checkpoints or flow.emit_heartbeats:
            topics = begun.enter_context(closing(TargetTopics(config.cluster(flow.target), target)))
            if flow.emit_heartbeats:
                begun.enter_context(heartbeats(flow, topics, SystemClock()))
        else:
            topics = None
        if flow.sync_groups or flow.emit_checkpoints:
            emit = Checkpoints(flow.source, topics) if topics is not None and flow.emit_checkpoints else None
            begun.enter_context(_syncing(config, flow, target, session, emit))
        yield


def _syncing(
    config: MirrorConfig,
    flow: FlowConfig,
    target: KafkaAdmin,
    session: WriterSession,
    emit: Checkpoints | None,
) -> "SyncThread":
    newest = open_ledger(config.ledger.path).now((GROUP_SYNCS.name,))
    sync = GroupSync(
        flow=flow.name,
        source_cluster=flow.source,
        target=target,
        answers=LedgerAnswers(config, flow),
        record=lambda rows: _record(session, rows),
        clock=SystemClock(),
        synced=synced_before(last_group_syncs(newest, flow.target, flow.name)),
        emit=emit,
        commits=flow.sync_groups,
    )
    return SyncThread(sync, flow.sync_groups_seconds, flow.name)


def _record(session: WriterSession, rows: Sequence[Mapping[str, object]]) -> None:
    session.append(GROUP_SYNCS.name, rows)


class LedgerAnswers:
    """Implements `SyncAnswers` on the newest ledger."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._flow = flow
        self._way = Direction(flow.source, flow.target)
        patterns = flow.group_patterns
        self._outputs = {
            group: topics for group, topics in config.outputs_of_groups.items() if patterns.matches(group)
        }
        self._selection = config.topic_selection(flow.name)
        self._ledger = open_ledger(config.ledger.path)
        self._state = followed_state(config.ledger.path)

    def commits(self) -> Mapping[CommitKey, object]:
        patterns = self._flow.group_patterns
        copied = copied_up_to(self._ledger.now(), self._way, self._outputs) if self._outputs else {}
        return {
            (one.group_id, one.topic, one.partition): (
                one.committed_offset,
                one.leader_epoch,
                one.topic_id,
                one.absence,
                copied.get(one.group_id),
            )
            for one in self._state.last_checkpoints(self._flow.source)
            if patterns.matches(one.group_id) and self._selection.selects(one.topic)
        }

    def map_state(self) -> object:
        return newest_version(self._ledger.path, OFFSET_SYNCS.name).version()

    def translate(self, groups: Collection[str]) -> Sequence[Answer]:
        at = self._ledger.now()
        rows: Sequence[Answer] = self._translated(at, commits_of_groups(at, groups))
        if outputs := {group: self._outputs[group] for group in self._outputs.keys() & set(groups)}:
            earlier = self._translated(at, commits_beside_outputs(at, self._way, outputs))
            rows = beside_outputs(rows, earlier, outputs)
        naming, patterns = self._flow.naming, self._flow.group_patterns
        wanted = [
            row
            for row in rows
            if row["group_id"] in groups
            and patterns.matches(row["group_id"])
            and row["committed_offset"] is not None
            and self._selection.selects(row["source_topic"])
            and row["target_topic"] == naming.target_name(row["source_topic"])
        ]
        return metadata_in_step(wanted, [partial(self._state.recorded_syncs, self._flow.name)])

    def _translated(self, at: DeltaSnapshot, commits: pa.Table) -> list[dict[str, Any]]:
        clusters = (self._way.source, self._way.target)
        found = translate(at, clusters, flow=self._flow.name, overrides={"checkpoints": commits})
        return list(found.to_pylist())

    def source_commits(self, groups: Collection[str]) -> Mapping[CommitKey, SourceCommit]:
        at = self._ledger.now()
        shown = {"checkpoints": commits_of_groups(at, groups)}
        return source_commits(sql.cluster_commits(at, self._flow.source, shown))

    def known_offsets(self, groups: Collection[str]) -> Mapping[Place, Collection[int]]:
        at = self._ledger.now()
        known: dict[Place, set[int]] = offsets_set_at(at, self._flow.target)
        for place, offset in left_offsets(at, self._flow.target, groups).items():
            known.setdefault(place, set()).add(offset)
        return known

    def promotion(self) -> Promotion:
        directions = self._state.directions()
        return lambda topic: directions.promotion(self._flow.source, self._flow.target, topic)
