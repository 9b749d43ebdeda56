"""Keys alive at a target alone: on logs written by hand, and on generated histories of a compacted topic."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ledger.adopt.key_resync import KeyComparison, compare_keys
from ledger.adopt.reading import LogRecord
from ledger.facts.syncs import GapCause
from ledger.kafka.batches import key_state, tombstone
from tests.support.adopted_histories import encoded

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
