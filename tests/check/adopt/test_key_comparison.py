"""Keys alive at a target alone: which they are, and what becomes of tombstones for them."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.adopt.key_resync import KeyComparison, Written, compare_keys, write_tombstones
from ledger.adopt.reading import LogRecord
from ledger.facts.syncs import SEQUENCE_MODULUS, GapCause, OffsetSync, SyncCause, SyncKind
from ledger.kafka.record_fields import key_state, tombstone
from ledger.mirror.assignment import Assignment, StopCause
from tests.simulation.kafka.network import CalmWeather, Fate, MemoryNetwork
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.adopted_histories import encoded
from tests.support.copy_tasks import NOW_MS, Bench, cause, moved

# -- Which they are --------------------------------------------------------------------------------

Write = tuple[bytes | None, bytes | None]


def log_of(*writes: Write) -> list[LogRecord]:
    return [LogRecord(offset, 1_000, encoded(key, value)) for offset, (key, value) in enumerate(writes)]


def alive(log: list[LogRecord]) -> dict[bytes, bytes]:
    """Key to content, as a reader of the whole log ends up."""
    found: dict[bytes, bytes] = {}
    for record in log:
        state = key_state(record.content)
        if record.cause is None and state.key is not None:
            found.pop(state.key, None)
            if not state.is_tombstone:
                found[state.key] = record.content
    return found


def test_only_keys_that_live_at_the_target_alone_are_left_over() -> None:
    source = log_of((b"same", b"1"), (b"deleted", None), (None, b"no key"))
    target = log_of(
        *[(b"same", b"1"), (b"deleted", b"1"), (b"gone", b"1"), (None, b"no key"), (b"over", b"1")],
        *[(b"deleted", None), (b"over", None), (b"gone too", b"")],
    )
    assert compare_keys(source, target) == KeyComparison(2, 3, (b"gone", b"gone too"))


def test_a_key_deleted_and_written_again_is_alive_where_it_was_written_last() -> None:
    target = log_of((b"a", b"1"), (b"b", b"1"), (b"a", None), (b"a", b"2"))
    assert compare_keys([], target) == KeyComparison(0, 2, (b"b", b"a"))


def test_a_tombstone_at_the_source_is_a_record_of_the_key() -> None:
    assert compare_keys(log_of((b"k", None)), log_of((b"k", b"1"))).left_over == ()


def test_records_of_aborted_transactions_count_nowhere() -> None:
    (record,) = log_of((b"k", b"1"))
    aborted = replace(record, cause=GapCause.ABORTED)
    assert compare_keys([aborted], [record]) == KeyComparison(0, 1, (b"k",))
    assert compare_keys([], [aborted]) == KeyComparison(0, 0, ())


def test_empty_logs_have_no_keys() -> None:
    assert compare_keys([], []) == KeyComparison(0, 0, ())


keys = st.sampled_from([b"", b"a", b"b", b"c", b"\xff" * 40])
values = st.one_of(st.none(), st.binary(max_size=2))


@given(st.lists(st.tuples(keys, values), max_size=40), st.data())
def test_after_the_tombstones_both_sides_have_the_same_keys(writes: list[Write], data: st.DataObject) -> None:
    """The cleaner takes what later records of a key replace, and tombstones; the mirror misses some of that."""
    written = log_of(*writes)
    last = {key: offset for offset, (key, _) in enumerate(writes)}
    removable = [r for r in written if last[writes[r.offset][0]] != r.offset or writes[r.offset][1] is None]
    cleaned = data.draw(st.sets(st.sampled_from(removable))) if removable else set()
    # A cleaner that drops a tombstone has dropped all that the key had before.
    in_order = sorted(cleaned, key=lambda record: record.offset)
    dropped_tombstones = {writes[r.offset][0]: r.offset for r in in_order if writes[r.offset][1] is None}
    source = [r for r in written if r.offset > dropped_tombstones.get(writes[r.offset][0], -1)]
    source = [r for r in source if r not in cleaned]
    unseen = data.draw(st.sets(st.sampled_from(in_order))) if cleaned else set()
    target = [r for r in written if r not in unseen]
    left_over = compare_keys(source, target).left_over
    tombstones = [LogRecord(len(written) + n, 1_000, tombstone(key)) for n, key in enumerate(left_over)]
    assert alive([*target, *tombstones]) == alive(source)
    assert not set(left_over) & {writes[r.offset][0] for r in source}


# -- Tombstones ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LosesFirstAnswer(CalmWeather):
    """The connection breaks after the first produce request was executed."""

    fates: list[Fate] = field(default_factory=list)

    def fate(self, *, is_fetch: bool) -> Fate:
        fate = Fate.ANSWERED if is_fetch or self.fates else Fate.LOST_AFTER
        self.fates.append(fate)
        return fate


def keys_at(count: int, size: int = 0) -> list[bytes]:
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
    written = write(bench, mirrored(bench), keys_at(count, size))
    assert written.failure is None
    assert [told(sync) for sync in written.syncs] == [
        ("unpaired", "resync", 7, 7, 7, 7 + count, 7, count, False)
    ]
    assert bench.target_log().end == 7 + count
    assert deleted_at_end(bench, count) == keys_at(count, size)


def test_nothing_to_delete_writes_nothing() -> None:
    bench = Bench()
    assert write(bench, mirrored(bench), []) == Written((), None)
    assert bench.target_log().end == 7


def test_an_answer_that_is_lost_is_asked_for_again_without_a_second_write() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    bench.weather = weather = LosesFirstAnswer()
    written = write(bench, assignment, keys_at(600))
    assert weather.fates.count(Fate.ANSWERED) == 2
    assert [told(sync)[4:8] for sync in written.syncs] == [(7, 607, 7, 600)]
    assert bench.target_log().end == 607


def test_a_sequence_that_the_target_refuses_is_a_failure_and_nothing_is_told() -> None:
    bench = Bench()
    assignment = moved(mirrored(bench), next_sequence=SEQUENCE_MODULUS // 2)
    written = write(bench, assignment, keys_at(3))
    assert written.syncs == ()
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(written.failure)
    assert bench.target_log().end == 7


def test_tombstones_that_landed_behind_somebody_elses_records_are_told_where_they_are() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    bench.target_log().append(application_batch([content(b"x", b"y")], [NOW_MS]), now_ms=NOW_MS)
    written = write(bench, assignment, keys_at(600))
    assert [told(sync)[4:8] for sync in written.syncs] == [(8, 508, 7, 500)]
    assert "somebody else" in str(written.failure)
    assert bench.target_log().end == 508


def test_the_flow_goes_on_behind_recorded_tombstones() -> None:
    bench = Bench()
    assignment = mirrored(bench)
    (sync,) = write(bench, assignment, keys_at(600)).syncs
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
    write(bench, assignment, keys_at(600))
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
