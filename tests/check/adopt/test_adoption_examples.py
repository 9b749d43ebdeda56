"""Pairing on histories written out by hand: one letter is one record."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ledger.adopt import pairing
from ledger.adopt.adopting import adoption_syncs
from ledger.adopt.pairing import PairingResult, pair_partition
from ledger.adopt.reading import LogRecord
from ledger.errors import RefusedPartitionError
from ledger.facts.syncs import GapCause, PartitionPair, TopicPartition
from tests.support.adopted_histories import MemoryLog, encoded

PAIR = PartitionPair(TopicPartition("orders", "source-id", 0), TopicPartition("east.orders", "target-id", 0))


def log_of(letters: Iterable[str], *, start: int = 0, stamped: bool = False) -> MemoryLog:
    """A record per letter; capitals are readable, small ones were aborted, a dot is an offset without a record."""
    records = [
        LogRecord(
            offset,
            offset if stamped else 0,
            encoded(letter.upper().encode(), b"v"),
            None if letter.isupper() else GapCause.ABORTED,
            stamped=stamped,
        )
        for offset, letter in enumerate(letters, start)
        if letter != "."
    ]
    end = records[-1].offset + 1 if records else start
    return MemoryLog(start, end, records)


def found(source: MemoryLog, target: MemoryLog, *, compacted: bool = False) -> PairingResult:
    return pair_partition(source, target, is_target_compacted=compacted)


def pairs(findings: PairingResult) -> dict[int, int]:
    return {
        run.source_start + at: run.target_start + at for run in findings.runs for at in range(run.records)
    }


def test_a_copy_is_paired_record_by_record() -> None:
    findings = found(log_of("AB.CaD."), log_of("ABC.D"))
    assert pairs(findings) == {0: 0, 1: 1, 3: 2, 5: 4}
    assert [(gap.source_start, gap.cause) for gap in findings.gaps] == [
        (2, GapCause.COMPACTED),
        (4, GapCause.ABORTED),
    ]


def test_a_row_is_of_one_leader_epoch_of_the_source() -> None:
    """Where an epoch begins tells up to where commits of earlier ones hold."""
    source, target = log_of("ABcDEF"), log_of("ABDEF")
    epochs = (2, 2, 2, 2, 5, 5)
    led = [replace(record, leader_epoch=epoch) for record, epoch in zip(source.records, epochs, strict=True)]
    findings = found(MemoryLog(source.start, source.end, led), target)
    rows = adoption_syncs(PAIR, findings, target_end=5)
    told = [(row.source_leader_epoch, row.source_start, row.source_end) for row in rows if row.records]
    assert told == [(2, 0, 4), (5, 4, 6)]


def test_copies_of_aborted_records_are_passed_over() -> None:
    findings = found(log_of("ABcdE"), log_of("ABCDE"))
    assert pairs(findings) == {0: 0, 1: 1, 4: 4}
    assert list(findings.uncommitted) == [(2, 4)]


def test_of_equal_records_a_missing_one_is_the_earlier() -> None:
    """Whichever A was copied: who has read the first one must not pass the only copy."""
    findings = found(log_of("XAAABC"), log_of("XABC"))
    assert pairs(findings) == {0: 0, 3: 1, 4: 2, 5: 3}
    assert list(findings.missing) == [(1, 3)]
    assert list(findings.ambiguous) == [(1, 4)]


def test_of_equal_copies_the_first_is_the_one() -> None:
    findings = found(log_of("XAB"), log_of("XAAB"))
    assert pairs(findings) == {0: 0, 1: 1, 2: 3}
    assert list(findings.duplicates) == [(2, 3)]
    assert not findings.ambiguous


def test_repeats_behind_the_last_pair_are_not_foreign() -> None:
    findings = found(log_of("ABCDEF"), log_of("ABCDBC"))
    assert pairs(findings) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert list(findings.duplicates) == [(4, 6)]
    assert not findings.foreign


def test_others_records_behind_the_last_pair_are_foreign() -> None:
    findings = found(log_of("ABC"), log_of("ABXY"))
    assert list(findings.foreign) == [(2, 4)]
    assert findings.source_end == 2


def test_what_a_cleaner_removed_is_no_loss_if_it_was_replaced() -> None:
    """A is there again later; B is not, so no cleaner removed it."""
    findings = found(log_of("ABXAC"), log_of("XAC", start=2), compacted=True)
    assert list(findings.before) == [(0, 2)]
    findings = found(log_of("XABAC"), log_of("XAC"), compacted=True)
    assert list(findings.missing) == [(2, 3)]
    assert GapCause.COMPACTED in {gap.cause for gap in findings.gaps}


def test_a_target_that_stamps_times_is_compared_without_them() -> None:
    findings = found(log_of("ABC"), log_of("ABC", stamped=True))
    assert findings.is_stamped
    assert findings.paired == 3


@pytest.mark.parametrize("late", [0, 300, 12_000])
def test_a_copier_that_began_late(late: int) -> None:
    source = MemoryLog(0, 13_000, [numbered(offset, offset) for offset in range(13_000)])
    target = MemoryLog(0, 13_000 - late, [numbered(o - late, o) for o in range(late, 13_000)])
    findings = found(source, target)
    assert (findings.source_start, findings.paired) == (late, 13_000 - late)
    assert not findings.missing


def test_a_source_that_lost_its_beginning() -> None:
    target = MemoryLog(0, 13_000, [numbered(offset, offset) for offset in range(13_000)])
    source = MemoryLog(12_500, 13_000, [numbered(offset, offset) for offset in range(12_500, 13_000)])
    findings = found(source, target)
    assert findings.paired == 500
    assert list(findings.target_before) == [(0, 12_500)]
    assert not findings.foreign


def test_a_repeat_longer_than_any_window() -> None:
    numbers = [*range(30_000), *range(5_000, 31_000)]
    target = MemoryLog(0, len(numbers), [numbered(at, number) for at, number in enumerate(numbers)])
    source = MemoryLog(0, 31_000, [numbered(offset, offset) for offset in range(31_000)])
    findings = found(source, target)
    assert [(run.source_start, run.target_start, run.records) for run in findings.runs] == [
        (0, 0, 30_000),
        (30_000, 55_000, 1_000),
    ]
    assert list(findings.duplicates) == [(30_000, 55_000)]


def test_what_no_window_explains_is_refused_with_its_place() -> None:
    """25,000 records are missing, then the target goes on."""
    numbers = [*range(100), *range(25_100, 50_000)]
    target = MemoryLog(0, len(numbers), [numbered(at, number) for at, number in enumerate(numbers)])
    source = MemoryLog(0, 50_000, [numbered(offset, offset) for offset in range(50_000)])
    with pytest.raises(RefusedPartitionError, match="offset 100 of the source and offset 100 of the target"):
        found(source, target)


def test_equal_records_beyond_the_view_back_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_CONTEXT", 10)
    with pytest.raises(RefusedPartitionError, match="equal records and a missing one"):
        found(log_of("A" * 50 + "BCD"), log_of("A" * 48 + "BCD"))


def numbered(offset: int, number: int) -> LogRecord:
    return LogRecord(offset, number, encoded(b"%d" % number, b"v"))


def test_a_commit_does_not_pass_a_record_beside_an_aborted_twin() -> None:
    """`A B C` may be copies of `A B` at the start or of `A b` at 2 and 3: a commit at 2 has not read the second A."""
    findings = found(log_of("ABAbC"), log_of("ABC"), compacted=True)
    assert pairs(findings) == {2: 0, 4: 2}
    assert list(findings.uncommitted) == [(1, 2)]
    assert list(findings.ambiguous) == [(0, 3)]


def test_twins_tell_only_together_with_what_follows_them() -> None:
    """`C A B` are copies of `C a b` at 4 to 6: whoever looks no further than the first B takes A for that at 1."""
    findings = found(log_of("cADBCaba"), log_of("CAB"), compacted=True)
    assert pairs(findings) == {4: 0}


def test_a_record_behind_a_pair_may_be_that_of_a_recent_copy() -> None:
    """The second D has no partner and equals a recent record; B, which comes before it, has one."""
    findings = found(log_of("DC.bBDbB"), log_of("DBB"))
    assert pairs(findings) == {5: 0, 7: 2}


def test_a_copier_may_have_left_out_aborted_twins_of_what_it_copied() -> None:
    """The cleaner has removed an aborted B and the source of the target's B; the first A that is read lies at 4."""
    findings = found(log_of("C..AcbaAB"), log_of(".CB.AA.B"))
    assert pairs(findings) == {0: 1, 3: 4, 7: 5, 8: 7}


@pytest.mark.parametrize(
    ("source", "target", "unread", "copy"),
    [("BABAa", "B.AA.A", 2, 0), ("BDBDCDAA", "BDDCDAA", 2, 0), ("AB.AAABA.BAA", "ABBABAA", 5, 0)],
)
def test_repeats_that_fit_other_records_better(source: str, target: str, unread: int, copy: int) -> None:
    """The copier began late and repeated a record; the record before the repeat has a twin further back."""
    findings = found(log_of(source), log_of(target))
    assert pairs(findings)[unread] == copy


def test_what_was_not_copied_yet_is_no_twin_of_what_was() -> None:
    """The last P is behind the last pair: had it that copy, C and D would count as copied."""
    findings = found(log_of("APBCDP"), log_of("APZB"))
    assert pairs(findings) == {0: 0, 1: 1, 2: 3}
    assert findings.source_end == 3


@pytest.mark.parametrize("copies", ["ABCD", "ABCABCD"])
def test_a_transaction_that_was_tried_again_is_no_ambiguity(copies: str) -> None:
    """What was aborted comes again and is committed; whether both were copied or one, readers see the last."""
    findings = found(log_of("abcABCD"), log_of(copies))
    assert [*pairs(findings)] == [3, 4, 5, 6]
    assert not findings.ambiguous
    assert not findings.missing


def test_pairs_that_move_with_each_search_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where windows are too small to tell equal records apart, the search back has to come to an end."""
    for name, value in {"_WINDOWS": (4, 8, 16), "WINDOW_RECORDS": 16, "_AGREEMENT": 2, "_CONTEXT": 8}.items():
        monkeypatch.setattr(pairing, name, value)
    with pytest.raises(
        RefusedPartitionError, match="equal records that pair up differently with each search"
    ):
        found(log_of("bcBcccCcaBccbccB"), log_of("BCCCCCCABCBCB"), compacted=True)
