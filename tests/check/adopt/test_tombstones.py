"""Tombstones written to in-memory clusters: what is told of them, and what the flow's next copy task makes of them."""

from dataclasses import dataclass, field, replace

import pytest

from ledger.adopt.key_resync import Written, write_tombstones
from ledger.facts.syncs import SEQUENCE_MODULUS, OffsetSync, SyncCause, SyncKind
from ledger.kafka.batches import key_state
from ledger.mirror.assignment import Assignment, StopCause
from tests.simulation.kafka.network import CalmWeather, Fate, MemoryNetwork
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copy_tasks import NOW_MS, Bench, cause, moved


@dataclass(frozen=True, slots=True)
class LosesFirstAnswer(CalmWeather):
    """The connection breaks after the first produce request was executed."""

    fates: list[Fate] = field(default_factory=list)

    def fate(self, *, is_fetch: bool) -> Fate:
        fate = Fate.ANSWERED if is_fetch or self.fates else Fate.LOST_AFTER
        self.fates.append(fate)
        return fate


def keys(count: int, size: int = 0) -> list[bytes]:
    return [b"key-%d" % number + b"k" * size for number in range(count)]


def write(bench: Bench, assignment: Assignment, wanted: list[bytes]) -> Written:
    network = MemoryNetwork(bench.source, bench.target, bench.schedule, bench.weather)
    return write_tombstones(wanted, assignment, network, bench.schedule)


def mirrored(bench: Bench) -> Assignment:
    """The assignment of a flow that stands at both ends."""
    bench.write(3, 4)
    (result,) = bench.run(bench.assignment())
    return replace(result.assignment, position=result.position)


def told(sync: OffsetSync) -> tuple[object, ...]:
    return (
        *(str(sync.kind), str(sync.cause), sync.source_start, sync.source_end),
        *(sync.target_start, sync.target_end, sync.first_sequence, sync.records, sync.recovered),
    )


def deleted_at_end(bench: Bench, count: int) -> list[bytes | None]:
    states = [key_state(record.content) for record in bench.target_log().readable()[-count:]]
    assert all(state.is_tombstone for state in states)
    return [state.key for state in states]


@pytest.mark.parametrize(("count", "size"), [(1, 0), (500, 0), (501, 0), (1_200, 0), (5, 40_000)])
def test_every_key_gets_its_tombstone_and_one_row_tells_of_all(count: int, size: int) -> None:
    bench = Bench()
    written = write(bench, mirrored(bench), keys(count, size))
    assert written.failure is None
    assert [told(sync) for sync in written.syncs] == [
        ("unpaired", "resync", 7, 7, 7, 7 + count, 7, count, False)
    ]
    assert bench.target_log().end == 7 + count
    assert deleted_at_end(bench, count) == keys(count, size)


def test_nothing_to_delete_writes_nothing() -> None:
    bench = Bench()
    assert write(bench, mirrored(bench), []) == Written((), None)
    assert bench.target_log().end == 7


def test_an_answer_that_is_lost_is_asked_for_again_without_a_second_write() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    bench.weather = weather = LosesFirstAnswer()
    written = write(bench, assignment, keys(600))
    assert weather.fates.count(Fate.ANSWERED) == 2
    assert [told(sync)[4:8] for sync in written.syncs] == [(7, 607, 7, 600)]
    assert bench.target_log().end == 607


def test_a_sequence_that_the_target_refuses_is_a_failure_and_nothing_is_told() -> None:
    bench = Bench()
    assignment = moved(mirrored(bench), next_sequence=SEQUENCE_MODULUS // 2)
    written = write(bench, assignment, keys(3))
    assert written.syncs == ()
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(written.failure)
    assert bench.target_log().end == 7


def test_tombstones_that_landed_behind_somebody_elses_records_are_told_where_they_are() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    bench.target_log().append(application_batch([content(b"x", b"y")], [NOW_MS]), now_ms=NOW_MS)
    written = write(bench, assignment, keys(600))
    assert [told(sync)[4:8] for sync in written.syncs] == [(8, 508, 7, 500)]
    assert "somebody else" in str(written.failure)
    assert bench.target_log().end == 508


def test_the_flow_goes_on_behind_recorded_tombstones() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    (sync,) = write(bench, assignment, keys(600)).syncs
    bench.write(2)
    after = moved(
        replace(assignment, end_offset=9),
        target_offset=sync.target_end,
        next_sequence=sync.first_sequence + sync.records,
    )
    (result,) = bench.run(after)
    assert (cause(result), result.position.source_offset, result.position.target_offset) == (None, 9, 609)


def test_tombstones_that_nobody_recorded_stop_the_partition_until_they_are_accepted() -> None:
    """The command died between the acknowledgement and the record."""
    bench = Bench()
    assignment = mirrored(bench)
    write(bench, assignment, keys(600))
    bench.write(2)
    unknowing = replace(assignment, end_offset=9)
    (stopped,) = bench.run(unknowing)
    assert (cause(stopped), stopped.position.source_offset) == (StopCause.TAIL_MISMATCH, 7)
    (accepted,) = bench.run(replace(unknowing, accepted_below=607))
    assert (cause(accepted), accepted.position.source_offset, accepted.position.target_offset) == (
        None,
        9,
        609,
    )
    assert [(s.kind, s.cause, s.records) for s in accepted.syncs] == [
        (SyncKind.UNPAIRED, SyncCause.ACCEPTED, 600),
        (SyncKind.COPIED, None, 2),
    ]
