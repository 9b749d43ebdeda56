"""The groups of one cluster: the part of `ports.ClusterAdmin` that is about them, on real brokers."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError

from ledger.adapters.kafka.admin import group_readings, group_requests
from ledger.adapters.kafka.admin.end_requests import Partition, known_epoch
from ledger.adapters.kafka.admin.portions import listed, parts
from ledger.adapters.kafka.connection.cluster_connection import ClusterConnection
from ledger.domain.facts import Checkpoint
from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.groups import MOVING, GroupEvent, ShareOffset, UnreadGroup
from ledger.domain.topics.topic_ids import topic_id_text
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError, Trouble
from ledger.ports.clock import Clock
from ledger.ports.clusters import CommitsAnswer, GroupListing, ShareOffsetsAnswer

_GROUPS_AT_ONCE = 500
_PARTS_OF_TIMEOUT = 3  # groups that no coordinator answers for hold up the others for one of these
_POLL_S = 0.05


class KafkaGroups:
    """Base of `KafkaAdmin`."""

    def __init__(self, alias: str, connection: ClusterConnection, clock: Clock, *, timeout_s: float) -> None:
        self.alias = alias
        self.connection = connection
        self._clock = clock
        self._timeout_s = timeout_s

    def groups(self) -> list[GroupListing]:
        listed = self.connection.run("list consumer groups", group_requests.listed_groups)
        return sorted(listed, key=lambda group: group.group_id)

    def lists_all_groups(self) -> bool:
        operation = "ask whether it may describe every group"
        return self.connection.run(operation, group_readings.lists_all_groups)

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        answer = self.group_commits(groups, topic_ids=topic_ids)
        for group, why in answer.refused.items():
            raise self._not_read(group, why)
        return answer.read

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        answer = CommitsAnswer([], {})
        for some in parts(groups, _GROUPS_AT_ONCE):
            names = [group.group_id for group in some]
            operation = f"read the committed offsets of {listed(names, 'group')}"
            reading = self._read_groups(operation, group_readings.read_commits, names)
            answer.refused.update(reading.unread)
            read_at_ms = self._clock.now_ms()
            answer.read.extend(
                self._checkpoint(group, commit, topic_ids, read_at_ms)
                for group in some
                for commit in reading.found.get(group.group_id, [])
            )
        return answer

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        answer = ShareOffsetsAnswer([], {})
        for some in parts(groups, _GROUPS_AT_ONCE):
            operation = f"describe the share-partition offsets of {listed(some, 'group')}"
            reading = self._read_groups(operation, group_readings.read_share_offsets, some)
            answer.refused.update(reading.unread)
            read_at_ms = self._clock.now_ms()
            answer.read.extend(
                self._share_offset(group, topic, entry, read_at_ms)
                for group, entries in reading.found.items()
                for topic, entry in entries
            )
        return answer

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        found: dict[str, UnreadGroup] = {}
        for some in parts(groups, _GROUPS_AT_ONCE):
            operation = f"find {listed(some, 'group')}"
            found |= self._read_groups(operation, group_readings.unlisted_groups, some).unread
        deleted = {group for group, why in found.items() if why.event is GroupEvent.GONE}
        if deleted:
            # While coordinators move no broker may list a group, and only classic groups are found by name then.
            listed_again = deleted & {group.group_id for group in self.groups()}
            found |= dict.fromkeys(listed_again, UnreadGroup(GroupEvent.UNAVAILABLE, MOVING))
        return found

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        found = self.unlisted_groups(groups)
        for group, why in found.items():
            if why.event is GroupEvent.UNAVAILABLE:
                raise self._not_read(group, why)
        return frozenset(group for group, why in found.items() if why.event is GroupEvent.GONE)

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[Partition, CommitRefusal]:
        operation = f"set the committed offsets of group {group}"
        return self.connection.run(operation, group_requests.set_commits_of_group, group, commits)

    def set_commits_of_groups(
        self, commits: Mapping[str, Sequence[NewCommit]]
    ) -> dict[str, dict[Partition, CommitRefusal]]:
        operation = f"set the committed offsets of {listed(list(commits), 'group')}"
        done = self.connection.run(operation, group_requests.set_commits, commits)
        return {
            group: self.set_commits(group, commits[group]) if isinstance(refused, KafkaError) else refused
            for group, refused in done.items()
        }

    def delete_commits(self, group: str, places: Sequence[Partition]) -> dict[Partition, CommitRefusal]:
        operation = f"delete committed offsets of group {group}"
        return self.connection.run(operation, group_requests.delete_commits, group, places)

    def set_share_offsets(self, group: str, offsets: Sequence[NewCommit]) -> dict[Partition, CommitRefusal]:
        operation = f"set the share-partition start offsets of group {group}"
        return self.connection.run(operation, group_requests.set_share_offsets, group, offsets)

    def _read_groups(
        self, operation: str, read: group_readings.Read, groups: Sequence[str]
    ) -> group_readings.Reading:
        """Coordinators that move or load are asked again; what is unavailable after that is so for longer."""
        patient_until = time.monotonic() + self._timeout_s / _PARTS_OF_TIMEOUT
        reading = self.connection.run(operation, read, groups)
        while reading.unavailable and time.monotonic() < patient_until:
            time.sleep(_POLL_S)
            reading = reading.repeated(self.connection.run(operation, read, reading.unavailable))
        return reading

    def _not_read(self, group: str, why: UnreadGroup) -> MirrorLedgerError:
        if why.event is GroupEvent.HIDDEN:
            return PreconditionError(
                f"cluster {self.alias} does not allow this principal to read the committed offsets of group {group}: "
                f"{why.reason}; not done",
                trouble=Trouble.NOT_ALLOWED,
            )
        return ClusterUnavailableError(
            f"no coordinator of cluster {self.alias} answers for group {group}: {why.reason}; not done"
        )

    def _checkpoint(
        self,
        group: GroupListing,
        commit: group_readings.Commit,
        topic_ids: Mapping[str, str],
        read_at_ms: int,
    ) -> Checkpoint:
        topic, committed = commit.topic, commit.entry
        return Checkpoint(
            cluster=self.alias,
            group_id=group.group_id,
            group_type=group.group_type,
            group_state=group.group_state,
            topic=topic,
            topic_id=topic_ids.get(topic),
            partition=committed.partition_index,
            committed_offset=committed.committed_offset,
            leader_epoch=known_epoch(committed.committed_leader_epoch),
            metadata=committed.metadata,
            read_at_ms=read_at_ms,
            transaction_pending=commit.is_pending,
        )

    def _share_offset(self, group: str, topic: Any, entry: Any, read_at_ms: int) -> ShareOffset:
        return ShareOffset(
            cluster=self.alias,
            group_id=group,
            topic=topic.topic_name,
            topic_id=topic_id_text(topic.topic_id.bytes),
            partition=entry.partition_index,
            start_offset=_known(entry.start_offset),
            leader_epoch=known_epoch(entry.leader_epoch),
            lag=_known(entry.lag),
            read_at_ms=read_at_ms,
        )


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset
