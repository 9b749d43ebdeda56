"""Positions of a flow over its rounds: restarts, incarnations, losses, and how partitions are shared out."""

from dataclasses import replace

import pytest

from ledger.domain.facts import SyncCause, SyncKind, TopicPartition
from ledger.mirror.assignments import PartitionResult, Stop, StopCause
from ledger.mirror.balancing import split_by_load
from ledger.mirror.flow_progress import FlowProgress
from ledger.mirror.flow_topics import PartitionPair
from ledger.ports import FlowPosition, PartitionEnds
from tests.mirror.sources import SOURCE, TARGET, assignment

PAIR = PartitionPair(SOURCE, TARGET)
RECORDED = FlowPosition(
    source_topic=SOURCE.topic,
    source_topic_id=SOURCE.topic_id,
    partition=0,
    target_topic=TARGET.topic,
    target_topic_id=TARGET.topic_id,
    source_end=30,
    target_end=25,
    next_sequence=24,
)


def ends(start: int = 0, end: int = 100) -> PartitionEnds:
    return PartitionEnds(start, end - 1, end, 0)


def adopt(progress: FlowProgress, pair: PartitionPair = PAIR, **options: object) -> Stop | None:
    defaults = {"source_ends": ends(3), "target_ends": ends(8, 9), "until_caught_up": False}
    return progress.adopt(pair, **{**defaults, **options})


def assigned(progress: FlowProgress) -> list[tuple[int, int, int, int | None]]:
    told = progress.assignments(7, exclusive=True)
    return [(a.position, a.target_end, a.next_sequence, a.stop_at) for a in told]


def result(position: int, *, stop: Stop | None = None) -> PartitionResult:
    return PartitionResult(
        assignment=assignment(),
        syncs=(),
        position=position,
        target_end=position - 5,
        next_sequence=position - 6,
        stop=stop,
        trouble=None,
    )


def recreated(partition: TopicPartition) -> TopicPartition:
    return replace(partition, topic_id="YW5vdGhlci1pZC0tLS0tLQ")


def test_a_new_partition_starts_at_both_log_starts() -> None:
    progress = FlowProgress([])
    assert adopt(progress) is None
    assert assigned(progress) == [(3, 8, 0, None)]


def test_a_known_partition_goes_on_where_the_ledger_says() -> None:
    progress = FlowProgress([RECORDED])
    assert adopt(progress, until_caught_up=True) is None
    assert assigned(progress) == [(30, 25, 24, 99)]
    assert progress.unknown([PAIR]) == []


def test_a_round_moves_the_position_and_the_end_takes_a_partition_out() -> None:
    progress = FlowProgress([RECORDED])
    adopt(progress, until_caught_up=True)
    progress.take(result(98))
    assert assigned(progress) == [(98, 93, 92, 99)]
    progress.take(result(99))
    assert assigned(progress) == []


def test_a_stopped_partition_is_not_assigned() -> None:
    progress = FlowProgress([])
    adopt(progress)
    progress.take(result(10, stop=Stop(StopCause.REFUSED, "too large")))
    assert assigned(progress) == []


@pytest.mark.parametrize(
    ("pair", "cause"),
    [
        (PartitionPair(recreated(SOURCE), TARGET), StopCause.SOURCE_TOPIC_GONE),
        (PartitionPair(SOURCE, recreated(TARGET)), StopCause.TARGET_TOPIC_GONE),
    ],
)
def test_incarnations_are_never_mixed(pair: PartitionPair, cause: StopCause) -> None:
    progress = FlowProgress([RECORDED])
    stop = adopt(progress, pair)
    assert stop is not None
    assert stop.cause is cause
    assert assigned(progress) == []


def test_a_topic_recreated_during_the_run_is_not_mixed_with_what_was_copied() -> None:
    progress = FlowProgress([])
    assert adopt(progress) is None
    stop = adopt(progress, PartitionPair(recreated(SOURCE), TARGET))
    assert stop is not None
    assert stop.cause is StopCause.SOURCE_TOPIC_GONE


def test_a_new_partition_of_a_known_topic_is_no_new_incarnation() -> None:
    progress = FlowProgress([RECORDED])
    pair = PartitionPair(replace(SOURCE, partition=1), replace(TARGET, partition=1))
    assert adopt(progress, pair) is None


@pytest.mark.parametrize(("end", "stops"), [(29, True), (30, False)])
def test_a_source_that_ends_before_the_position_has_lost_records(end: int, stops: bool) -> None:
    stop = adopt(FlowProgress([RECORDED]), source_ends=ends(0, end))
    assert (stop is not None) == stops
    if stop is not None:
        assert stop.cause is StopCause.SOURCE_OUT_OF_RANGE


@pytest.mark.parametrize(("goes_on", "expected"), [(True, [(60, 25, 24, None)]), (False, [])])
def test_a_loss_is_a_fact_and_moves_the_position(goes_on: bool, expected: list) -> None:
    progress = FlowProgress([RECORDED])
    adopt(progress)
    out = result(40, stop=Stop(StopCause.SOURCE_OUT_OF_RANGE, "gone"))
    progress.take(replace(out, target_end=25, next_sequence=24))
    lost = progress.lose(out, 60, goes_on=goes_on)
    assert (lost.kind, lost.cause) == (SyncKind.LOST, SyncCause.RETENTION)
    assert (lost.source_start, lost.source_end, lost.target_start, lost.target_end) == (40, 60, 25, 25)
    assert (lost.first_sequence, lost.records, lost.gaps) == (24, 0, ())
    assert assigned(progress) == expected


@pytest.mark.parametrize(("last_stable", "left"), [(30, 0), (31, 1)])
def test_a_run_until_caught_up_knows_what_it_has_not_reached(last_stable: int, left: int) -> None:
    progress = FlowProgress([RECORDED])
    pair = PartitionPair(SOURCE, TARGET)
    source_ends = ends(0, last_stable + 1)
    progress.adopt(pair, source_ends=source_ends, target_ends=ends(0, 25), until_caught_up=True)
    assert progress.unreached() == [(f"{SOURCE.topic} partition 0 at 30", last_stable)][:left]
    adopt(progress)
    assert progress.unreached() == [], "a run without an end waits for nothing"


def test_written_topic_ids_are_those_recorded_and_those_taken_on() -> None:
    progress = FlowProgress([replace(RECORDED, target_topic_id="before")])
    assert progress.written_topic_ids == {"before"}
    adopt(progress, PartitionPair(replace(SOURCE, topic="other"), TARGET))
    assert progress.written_topic_ids == {"before", TARGET.topic_id}


def test_the_heaviest_partition_goes_to_the_lightest_task() -> None:
    parts = [replace(assignment(), source=replace(SOURCE, partition=n)) for n in range(5)]
    loads = {(SOURCE.topic_id, 0): 10, (SOURCE.topic_id, 3): 100, (SOURCE.topic_id, 4): 95}
    shares = split_by_load(parts, loads, tasks=2)
    assert [[a.source.partition for a in share] for share in shares] == [[3, 1, 2], [4, 0]]


@pytest.mark.parametrize(("tasks", "sizes"), [(1, [3]), (2, [2, 1]), (3, [1, 1, 1]), (9, [1, 1, 1])])
def test_no_task_is_empty_and_idle_partitions_spread(tasks: int, sizes: list[int]) -> None:
    parts = [replace(assignment(), source=replace(SOURCE, partition=n)) for n in range(3)]
    shares = split_by_load(parts, {}, tasks=tasks)
    assert [len(share) for share in shares] == sizes
    assert shares == split_by_load(parts, {}, tasks=tasks)
