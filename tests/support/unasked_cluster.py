"""A cluster that nobody is to ask anything, and one that is asked one by one: what fakes answer is up to them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NoReturn

from ledger.facts.groups import CommitRefusal, NewCommit, UnreadGroup
from ledger.facts.identity import RememberedProducer
from ledger.facts.permissions import Permissions
from ledger.facts.syncs import Checkpoint, TopicPartition
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import (
    CommitsAnswer,
    GroupListing,
    PartitionEnds,
    SettingsAnswer,
    ShareOffsetsAnswer,
    TopicDescription,
)
from ledger.topics.following import NewTopic

# -- Many at once as each by itself ----------------------------------------------------------------


class OneByOne(ABC):
    """Base of stand-ins for `ClusterAdmin`."""

    @abstractmethod
    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        """Of one group."""

    @abstractmethod
    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        """Of one topic."""

    def set_commits_of_groups(
        self, commits: Mapping[str, Sequence[NewCommit]]
    ) -> dict[str, dict[tuple[str, int], CommitRefusal]]:
        return {group: self.set_commits(group, of_group) for group, of_group in commits.items()}

    def change_settings_of(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        for name, settings in changes.items():
            to_set = {setting: value for setting, value in settings.items() if value is not None}
            self.change_settings(name, to_set=to_set, to_remove=[*(settings.keys() - to_set.keys())])


# -- Nothing at all --------------------------------------------------------------------------------


class UnaskedCluster(OneByOne):
    """Implements `ClusterAdmin`."""

    alias: str

    def metadata_offset(self) -> int | None:
        self._unasked("metadata_offset")

    def cluster_id(self) -> str:
        self._unasked("cluster_id")

    def broker_count(self) -> int:
        self._unasked("broker_count")

    def topics(self) -> dict[str, TopicDescription]:
        self._unasked("topics")

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        self._unasked("configurations", topics)

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        self._unasked("topic_settings", topics)

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        self._unasked("change_settings", name, to_set, to_remove)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        self._unasked("create_topic", name, partitions, replication_factor, configuration)

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        self._unasked("create_topics", wanted)

    def add_partitions(self, name: str, *, total: int) -> None:
        self._unasked("add_partitions", name, total)

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        self._unasked("delete_topic", name, topic_id)

    def is_deleted(self, topic: str) -> bool:
        self._unasked("is_gone", topic)

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        self._unasked("ends", partitions)

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        self._unasked("offsets_at", partitions, timestamp_ms)

    def batches_at(self, partition: TopicPartition, offset: int) -> list[BatchHeader]:
        self._unasked("batches_at", partition, offset)

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        self._unasked("next_sequence", partition, producer_id)

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        self._unasked("remembered_producer", partition, producer_id)

    def groups(self) -> list[GroupListing]:
        self._unasked("groups")

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        self._unasked("commits", groups, topic_ids)

    def lists_all_groups(self) -> bool:
        self._unasked("lists_all_groups")

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        self._unasked("group_commits", groups, topic_ids)

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        self._unasked("share_offsets", groups)

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        self._unasked("unlisted_groups", groups)

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        self._unasked("dead_groups", groups)

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        self._unasked("set_commits", group, commits)

    def delete_commits(
        self, group: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], CommitRefusal]:
        self._unasked("delete_commits", group, places)

    def set_share_offsets(
        self, group: str, offsets: Sequence[NewCommit]
    ) -> dict[tuple[str, int], CommitRefusal]:
        self._unasked("set_share_offsets", group, offsets)

    def allocate_producer_id(self) -> int:
        self._unasked("allocate_producer_id")

    def permissions(self) -> Permissions:
        self._unasked("permissions")

    def _unasked(self, call: str, *arguments: object) -> NoReturn:
        raise AssertionError(f"{type(self).__name__} is not to be asked for {call} {arguments}")
