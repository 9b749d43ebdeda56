"""A driver died with copies that it had not recorded, and cleaners were at work before the next one looked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.syncs import OffsetSync, SyncCause, SyncKind
from ledger.kafka.batches import Record, decode
from ledger.mirror import tail as tail_search
from ledger.mirror.assignment import Assignment, StopCause
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content, is_tombstone, key_of
from tests.support.algebra.maps import OffsetMap
from tests.support.copy_tasks import NOW_MS, Target, assignment

# -- Lives -----------------------------------------------------------------------------------------
# Whoever judges goes by the logs as they were written, and by which source record was the n-th that was copied;
# nothing
# here asks the code that finds out what a tail is.

StepReports = tuple[int, bytes]
"""Time and content of a record."""
Plain = tuple[int, int | None, int]
"""Key, value (None: a tombstone) and time, as small numbers."""


def told(record: Record) -> StepReports:
    return record.timestamp, record.content


def as_written(log: PartitionLog) -> list[Record]:
    """Every record that the log ever took, those gone since among them."""
    return [record for header, batch in log.written() for record in decode(header, memoryview(batch))]


@dataclass
class CleanedLife:
    """`first` is what the driver that died had copied: source offsets in the order of their records at the target."""

    source: PartitionLog = field(default_factory=PartitionLog)
    target: PartitionLog = field(default_factory=PartitionLog)
    told: Assignment = field(default_factory=lambda: replace(assignment(), is_target_cleaned=True))
    first: list[int] = field(default_factory=list)
    syncs: list[OffsetSync] = field(default_factory=list)

    def write(self, batches: Sequence[Sequence[Plain]]) -> None:
        """Batches of an application's records, as small numbers."""
        for batch in batches:
            contents = [content(b"k%d" % k, None if v is None else b"v%d" % v) for k, v, _ in batch]
            times = [NOW_MS + at for _, _, at in batch]
            self.source.append(application_batch(contents, times), now_ms=NOW_MS)

    def copy_unrecorded(self, *, merges_up_to: int = 0) -> None:
        """All that the source has is copied, and no fact of it reaches the ledger."""
        self.first = [record.offset for record in self.source.readable()]
        Target(self.source, self.told, self.target, merges_up_to=merges_up_to).copy_all()
        assert len(as_written(self.target)) == len(self.first)

    def look_again(self, *, copies_again: bool) -> Target:
        """The next driver's task."""
        told_ = replace(self.told, copies_tail_again=copies_again)
        again = Target(self.source, told_, self.target)
        again.copy_all()
        again.copy.target.conclude()
        self.syncs = list(again.copy.result().syncs)
        return again

    @property
    def sent_again(self) -> int:
        """Records that were written to the target by the second driver."""
        return len(as_written(self.target)) - len(self.first)

    def causes(self) -> set[SyncCause | None]:
        return {sync.cause for sync in self.syncs}

    def pairs(self) -> dict[int, int]:
        """Source offset to target offset, as the facts say."""
        found: dict[int, int] = {}
        for sync in self.syncs:
            if sync.kind is SyncKind.COPIED:
                missing = {o for gap in sync.gaps for o in range(gap.source_start, gap.source_end)}
                copied = [o for o in range(sync.source_start, sync.source_end) if o not in missing]
                assert len(copied) == sync.records == sync.target_end - sync.target_start
                found |= {offset: sync.target_start + n for n, offset in enumerate(copied)}
        return found

    # -- what must hold --------------------------------------------------------------------------

    def assert_facts_fit(self) -> None:
        """They tile the source, rise at the target, claim no place twice; pairs of what is left are equal records."""
        position, target_end = 0, 0
        written = {record.offset: record.timestamp for record in as_written(self.source)}
        for sync in self.syncs:
            assert sync.source_start == position
            if sync.kind is SyncKind.COPIED and sync.records:
                assert sync.first_timestamp_ms in map(written.get, range(position, sync.source_end))
            if sync.records:
                assert sync.target_start >= target_end
                target_end = sync.target_end
            position = sync.source_end
        at_target = {record.offset: told(record) for record in as_written(self.target)}
        pairs = self.pairs()
        for record in self.source.readable():
            if record.offset in pairs:
                assert at_target[pairs[record.offset]] == told(record), record

    def assert_all_is_told(self) -> None:
        """Whatever a reader of the target finds is in a row."""
        claimed = set(self.pairs().values())
        for sync in self.syncs:
            if sync.kind is SyncKind.UNPAIRED:
                claimed |= set(range(sync.target_start, sync.target_end))
        assert {record.offset for record in self.target.readable()} <= claimed

    def assert_last_values_are_equal(self) -> None:
        """By key what both logs come to; a tombstone comes to nothing."""
        assert _last_values(self.source) == _last_values(self.target)

    def assert_readers_see_everything(self) -> None:
        """Who reads the target all the time sees every surviving source record, in order."""
        every = [told(record) for record in as_written(self.target)]
        place = 0
        for record in self.source.readable():
            assert told(record) in every[place:], ("never at the target, or out of order", record)
            place = every.index(told(record), place) + 1

    def assert_new_readers_see_what_survives(self) -> None:
        """Who begins now sees every surviving source record, or what a cleaner keeps instead, one of its key."""
        left = [told(record) for record in self.target.readable()]
        keys = {key_of(content_) for _, content_ in left}
        for record in self.source.readable():
            assert told(record) in left or key_of(record.content) in keys, record

    def assert_translation_skips_nothing(self) -> None:
        """No commit lands behind the copy of a record that the group has not read and could still read.

        Where the source was copied again, the later copy counts. Where it was not, neither are copies passed of records
        that the source does not have any more.
        """
        if not self.syncs:
            return
        readable, written = self.source.readable(), as_written(self.target)
        again = readable[len(readable) - self.sent_again :]
        truth = {t.offset: s for t, s in zip(written, [*self.first, *(r.offset for r in again)], strict=True)}
        continues_at = min((record.offset for record in again), default=self.source.end)
        survives = {record.offset for record in readable}
        offset_map = OffsetMap.from_syncs("flow", self.syncs)
        for commit in range(self.source.end + 1):
            answer = offset_map.next_target(commit)
            left = {r.offset for r in self.target.readable()}
            last_copies = {source: at for at, source in truth.items() if source in survives and at in left}
            unread = [at for source, at in last_copies.items() if source >= commit]
            if commit < continues_at:
                unread += [at for at, source in truth.items() if at in left and source >= commit]
            assert answer <= min(unread, default=self.target.end), (commit, answer, unread)

    def assert_all(self, *, records_differ: bool = True) -> None:
        """Equal records, in time, too, of which a cleaner took one, can be told apart by nobody."""
        self.assert_facts_fit()
        self.assert_all_is_told()
        if records_differ:
            self.assert_readers_see_everything()
        self.assert_new_readers_see_what_survives()
        self.assert_last_values_are_equal()
        self.assert_translation_skips_nothing()


def _last_values(log: PartitionLog) -> dict[bytes | None, bytes]:
    last = {key_of(record.content): record.content for record in log.readable()}
    return {key: content_ for key, content_ in last.items() if not is_tombstone(content_)}


# -- What comes of them ----------------------------------------------------------------------------

_plain: st.SearchStrategy[Plain] = st.tuples(
    st.integers(0, 4), st.sampled_from([None, 0, 1, 2]), st.integers(0, 2)
)
_batches = st.lists(st.lists(_plain, min_size=1, max_size=5), max_size=8)
_cut = st.floats(0, 1)


def distinct(batches: Sequence[Sequence[Plain]], start: int = 0) -> list[list[Plain]]:
    """The same keys with a value and a time of its own for each record; tombstones stay."""
    number, made = start, list[list[Plain]]()
    for batch in batches:
        made.append([])
        for key, value, _ in batch:
            number += 1
            made[-1].append((key, None if value is None else number, number))
    return made


def lived(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float, float],
) -> CleanedLife:
    """Written, cleaned before it was copied, copied, written on, and cleaned on both sides."""
    life = CleanedLife()
    life.write(old)
    life.source.compact(round(cuts[0] * life.source.end))
    life.write(copied)
    life.copy_unrecorded()
    life.write(new)
    life.source.compact(round(cuts[1] * life.source.end))
    life.target.compact(round(cuts[2] * life.target.end))
    return life


@settings(max_examples=100, print_blob=True, deadline=None)
@given(_batches, _batches, _batches, st.tuples(_cut, _cut, _cut), st.booleans(), st.booleans())
def test_nothing_is_lost_skipped_or_out_of_order(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float, float],
    copies_again: bool,
    records_differ: bool,
) -> None:
    """Under either policy, and also where keys, values and times are so few that records are equal."""
    if records_differ:
        old, copied, new = distinct(old), distinct(copied, 100), distinct(new, 200)
    life = lived(old, copied, new, cuts)
    again = life.look_again(copies_again=copies_again)
    if again.stop is None:
        life.assert_all(records_differ=records_differ)
    else:
        assert (again.stop, copies_again) == (StopCause.TAIL_MISMATCH, False)
        life.assert_facts_fit()


def test_a_batch_across_two_leader_epochs_is_recorded_in_two_rows_with_times_of_their_own() -> None:
    """The hole that a cleaner left is of the epoch behind it."""
    life = CleanedLife()
    life.write([[(0, 0, 0)], [(1, 1, 1)], [(2, 2, 2)], [(3, 3, 3)]])
    life.source.fail_over(keep_held=True)
    life.write([[(4, 4, 4)]])
    life.copy_unrecorded(merges_up_to=1 << 16)
    life.write([[(0, 5, 5), (3, 6, 6)]])
    life.source.compact(life.source.end)
    life.target.compact(1)
    assert life.look_again(copies_again=False).stop is None
    life.assert_all()
    found = [(sync.source_start, sync.first_timestamp_ms) for sync in life.syncs]
    assert (3, NOW_MS + 3) in found, found


@settings(max_examples=50, print_blob=True, deadline=None)
@given(_batches, _batches, st.floats(0, 1))
def test_where_only_the_target_was_cleaned_all_is_proved_by_counting(
    copied: Sequence[Sequence[Plain]], new: Sequence[Sequence[Plain]], cut: float
) -> None:
    life = lived([], copied, new, (0, 0, cut))
    again = life.look_again(copies_again=False)
    assert again.stop is None
    assert life.sent_again == sum(map(len, new))
    assert life.causes() <= {None}
    life.assert_all(records_differ=False)


@settings(max_examples=50, print_blob=True, deadline=None)
@given(_batches, _batches, _batches, st.tuples(_cut, _cut))
def test_where_only_the_source_was_cleaned_nothing_that_differs_is_copied_twice(
    old: Sequence[Sequence[Plain]],
    copied: Sequence[Sequence[Plain]],
    new: Sequence[Sequence[Plain]],
    cuts: tuple[float, float],
) -> None:
    old, copied, new = distinct(old), distinct(copied, 100), distinct(new, 200)
    life = lived(old, copied, new, (*cuts, 0))
    end = life.source.end - sum(map(len, new))
    again = life.look_again(copies_again=False)
    assert again.stop is None
    assert life.sent_again == sum(record.offset >= end for record in life.source.readable())
    assert SyncCause.ACCEPTED not in life.causes()
    life.assert_all()


def churn(start: int, keys: int, batches: int) -> list[list[Plain]]:
    """Every batch has a record of each key, with a value of its own."""
    return [[(key, start + n, start + n) for key in range(keys)] for n in range(batches)]


@pytest.mark.parametrize("copies_again", [False, True])
def test_records_that_both_cleaners_left_are_paired_and_nothing_is_copied_again(copies_again: bool) -> None:
    """Of old keys both sides have the last value, of churning ones they have different ones."""
    life = lived([], [[(9, 1, 1)], *churn(10, 3, 4), [(8, 1, 50)]], churn(100, 3, 2), (0, 0, 1))
    life.source.compact(life.source.end - 3)
    again = life.look_again(copies_again=copies_again)
    assert (again.stop, again.copy.result().copied_again) == (None, None)
    assert life.sent_again == len([r for r in life.source.readable() if r.offset >= 14])
    life.assert_all()


def test_where_nothing_survives_on_both_sides_the_policy_decides() -> None:
    for copies_again in (False, True):
        life = lived([], churn(10, 3, 4), churn(100, 3, 2), (0, 1, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert (again.copy.result().copied_again is not None) is copies_again
        life.assert_facts_fit()
        if copies_again:
            assert SyncCause.COMPACTED in life.causes()
            assert life.sent_again == len(life.source.readable())
            life.assert_all()


def test_records_behind_a_loss_are_paired_though_their_batch_is_cut() -> None:
    """Retention took the beginning of a batch; nobody knows how many of its records the target has before."""
    life = lived([], [[(key, 1, key) for key in range(5)]], [[(9, 1, 9)]], (0, 0, 0))
    life.source.delete_before(2)
    life.told = replace(life.told, position=life.told.position.lost_up_to(2))
    again = life.look_again(copies_again=False)
    assert (again.stop, life.sent_again) == (None, 1)
    assert life.pairs() == {2: 2, 3: 3, 4: 4, 5: 5}
    assert life.causes() == {None, SyncCause.COMPACTED}


def test_a_hole_is_held_back_until_the_tail_is_known_to_have_nothing_of_it() -> None:
    """What was in it is at the target: by the count of both."""
    life = lived([], [[(0, 1, 1)], [(1, 1, 2)]], [[(0, 2, 3)], [(2, 1, 4)]], (0, 1, 0))
    again = life.look_again(copies_again=False)
    assert (again.stop, life.causes()) == (None, {None})
    assert life.pairs() == {0: 0, 1: 1, 2: 2, 3: 3}
    life.assert_all()


def test_a_tail_that_is_too_long_to_be_held_is_left_to_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_search, "MOST_RECORDS", 10)
    for copies_again in (False, True):
        life = lived([], churn(10, 3, 4), churn(100, 3, 2), (0, 0, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert (again.copy.result().copied_again is not None) is copies_again


def test_what_a_tail_holds_behind_what_is_proved_is_left_to_the_policy() -> None:
    """A key that both sides have still is followed by churn of which they have nothing in common."""
    for copies_again in (False, True):
        written: list[list[Plain]] = [*churn(50, 3, 1), [(9, 1, 1)], *churn(10, 3, 4)]
        life = lived([], written, churn(100, 3, 2), (0, 1, 1))
        again = life.look_again(copies_again=copies_again)
        assert (again.stop is None) is copies_again
        assert life.pairs()[3] == 3
        life.assert_facts_fit()
