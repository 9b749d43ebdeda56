"""The claim of a flow: between which clusters, and with which producer id; and what another producer id changes."""

import json
from dataclasses import dataclass, field, replace

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    NOTHING_KNOWN,
    FlowPosition,
    OffsetSync,
    PartitionPair,
    RecordedSync,
    SyncCause,
    SyncKind,
)
from ledger.facts.tables import Row
from ledger.facts.truncation import is_as_recorded, sequence_at
from ledger.kafka.cluster import live_cluster
from ledger.mirror.assignment import Assignment, PartitionResult, StopCause
from ledger.mirror.driver import claim_row
from ledger.mirror.states import FlowProgress, PartitionState
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.producer_ids import BLOCK, ProducerIdBlocks
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.mirror_producers import memory_mirror_producers
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copy_tasks import NOW_MS, OWN_PRODUCER_ID, RECORDED, SOURCE, TARGET, Bench, cause, moved
from tests.support.ledgers import operators

# -- The claim -------------------------------------------------------------------------------------


@dataclass
class World:
    """Flows from east to west, and back, that claim."""

    schedule: Schedule = field(default_factory=Schedule)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        self.clusters = {alias: MemoryCluster(alias, self.schedule) for alias in ("east", "west")}
        self.state = MemoryLedgerState(self.ledger)

    def claim(self, name: str, source: str = "east", target: str = "west") -> int:
        """The producer id that the flow claims with."""
        return int(str(self.claimed(name, source, target)["producer_id"]))

    def claimed(
        self, name: str, source: str = "east", target: str = "west", *, takes_given: bool = False
    ) -> Row:
        """The row that the flow claims with."""
        flow = FlowConfig(name=name, source=source, target=target, topics=(".*",))
        at_source = live_cluster(self.clusters[source])
        at_target = self.clusters[target]
        row = claim_row(
            flow,
            source=at_source,
            target=at_target,
            state=self.state,
            host="h:1:1",
            takes_given=takes_given,
        )
        MemoryFactLog(self.ledger, self.schedule).claim(f"flow:{name}", ["offset_syncs"], row)
        return row

    def claimed_before(self, name: str, producer_id: int) -> None:
        """The flow has claimed with an id that west gave it, as flows did once."""
        row = {**self.claimed("template"), "flow": name, "producer_id": producer_id}
        MemoryFactLog(self.ledger, self.schedule).claim(
            f"flow:{name}", ["offset_syncs"], {**row, "allocated_producer_id": None}
        )

    def accept(self, alias: str, *, rebuilt: bool) -> None:
        identities = self.state.identities()
        accepted = identities.accepting(alias, self.clusters[alias].cluster_id(), rebuilt=rebuilt)
        operators(self.ledger, self.schedule).record(accepted, flow=None, reason="moved")


def test_a_flow_writes_with_an_id_that_no_broker_gives_and_records_what_its_target_gave() -> None:
    world = World()
    rows = [world.claimed(f"flow-{number}") for number in range(12)]
    ids, given = [row["producer_id"] for row in rows], [row["allocated_producer_id"] for row in rows]
    assert len(set(ids)) == 12
    assert all(2**52 <= drawn < 2**53 for drawn in ids)
    assert json.loads(json.dumps(ids), parse_int=float) == ids, "exact where a number is a double"
    assert given != sorted(given), "of any broker's block"
    assert {allocated // BLOCK for allocated in given} == {0, 1, 2}
    again = [world.claimed(f"flow-{number}") for number in range(12)]
    assert [(row["producer_id"], row["allocated_producer_id"]) for row in again] == [
        (one, None) for one in ids
    ]


def test_an_id_that_any_flow_has_had_is_drawn_again() -> None:
    world = World()
    first = world.claim("f")
    world.clusters["east"].producer_ids = ProducerIdBlocks("west")
    other = world.claim("back", "west", "east")
    assert ProducerIdBlocks("west").draw() == first != other, "what east draws first, and what it draws next"


def test_a_flow_with_an_id_of_its_target_takes_another_one_at_its_next_claim() -> None:
    world = World()
    world.claimed_before("f", 7)
    row = world.claimed("f")
    assert (row["former_producer_id"], row["producer_id"] >= 2**52) == (7, True)
    producer = world.state.identities().producers("cluster-of-west")["f"]
    assert producer == FlowProducer(int(str(row["producer_id"])), frozenset({7}))
    assert producer.mistakable == {7}
    assert world.claim("f") == producer.current
    identities = world.state.identities()
    assert identities.certain_ids("cluster-of-west") == identities.mirror_ids("cluster-of-west") - {7}


def test_where_a_target_takes_no_other_ids_the_flow_has_one_that_it_gave_from_then_on() -> None:
    world = World()
    drawn = world.claim("f")
    row = world.claimed("f", takes_given=True)
    given = row["producer_id"]
    assert (given, row["former_producer_id"]) == (row["allocated_producer_id"], drawn)
    assert world.claim("f") == given < 2**52
    producer = world.state.identities().producers("cluster-of-west")["f"]
    assert producer.was_refused
    assert producer.mistakable == set()
    assert world.state.identities().certain_ids("cluster-of-west") == {drawn, given}


def test_an_id_that_is_recorded_already_proves_a_reset() -> None:
    world = World()
    world.claim("f")
    world.clusters["west"].format()
    with pytest.raises(PreconditionError) as refused:
        world.claim("g")
    assert "the cluster was formatted again" in str(refused.value)
    assert "mirror-ledger accept-cluster west --cluster-id cluster-of-west --rebuilt" in str(refused.value)
    assert [row["flow"] for row in world.ledger.rows("writers")] == ["f"]


def test_after_a_declared_rebuild_ids_are_given_anew() -> None:
    world = World()
    first = world.claim("f")
    other = world.claim("g")
    given = [row["allocated_producer_id"] for row in world.ledger.rows("writers")]
    world.clusters["west"].format()
    world.accept("west", rebuilt=True)
    assert memory_mirror_producers(world.ledger, "cluster-of-west").is_mirror(first) is False
    again = world.claimed("g")
    assert (again["allocated_producer_id"], again["former_producer_id"]) == (given[0], None)
    directory = memory_mirror_producers(world.ledger, "cluster-of-west")
    assert directory.is_mirror(int(str(again["producer_id"])))
    assert not directory.is_mirror(other)


@pytest.mark.parametrize("side", ["east", "west"])
def test_another_cluster_behind_an_alias_is_refused_until_it_is_accepted(side: str) -> None:
    world = World()
    before = world.claim("f")
    world.clusters[side].format("another")
    with pytest.raises(PreconditionError, match=f"another cluster answers behind {side}"):
        world.claim("f")
    with pytest.raises(PreconditionError, match=f"another cluster answers behind {side}"):
        world.claim("never-ran", "west", "east")
    assert len(world.ledger.rows("writers")) == 1
    world.accept(side, rebuilt=False)
    world.claim("f")
    [_, after] = world.ledger.rows("writers")
    assert after[f"{'source' if side == 'east' else 'target'}_cluster_id"] == "another"
    assert before in world.state.identities().mirror_ids("cluster-of-west")
    assert world.state.identities().recorded_ids()[side] == "another"


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_cluster_formatted_again_under_its_id_is_refused_until_it_is_declared(side: str) -> None:
    world = World()
    world.schedule.wait(3600)
    world.claim("f")
    world.clusters[side].format()
    with pytest.raises(
        PreconditionError, match=f"{side} has the Kafka cluster id .* but its metadata went back"
    ):
        world.claim("f")
    world.accept(side, rebuilt=True)
    world.claim("f")


# -- Another producer id ---------------------------------------------------------------------------

OLD, NEW = OWN_PRODUCER_ID, OWN_PRODUCER_ID + 500
PRODUCER = FlowProducer(NEW, frozenset({OLD}))


def with_new_id(told: Assignment, *, old_next: int | None) -> Assignment:
    """The assignment of a driver with the new id; `old_next`: the next sequence of the old one, when it is known."""
    return replace(
        told,
        producer=PRODUCER,
        position=replace(
            told.position,
            next_sequence=0,
            former_sequence=None if old_next is None else (OLD, old_next),
        ),
    )


def written(bench: Bench) -> list[tuple[int, int, int]]:
    """Producer id, sequence and count of what lies at the target."""
    return [(h.producer_id, h.base_sequence, h.count) for h in bench.target_log().headers()]


def rows(result: PartitionResult) -> list[tuple[SyncKind, int, int, int, int | None]]:
    return [
        (sync.kind, sync.target_start, sync.target_end, sync.first_sequence, sync.former_producer_id)
        for sync in result.syncs
    ]


def test_an_unrecorded_tail_of_the_former_id_is_recognised_and_written_behind() -> None:
    bench = Bench()
    bench.write(2, 3)
    bench.run(bench.assignment())  # nothing of it was recorded
    bench.write(4)
    [result] = bench.run(with_new_id(bench.assignment(), old_next=0))
    assert (result.stop, bench.is_copied()) == (None, True)
    assert written(bench) == [(OLD, 0, 2), (OLD, 2, 3), (NEW, 0, 4)]
    assert rows(result) == [(SyncKind.COPIED, 0, 5, 0, OLD), (SyncKind.COPIED, 5, 9, 0, None)]
    assert [sync.recovered for sync in result.syncs] == [True, False]
    assert (result.position.next_sequence, result.position.former_sequence) == (4, None)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_the_marker_that_shut_the_former_id_out_is_no_foreign_write(is_recorded: bool) -> None:
    """It lies behind what the flow wrote with that id, recorded or not, and holds no record."""
    bench = Bench()
    bench.write(2, 3)
    bench.run(bench.assignment())
    bench.target_log().end_transaction(OLD, 1, commit=False, now_ms=NOW_MS)
    bench.write(4)
    told = bench.assignment()
    if is_recorded:
        told = moved(told, source_offset=5, target_offset=5)
    assert told.exclusive
    [result] = bench.run(with_new_id(told, old_next=5 if is_recorded else 0))
    assert (result.stop, bench.is_copied()) == (None, True)
    assert [row for row in written(bench) if row[0] == NEW] == [(NEW, 0, 4)]
    recovered = [] if is_recorded else [(SyncKind.COPIED, 0, 5, 0, OLD)]
    assert rows(result) == [*recovered, (SyncKind.COPIED, 6, 10, 0, None)]
    after = moved(told, source_offset=9, target_offset=10, next_sequence=4)
    [idle] = bench.run(replace(after, producer=PRODUCER, end_offset=9))
    assert (idle.stop, idle.syncs) == (None, ())


@pytest.mark.parametrize("old_next", [None, 2])
def test_a_batch_of_the_former_id_out_of_its_sequence_stops_the_partition(old_next: int | None) -> None:
    bench = Bench()
    bench.write(2)
    bench.run(bench.assignment())
    [result] = bench.run(with_new_id(bench.assignment(), old_next=old_next))
    assert cause(result) is StopCause.TAIL_MISMATCH


def test_what_is_accepted_of_the_former_id_does_not_count_for_the_new_one() -> None:
    bench = Bench()
    bench.write(2)
    bench.run(with_new_id(bench.assignment(), old_next=None))
    late = application_batch([content(b"late", b"v")] * 3, [NOW_MS] * 3, producer=Producer(OLD, 0, 70))
    bench.target_log().append(late, now_ms=NOW_MS)
    bench.write(1)
    told = moved(bench.assignment(), source_offset=2, target_offset=2)
    told = moved(with_new_id(replace(told, accepted_below=5), old_next=None), next_sequence=2)
    [result] = bench.run(told)
    assert result.stop is None
    assert rows(result) == [(SyncKind.UNPAIRED, 2, 5, 2, OLD), (SyncKind.COPIED, 5, 6, 2, None)]
    assert written(bench) == [(NEW, 0, 2), (OLD, 70, 3), (NEW, 2, 1)]
    again = moved(told, source_offset=3, target_offset=6, next_sequence=result.position.next_sequence)
    [idle] = bench.run(replace(again, end_offset=3, tail=NOTHING_KNOWN))
    assert (idle.stop, idle.syncs) == (None, ())


def test_the_last_record_may_be_the_former_ids() -> None:
    """Under another leader the flow's last record is looked for where it was recorded, whoever's id it has."""
    bench = Bench()
    bench.write(2)
    bench.run(bench.assignment())
    bench.write(1)
    told = moved(bench.assignment(), source_offset=2, target_offset=2)
    told = moved(with_new_id(told, old_next=2), next_sequence=5)  # 5 records lie elsewhere in its sequence
    [result] = bench.run(told)
    assert cause(result) is not StopCause.TARGET_OUT_OF_RANGE


def position(producer_id: int | None) -> FlowPosition:
    return replace(RECORDED, producer_id=producer_id)


def test_a_position_of_the_former_id_begins_at_sequence_0() -> None:
    progress = FlowProgress([position(OLD)], PRODUCER)
    pair = PartitionPair(SOURCE, TARGET)
    found = progress.recorded(pair)
    assert found is not None
    progress.take_on(PartitionState(pair, found.position))
    [told] = progress.assignments(PRODUCER, exclusive=True)
    assert told.position.next_sequence == 0
    assert told.position.former_sequence == (OLD, RECORDED.position.next_sequence)
    assert told.producer == PRODUCER
    assert pair.source.key == (SOURCE.topic_id, SOURCE.partition)


@pytest.mark.parametrize("producer_id", [NEW, None])
def test_a_position_of_the_same_id_goes_on(producer_id: int | None) -> None:
    found = position(producer_id).for_producer(NEW)
    assert found.position == RECORDED.position


def sync(start: int, end: int, sequence: int, *, former: int | None = None) -> OffsetSync:
    return OffsetSync(
        source=SOURCE,
        target=TARGET,
        source_leader_epoch=None,
        source_start=start,
        source_end=end,
        target_start=start,
        target_end=end,
        first_sequence=sequence,
        kind=SyncKind.COPIED if former is None else SyncKind.UNPAIRED,
        cause=None if former is None else SyncCause.ACCEPTED,
        records=end - start,
        former_producer_id=former,
    )


HISTORY = (
    RecordedSync(1, 1, sync(0, 10, 100), OLD),
    RecordedSync(2, 1, sync(10, 12, 0), NEW),
    RecordedSync(2, 2, sync(12, 15, 2, former=OLD), NEW),
    RecordedSync(2, 3, sync(15, 20, 2), NEW),
)


@pytest.mark.parametrize(
    ("offset", "expected"), [(4, 0), (9, 0), (10, 0), (11, 1), (12, 2), (14, 2), (15, 2), (19, 6), (20, None)]
)
def test_the_sequence_at_an_offset_counts_the_new_ids_records(offset: int, expected: int | None) -> None:
    assert sequence_at(HISTORY, TARGET.topic_id, offset, producer_id=NEW) == expected


@pytest.mark.parametrize(
    ("offset", "producer_id", "sequence", "expected"),
    [
        (4, OLD, 104, True),
        (4, OLD, 105, False),
        (4, NEW, 104, False),
        (11, NEW, 1, True),
        (11, OLD, 1, False),
        (13, OLD, 999, True),  # what is recorded of it is the id alone
        (13, NEW, 3, False),
        (16, NEW, 3, True),
        (20, NEW, 7, False),
    ],
)
def test_a_record_is_held_by_the_id_that_it_was_recorded_with(
    offset: int, producer_id: int, sequence: int, expected: bool
) -> None:
    found = is_as_recorded(HISTORY, TARGET.topic_id, offset, producer_id=producer_id, sequence=sequence)
    assert found is expected
