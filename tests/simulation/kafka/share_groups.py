"""A cluster in memory that has share groups beside the others, with share-partition start offsets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ledger.facts.groups import SHARE, CommitRefusal, NewCommit, ShareOffset
from ledger.kafka.cluster import GroupListing, ShareOffsetsAnswer
from tests.simulation.kafka.cluster import MemoryCluster


@dataclass(slots=True)
class ShareGroupCluster(MemoryCluster):
    """`started`: start offsets by share group, topic and partition."""

    started: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def groups(self) -> list[GroupListing]:
        shared = {key[0] for key in self.started}
        others = [group for group in MemoryCluster.groups(self) if group.group_id not in shared]
        state = {group: "Stable" if group in self.members else "Empty" for group in shared}
        return [*others, *(GroupListing(group, SHARE, state[group], SHARE) for group in sorted(shared))]

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        topics = self.topics()
        read = [
            ShareOffset(
                cluster=self.alias,
                group_id=group,
                topic=topic,
                topic_id=topics[topic].topic_id,
                partition=partition,
                start_offset=offset,
                leader_epoch=0,
                lag=None,
                read_at_ms=self.clock.now_ms(),
            )
            for (group, topic, partition), offset in sorted(self.started.items())
            if group in groups
        ]
        return ShareOffsetsAnswer(read, {})

    def set_share_offsets(
        self, group: str, offsets: Sequence[NewCommit]
    ) -> dict[tuple[str, int], CommitRefusal]:
        refused: dict[tuple[str, int], CommitRefusal] = {}
        for one in offsets:
            key = (group, one.topic, one.partition)
            if group in {name for name, *_ in self.committed}:
                refused[key[1:]] = CommitRefusal.OTHER
            elif refusal := self._refusal_of(*key):
                refused[key[1:]] = refusal
            elif not one.may_replace(self.started.get(key)):
                refused[key[1:]] = CommitRefusal.MOVED
            else:
                self.started[key] = one.offset
        return refused

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        if group in {name for name, *_ in self.started}:
            return {(one.topic, one.partition): CommitRefusal.OTHER for one in commits}
        return MemoryCluster.set_commits(self, group, commits)

    def dead_groups(self, groups: Collection[str]) -> frozenset[str]:
        shared = {name for name, *_ in self.started}
        return MemoryCluster.dead_groups(self, sorted(groups)) - shared
