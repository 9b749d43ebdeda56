"""A partition that is copied, not recorded, cleaned on either side and looked at again: what its logs and readers say.

Whoever judges goes by the logs as they were written, and by which source record was the n-th that was copied; nothing
here asks the code that finds out what a tail is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ledger.facts.syncs import OffsetSync, SyncCause, SyncKind
from ledger.kafka.batches import Record, decode
from ledger.mirror.assignment import Assignment
from ledger.offsets.maps import OffsetMap
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content, is_tombstone, key_of
from tests.support.copy_tasks import NOW_MS, Target, assignment

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

    def copy_unrecorded(self) -> None:
        """All that the source has is copied, and no fact of it reaches the ledger."""
        self.first = [record.offset for record in self.source.readable()]
        Target(self.source, self.told, self.target).copy_all()
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
        for sync in self.syncs:
            assert sync.source_start == position
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
            answer = offset_map.translate(commit).target_offset
            assert answer is not None
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
