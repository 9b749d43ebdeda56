"""The oracle of groups that move, and the groups themselves, on clusters put together by hand."""

import random
from collections import Counter
from dataclasses import asdict

import pytest

from ledger.config.values import FlowConfig, TargetMode
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, SyncKind, TopicPartition
from ledger.topics.naming import NamingKind
from tests.simulation.answering import Answering
from tests.simulation.consumers import Commit, Consumers, Group, Reader
from tests.simulation.coverage import seldom_answered
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.moves import Moves, Way
from tests.simulation.readings import Readings
from tests.support.ledger_rows import row

FLOW = FlowConfig(
    name="f",
    source="east",
    target="west",
    topics=(".*",),
    topic_naming=NamingKind.IDENTITY,
    target_mode=TargetMode.SHARED,
)
MIRROR_BACK, OTHER_MIRROR = 7, 8


class Pair:
    """Topic `t` at both clusters: east holds a0 a1 b0 b1 b2, west b0 b1 a0 a1 b2; the flow has copied a0 a1."""

    def __init__(self, *, b_written_by: int = -1) -> None:
        self.schedule = Schedule()
        self.clusters = {alias: MemoryCluster(alias, self.schedule) for alias in ("east", "west")}
        for cluster in self.clusters.values():
            cluster.create_topic("t", partitions=1, replication_factor=1, configuration={})
        for name in ("a0", "a1"):
            self.write("east", name)
        for name in ("b0", "b1", "b2"):
            self.write("east", name, MIRROR_BACK)
        for name in ("b0", "b1"):
            self.write("west", name, b_written_by)
        for name in ("a0", "a1"):
            self.write("west", name, 1)
        self.write("west", "b2", b_written_by)
        self.ledger = MemoryLedger()
        stamp = {"writer": "flow:f", "writer_epoch": 1, "round": 1, "recorded_at_ms": 1}
        copied = sync_row(FlowIdentity("f", "east", "west"), self.sync())
        self.ledger.append("offset_syncs", [{**stamp, **copied}])
        self.tally = Counter[str]()

    def write(self, cluster: str, name: str, producer_id: int = -1) -> None:
        producer = Producer(producer_id, 0, 0) if producer_id >= 0 else Producer()
        batch = application_batch([content(name.encode(), b"v")], [5], producer=producer)
        self.clusters[cluster].log("t", 0).append(batch, now_ms=5)

    def place(self, cluster: str) -> TopicPartition:
        return TopicPartition("t", self.clusters[cluster].topic_by_name["t"].topic_id, 0)

    def sync(self) -> OffsetSync:
        return OffsetSync(
            source=self.place("east"),
            target=self.place("west"),
            source_leader_epoch=0,
            source_start=0,
            source_end=2,
            target_start=2,
            target_end=4,
            first_sequence=0,
            kind=SyncKind.COPIED,
            cause=None,
            records=2,
        )

    def moves(self, *, has_way_back: bool = True, not_carried_back: frozenset[int] = frozenset()) -> Moves:
        way = Way(FLOW, has_way_back, frozenset({MIRROR_BACK}), not_carried_back)
        return Moves(self.clusters, [way], self.ledger, {}, Readings(), self.tally)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> dict[int, int | None]:
    """What translations are made to say, by commit; nothing for the others."""
    told: dict[int, int | None] = {}
    monkeypatch.setattr(
        Answering, "of_offset", lambda _self, _topic_id, offset, _leader_epoch: told.get(offset)
    )
    return told


@pytest.mark.parametrize(
    ("committed", "target_offset", "is_right"),
    [
        (0, 0, True),
        (0, 1, False),  # passes b0
        (2, 0, True),
        (2, 1, False),
        (2, 4, False),  # where the map says that a0 and a1 end
        (3, 1, True),  # b0 was read at east
        (3, 2, False),
        (4, 4, True),
        (4, 5, False),
        (5, 5, True),
        (5, 6, False),  # beyond the end: what comes next would be passed
    ],
)
def test_a_group_that_is_sent_behind_what_it_has_not_read_skips_it(
    answered: dict[int, int | None], committed: int, target_offset: int, is_right: bool
) -> None:
    answered[committed] = target_offset
    pair = Pair()
    if is_right:
        pair.moves().check()
        assert pair.tally == {"moves two-way": 6, "moves with an offset two-way": 1}
    else:
        with pytest.raises(AssertionError, match=f"is sent to {target_offset}"):
            pair.moves().check()


def test_what_nobody_carries_back_is_no_loss_to_a_group(answered: dict[int, int | None]) -> None:
    answered[0], answered[2] = 2, 4
    pair = Pair(b_written_by=OTHER_MIRROR)
    with pytest.raises(AssertionError):
        pair.moves().check()
    # What is at the source all the same counts: a group at 2 had not come to b0 yet.
    with pytest.raises(AssertionError):
        pair.moves(has_way_back=False).check()
    pair.clusters["east"].log("t", 0).lose_end(2)
    pair.moves(has_way_back=False).check()
    pair.moves(not_carried_back=frozenset({OTHER_MIRROR})).check()


def test_what_is_to_be_copied_again_lands_behind_the_end(answered: dict[int, int | None]) -> None:
    answered[0] = 4
    pair = Pair(b_written_by=OTHER_MIRROR)
    pair.clusters["east"].log("t", 0).lose_end(2)
    with pytest.raises(AssertionError):
        pair.moves(has_way_back=False).check()
    copied = pair.ledger.rows("offset_syncs")[0]
    again = {"kind": "superseded", "cause": "resync", "records": 0, "target_start": 4, "checksum": None}
    pair.ledger.append("offset_syncs", [{**copied, "round": 2, **again}])
    pair.moves(has_way_back=False).check()


@pytest.mark.parametrize(
    ("leader_epoch", "high_watermark", "is_known"),
    [(None, None, False), (0, 6, True), (0, 5, True), (0, 4, False), (1, 9, False), (None, 9, False)],
)
def test_a_commit_without_an_epoch_is_judged_where_the_ledger_can_know_that_its_records_were_lost(
    leader_epoch: int | None, high_watermark: int | None, is_known: bool
) -> None:
    """It had read all but the last of east; then the log lost all from 4 on, and other records came there."""
    pair = Pair()
    if high_watermark is not None:
        place = {"cluster": "east", **asdict(pair.place("east"))}
        ends = {"leader_epoch": leader_epoch, "high_watermark": high_watermark}
        pair.ledger.append("high_watermarks", [row("high_watermarks", **place, **ends)])
    log = pair.clusters["east"].log("t", 0)
    moves = pair.moves()
    (sides,) = (sides for way in moves.ways for sides in moves._sides(way, moves._rows(way)))
    reader = Reader(commit=Commit(5, 0))
    without, with_epoch = (Group("g", named, pause_s=1.0, reads_until_s=9.0) for named in (False, True))
    assert not moves._is_unknowable(sides, without, reader)
    log.lose_end(4)
    assert not moves._is_unknowable(sides, without, reader), "nothing came there yet"
    pair.write("east", "c0")
    assert moves._is_unknowable(sides, without, reader) is not is_known
    assert not moves._is_unknowable(sides, with_epoch, reader)
    assert not moves._is_unknowable(sides, without, Reader(commit=Commit(4, 0)))


def test_answers_that_hardly_ever_have_an_offset_are_told() -> None:
    few = Counter({"moves one-way": 100, "moves with an offset one-way": 39})
    assert seldom_answered(few) == ["one-way: 39 of 100 moves with an offset"]
    assert seldom_answered(Counter({"moves one-way": 100, "moves with an offset one-way": 40})) == []
    assert seldom_answered(Counter()) == []


# -- groups ----------------------------------------------------------------------------------------


class Reading:
    """A group at one partition of five records, the last three of leader epoch 1, all of them read and committed."""

    def __init__(self, *, names_epochs: bool) -> None:
        schedule = Schedule()
        self.cluster = MemoryCluster("east", schedule)
        self.cluster.create_topic("t", partitions=1, replication_factor=1, configuration={})
        self.write("1", "2")
        self.log.fail_over(keep_held=True)
        self.write("3", "4", "5")
        self.consumers = Consumers(random.Random(1), schedule, self.cluster, Readings(), Counter())
        self.group = Group("g", names_epochs, pause_s=1.0, reads_until_s=9.0)
        self.reader = Reader()
        while self.reader.position < 5:
            self.read()
        self.consumers._commit(self.group, self.reader, "t", 0)

    @property
    def log(self) -> PartitionLog:
        return self.cluster.log("t", 0)

    def write(self, *values: str) -> None:
        contents = [content(value.encode(), b"v") for value in values]
        self.log.append(application_batch(contents, [5] * len(values)), now_ms=5)

    def read(self) -> None:
        self.consumers._read(self.group, self.reader, "t", self.log)

    def values(self) -> set[str]:
        records = self.reader.read | self.reader.ahead
        return {identity[1][1:2].decode() for identity in records}


def test_a_group_commits_the_leader_epoch_of_what_it_has_read() -> None:
    reading = Reading(names_epochs=True)
    assert reading.values() == {"1", "2", "3", "4", "5"}
    assert (reading.cluster.committed, reading.cluster.committed_epochs) == (
        {("g", "t", 0): 5},
        {("g", "t", 0): 1},
    )
    assert Reading(names_epochs=False).cluster.committed_epochs == {("g", "t", 0): None}


def test_a_group_that_names_epochs_is_put_back_to_where_the_log_was_truncated() -> None:
    reading = Reading(names_epochs=True)
    reading.log.lose_end(2)
    reading.write("6", "7", "8", "9")
    reading.read()
    assert reading.reader.position == 2
    while reading.reader.position < 6:
        reading.read()
    assert reading.values() == {"1", "2", "3", "4", "5", "6", "7", "8", "9"}


def test_a_group_that_names_none_reads_on_and_passes_what_is_new() -> None:
    reading = Reading(names_epochs=False)
    reading.log.lose_end(2)
    reading.write("6", "7", "8", "9")
    assert "6" not in reading.values()
    reading.read()
    assert reading.reader.position == 6
    assert reading.values() >= {"6", "7", "8", "9"}


def test_what_a_cleaner_or_retention_took_before_is_passed() -> None:
    reading = Reading(names_epochs=True)
    reading.write("6", "7")
    reading.log.delete_before(7)
    reading.read()
    assert (reading.reader.position, reading.values()) == (7, {"1", "2", "3", "4", "5", "6", "7"})


def test_a_consumer_that_comes_after_another_has_read_what_was_committed() -> None:
    reading = Reading(names_epochs=True)
    reading.write("6")
    reading.read()
    assert "6" in reading.values()
    reading.reader.restart()
    assert (reading.reader.position, "6" in reading.values()) == (5, False)


def test_what_groups_had_committed_goes_with_the_topic() -> None:
    reading = Reading(names_epochs=True)
    reading.cluster.committed["g", "other", 0] = 3
    reading.cluster.recreate_topic("t")
    assert reading.cluster.committed == {("g", "other", 0): 3}
