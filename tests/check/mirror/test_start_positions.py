"""How a flow takes on a partition: where it begins, where it stood before, what it never continues unasked."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest

from ledger.config.values import FlowConfig, Policy
from ledger.facts.operations import RecordedStop, Settled, SettledByEpoch
from ledger.facts.requests import Acceptance
from ledger.facts.state import LedgerState
from ledger.facts.syncs import (
    FlowPosition,
    OffsetSync,
    PartitionPair,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicPartition,
)
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.assignment import StopCause
from ledger.mirror.starts import (
    CopiedByOthers,
    PairEnds,
    Settlements,
    StartedPartition,
    StartPositions,
    copy_again,
)
from ledger.mirror.states import FlowProgress, PartitionState
from tests.support.copy_tasks import RECORDED, SOURCE, TARGET
from tests.support.unasked_cluster import UnaskedCluster

# -- Where it begins -------------------------------------------------------------------------------

PAIR = PartitionPair(SOURCE, TARGET)
NEW_SOURCE = PartitionPair(replace(SOURCE, topic_id="new-source"), TARGET)
NEW_TARGET = PartitionPair(SOURCE, replace(TARGET, topic_id="new-target"))
SOURCE_ENDS, TARGET_ENDS = PartitionEnds(3, 90, 100, 0), PartitionEnds(8, 9, 9, 0)


@dataclass
class Times(UnaskedCluster):
    """A source that knows one offset by time."""

    found: int | None = None
    asked: int | None = None

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        self.asked = timestamp_ms
        return {} if self.found is None else dict.fromkeys(partitions, self.found)


def start_positions(
    *positions: FlowPosition,
    start: str = "earliest",
    policy: Policy = Policy.STOP,
    stops: Mapping[tuple[str, int], RecordedStop] | None = None,
    accepted: Acceptance | None = None,
    is_first_run: bool = True,
    times: Times | None = None,
    copied_by_others: CopiedByOthers = lambda _: {},
) -> StartPositions:
    flow = FlowConfig(
        name="flow",
        source="east",
        target="west",
        topics=(".*",),
        start=start,
        on_source_recreated=policy,
        on_target_recreated=policy,
    )
    acceptances = {} if accepted is None else {PAIR.source.key: accepted}
    return StartPositions(
        flow,
        times or Times(),
        FlowProgress(positions),
        dict(stops or {}),
        acceptances,
        is_first_run,
        copied_by_others,
    )


def take_on(
    chosen: StartPositions, pair: PartitionPair = PAIR, *, is_first_refresh: bool = True
) -> StartedPartition:
    begun_at = chosen.start_offsets([pair], is_first_refresh=is_first_refresh)
    taken = chosen.take_on(
        PairEnds(pair, SOURCE_ENDS, TARGET_ENDS),
        started_at=begun_at.get(pair.source.key),
        is_first_refresh=is_first_refresh,
        taken_already=chosen.taken_already([pair]).get(pair.source.key),
    )
    chosen.progress.take_on(taken.state)
    return taken


def stands(taken: StartedPartition) -> tuple[int, int, int]:
    at = taken.state.position
    return at.source_offset, at.target_offset, at.next_sequence


@pytest.mark.parametrize(
    ("start", "by_time", "position", "cause"),
    [
        ("earliest", None, 3, SyncCause.EARLIEST),
        ("latest", None, 90, SyncCause.LATEST),
        ("1970-01-01T00:00:07+00:00", 40, 40, SyncCause.TIMESTAMP),
        ("1970-01-01T00:00:07+00:00", None, 90, SyncCause.TIMESTAMP),
    ],
)
def test_a_flow_that_never_ran_begins_where_it_is_told(
    start: str, by_time: int | None, position: int, cause: SyncCause
) -> None:
    times = Times(by_time)
    taken = take_on(start_positions(start=start, times=times))
    [fact] = taken.facts
    assert (fact.kind, fact.cause, fact.source_start, fact.source_end) == (
        SyncKind.STARTED,
        cause,
        position,
        position,
    )
    assert stands(taken) == (position, 8, 0)
    assert times.asked == (7_000 if cause is SyncCause.TIMESTAMP else None)


@pytest.mark.parametrize(("is_first_run", "is_first_refresh"), [(False, True), (True, False)])
def test_what_comes_later_is_copied_from_its_first_record(is_first_run: bool, is_first_refresh: bool) -> None:
    taken = take_on(
        start_positions(start="latest", is_first_run=is_first_run), is_first_refresh=is_first_refresh
    )
    assert stands(taken) == (3, 8, 0)
    assert taken.facts[0].cause is SyncCause.EARLIEST


def test_a_recorded_partition_goes_on_without_a_fact() -> None:
    taken = take_on(start_positions(RECORDED, is_first_run=False))
    assert (taken.facts, taken.new_stop, stands(taken)) == ((), None, (30, 25, 24))


def test_a_stop_lasts_over_a_restart_and_is_not_told_twice() -> None:
    stops = {PAIR.source.key: RecordedStop("foreign_write", "somebody wrote")}
    taken = take_on(start_positions(RECORDED, stops=stops, is_first_run=False))
    assert taken.state.stop is not None
    assert (taken.state.stop.cause, taken.state.stop.message) == (
        StopCause.FOREIGN_WRITE,
        "somebody wrote",
    )
    assert taken.new_stop is None


@pytest.mark.parametrize(
    ("pair", "cause"),
    [(NEW_SOURCE, StopCause.SOURCE_RECREATED), (NEW_TARGET, StopCause.TARGET_RECREATED)],
)
def test_another_incarnation_stops_once(pair: PartitionPair, cause: StopCause) -> None:
    taken = take_on(start_positions(RECORDED, is_first_run=False), pair)
    assert taken.facts == ()
    assert taken.new_stop is not None
    assert taken.new_stop == taken.state.stop
    assert taken.new_stop.cause is cause
    told = {pair.source.key: RecordedStop(str(cause), "told before")}
    again = take_on(start_positions(RECORDED, stops=told, is_first_run=False), pair)
    assert again.new_stop is None
    assert again.state.stop is not None
    assert again.state.stop.cause is cause


def test_a_recreated_source_goes_on_behind_the_old_records_if_the_flow_says_so() -> None:
    taken = take_on(start_positions(RECORDED, policy=Policy.CONTINUE, is_first_run=False), NEW_SOURCE)
    [fact] = taken.facts
    assert (fact.kind, fact.cause, fact.source.topic_id) == (
        SyncKind.STARTED,
        SyncCause.RECREATED,
        "new-source",
    )
    assert stands(taken) == (3, 25, 24)
    assert taken.state.position.source_may_be_deleted


def test_every_partition_of_a_recreated_topic_stops() -> None:
    starts = start_positions(RECORDED, is_first_run=False)
    other = PartitionPair(replace(NEW_SOURCE.source, partition=1), replace(TARGET, partition=1))
    for pair in (NEW_SOURCE, other):
        assert take_on(starts, pair).new_stop is not None


def test_a_partition_added_to_a_new_incarnation_that_runs_begins() -> None:
    starts = start_positions(RECORDED, replace(RECORDED, source_topic_id="new-source"), is_first_run=False)
    other = PartitionPair(replace(NEW_SOURCE.source, partition=1), replace(TARGET, partition=1))
    taken = take_on(starts, other)
    assert (taken.new_stop, stands(taken)) == (None, (3, 8, 0))


def test_a_topic_recreated_during_the_run_leaves_the_old_one() -> None:
    starts = start_positions(RECORDED, policy=Policy.CONTINUE, is_first_run=False)
    take_on(starts)
    taken = take_on(starts, NEW_SOURCE)
    assert [left.pair for left in taken.left] == [PAIR]
    assert [state.pair for state in starts.progress.states] == [NEW_SOURCE]


def test_both_topics_recreated_one_after_the_other_begin_without_the_old_position() -> None:
    """Where the flow had got to in the former target says nothing of the new one."""
    starts = start_positions(RECORDED, is_first_run=False)
    take_on(starts, NEW_TARGET)
    taken = take_on(starts, PartitionPair(NEW_SOURCE.source, NEW_TARGET.target))
    assert [left.pair for left in taken.left] == [NEW_TARGET]
    assert stands(taken) == (3, 8, 0)
    assert starts.progress.recorded(PAIR) == RECORDED


def test_what_was_copied_to_a_recreated_target_stays_known_when_its_source_is_left() -> None:
    starts = start_positions(RECORDED, is_first_run=False)
    taken = take_on(starts, NEW_TARGET)
    copy_again(taken.state, SOURCE_ENDS, TARGET_ENDS, SyncCause.TARGET_RECREATED)
    taken.state.stop = None
    taken.state.position = replace(taken.state.position, source_offset=5, target_offset=12, next_sequence=4)
    again = take_on(starts, PartitionPair(NEW_SOURCE.source, NEW_TARGET.target))
    assert stands(again) == (3, 12, 4)


def test_a_recreated_target_gets_all_that_the_source_still_has_if_the_flow_says_so() -> None:
    taken = take_on(start_positions(RECORDED, policy=Policy.CONTINUE, is_first_run=False), NEW_TARGET)
    [fact] = taken.facts
    assert (fact.kind, fact.cause, fact.source_start, fact.source_end, fact.target.topic_id) == (
        SyncKind.SUPERSEDED,
        SyncCause.TARGET_RECREATED,
        3,
        30,
        "new-target",
    )
    assert stands(taken) == (3, 8, 0)


@pytest.mark.parametrize(
    ("cause", "is_over"),
    [
        ("foreign_write", True),
        ("target_recreated", True),
        ("corrupt", False),
        ("lost", False),
        ("new", False),
    ],
)
def test_a_recreated_target_ends_the_stops_that_lay_in_the_old_topic_alone(cause: str, is_over: bool) -> None:
    """A stop that nobody ended and nobody sees any more would be copied over in silence."""
    stops = {PAIR.source.key: RecordedStop(cause, "told before")}
    taken = take_on(
        start_positions(RECORDED, policy=Policy.CONTINUE, stops=stops, is_first_run=False), NEW_TARGET
    )
    assert [fact.cause for fact in taken.facts] == [SyncCause.TARGET_RECREATED]
    assert (taken.state.stop is None, taken.is_stop_over) == (is_over, is_over)


def test_what_the_source_deleted_before_it_was_copied_lies_ahead_when_a_target_is_filled_again() -> None:
    state = PartitionState(PAIR, RECORDED.position)
    ends = PartitionEnds(RECORDED.position.source_offset + 4, 60, 60, 0)
    fact = copy_again(state, ends, PartitionEnds(0, 0, 0, 0), SyncCause.TARGET_RECREATED)
    assert (fact.source_start, fact.source_end) == (
        RECORDED.position.source_offset,
        RECORDED.position.source_offset,
    )
    assert state.position.source_offset == RECORDED.position.source_offset, (
        "the task meets the hole and it becomes a row"
    )


@pytest.mark.parametrize(
    ("target_topic_id", "target_end", "below"),
    [
        (TARGET.topic_id, RECORDED.position.target_offset, 90),
        (TARGET.topic_id, RECORDED.position.target_offset - 1, 0),
        ("recreated", RECORDED.position.target_offset, 0),
    ],
)
def test_what_was_accepted_stays_so_until_the_flow_has_written_behind_it(
    target_topic_id: str, target_end: int, below: int
) -> None:
    accepted = Acceptance("accepted", 0, target_topic_id, target_end, 90)
    assert take_on(start_positions(RECORDED, accepted=accepted)).state.accepted_below == below


def by_another(pairs: Sequence[PartitionPair]) -> Mapping[tuple[str, int], str]:
    return {pair.source.key: "flow other has copied it" for pair in pairs}


def test_what_another_flow_copies_is_not_begun() -> None:
    taken = take_on(start_positions(copied_by_others=by_another))
    assert taken.facts == ()
    assert taken.new_stop is not None
    assert taken.new_stop.cause is StopCause.COPIED_BY_ANOTHER_FLOW
    assert taken.new_stop.message == "flow other has copied it; nothing was copied"
    assert taken.state.is_waiting


def test_a_flow_goes_on_with_what_it_has_begun_whoever_else_copies_it() -> None:
    taken = take_on(start_positions(RECORDED, copied_by_others=by_another))
    assert (taken.state.stop, taken.new_stop) == (None, None)


def test_that_another_flow_copies_it_is_told_once() -> None:
    told = {PAIR.source.key: RecordedStop(StopCause.COPIED_BY_ANOTHER_FLOW, "as told")}
    taken = take_on(start_positions(stops=told, copied_by_others=by_another))
    assert taken.new_stop is None
    assert taken.state.stop is not None


@pytest.mark.parametrize("cause", [StopCause.COPIED_BY_ANOTHER_FLOW, StopCause.DENIED])
def test_a_partition_that_is_nobody_elses_any_more_begins(cause: StopCause) -> None:
    taken = take_on(start_positions(stops={PAIR.source.key: RecordedStop(cause, "as told")}))
    [fact] = taken.facts
    assert fact.kind is SyncKind.STARTED
    assert taken.is_stop_over is (cause is StopCause.COPIED_BY_ANOTHER_FLOW)


# -- Where it stood before it was settled ----------------------------------------------------------

SETTLED_SOURCE, SETTLED_TARGET = TopicPartition("orders", "S", 0), TopicPartition("orders", "T", 0)
SETTLED_PAIR = PartitionPair(SETTLED_SOURCE, SETTLED_TARGET)
AT = Position(source_offset=40, target_offset=50, next_sequence=45)


def settled(target_start: int, *, producer_id: int | None = None, first_sequence: int = 30) -> Settled:
    return Settled(
        topic="orders",
        topic_id="S",
        partition=0,
        target_topic="orders",
        target_topic_id="T",
        source_start=40,
        target_start=target_start,
        target_end=target_start + 10,
        first_sequence=first_sequence,
        producer_id=producer_id,
        records=10,
        others=0,
        others_start=None,
    )


def row(
    epoch: int,
    target_end: int,
    kind: SyncKind = SyncKind.UNPAIRED,
    cause: SyncCause | None = SyncCause.LOST_SOURCE,
    source: TopicPartition = SETTLED_SOURCE,
) -> RecordedSync:
    sync = OffsetSync(
        source=source,
        target=SETTLED_TARGET,
        source_leader_epoch=None,
        source_start=40,
        source_end=40,
        target_start=target_end - 10,
        target_end=target_end,
        first_sequence=0,
        kind=kind,
        cause=cause,
    )
    return RecordedSync(epoch, 1, sync)


class Recorded:
    """What a driver asks the ledger for."""

    def __init__(self, rows: list[RecordedSync], by_epoch: SettledByEpoch) -> None:
        self._rows = rows
        self._by_epoch = by_epoch

    def settlements(self, _flow: str) -> dict[tuple[str, int], SettledByEpoch]:
        return {("S", 0): self._by_epoch}

    def recorded_syncs(self, _flow: str, _topic: str, _partition: int) -> list[RecordedSync]:
        return random.Random(1).sample(self._rows, len(self._rows))


def before(
    rows: list[RecordedSync], by_epoch: SettledByEpoch, *, producer_id: int = 7, at: Position = AT
) -> Position | None:
    state = cast("LedgerState", Recorded(rows, by_epoch))
    return Settlements("f", state, producer_id).before(SETTLED_PAIR, at)


COPIED = row(1, 30, SyncKind.COPIED, None)


def test_it_is_where_the_first_of_the_last_settlements_found_it() -> None:
    rows = [COPIED, row(2, 40), row(3, 50), row(4, 60, source=TopicPartition("orders", "another", 0))]
    found = before(rows, {2: settled(30), 3: settled(40, first_sequence=40)})
    assert found == Position(source_offset=40, target_offset=30, next_sequence=30)


@pytest.mark.parametrize(
    ("since", "by_epoch"),
    [
        (row(4, 50, SyncKind.UNPAIRED, SyncCause.ACCEPTED), {2: settled(30), 3: settled(40)}),
        (row(4, 50, SyncKind.SUPERSEDED, SyncCause.SETTLED), {2: settled(30), 3: settled(40)}),
        (row(4, 50), {2: settled(30), 3: settled(40)}),
        (row(3, 40, SyncKind.COPIED, None), {}),
    ],
)
def test_what_was_recorded_since_counts(since: RecordedSync, by_epoch: SettledByEpoch) -> None:
    assert before([COPIED, row(2, 40), row(3, 50), since], by_epoch) is None


def test_a_position_that_is_another_one_reads_no_rows() -> None:
    elsewhere = Position(source_offset=41, target_offset=50, next_sequence=45)
    behind = Position(source_offset=40, target_offset=30, next_sequence=45)
    rows = [COPIED, row(2, 40)]
    assert [before(rows, {2: settled(30)}, at=at) for at in (elsewhere, behind)] == [None, None]


@pytest.mark.parametrize(
    ("cause", "may_be_deleted"), [(SyncCause.RESYNC, True), (SyncCause.TARGET_TRUNCATED, False)]
)
def test_what_it_knew_of_its_source_it_knows_again(cause: SyncCause, may_be_deleted: bool) -> None:
    """Own records whose source may be lost are explained by what was recorded before, as if nobody had settled."""
    found = before([row(1, 30, SyncKind.SUPERSEDED, cause), row(2, 40)], {2: settled(30)})
    assert found is not None
    assert found.source_may_be_deleted is may_be_deleted


def test_a_flow_with_another_producer_id_by_now_has_written_nothing_with_it() -> None:
    found = before([COPIED, row(2, 40)], {2: settled(30, producer_id=7)}, producer_id=9)
    assert found is not None
    assert (found.next_sequence, found.former_sequence) == (0, (7, 30))
