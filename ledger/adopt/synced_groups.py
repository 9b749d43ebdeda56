"""Groups that MirrorMaker 2 has synced: what it committed for them at the target becomes the flow's own.

MirrorMaker writes to `NAME.checkpoints.internal` which commit of a group at the source stands for which at the target,
and commits the latter. A group that stands at one of these has not read at the target since: the flow may replace that
commit by later ones, as it may its own. A commit that no checkpoint explains is the group's.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ledger.adopt.reading import BothSides
from ledger.config.values import FlowConfig
from ledger.errors import MirrorLedgerError
from ledger.facts.groups import Place, SyncEvent
from ledger.facts.syncs import PartitionPair, SyncKind, TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.record_fields import key_and_value
from ledger.offsets.setting import TargetGroups
from ledger.topics.naming import CHECKPOINTS, matches_any
from ledger.words import counted, shell_word, shown, some_of


@dataclass(frozen=True, slots=True)
class MakersCheckpoint:
    """A group's commit at the source, and the one that MirrorMaker has made of it at the target."""

    place: Place
    source_offset: int
    target_offset: int


def makers_checkpoint(key: bytes, value: bytes) -> MakersCheckpoint | None:
    """As `org.apache.kafka.connect.mirror.Checkpoint` writes it; None: another version, or another record."""
    try:
        (group_size,) = struct.unpack_from(">h", key)
        group = key[2 : 2 + group_size]
        (topic_size,) = struct.unpack_from(">h", key, 2 + group_size)
        topic_end = 4 + group_size + topic_size
        topic = key[4 + group_size : topic_end]
        (partition,) = struct.unpack_from(">i", key, topic_end)
        version, source_offset, target_offset = struct.unpack_from(">hqq", value)
        place = group.decode(), topic.decode(), partition
    except (struct.error, UnicodeDecodeError):
        return None
    is_known = version == 0 and len(key) == topic_end + 4
    return MakersCheckpoint(place, source_offset, target_offset) if is_known else None


@dataclass(frozen=True)
class SyncedGroups:
    """Groups with commits at the target, as they stand when the first one is asked for."""

    flow: FlowConfig
    ports: BothSides

    @cached_property
    def _committed(self) -> dict[tuple[str, int], dict[str, int]]:
        """By topic and partition of the target what groups of the flow have committed."""
        patterns = self.flow.group_patterns
        groups = {one.group_id for one in self.ports.target.groups() if patterns.matches(one.group_id)}
        there = TargetGroups.read(self.ports.target, groups) if groups else None
        found: dict[tuple[str, int], dict[str, int]] = {}
        for (group, topic, partition), offset in (there.committed if there else {}).items():
            found.setdefault((topic, partition), {})[group] = offset
        return found

    @cached_property
    def _checkpoints(self) -> dict[Place, dict[int, MakersCheckpoint]]:
        """By place, then by offset at the target."""
        found: dict[Place, dict[int, MakersCheckpoint]] = {}
        for one in _read(self.ports):
            found.setdefault(one.place, {})[one.target_offset] = one
        return found

    def at(self, pair: PartitionPair) -> tuple[list[MakersCheckpoint], list[str]]:
        """Of groups with a commit on the target partition: by what MirrorMaker has put them there; those that nothing
        explains."""
        explained, others = [], []
        for group, offset in sorted(self._committed.get(pair.target.place, {}).items()):
            found = self._checkpoints.get((group, *pair.target.place), {}).get(offset)
            if found is None:
                others.append(group)
            else:
                explained.append(found)
        return explained, others

    def remarks(self, pair: PartitionPair) -> Iterator[str]:
        """What becomes of groups where the partition is taken over; nothing where there are none."""
        try:
            explained, others = self.at(pair)
        except MirrorLedgerError as error:
            yield f"which groups MirrorMaker had synced is unknown: {error}"
            return
        if explained:
            names = _named([one.place[0] for one in explained])
            yield f"{counted(len(explained), 'group')} synced by MirrorMaker taken over: {names}"
        if others:
            command = f"mirror-ledger offsets set --flow {shell_word(self.flow.name)} --group {shell_word(others[0])}"
            yield (
                f"{counted(len(others), 'group')} with commits of their own at the target, which sync_groups leaves: "
                f"{_named(others)} ({command} --reason WHY moves one)"
            )

    def rows(self, pairs: Collection[PartitionPair]) -> list[Row]:
        """Rows of `group_syncs`, without their stamp, by which commits of MirrorMaker are the flow's own."""
        try:
            return [_row(self.flow, pair, one) for pair in pairs for one in self.at(pair)[0]]
        except MirrorLedgerError:
            return []  # a remark says so


def _named(groups: Sequence[str]) -> str:
    return some_of([shown(group) for group in groups], "group", at_most=5)


def _read(ports: BothSides) -> Iterator[MakersCheckpoint]:
    for name, topic in sorted(ports.target.topics().items()):
        if not matches_any((CHECKPOINTS,), name):
            continue
        partitions = [TopicPartition(name, topic.topic_id, number) for number in range(topic.partitions)]
        ends = ports.target.ends([at.place for at in partitions])
        for at in partitions:
            end = ends.get(at.place)
            if end is None:
                continue
            log = ports.log(ports.network.target, at, end.log_start, end.last_stable)
            for record in log.read(end.log_start):
                key, value = key_and_value(record.content)
                found = makers_checkpoint(key, value) if key is not None and value is not None else None
                if found is not None:
                    yield found


def _row(flow: FlowConfig, pair: PartitionPair, one: MakersCheckpoint) -> Row:
    return {
        "flow": flow.name,
        "group_id": one.place[0],
        "source_cluster": flow.source,
        "source_topic": pair.source.topic,
        "source_topic_id": pair.source.topic_id,
        "source_partition": pair.source.partition,
        "source_offset": one.source_offset,
        "source_leader_epoch": None,
        "source_made_after_ms": None,
        "target_cluster": flow.target,
        "target_topic": pair.target.topic,
        "target_topic_id": pair.target.topic_id,
        "target_partition": pair.target.partition,
        "former_offset": one.target_offset,
        "target_offset": one.target_offset,
        "status": str(SyncKind.ADOPTED),
        "event": str(SyncEvent.SYNCED),
    }
