"""A cut says where both sides of a pair stand, and never that the way back may begin where nobody knows that."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.changeover.cut import CutFlow, CutPorts, take_cut
from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError, UsageError
from ledger.facts.codec import encode
from ledger.facts.cut_offsets import Cut, CutPair
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, PartitionPair, Position, SyncCause, SyncKind, TopicPartition
from ledger.mirror.states import PartitionState
from ledger.store.delta_tables import create_tables
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from ledger.topics.naming import NamingKind, TopicSelection
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import NO_PRODUCER, Producer, application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

FORWARD, BACK, MIRROR = "east-to-west", "west-to-east", 77


class Clusters:
    """East and west with topic `t`, of which a flow has recorded a map; nothing is copied for real."""

    def __init__(self, topics: Sequence[str] = ("t",)) -> None:
        self.clock = Schedule()
        self.east, self.west = MemoryCluster("east", self.clock), MemoryCluster("west", self.clock)
        self.ledger = MemoryLedger()
        for cluster in (self.east, self.west):
            for topic in topics:
                cluster.create_topic(topic, partitions=1, replication_factor=1, configuration={})
        self.claimed(FORWARD, self.east, self.west)

    def claimed(self, flow: str, source: MemoryCluster, target: MemoryCluster) -> None:
        claim = row(
            "writers",
            writer=f"flow:{flow}",
            writer_epoch=1,
            event="claimed",
            flow=flow,
            source_cluster=source.alias,
            source_cluster_id=source.cluster_id(),
            target_cluster=target.alias,
            target_cluster_id=target.cluster_id(),
            producer_id=MIRROR,
        )
        self.ledger.append("writers", [claim])

    def write(
        self, cluster: MemoryCluster, count: int, *, producer_id: int = NO_PRODUCER, topic: str = "t"
    ) -> None:
        records = [content(b"k", b"v")] * count
        batch = application_batch(records, [0] * count, producer=Producer(producer_id, 0, 0))
        cluster.log(topic, 0).append(batch, now_ms=0)

    def mapped(self, source_end: int, target_end: int, *, flow: str = FORWARD, topic: str = "t") -> None:
        """The flow has recorded that it got so far."""
        here, there = (self.east, self.west) if flow == FORWARD else (self.west, self.east)
        pair = PartitionPair(
            TopicPartition(topic, here.topics()[topic].topic_id, 0),
            TopicPartition(topic, there.topics()[topic].topic_id, 0),
        )
        state = PartitionState(
            pair, Position(source_offset=source_end, target_offset=target_end, next_sequence=0)
        )
        stamp = {"writer": f"flow:{flow}", "writer_epoch": 1, "round": 1, "recorded_at_ms": 1}
        fact = sync_row(FlowIdentity(flow, here.alias, there.alias), state.started(SyncCause.EARLIEST))
        self.ledger.append("offset_syncs", [{**stamp, **fact}])

    def replicated(self, count: int) -> None:
        """East has so many extras, and the flow has copied them behind all that lies at west."""
        self.write(self.east, count)
        begin = self.west.log("t", 0).high_watermark
        self.write(self.west, count, producer_id=MIRROR)
        known = MemoryLedgerState(self.ledger).positions(FORWARD)[0]
        state = PartitionState(known.pair, known.position)
        moved = state.pass_target(begin, SyncCause.EXTRAS)
        at = state.position.source_offset
        copied = replace(
            moved,
            kind=SyncKind.COPIED,
            cause=None,
            source_end=at + count,
            target_end=begin + count,
            records=count,
        )
        self.recorded(moved, copied)

    def recorded(self, *facts: OffsetSync) -> None:
        """Rows of the forward flow, a round each."""
        identity, before = FlowIdentity(FORWARD, "east", "west"), len(self.ledger.rows("offset_syncs"))
        for number, fact in enumerate(facts, start=before + 1):
            stamp = {
                "writer": f"flow:{FORWARD}",
                "writer_epoch": 1,
                "round": number,
                "recorded_at_ms": number,
            }
            self.ledger.append("offset_syncs", [{**stamp, **sync_row(identity, fact)}])

    def ended(self, cluster: MemoryCluster, high_watermark: int, read_at_ms: int) -> None:
        """A recorder has read the ends."""
        ends = row(
            "high_watermarks",
            writer=f"recorder:{cluster.alias}",
            writer_epoch=1,
            round=1,
            cluster=cluster.alias,
            topic="t",
            topic_id=cluster.topic_by_name["t"].topic_id,
            last_stable=high_watermark,
            high_watermark=high_watermark,
            read_at_ms=read_at_ms,
        )
        self.ledger.append("high_watermarks", [ends])

    def cut(
        self,
        operation_id: str = "op",
        *,
        topics: frozenset[str] | None = None,
        pause: Callable[[], None] | None = None,
        **changed: object,
    ) -> Cut:
        flow = FlowConfig(
            name=FORWARD,
            source="east",
            target="west",
            topics=(".*",),
            topic_naming=NamingKind.IDENTITY,
            opposite=BACK,
        ).model_copy(update=changed)
        ports = CutPorts(
            self.east,
            self.west,
            MemoryLedgerState(self.ledger),
            MemoryFactLog(self.ledger, self.clock),
            self.clock,
        )
        selection = TopicSelection(flow.topics, naming=flow.naming)
        return take_cut([CutFlow(flow, selection, topics)], ports, operation_id=operation_id, pause=pause)

    def pair(self, **changed: object) -> CutPair:
        return self.cut(**changed).pairs(FORWARD)["t", 0]  # type: ignore[arg-type]


@pytest.fixture
def drained() -> Clusters:
    """East has 5 records, all of them are at west and recorded."""
    found = Clusters()
    found.write(found.east, 5)
    found.write(found.west, 5, producer_id=MIRROR)
    found.mapped(5, 5)
    return found


def test_both_sides_are_read_and_recorded_once(drained: Clusters) -> None:
    cut = drained.cut()
    pair = cut.pairs(FORWARD)["t", 0]
    assert pair.source is not None
    assert pair.target is not None
    assert (pair.source.high_watermark, pair.source.map_source_end, pair.source.reverse_start) == (5, 5, None)
    assert (pair.target.high_watermark, pair.target.map_target_end, pair.reverse_start) == (5, 5, 5)
    assert (pair.source.cluster_id, pair.target.is_live) == ("cluster-of-east", True)
    drained.write(drained.west, 3)
    assert drained.cut() == cut
    assert len(drained.ledger.rows("cut_offsets")) == 2
    assert drained.cut("another").pairs(FORWARD)["t", 0] != pair


def test_control_records_behind_the_map_are_passed_and_applications_are_not(drained: Clusters) -> None:
    drained.west.log("t", 0).end_transaction(9, 0, commit=False, now_ms=0)
    assert drained.cut("fenced").pairs(FORWARD)["t", 0].reverse_start == 6
    drained.write(drained.west, 2)
    assert drained.cut("later").pairs(FORWARD)["t", 0].reverse_start == 6


def test_what_the_way_back_has_copied_already_is_passed(drained: Clusters) -> None:
    drained.write(drained.west, 3)
    drained.mapped(7, 7, flow=BACK)
    assert drained.pair().reverse_start == 7


def test_what_others_wrote_in_front_of_replicated_extras_comes_back(drained: Clusters) -> None:
    drained.write(drained.west, 3)
    drained.replicated(2)
    drained.write(drained.west, 4)
    assert drained.cut("first").pairs(FORWARD)["t", 0].reverse_start == 5
    drained.replicated(1)
    assert drained.cut("again").pairs(FORWARD)["t", 0].reverse_start == 5
    drained.mapped(6, 6, flow=BACK)
    assert drained.cut("begun").pairs(FORWARD)["t", 0].reverse_start == 6


def test_nothing_in_front_of_replicated_extras_is_sought_once_it_was_passed(drained: Clusters) -> None:
    drained.write(drained.west, 3)
    drained.replicated(2)
    known = MemoryLedgerState(drained.ledger).positions(FORWARD)[0]
    drained.recorded(PartitionState(known.pair, known.position).pass_target(10))
    assert drained.pair().reverse_start == 10


def test_replicated_extras_that_were_not_recorded_keep_the_way_back_from_beginning(drained: Clusters) -> None:
    drained.write(drained.west, 3)
    drained.replicated(2)
    drained.write(drained.west, 1, producer_id=MIRROR)
    assert drained.pair().reverse_start is None


def test_copies_that_were_not_recorded_keep_the_way_back_from_beginning(drained: Clusters) -> None:
    drained.write(drained.west, 1, producer_id=MIRROR)
    found = drained.pair()
    assert found.reverse_start is None
    assert found.why_no_start() == "west held copies of flow east-to-west that it had not recorded"


def test_a_source_that_has_lost_its_end_keeps_the_way_back_from_beginning(drained: Clusters) -> None:
    drained.east.log("t", 0).lose_end(3)
    assert drained.pair().why_no_start() == "east ended at 0, and 5 had been copied from there"


def test_a_target_that_has_lost_its_end_keeps_the_way_back_from_beginning(drained: Clusters) -> None:
    """The forward flow has to copy that again first: behind a cut it would not read there."""
    drained.west.log("t", 0).lose_end(0)
    found = drained.pair()
    assert (found.reverse_start, found.why_no_start()) == (
        None,
        "west ended at 0, and 5 had been written there",
    )


def test_a_side_that_does_not_answer_is_as_it_was_recorded_last(drained: Clusters) -> None:
    drained.ended(drained.east, 4, 1_000)
    drained.east.available = False
    cut = drained.cut()
    found = cut.pairs(FORWARD)["t", 0]
    assert found.source is not None
    assert (found.source.high_watermark, found.source.read_at_ms, found.source.is_live) == (4, 1_000, False)
    assert found.source.cluster_id == "cluster-of-east"
    assert (found.reverse_start, found.why_no_start()) == (None, "east was not read itself")
    assert cut.facts["not_live"] == ["east"]
    assert "east as last recorded" in cut.words


def test_ends_that_nobody_knows_are_null(drained: Clusters) -> None:
    drained.east.available = False
    found = drained.pair().source
    assert found is not None
    assert (found.high_watermark, found.read_at_ms, found.map_source_end) == (None, None, 5)


def test_of_no_side_that_answers_nothing_is_recorded(drained: Clusters) -> None:
    drained.east.available = drained.west.available = False
    with pytest.raises(PreconditionError, match="neither east nor west answers"):
        drained.cut()
    assert drained.ledger.rows("cut_offsets") == []


def test_another_cluster_behind_an_alias_is_refused(drained: Clusters) -> None:
    drained.west.kafka_id = "another"
    with pytest.raises(PreconditionError, match="another cluster answers behind west"):
        drained.cut()
    assert drained.ledger.rows("cut_offsets") == []


def test_topics_that_are_chosen_alone_are_read() -> None:
    found = Clusters(("t", "u"))
    assert list(found.cut(topics=frozenset({"u"})).pairs(FORWARD)) == [("u", 0)]
    with pytest.raises(UsageError, match="copy no such topic"):
        found.cut("another", topics=frozenset({"v"}))


def test_a_map_of_another_incarnation_is_none_of_the_one_that_is_there(drained: Clusters) -> None:
    drained.east.recreate_topic("t")
    found = drained.pair()
    assert found.source is not None
    assert found.target is not None
    assert (found.source.map_source_end, found.target.map_target_end) == (None, 5)


def test_of_two_appends_for_one_operation_the_first_counts(drained: Clusters) -> None:
    cut = drained.cut()
    later = [encode(replace(at, high_watermark=99)) for at in cut.offsets]
    MemoryFactLog(drained.ledger, drained.clock).append_next("operator", "cut_offsets", later)
    assert MemoryLedgerState(drained.ledger).cut("op") == cut


def test_what_is_behind_the_map_of_the_source_keeps_no_way_back_from_beginning(drained: Clusters) -> None:
    drained.write(drained.east, 2)
    assert drained.cut().pairs(FORWARD)["t", 0].reverse_start == 5


def test_a_cut_on_disk_is_read_as_it_was_taken(drained: Clusters, tmp_path: Path) -> None:
    path = str(tmp_path)
    create_tables(path, now_ms=1)
    state = DeltaLedgerState(open_ledger(path))
    assert (state.cut("op").offsets, state.cut_targets(FORWARD, ["t"])) == ((), {})
    taken = drained.cut()
    log = DeltaFactLog(path, FakeClock())
    log.append_next("operator", "cut_offsets", list(map(encode, taken.offsets)))
    log.append_next(
        "operator", "cut_offsets", [encode(replace(at, operation_id="b")) for at in taken.offsets]
    )
    assert state.cut("op") == taken
    [(place, found)] = state.cut_targets(FORWARD, ["t"]).items()
    assert (place, [at.operation_id for at in found]) == (("t", 0), ["op", "b"])
    assert state.cut_targets(BACK, ["t"]) == state.cut_targets(FORWARD, ["another"]) == {}


def test_topics_of_one_side_alone_have_no_way_back_from_the_cut(drained: Clusters) -> None:
    drained.east.create_topic("a", partitions=1, replication_factor=1, configuration={})
    drained.west.create_topic("b", partitions=1, replication_factor=1, configuration={})
    pairs = drained.cut().pairs(FORWARD)
    assert pairs["a", 0].why_no_start() == "nothing had been copied: the target did not have it"
    assert pairs["b", 0].why_no_start() == "it is at west alone: the way back begins with all of it"


def test_from_other_names_nothing_goes_back() -> None:
    found = Clusters(("t", "east.t"))
    cut = found.cut(topic_naming=NamingKind.PREFIX, topics=frozenset({"east.t"}))
    [pair] = cut.every_pair
    assert (pair.reverse_start, pair.why_no_start()) == (
        None,
        "it has another name at west: nothing goes back from there",
    )


@pytest.mark.parametrize("alias", ["east", "west"])
def test_what_is_written_while_a_cut_is_taken_refuses_it(drained: Clusters, alias: str) -> None:
    written = {"east": drained.east, "west": drained.west}[alias]
    with pytest.raises(PreconditionError) as refused:
        drained.cut(pause=lambda: drained.write(written, 3))
    assert f"3 offsets came to t partition 0 of {alias} while the cut was taken" in str(refused.value)
    assert "nothing was recorded" in str(refused.value)
    assert drained.ledger.rows("cut_offsets") == []
    assert drained.cut(pause=lambda: None).words.startswith("cut op of east-to-west: 1 partitions")
