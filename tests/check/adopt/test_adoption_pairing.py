"""Pairing on generated histories: what is paired is equal and in order, and no translation skips a record."""

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ledger.adopt import pairing
from ledger.adopt.adopting import adoption_syncs
from ledger.adopt.pairing import PairingResult, pair_partition
from ledger.errors import RefusedPartitionError
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncKind, TopicPartition
from tests.support.adopted_histories import History, histories
from tests.support.algebra.maps import OffsetMap

PRINTED = settings(print_blob=True, deadline=None, max_examples=150)
PAIR = PartitionPair(TopicPartition("orders", "source-id", 0), TopicPartition("east.orders", "target-id", 0))
UNIQUE, REPEATING = histories(unique=True), histories(unique=False)


def paired(history: History) -> PairingResult:
    return pair_partition(history.source, history.target, is_target_compacted=history.is_target_compacted)


def pairs_of(findings: PairingResult) -> list[tuple[int, int]]:
    return [
        (run.source_start + at, run.target_start + at) for run in findings.runs for at in range(run.records)
    ]


def syncs_of(history: History, findings: PairingResult) -> list[OffsetSync]:
    return adoption_syncs(PAIR, findings, target_end=history.target.end)


@PRINTED
@given(st.one_of(UNIQUE, REPEATING))
def test_pairs_are_equal_records_in_order(history: History) -> None:
    findings = paired(history)
    pairs = pairs_of(findings)
    source, target = (
        {record.offset: (record.timestamp, record.content) for record in log.records}
        for log in (history.source, history.target)
    )
    assert [(s, t) for s, t in pairs if source[s] != target[t]] == []
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    event(f"paired: {bool(pairs)}")


@PRINTED
@given(UNIQUE)
def test_unique_records_are_paired_with_their_first_copies(history: History) -> None:
    findings = paired(history)
    assert {t: s for s, t in pairs_of(findings)}.items() <= history.origins.items()
    if not history.target_lost_beginning and not history.is_target_compacted:
        copies = history.first_copies()
        assert dict(pairs_of(findings)) == {
            record.offset: copies[record.offset] for record in history.readable() if record.offset in copies
        }
        assert not findings.ambiguous


@PRINTED
@given(UNIQUE)
def test_what_the_target_lacks_is_missing(history: History) -> None:
    """Every source record between two pairs is paired or missing, when no cleaner can have removed it."""
    findings = paired(history)
    if history.is_target_compacted or not findings.runs:
        return
    of_pairs = {s for s, _ in pairs_of(findings)}
    wanted = [r.offset for r in history.readable() if r.cause is None]
    between = [offset for offset in wanted if min(of_pairs) < offset < max(of_pairs)]
    missing = {offset for start, end in findings.missing for offset in range(start, end)}
    assert set(between) - of_pairs == missing & set(between) == missing
    event(f"missing: {bool(missing)}")


@PRINTED
@given(st.one_of(UNIQUE, REPEATING))
def test_no_translation_passes_an_unread_record(history: History) -> None:
    """From where a commit lands, everything after it that the target holds comes again, in order."""
    findings = paired(history)
    check_translations(history, findings)
    event(f"ambiguous: {bool(findings.ambiguous)}, a copied record has a twin: {history.has_copied_twin()}")


def check_translations(history: History, findings: PairingResult) -> None:
    rows = [s for s in syncs_of(history, findings) if s.kind in (SyncKind.ADOPTED, SyncKind.LOST)]
    if not rows:
        return
    offset_map = OffsetMap.from_syncs("f", rows)
    of_target = [(r.timestamp, r.content) for r in history.target.records]
    offsets = [r.offset for r in history.target.records]
    copied = set(history.origins.values())
    for commit in range(offset_map.source_start, offset_map.source_end + 1):
        landing = bisect_left(offsets, offset_map.next_target(commit))
        unread = [
            (r.timestamp, r.content)
            for r in history.readable()
            if commit <= r.offset < offset_map.source_end and r.offset in copied
        ]
        assert is_subsequence(unread, of_target[landing:]), commit


def is_subsequence(wanted: list[tuple[int, bytes]], found: list[tuple[int, bytes]]) -> bool:
    ahead = iter(found)
    return all(record in ahead for record in wanted)


@PRINTED
@given(UNIQUE)
def test_offset_syncs_tile_and_end_where_the_flow_goes_on(history: History) -> None:
    findings = paired(history)
    started, *rows = syncs_of(history, findings)
    assert started.kind is SyncKind.STARTED
    assert started.source_start == started.source_end == findings.source_start
    ends = [started.source_end, *(row.source_end for row in rows)]
    assert [row.source_start for row in rows] == ends[:-1]
    last = rows[-1] if rows else started
    assert (last.source_end, last.target_end) == (findings.source_end, history.target.end)
    assert sum(row.records for row in rows) == findings.paired
    assert {row.first_sequence for row in rows} <= {0}


@PRINTED
@given(histories(unique=True, longest=120))
def test_small_windows_give_the_same_pairs_or_refuse(history: History) -> None:
    """What does not fit into a window is refused, never paired otherwise.

    But where a cleaner left a record's repeat and not its first copy: a window that ends before the repeats
    pairs the first copies of its neighbours, and a wider one may pair all in the repeat.
    """
    wide = paired(history)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pairing, "_WINDOWS", (4, 8, 16))
        patched.setattr(pairing, "WINDOW_RECORDS", 16)
        patched.setattr(pairing, "_AGREEMENT", 2)
        patched.setattr(pairing, "_CONTEXT", 8)
        try:
            narrow = paired(history)
        except RefusedPartitionError:
            event("refused")
            return
    check_translations(history, narrow)
    assert set(pairs_of(narrow)) <= {(s, t) for t, s in history.origins.items()}
    if not (narrow.foreign or narrow.before or narrow.target_before or history.is_target_compacted):
        assert pairs_of(narrow) == pairs_of(wide)
    event("paired")
