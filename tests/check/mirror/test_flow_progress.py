"""Positions of a flow over its rounds, how partitions are shared out, and what moves one other than by copying."""

from dataclasses import replace

import pytest

from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    NOTHING_KNOWN,
    Gap,
    GapCause,
    PartitionPair,
    Position,
    SyncCause,
    TailKnowledge,
    source_may_be_deleted,
)
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.assignment import PartitionResult, Stop, StopCause
from ledger.mirror.progress import split_by_load
from ledger.mirror.states import FlowProgress, PartitionState, Unreached
from tests.support.copy_tasks import BOTH_SEEN, RECORDED, SOURCE, TARGET, assignment, copied_up_to

# -- Positions -------------------------------------------------------------------------------------

PAIR = PartitionPair(SOURCE, TARGET)


def taking_care(*, end_offset: int | None = None) -> FlowProgress:
    progress = FlowProgress([RECORDED])
    state = PartitionState(PAIR, RECORDED.position)
    state.end_offset = end_offset
    progress.take_on(state)
    return progress


def assigned(progress: FlowProgress) -> list[tuple[int, int, int, int | None]]:
    told = progress.assignments(FlowProducer(7), exclusive=True)
    return [
        (a.position.source_offset, a.position.target_offset, a.position.next_sequence, a.end_offset)
        for a in told
    ]


def result(position: int, tail: TailKnowledge = BOTH_SEEN) -> PartitionResult:
    return PartitionResult(
        assignment=assignment(),
        syncs=(),
        position=Position(source_offset=position, target_offset=position - 5, next_sequence=position - 6),
        tail=tail,
        stop=None,
        trouble=None,
    )


def test_a_known_partition_goes_on_where_the_ledger_says() -> None:
    progress = taking_care(end_offset=99)
    assert assigned(progress) == [(30, 25, 24, 99)]
    assert progress.unknown([PAIR]) == []


def test_a_round_moves_the_position_and_the_end_takes_a_partition_out() -> None:
    progress = taking_care(end_offset=99)
    progress.take(result(98))
    assert assigned(progress) == [(98, 93, 92, 99)]
    progress.take(result(99))
    assert assigned(progress) == []


def test_a_partition_at_its_end_is_looked_at_once_in_a_run() -> None:
    progress = taking_care(end_offset=30)
    [first] = progress.assignments(FlowProducer(7), exclusive=True)
    progress.take(result(30, NOTHING_KNOWN))
    [second] = progress.assignments(FlowProducer(7), exclusive=True)
    assert not first.tail.both_sides_seen
    assert not second.tail.both_sides_seen
    progress.take(result(30))
    assert assigned(progress) == []


def test_what_a_task_learned_of_the_target_is_told_to_the_next_one() -> None:
    progress = taking_care()
    learned = TailKnowledge(start=7, leader_epoch=4, refused_sequences=2, both_sides_seen=True)
    progress.take(result(31, learned))
    [told] = progress.assignments(FlowProducer(7), exclusive=True)
    assert told.tail == learned


def test_where_the_target_ends_for_an_earlier_incarnation_is_taken_back() -> None:
    """The next incarnation begins behind what is left of it."""
    further = replace(RECORDED.position, target_offset=99)
    progress = FlowProgress([RECORDED, replace(RECORDED, source_topic_id="before", position=further)])
    before = PartitionPair(replace(SOURCE, topic_id="before"), TARGET)
    lost = PartitionState(before, further)
    restart = Position(source_offset=5, target_offset=12, next_sequence=12)
    progress.withdraw([lost.supersede(restart, SyncCause.TARGET_TRUNCATED)])
    recorded = progress.recorded(before)
    assert recorded is not None
    assert (recorded.position.target_offset, recorded.position.next_sequence) == (12, 12)
    assert progress.recorded(PAIR) == RECORDED


def test_a_stopped_partition_is_not_assigned() -> None:
    progress = taking_care()
    progress.states[0].stop = Stop(StopCause.REFUSED, "too large")
    assert assigned(progress) == []


def test_a_new_partition_is_unknown_and_no_new_incarnation() -> None:
    progress = taking_care()
    pair = PartitionPair(replace(SOURCE, partition=1), replace(TARGET, partition=1))
    assert progress.unknown([PAIR, pair]) == [pair]
    assert progress.other_incarnations(pair) == frozenset()
    assert progress.has_begun(pair)


def test_another_topic_id_of_the_same_name_is_another_incarnation() -> None:
    progress = taking_care()
    pair = PartitionPair(replace(SOURCE, topic_id="another"), TARGET)
    assert progress.other_incarnations(pair) == {SOURCE.topic_id}
    assert not progress.has_begun(pair)
    assert progress.recorded_at_target(pair) == RECORDED
    assert [s.pair for s in progress.leave(SOURCE.topic, frozenset({SOURCE.topic_id}))] == [PAIR]
    assert progress.states == ()


def test_where_an_incarnation_got_to_in_this_run_stays_known_when_it_is_left() -> None:
    progress = taking_care()
    progress.states[0].position = Position(source_offset=44, target_offset=33, next_sequence=32)
    progress.leave(SOURCE.topic, frozenset({SOURCE.topic_id}))
    pair = PartitionPair(replace(SOURCE, topic_id="another"), TARGET)
    assert progress.other_incarnations(pair) == {SOURCE.topic_id}
    before = progress.recorded_at_target(pair)
    assert before is not None
    assert (before.position.source_offset, before.position.target_offset) == (44, 33)


def test_an_incarnation_that_never_began_leaves_nothing() -> None:
    progress = FlowProgress([])
    state = PartitionState(PAIR, RECORDED.position, is_waiting=True)
    state.stop = Stop(StopCause.SOURCE_RECREATED, "recreated")
    progress.take_on(state)
    progress.leave(SOURCE.topic, frozenset({SOURCE.topic_id}))
    assert progress.recorded(PAIR) is None
    assert (
        progress.other_incarnations(PartitionPair(replace(SOURCE, topic_id="another"), TARGET)) == frozenset()
    )


@pytest.mark.parametrize(
    ("ends", "end_offset"),
    [(PartitionEnds(0, 40, 50, 0), 40), (PartitionEnds(0, 20, 30, 0), 20)],
)
def test_a_run_until_caught_up_goes_to_what_is_stable_as_it_begins(
    ends: PartitionEnds, end_offset: int
) -> None:
    state = PartitionState(PAIR, RECORDED.position)
    state.end_offset = ends.last_stable
    assert state.end_offset == end_offset


@pytest.mark.parametrize(("last_stable", "left"), [(30, 0), (31, 1)])
def test_a_run_until_caught_up_knows_what_it_has_not_reached(last_stable: int, left: int) -> None:
    progress = taking_care(end_offset=last_stable)
    assert progress.unreached() == [Unreached(SOURCE.topic, 0, position=30, end=last_stable)][:left]
    assert taking_care().unreached() == [], "a run without an end waits for nothing"


def test_written_topic_ids_are_those_recorded_and_those_taken_on() -> None:
    progress = FlowProgress([replace(RECORDED, target_topic_id="before")])
    assert progress.written_topic_ids == {"before"}
    other = PartitionPair(replace(SOURCE, topic="other"), TARGET)
    progress.take_on(PartitionState(other, copied_up_to(0)))
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


# -- Moved otherwise -------------------------------------------------------------------------------


def state() -> PartitionState:
    return PartitionState(
        PartitionPair(SOURCE, TARGET), RECORDED.position, TailKnowledge(start=90, leader_epoch=4)
    )


def test_after_a_supersession_the_tail_is_read_from_where_the_target_ends() -> None:
    """What was found above there lies in a log that is not the same any more."""
    moved = state()
    restart = Position(source_offset=20, target_offset=15, next_sequence=14, leader_epoch=1)
    moved.supersede(restart, SyncCause.TARGET_TRUNCATED)
    assert (moved.position, moved.tail) == (restart, TailKnowledge(start=0, leader_epoch=4))


@pytest.mark.parametrize("cause", [SyncCause.RETENTION, SyncCause.DELETED_RECORDS, SyncCause.SKIPPED])
def test_after_a_loss_own_records_may_have_no_source(cause: SyncCause) -> None:
    moved = state()
    fact = moved.lose(50, cause)
    assert (fact.source_start, fact.source_end, fact.target_start) == (30, 50, 25)
    assert (
        moved.position.source_offset,
        moved.position.leader_epoch,
        moved.position.source_may_be_deleted,
    ) == (
        50,
        None,
        True,
    )


def test_behind_a_cut_it_continues_at_both_ends_and_every_own_record_has_its_source() -> None:
    moved = state()
    passed = moved.pass_copies(50, target_end=70)
    assert (passed.source_start, passed.source_end, passed.target_start, passed.target_end) == (
        30,
        50,
        70,
        70,
    )
    assert passed.gaps == (Gap(30, 50, GapCause.MIRROR_WRITE),)
    placed = moved.pass_target(80)
    assert (placed.source_start, placed.source_end, placed.target_start, placed.target_end) == (
        50,
        50,
        80,
        80,
    )
    assert (moved.position.source_offset, moved.position.target_offset, moved.position.leader_epoch) == (
        50,
        80,
        None,
    )
    assert not source_may_be_deleted(placed.kind, placed.cause)
