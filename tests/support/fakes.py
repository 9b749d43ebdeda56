"""In-memory ledger, cluster, clock and processes for recorders; what a recorder has no business with fails the test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.adapters.memory.fact_log import MemoryLedgerState
from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import Absence, Checkpoint, HighWatermark, TopicState, WriterEvent
from ledger.domain.writer_roles import LastClaim, ProcessMark
from ledger.errors import PreconditionError, ShutOutError
from ledger.ports import (
    FlowPosition,
    GroupListing,
    PartitionEnds,
    Row,
    SettingsAnswer,
    TopicDescription,
    TopicSettings,
    WriterClaim,
)
from ledger.recording.checkpoints import recorded_checkpoint
from tests.support.unasked_cluster import UnaskedCluster


@dataclass
class FakeClock:
    now_s: float = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


OWN_MARK = ProcessMark("host-a", 10, 100)


@dataclass
class FakeProcesses:
    mark: ProcessMark = OWN_MARK
    alive: set[ProcessMark] = field(default_factory=set)

    def own(self) -> ProcessMark:
        return self.mark

    def is_alive(self, mark: ProcessMark) -> bool:
        return mark in self.alive or mark == self.mark


@dataclass(frozen=True)
class Append:
    writer: str
    epoch: int
    table: str
    round_number: int
    rows: tuple[Row, ...]
    at_ms: int


@dataclass
class FakeLedger(MemoryLedgerState):
    """`FactLog` and `RecordingState` over one list of appends; nothing else was ever recorded."""

    clock: FakeClock
    appends: list[Append] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    fail_next_append: Exception | None = None

    def __post_init__(self) -> None:
        super().__init__(MemoryLedger())

    def claim(self, writer: str, tables: Sequence[str], row: Row) -> WriterClaim:  # noqa: ARG002  a port
        self.epochs[writer] = self.epochs.get(writer, 0) + 1
        claim = WriterClaim(writer, self.epochs[writer])
        self._add(claim, "writers", 0, [row])
        return claim

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        if self.fail_next_append is not None:
            failure, self.fail_next_append = self.fail_next_append, None
            raise failure
        if claim.epoch < self.epochs[claim.writer]:
            raise ShutOutError(f"epoch {claim.epoch} of {claim.writer} was shut out; nothing was appended")
        same = [a for a in self.appends if (a.table, a.writer, a.epoch) == (table, claim.writer, claim.epoch)]
        assert all(earlier.round_number < round_number for earlier in same), "L4: a round is appended once"
        self._add(claim, table, round_number, rows)

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        number = 1 + len(
            [append for append in self.appends if (append.table, append.writer) == (table, writer)]
        )
        self._add(WriterClaim(writer, 0), table, number, rows)
        return number

    def _add(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        now = self.clock.now_ms()
        self.appends.append(Append(claim.writer, claim.epoch, table, round_number, tuple(rows), now))

    def rows(self, table: str) -> list[Row]:
        return [row for append in self.appends if append.table == table for row in append.rows]

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]:
        rows = [recorded_checkpoint(row) for row in self.rows("checkpoints")]
        newest = {(row.group_id, row.topic, row.partition): row for row in rows if row.cluster == cluster}
        return list(newest.values())

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]:
        rows = [HighWatermark(**row) for row in self.rows("high_watermarks")]  # type: ignore[arg-type]
        return list({(row.topic, row.partition): row for row in rows if row.cluster == cluster}.values())

    def last_topic_states(self, cluster: str) -> list[TopicState]:  # noqa: ARG002  a port
        return []

    def last_claim(self, writer: str) -> LastClaim | None:
        own = [append for append in self.appends if append.writer == writer]
        claims = [append for append in own if append.table == "writers"]
        if not claims:
            return None
        row = claims[-1].rows[0]
        released = row["event"] == WriterEvent.RELEASED
        return LastClaim(claims[-1].epoch, str(row["host"]), released, own[-1].at_ms, claims[0].at_ms)

    def identities(self) -> ClusterIdentities:
        rows = [
            {
                "writer": append.writer,
                "writer_epoch": append.epoch,
                "round": append.round_number,
                "recorded_at_ms": append.at_ms,
                **row,
            }
            for append in self.appends
            if append.table == "writers"
            for row in append.rows
        ]
        return ClusterIdentities.of_rows(rows, [])

    def positions(self, flow: str) -> list[FlowPosition]:
        raise AssertionError(f"a recorder does not ask for positions of {flow}")


@dataclass
class FakeCluster(UnaskedCluster):
    """A cluster that tests change between looks; `during_look` changes it in the middle of one."""

    alias: str = "east"
    kafka_id: str = "cluster-id"
    described: dict[str, TopicDescription] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    ends_now: dict[tuple[str, int], PartitionEnds] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    during_look: list[TopicDescription] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    hidden_groups: set[str] = field(default_factory=set)
    asked_for: list[str] = field(default_factory=list)
    looks: int = 0
    while_reading_ends: Callable[[], None] = lambda: None

    def add_topic(self, name: str, topic_id: str, *, partitions: int = 1) -> None:
        self.described[name] = TopicDescription(name, topic_id, partitions, 1, name.startswith("__"))
        self.settings[name] = {}

    def cluster_id(self) -> str:
        return self.kafka_id

    def metadata_offset(self) -> int | None:
        return None

    def topics(self) -> dict[str, TopicDescription]:
        self.looks += 1
        return {name: topic for name, topic in self.described.items() if name not in self.hidden}

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        own = {name: dict(self.settings[name]) for name in topics if name in self.settings}
        return SettingsAnswer(
            {name: TopicSettings(found, found) for name, found in own.items() if name not in self.denied},
            {name: "not authorized" for name in own if name in self.denied},
        )

    def is_gone(self, topic: str) -> bool:
        if topic in self.hidden:
            raise PreconditionError(f"{topic} may not be described; nothing was looked up")
        return topic not in self.described

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        for topic in self.during_look:
            self.described[topic.name] = topic
        self.during_look = []
        self.while_reading_ends()
        return {key: self.ends_now[key] for key in partitions if key in self.ends_now}

    def groups(self) -> list[GroupListing]:
        listed = {key[0] for key in self.committed} - self.hidden_groups
        return [GroupListing(group, "classic", "Stable") for group in sorted(listed)]

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        self.asked_for += groups
        return frozenset(groups) - {key[0] for key in self.committed} - self.hidden_groups

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        asked = {group.group_id for group in groups}
        return [
            checkpoint(group, topic, partition, offset, topic_id=topic_ids.get(topic))
            for (group, topic, partition), offset in self.committed.items()
            if group in asked and topic not in self.hidden
        ]


def checkpoint(
    group: str, topic: str, partition: int, offset: int | None, *, topic_id: str | None = "id-1"
) -> Checkpoint:
    return Checkpoint(
        cluster="east",
        group_id=group,
        group_type="classic",
        group_state="Stable",
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        committed_offset=offset,
        leader_epoch=None,
        metadata="" if offset is not None else None,
        read_at_ms=1,
    )


def absent(row: Checkpoint, absence: Absence, read_at_ms: int) -> Checkpoint:
    return replace(
        row,
        group_state=None,
        committed_offset=None,
        leader_epoch=None,
        metadata=None,
        read_at_ms=read_at_ms,
        absence=absence,
    )
