"""Groups that would move now: what of the other side they would never read, judged by the records themselves.

No offset map has a say here. A group that is sent to an offset skips a record when it has not read it, when
nothing that is readable from that offset on is that record, and when it lies below. What it has not read is
what the cluster that it reads at has, or had; where another flow copies the target back, also what applications
wrote there; and what flows are still to bring. What is not at the target yet, or is to be copied again, lands
behind its end. Copies of records that a flow to the source has passed, because their own log had lost them or
their topic was deleted, nobody there is to read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from ledger.config.values import FlowConfig
from ledger.facts.rows import recorded_sync
from ledger.facts.syncs import Checkpoint, SyncKind
from ledger.store.catalog import query
from ledger.store.sql import run_query
from tests.simulation.accounts import Row
from tests.simulation.answering import Answering
from tests.simulation.consumers import Consumers, Group, Reader, lost_from
from tests.simulation.kafka.cluster import MemoryCluster, MemoryTopic
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.readings import Found, Identity, Readings
from tests.simulation.workload import TopicKind
from tests.support.group_ledgers import Log, PairLedger

_NOWHERE = float("inf")


@dataclass(frozen=True, slots=True)
class Way:
    """A flow, and whether another one copies its target topics back to its source.

    `left_out`: producer ids at the source whose records the flow does not copy. `not_carried_back`: those at the
    target whose records the flow back does not copy.
    """

    flow: FlowConfig
    has_way_back: bool
    left_out: frozenset[int]
    not_carried_back: frozenset[int]

    @property
    def kind(self) -> str:
        return "two-way" if self.has_way_back else "one-way"


@dataclass(frozen=True)
class Sides:
    """One partition of a flow as it lies at both clusters now.

    `first_at`: where each record lies first at the source. `last_at`: where each readable one lies last at the target.
    """

    way: Way
    topic: MemoryTopic
    number: int
    target_topic_id: str
    target_end: int
    first_at: Mapping[Identity, int]
    last_at: Mapping[Identity, int]

    @property
    def logs(self) -> tuple[Log, Log]:
        """By their names, source and target."""
        flow, name = self.way.flow, self.topic.name
        return (
            Log(flow.source, name, self.number),
            Log(flow.target, flow.naming.target_name(name), self.number),
        )

    @property
    def source_log(self) -> PartitionLog:
        return self.topic.logs[self.number]

    def first_unread(self, read: set[Identity]) -> tuple[float, Identity | None]:
        """The lowest place at the target behind which no unread record lies for the last time."""
        unread = ((offset, identity) for identity, offset in self.last_at.items() if identity not in read)
        return min(unread, key=itemgetter(0), default=(_NOWHERE, None))

    def first_unread_by_commit(self) -> list[float]:
        """The same for a group that has read everything below an offset of the source, by that offset."""
        end = self.source_log.end
        lowest = [_NOWHERE] * (end + 2)
        for identity, offset in self.last_at.items():
            first_at = min(self.first_at.get(identity, end + 1), end + 1)
            lowest[first_at] = min(lowest[first_at], offset)
        for offset in range(end, -1, -1):
            lowest[offset] = min(lowest[offset], lowest[offset + 1])
        return lowest

    def leader_epochs_before(self) -> list[int | None]:
        """By offset of the source, the leader epoch of the last batch below it, as far as it was not truncated."""
        epochs: list[int | None] = [None]
        for header, _batch in self.source_log.written():
            before = epochs[-1] if len(epochs) > 1 else header.leader_epoch
            epochs += [before] * (header.base_offset + 1 - len(epochs))
            epochs += [header.leader_epoch] * (header.end_offset + 1 - len(epochs))
        return epochs + [epochs[-1]] * (self.source_log.end + 1 - len(epochs))


@dataclass(frozen=True)
class Moves:
    """All groups, real ones and one at every offset, and where every flow's ledger would send them now."""

    clusters: Mapping[str, MemoryCluster]
    ways: Sequence[Way]
    ledger: MemoryLedger
    consumers: Mapping[str, Consumers]
    readings: Readings
    tally: Counter[str]
    clocks_agree: bool = True

    def check(self) -> None:
        """Raises `AssertionError` for the first group that would skip a record.

        Nothing is asked about a target topic that the ledger does not know yet: answers are of the former one.
        """
        known = PairLedger(self.ledger.at(self.ledger.latest()))
        for way in self.ways:
            for sides in self._sides(way, self._rows(way)):
                if known.current(sides.logs[1]).topic_id == sides.target_topic_id:
                    answering = Answering(known, *sides.logs)
                    self._check_every_offset(sides, answering)
                    self._check_groups(sides, answering)

    def check_queried(self) -> None:
        """The same for the groups alone, with the answers of the query `offset_translation`."""
        for way in self.ways:
            answers = self._queried(way.flow)
            for sides in self._sides(way, self._rows(way)):
                for commit, reader in self._commits(sides):
                    target_offset = answers[commit.group_id, commit.topic, commit.partition]
                    self._judge_group(sides, commit, reader, target_offset)

    # -- what there is ---------------------------------------------------------------------------

    def _rows(self, way: Way) -> Mapping[tuple[str, int], Sequence[Row]]:
        """Offset syncs of a flow by source partition, oldest first."""
        return self._recorded[way.flow.name]

    @cached_property
    def _recorded(self) -> dict[str, dict[tuple[str, int], list[Row]]]:
        """The same of each flow: each of them is asked for at every partition that it writes to."""
        found: dict[str, dict[tuple[str, int], list[Row]]] = {}
        for way in self.ways:
            rows = [row for row in self.ledger.rows("offset_syncs") if row["flow"] == way.flow.name]
            rows.sort(key=lambda row: (_partition(row), recorded_sync(row).place))
            found[way.flow.name] = {partition: list(of) for partition, of in groupby(rows, key=_partition)}
        return found

    def _sides(self, way: Way, rows: Mapping[tuple[str, int], Sequence[Row]]) -> Iterator[Sides]:
        """Of every partition whose topics live at both clusters."""
        source, target = self.clusters[way.flow.source], self.clusters[way.flow.target]
        for (name, number), recorded in rows.items():
            topic = source.topic_by_name.get(name)
            copy = target.topic_by_name.get(way.flow.naming.target_name(name))
            if topic is not None and copy is not None and number < min(len(topic.logs), len(copy.logs)):
                position = _position(row for row in recorded if row["source_topic_id"] == topic.topic_id)
                yield self._sides_of(way, topic, copy, number, position)

    def _sides_of(self, way: Way, topic: MemoryTopic, copy: MemoryTopic, number: int, position: int) -> Sides:
        first_at: dict[Identity, int] = {}
        to_come: set[Identity] = set()
        for offset, identity, producer_id in self._owed(topic, topic.logs[number]):
            first_at.setdefault(identity, offset)
            if offset >= position and producer_id not in way.left_out:
                to_come.add(identity)
        comes_back = way.has_way_back and self._has_begun_back(way, topic.name, copy.name)
        to_be_brought = self._to_be_brought(way.flow.source, topic, number)
        last_at = {
            identity: offset
            for offset, identity, producer_id in self.readings.readable(copy.name, copy.logs[number])
            if identity in first_at
            or identity in to_be_brought
            or (comes_back and producer_id not in way.not_carried_back)
        }
        for identity in to_come:
            last_at.pop(identity, None)
        return Sides(way, topic, number, copy.topic_id, copy.logs[number].end, first_at, last_at)

    def _to_be_brought(self, cluster: str, topic: MemoryTopic, number: int) -> set[Identity]:
        """Records that flows to a partition have not come to yet."""
        found: set[Identity] = set()
        for way in self.ways:
            if way.flow.target != cluster:
                continue
            rows = self._rows(way)
            for name, origin in self.clusters[way.flow.source].topic_by_name.items():
                if way.flow.naming.target_name(name) == topic.name and number < len(origin.logs):
                    recorded = rows.get((name, number), ())
                    position = _position(row for row in recorded if row["source_topic_id"] == origin.topic_id)
                    found |= {
                        identity
                        for offset, identity, producer_id in self._owed(origin, origin.logs[number])
                        if offset >= position and producer_id not in way.left_out
                    }
        return found

    def _has_begun_back(self, way: Way, name: str, copy_name: str) -> bool:
        """Whether a flow back has recorded anything of the topic: before, nobody can know of it by the ledger."""
        back = (way.flow.target, copy_name, way.flow.source, name)
        columns = ("source_cluster", "source_topic", "target_cluster", "target_topic")
        return any(
            tuple(row[column] for column in columns) == back for row in self.ledger.rows("offset_syncs")
        )

    def _owed(self, topic: MemoryTopic, log: PartitionLog) -> Iterator[Found]:
        """What a group at the source is to read, there or elsewhere; what a cleaner took it misses there, too."""
        is_cleaned = TopicKind.COMPACTED in topic.name
        found = self.readings.readable if is_cleaned else self.readings.committed
        return found(topic.name, log)

    # -- judging ---------------------------------------------------------------------------------

    def _check_every_offset(self, sides: Sides, answering: Answering) -> None:
        """A group that has read the source as it is now, up to any offset that committed records come to."""
        epochs = sides.leader_epochs_before()
        readable = sides.source_log.last_stable + 1
        for offset, first_unread in enumerate(sides.first_unread_by_commit()[:readable]):
            target_offset = answering.of_offset(sides.topic.topic_id, offset, epochs[offset])
            self._judge(sides, f"a group at {offset}", target_offset, first_unread)

    def _check_groups(self, sides: Sides, answering: Answering) -> None:
        for commit, reader in self._commits(sides):
            self._judge_group(sides, commit, reader, answering.of_checkpoint(commit))

    def _commits(self, sides: Sides) -> Iterator[tuple[Checkpoint, Reader]]:
        """What the ledger says that groups have committed last, with what they had read then."""
        place = sides.topic.name, sides.number, sides.topic.topic_id
        for commit in MemoryLedgerState(self.ledger).last_checkpoints(sides.way.flow.source):
            if (
                commit.topic,
                commit.partition,
                commit.topic_id,
            ) == place and commit.committed_offset is not None:
                group = self.consumers[commit.cluster].groups[commit.group_id]
                reader = group.readers[sides.topic.topic_id, sides.number]
                if not self._is_unknowable(sides, group, reader):
                    yield commit, reader

    def _judge_group(
        self, sides: Sides, commit: Checkpoint, reader: Reader, target_offset: int | None
    ) -> None:
        first_unread, record = sides.first_unread(reader.read)
        who = f"group {commit.group_id}, commit {commit.committed_offset} of leader epoch {commit.leader_epoch},"
        self._judge(sides, f"{who} (unread: {record})", target_offset, first_unread)

    def _judge(self, sides: Sides, who: str, target_offset: int | None, first_unread: float) -> None:
        self.tally[f"moves {sides.way.kind}"] += 1
        if target_offset is None:
            return
        self.tally[f"moves with an offset {sides.way.kind}"] += 1
        where = f"{sides.way.flow.name}, {sides.topic.name} partition {sides.number}"
        assert target_offset <= sides.target_end, (
            f"{where}: {who} is sent to {target_offset}, the target ends at {sides.target_end}"
        )
        assert target_offset <= first_unread, (
            f"{where}: {who} is sent to {target_offset} and never reads the record at target offset {first_unread}"
        )

    def _is_unknowable(self, sides: Sides, group: Group, reader: Reader) -> bool:
        """A commit without an epoch on records that were taken back: by wrong clocks it was made afterwards, or no row
        tells that there were such records."""
        if group.names_epochs or reader.commit is None:
            return False
        lost = lost_from(sides.source_log, reader.commit)
        return lost is not None and not (self.clocks_agree and self._is_told(sides, lost))

    def _is_told(self, sides: Sides, lost: int) -> bool:
        """Whether the ledger says of the source that it reached beyond an offset before another leader began there."""
        later = next((h.leader_epoch for h, _ in sides.source_log.written() if h.end_offset > lost), None)
        if later is None:
            return True  # nothing came after it that could be passed
        place = (sides.way.flow.source, sides.topic.name, sides.topic.topic_id, sides.number)
        reached = [
            (row["source_leader_epoch"], row["source_end"])
            for row in self.ledger.rows("offset_syncs")
            if row["flow"] == sides.way.flow.name
            and row["kind"] in (SyncKind.COPIED, SyncKind.ADOPTED)
            and tuple(row[column] for column in _AT_SOURCE) == place
        ]
        if (
            TopicKind.COMPACTED not in sides.topic.name
        ):  # there a cleaner may have taken where the later one began
            reached += [
                (row["leader_epoch"], row["high_watermark"])
                for row in self.ledger.rows("high_watermarks")
                if tuple(row[column] for column in _OF_ENDS) == place
            ]
        return any(epoch is not None and epoch < later and end > lost for epoch, end in reached)

    def _queried(self, flow: FlowConfig) -> dict[tuple[str, str, int], int | None]:
        """Target offsets by group, source topic and partition."""
        answers = run_query(
            query("offset_translation"),
            {"from_cluster": flow.source, "to_cluster": flow.target, "flow": flow.name},
            self.ledger.at(self.ledger.latest()),
        ).to_pylist()
        return {
            (row["group_id"], row["source_topic"], row["source_partition"]): row["target_offset"]
            for row in answers
        }


def _position(oldest_first: Iterable[Row]) -> int:
    """Where the flow stands: what lies from there on will land behind everything that is at the target."""
    position = 0
    for row in oldest_first:
        is_back = row["kind"] == SyncKind.SUPERSEDED
        position = row["source_start" if is_back else "source_end"]
    return position


_AT_SOURCE = ("source_cluster", "source_topic", "source_topic_id", "source_partition")
_OF_ENDS = ("cluster", "topic", "topic_id", "partition")

_partition: Callable[[Row], tuple[str, int]] = itemgetter("source_topic", "source_partition")
