"""Records that are not the flow's to copy or are somebody else's: what is left out, and what a stop says of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError
from ledger.facts.extras import ExtraRange, ExtrasDecided, ExtrasPolicy
from ledger.facts.history import FormerCopy
from ledger.facts.identity import FlowProducer, RememberedProducer
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, Position, SyncKind, TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.batches import LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader, build, read_header
from ledger.mirror.assignment import Assignment, Stop, StopCause
from ledger.mirror.progress import LoopPrevention
from ledger.mirror.states import ForeignWriters
from ledger.mirror.tail import ForeignRecords
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import Producer, StoredBatch, application_batch, content
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copy_tasks import FOREIGN, NOW_MS, OWN_PRODUCER_ID, TARGET, Target, assignment, source_log
from tests.support.offset_syncs import LOST, sync
from tests.support.unasked_cluster import UnaskedCluster

# -- Somebody else's -------------------------------------------------------------------------------

AT = "2023-11-14 22:13:20Z"
"""`NOW_MS`."""


def header() -> BatchHeader:
    found = read_header(
        memoryview(build(attributes=0, base_timestamp=NOW_MS, max_timestamp=NOW_MS, count=3, payload=b""))
    )
    return replace(found, base_offset=7, producer_id=17)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {},
            "by producer id 17, not by this flow's 40: a batch of 3 records, not transactional, "
            f"of {AT} by its producer's clock",
        ),
        (
            {"attributes": TRANSACTIONAL},
            f"a batch of 3 records, of a transaction, of {AT} by its producer's clock",
        ),
        ({"attributes": LOG_APPEND_TIME}, f"not transactional, of {AT} by the target's clock"),
        ({"max_timestamp": -1}, "not transactional, without a time"),
        (
            {"producer_id": -1},
            "without a producer id (its producer is not idempotent), not by this flow's 40: a batch",
        ),
    ],
)
def test_a_batch_tells_who_when_and_how_many(values: Mapping[str, int], told: str) -> None:
    assert told in ForeignRecords.beginning(replace(header(), **values)).described(own=40)


def test_what_follows_is_counted() -> None:
    found = ForeignRecords.beginning(header()).followed_by(replace(header(), base_offset=12, count=2))
    assert found.described(own=40).endswith("; 5 records of others up to offset 15")
    assert (found.producer_id, ForeignRecords.beginning(replace(header(), producer_id=-1)).producer_id) == (
        17,
        None,
    )


def written_by(producer_id: int, count: int) -> StoredBatch:
    contents, times = [content(b"not", b"ours")] * count, [NOW_MS] * count
    return application_batch(contents, times, producer=Producer(producer_id, 0, 0))


def test_a_stop_in_the_tail_counts_what_others_wrote_there() -> None:
    log = PartitionLog()
    for batch in (written_by(17, 2), written_by(18, 3)):
        log.append(batch, now_ms=NOW_MS)
    target = Target(source_log(2), assignment(), log)
    target.copy_all()
    stop = target.copy.target.stop
    assert stop is not None
    assert (stop.cause, stop.foreign_producer_id) == (StopCause.FOREIGN_WRITE, 17)
    assert stop.message == (
        f"target offset 0 was written by producer id 17, not by this flow's {OWN_PRODUCER_ID}: a batch of 2 records, "
        f"not transactional, of {AT} by its producer's clock; 5 records of others up to offset 5; "
        "nothing was written after it"
    )


def test_a_stop_behind_a_batch_that_landed_elsewhere_tells_who_was_before_it() -> None:
    target = Target(source_log(2, 3), assignment())
    target.begin()
    target.log.append(written_by(17, 1), now_ms=NOW_MS)
    target.acknowledge(target.send()[1])
    target.log.append(FOREIGN, now_ms=NOW_MS)
    target.read_tail()
    stop = target.copy.target.stop
    assert stop is not None
    assert stop.foreign_producer_id == 17
    assert (
        "expected at target offset 0 and landed at 1: somebody else writes to this exclusive target; "
        in stop.message
    )
    assert "; target offset 0 was written by producer id 17, " in stop.message
    assert "records of others" not in stop.message, "what came behind it was not between"


class Remembering(UnaskedCluster):
    """A target that says what it remembers of a producer, or why it does not."""

    alias = "west"

    def __init__(self, answer: RememberedProducer | MirrorLedgerError | None) -> None:
        self._answer = answer

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        assert (partition, producer_id) == (TARGET, 17)
        if isinstance(self._answer, MirrorLedgerError):
            raise self._answer
        return self._answer


SIGNS = ["Connect is at work"]


def named(
    answer: RememberedProducer | MirrorLedgerError | None, producers: Mapping[str, FlowProducer]
) -> str:
    writers = ForeignWriters(Remembering(answer), lambda: producers, lambda: SIGNS)
    return writers.named(Stop(StopCause.FOREIGN_WRITE, "seen", 17), TARGET).message


OPEN = RememberedProducer(NOW_MS, has_open_transaction=True, transactional_id="loader-1")
QUIET = RememberedProducer(None, has_open_transaction=False, transactional_id=None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            OPEN,
            f"the target remembers it: transactional id loader-1, its last batch here is of {AT}, "
            "a transaction of it is open",
        ),
        (QUIET, "the target remembers it: no transaction of it is open"),
        (None, "the target remembers nothing of it any more"),
        (PreconditionError("not allowed"), "the target does not tell more: not allowed"),
        (ClusterUnavailableError("no answer"), "the target does not tell more: no answer"),
    ],
)
def test_the_broker_tells_what_it_remembers(
    answer: RememberedProducer | MirrorLedgerError | None, told: str
) -> None:
    assert named(answer, {}) == f"seen. Who has producer id 17: no flow of this ledger; {told}"


def test_a_flow_of_the_ledger_is_named_also_by_a_former_id() -> None:
    producers = {
        "f": FlowProducer(40),
        "west-to-east": FlowProducer(18, frozenset({17})),
        "third": FlowProducer(19),
    }
    assert "Who has producer id 17: flow west-to-east of this ledger; " in named(None, producers)


def test_nobody_is_asked_about_records_without_a_producer_id() -> None:
    stop = Stop(StopCause.FOREIGN_WRITE, "seen")
    writers = ForeignWriters(UnaskedCluster(), dict, lambda: SIGNS)
    assert writers.named(stop, TARGET) is stop
    assert writers.named(stop, TARGET, has_written=False).message == "seen; Connect is at work"


# -- Left out --------------------------------------------------------------------------------------

AT_EAST, AT_WEST = TopicPartition("orders", "east-id", 0), TopicPartition("orders", "west-id", 0)
BACK = FlowConfig(name="west-to-east", source="west", target="east", topics=("orders",))
FORTH = FlowIdentity("east-to-west", "east", "west")


class CountingState(MemoryLedgerState):
    """Counts how often it is asked."""

    asked = 0

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        self.asked += 1
        return super().former_copies(cluster, topic_ids)


def state(*syncs: OffsetSync) -> CountingState:
    ledger = MemoryLedger()
    stamp = {"writer": "flow:east-to-west", "writer_epoch": 1, "round": 1, "recorded_at_ms": 1}
    ledger.append("offset_syncs", [{**stamp, **sync_row(FORTH, found)} for found in syncs])
    return CountingState(ledger)


def selection(found: MemoryLedgerState, flow: FlowConfig = BACK) -> LoopPrevention:
    return LoopPrevention(flow, found, lambda _topic: frozenset())


def told(position: int = 0, *, partition: int = 0) -> Assignment:
    return Assignment(
        source=replace(AT_WEST, partition=partition),
        target=replace(AT_EAST, partition=partition),
        position=Position(source_offset=position, target_offset=0, next_sequence=0),
        producer=FlowProducer(1),
        end_offset=None,
        exclusive=False,
    )


def adopted(source: tuple[int, int], target_start: int, origin: TopicPartition = AT_EAST) -> OffsetSync:
    return sync(source, target_start, origin=origin, target=AT_WEST, kind=SyncKind.ADOPTED)


def ranges(assignments: Sequence[Assignment]) -> list[tuple[tuple[int, int], ...]]:
    return [assignment.adopted for assignment in assignments]


def test_what_the_opposite_flow_adopted_is_left_out() -> None:
    chosen = selection(state(adopted((0, 5), 0), adopted((5, 7), 9)))
    assert ranges(chosen.applied_to([told(), told(partition=1)])) == [((0, 5), (9, 11)), ()]


def test_it_is_looked_up_once_for_a_partition_and_told_as_far_as_it_lies_ahead() -> None:
    found = state(adopted((0, 5), 0), adopted((5, 7), 9))
    chosen = selection(found)
    assert ranges(chosen.applied_to([told(4)])) == [((0, 5), (9, 11))]
    assert ranges(chosen.applied_to([told(5)])) == [((9, 11),)]
    assert ranges(chosen.applied_to([told(11)])) == [()]
    assert found.asked == 1


def decided(number: int, start: int, end: int, policy: ExtrasPolicy) -> Row:
    said = ExtrasDecided(
        cluster="west",
        cluster_id=None,
        topic=AT_WEST.topic,
        topic_id=AT_WEST.topic_id,
        policy=policy,
        ranges=(ExtraRange(partition=0, extra_start=start, extra_end=end),),
    )
    return {
        **{"writer": "operator", "writer_epoch": 1, "round": number, "recorded_at_ms": 1},
        **{"operation_id": f"decision {number}", "kind": said.kind, "flow": None},
        **{"operator": "anna", "reason": "decided", "ticket": None},
        "content": json.dumps(said.content()),
    }


@pytest.mark.parametrize("relay", [False, True])
def test_what_stays_local_is_asked_for_again_when_a_direction_has_changed(relay: bool) -> None:
    ledger = MemoryLedger()
    chosen = selection(
        MemoryLedgerState(ledger), BACK.model_copy(update={"relay": relay, "opposite": "east-to-west"})
    )
    alone = selection(MemoryLedgerState(ledger), BACK.model_copy(update={"opposite": None}))

    def kept(*assignments: Assignment) -> list[tuple[tuple[int, int], ...]]:
        return [assignment.kept_local for assignment in chosen.applied_to(assignments)]

    assert kept(told(), told(partition=1)) == [(), ()]
    ledger.append("operations", [decided(1, 3, 9, ExtrasPolicy.KEEP_LOCAL)])
    assert kept(told()) == [()], "no direction has changed"
    chosen.direction_changed()
    assert kept(told(), told(4), told(9), told(partition=1)) == [((3, 9),), ((3, 9),), (), ()]
    ledger.append("operations", [decided(2, 5, 7, ExtrasPolicy.REPLICATE)])
    chosen.direction_changed()
    assert kept(told(), told(6)) == [((3, 5), (7, 9)), ((7, 9),)]
    assert [one.kept_local for one in alone.applied_to([told()])] == [()], "to a third cluster it is copied"


def test_a_relaying_flow_leaves_nothing_out() -> None:
    relaying = BACK.model_copy(update={"relay": True})
    assert ranges(selection(state(adopted((0, 5), 0)), relaying).applied_to([told()])) == [()]


def test_adopted_copies_of_a_topic_that_is_gone_go_back() -> None:
    """The topic at east was recreated: what was adopted of its earlier life is all that is left of that."""
    chosen = selection(state(adopted((0, 5), 0, LOST), adopted((0, 3), 7)))
    [applied] = chosen.applied_to([told()])
    assert (applied.returning, applied.adopted) == (((0, 5),), ((7, 10),))
