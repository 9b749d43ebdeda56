"""Groups that read at the source keep a commit at the target, so that they can start there by themselves.

One pass: of groups whose commits changed, or whose place was not final, the translation is asked for again; of those
whose place is another one than what was committed last, the target is read; what may be committed is, and read back.
What is about to be committed is recorded before, so that no crash makes the flow's own commit a stranger's.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.group_syncs import RETRY_REFUSED_AFTER_MS, Hindrance, Place, Synced, SyncEvent
from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.operations.directions import Promotion, nothing_promoted
from ledger.operations.groups.beside_outputs import OutputsStatus
from ledger.operations.groups.offset_setting import TargetGroups
from ledger.operations.groups.receipts import SourceCommit, answered_commit
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin
from ledger.ports.ledger import Row

log = logging.getLogger(__name__)

Answer = Mapping[str, Any]
"""A row of a translation."""
CommitKey = tuple[str, str, int]
"""A group, and a topic and partition of it at the source."""

FINAL = frozenset(
    {
        TranslationStatus.EXACT,
        TranslationStatus.AT_END,
        TranslationStatus.GAP,
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

    def left_offsets(self, groups: Collection[str]) -> Mapping[Place, int]:
        """By place at the target the commit from which the group's last recorded move away from there took it."""
        ...

    def promotion(self) -> Promotion:
        """Which target topics are promoted."""
        ...


@dataclass(frozen=True, slots=True)
class SyncPass:
    """What one pass came to: how many groups were translated, how many commits made, and why others were not."""

    translated: int
    synced: int
    hindered: Mapping[Place, Hindrance]


@dataclass(slots=True)
class GroupSync:
    """The passes of one run. `record` appends rows of `group_syncs` without their stamp, and reads back."""

    flow: str
    source_cluster: str
    target: ClusterAdmin
    answers: SyncAnswers
    record: Callable[[Sequence[Row]], None]
    clock: Clock
    synced: dict[Place, Synced] = field(default_factory=dict)
    _commits: Mapping[CommitKey, object] = field(default_factory=dict)
    _found: dict[CommitKey, Answer] = field(default_factory=dict)
    _left: dict[CommitKey, SourceCommit] = field(default_factory=dict)
    _map_state: object = None
    _said: dict[Place, Hindrance] = field(default_factory=dict)
    _refused: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """Offsets that the target refused, and when."""

    def run_once(self) -> SyncPass:
        """Raises as the target and the ledger do; the next pass finds again what this one has not done."""
        translated = self._translate()
        now_ms = self.clock.now_ms()
        wanted = {
            _place(answer): answer
            for answer in self._found.values()
            if self._of(_place(answer)).is_due(answer["target_offset"] or 0, now_ms)
        }
        refused = {
            place: Hindrance.REFUSED
            for place, answer in wanted.items()
            if self._is_refused(place, answer["target_offset"], now_ms)
        }
        hindered, there = self._hindered(
            {place: answer for place, answer in wanted.items() if place not in refused}
        )
        hindered |= refused
        self._forget(hindered)
        due = {place: answer for place, answer in wanted.items() if place not in hindered}
        self._say(hindered)
        synced = self._commit(due, there) if due and there is not None else 0
        return SyncPass(translated, synced, hindered)

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

    def _is_refused(self, place: Place, offset: int | None, now_ms: int) -> bool:
        refused, at_ms = self._refused.get(place, (None, 0))
        return offset is not None and refused == offset and now_ms - at_ms < RETRY_REFUSED_AFTER_MS

    def _forget(self, hindered: Mapping[Place, Hindrance]) -> None:
        """Answers about topics that are others by now: they are asked for again once something is copied there."""
        self._found = {
            key: answer
            for key, answer in self._found.items()
            if hindered.get(_place(answer)) is not Hindrance.OTHER_TOPIC
        }

    # -- what may not be -------------------------------------------------------------------------

    def _hindered(self, wanted: Mapping[Place, Answer]) -> tuple[dict[Place, Hindrance], TargetGroups | None]:
        """Beside it what the target has, where that had to be read."""
        hindered = {place: Hindrance.NO_COMMIT for place, answer in wanted.items() if _has_no_commit(answer)}
        rest = {place: answer for place, answer in wanted.items() if place not in hindered}
        hindered |= {
            place: Hindrance.NO_ANSWER for place, answer in rest.items() if answer["target_offset"] is None
        }
        hindered |= {
            place: Hindrance.OUTPUTS_NOT_COPIED
            for place, answer in rest.items()
            if place not in hindered and answer.get("outputs") == OutputsStatus.NOT_COPIED
        }
        rest = {place: answer for place, answer in rest.items() if place not in hindered}
        promotion = self.answers.promotion() if rest else nothing_promoted
        hindered |= {place: Hindrance.PROMOTED for place in rest if promotion(place[1]) is not None}
        rest = {place: answer for place, answer in rest.items() if place not in hindered}
        if not rest:
            return hindered, None
        there = TargetGroups.read(self.target, {place[0] for place in rest})
        strange = {
            place[0] for place in rest if not self._of(place).may_replace(there.committed.get(place), None)
        }
        left = self.answers.left_offsets(sorted(strange)) if strange else {}
        judged = {place: self._at_target(place, answer, there, left) for place, answer in rest.items()}
        return hindered | {place: why for place, why in judged.items() if why is not None}, there

    def _at_target(
        self, place: Place, answer: Answer, there: TargetGroups, left: Mapping[Place, int]
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
        if not self._of(place).may_replace(there.committed.get(place), left.get(place)):
            return Hindrance.OWN_COMMIT
        return None

    def _say(self, hindered: Mapping[Place, Hindrance]) -> None:
        """Once, until it is another one."""
        for place, why in hindered.items():
            if self._said.get(place) is not why:
                group, topic, partition = place
                log.info(
                    "%s: group %s is not synced in %s partition %d: %s",
                    self.flow,
                    group,
                    topic,
                    partition,
                    why,
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


def _has_no_commit(answer: Answer) -> bool:
    return answer["committed_offset"] is None or answer["absence"] is not None


def _place(answer: Answer) -> Place:
    return answer["group_id"], answer["target_topic"], answer["target_partition"]


def _key(answer: Answer) -> CommitKey:
    return answer["group_id"], answer["source_topic"], answer["source_partition"]


def synced_before(rows: Iterable[Mapping[str, Any]]) -> dict[Place, Synced]:
    """From rows of `group_syncs` of one flow, in the order of recording."""
    found: dict[Place, Synced] = {}
    for row in rows:
        place = _place(row)
        found[place] = found.get(place, Synced()).after(
            row["event"], row["target_offset"], row["recorded_at_ms"]
        )
    return found
