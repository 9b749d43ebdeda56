"""What must hold after every simulated life, judged by the logs of all clusters and the recorded facts.

Everything is evaluated after supersession.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

from ledger.facts.rows import recorded_sync
from ledger.facts.syncs import GapCause, SyncCause, SyncKind
from ledger.kafka.batches import next_sequence
from ledger.mirror.assignment import StopCause
from tests.simulation.accounts import Account, At
from tests.simulation.chronicles import Chronicle, Chronicles, StepReports
from tests.simulation.faults import Promise
from tests.simulation.kafka.stored_batches import key_of
from tests.simulation.workload import TopicKind
from tests.support.algebra.maps import OffsetMap


@dataclass(frozen=True, kw_only=True)
class Copied:
    """One source partition of one flow after a life.

    `stop` is why it stands still, `stops_told` every stop there was. `told`: offsets of the target partition
    that rows of the flow speak of, those of earlier incarnations of the source included. `mirror_ids`:
    producer ids of flows at the source. `is_reopened`: the source may have taken a committed transaction back.
    `is_accepted`: an operator said that the flow may go on after what others wrote. `returning`: what earlier
    lives of the target topic held, and may come back though a mirror wrote it.
    """

    account: Account
    kind: TopicKind
    source: Chronicle
    targets: Chronicles
    producer_ids: frozenset[int]
    mirror_ids: frozenset[int]
    is_relayed: bool
    is_exclusive: bool
    is_source_living: bool
    is_reopened: bool
    is_accepted: bool
    promise: Promise
    stop: StopCause | None
    stops_told: frozenset[StopCause]
    told: frozenset[int]
    returning: frozenset[StepReports]

    @property
    def number(self) -> int:
        return self.account.source[1]

    def target(self, topic_id: str) -> Chronicle:
        return self.targets.at((topic_id, self.number))

    @property
    def is_undecided(self) -> bool:
        """Whether the flow may not have asked how transactions ended that the source had opened again.

        It has not yet, or the source has lost its end where the flow had not read, and markers there that told it of
        records before.
        """
        seen = sum(row["cause"] in ("source_truncated", "returning") for row in self.account.rows)
        return self.is_reopened and (self.stop is not None or self.source.log.truncations > seen)

    def was_lost_with_its_topic(self, offset: int) -> bool:
        """Whether the source lost the end that the flow had read this in, and was deleted: of a topic that is gone no
        fetch says any more where the records of a leader epoch end, and the row stands as it was recorded.
        """
        if self.is_source_living:
            return False
        if self.source.is_brought_back(offset):
            return True  # an epoch that was there twice tells nothing
        rows = (row for row in reversed(self.account.rows) if row["kind"] == SyncKind.COPIED)
        epochs = (r["source_leader_epoch"] for r in rows if r["source_start"] <= offset < r["source_end"])
        fetched = self.source.log.read(
            offset + 1, committed=True, max_bytes=0, at_least_one=False, last_epoch=next(epochs, None)
        )
        return fetched.diverging is not None

    def has_written(self, told: StepReports) -> bool:
        """Whether the flow has ever written such a record to the target that it goes to."""
        return told in self._own_written

    @property
    def has_lost_copies(self) -> bool:
        """Whether its target has deleted some, with which nothing could be compared."""
        return bool(self.account.target_topic_id and self.target(self.account.target_topic_id).log.log_start)

    @cached_property
    def _own_written(self) -> set[StepReports]:
        target = self.target(self.account.target_topic_id)
        return {target.records[offset].told for offset in target.own(self.producer_ids)}

    @cached_property
    def owed(self) -> set[int]:
        """Source offsets, as written, that the flow is to copy."""
        return {
            offset
            for offset, record in self.source.records.items()
            if record.is_committed and (self.is_relayed or record.producer_id not in self.mirror_ids)
        }


def check(copied: Copied) -> None:
    """Every check; the first that fails says which records differ."""
    check_everything_is_accounted_for(copied)
    check_l2_order(copied)
    check_records_are_the_same(copied)
    check_first_times_are_times_of_records(copied)
    check_gaps_have_their_cause(copied)
    check_losses_are_losses(copied)
    check_own_records_are_told(copied)
    check_expired_records_are_counted(copied)
    check_learned_sequences_were_written(copied)
    check_sequences_count_records(copied)
    check_cleaned_records_are_gone(copied)
    check_last_values_are_equal(copied)
    check_foreign_records_were_noticed(copied)
    check_translation(copied)


def check_everything_is_accounted_for(copied: Copied) -> None:
    """L1 holds by the way the account was made; here: it reaches from the beginning to the end."""
    account, log = copied.account, copied.source.log
    if copied.stop is not None or not copied.is_source_living:
        return
    assert (account.position or 0) >= log.last_stable, (account.position, log.last_stable)
    covered = account.pairs.keys() | account.gaps.keys() | account.lost.keys()
    assert covered == set(range(account.start, account.position or 0))


def check_l2_order(copied: Copied) -> None:
    pairs = copied.account.pairs
    targets = [
        pairs[s].offset
        for s in sorted(pairs)
        if pairs[s].topic_id == copied.account.target_topic_id and s not in copied.account.adopted
    ]
    assert all(before < after for before, after in pairwise(targets)), ("L2", targets)


def check_l3_once(accounts: Iterable[Account], targets: Chronicles) -> None:
    """No place at a target is claimed twice, by any flow, as far as anybody could read there what became of a claim."""
    claimed: dict[tuple[At, int], str] = {}
    for account in accounts:
        number = account.source[1]
        for at in (*account.pairs.values(), *account.unpaired):
            if targets.at((at.topic_id, number)).is_out_of_sight(at.offset):
                continue
            key = (at, number)
            assert key not in claimed, ("L3", key, account.flow, claimed[key])
            claimed[key] = account.flow


def check_records_are_the_same(copied: Copied) -> None:
    different: dict[int, tuple[object, ...]] = {}
    for offset, at in copied.account.pairs.items():
        sent, found = copied.source.records.get(offset), copied.target(at.topic_id).records.get(at.offset)
        if copied.is_reopened and not copied.is_source_living:
            continue  # what a topic took back before it was deleted can be asked of nobody
        if copied.target(at.topic_id).is_out_of_sight(at.offset):
            continue
        if sent is None and copied.source.is_out_of_sight(offset):
            continue
        is_unseen = copied.has_lost_copies and copied.source.is_brought_back(offset)
        if is_unseen or copied.source.is_deleted_unseen(offset):
            continue
        if sent is None or found is None or sent.told != found.told:
            different[offset] = (at, sent, found)
        elif not (offset in copied.owed or sent.told in copied.returning or copied.is_undecided):
            different[offset] = (at, "was not to be copied", sent)
        elif found.producer_id not in copied.producer_ids and offset not in copied.account.adopted:
            different[offset] = (at, "was written by", found.producer_id)
    assert different == {}


def check_first_times_are_times_of_records(copied: Copied) -> None:
    """What a row says of when its first record was written is no time that a cleaner put there."""
    if copied.is_reopened:
        return
    for row in copied.account.rows:
        covered = range(row["source_start"], row["source_end"])
        if row["kind"] == "copied" and row["records"] and copied.account.pairs.keys() >= {covered.start}:
            times = {copied.source.records[o].told[0] for o in covered if o in copied.source.records}
            assert row["first_timestamp_ms"] in times, (row, sorted(times))


def check_gaps_have_their_cause(copied: Copied) -> None:
    """No record that was to be copied is in a gap, unless a cleaner had taken it; mirrors' writes are said to be so."""
    for offset, cause in copied.account.gaps.items():
        record = copied.source.records.get(offset)
        if copied.was_lost_with_its_topic(offset) or copied.source.is_deleted_unseen(offset):
            continue
        if copied.source.is_brought_back(offset) and copied.has_lost_copies:
            continue
        if cause is GapCause.MIRROR_WRITE:
            if record is None and copied.source.is_out_of_sight(offset):
                continue
            assert record is not None, offset
            assert record.producer_id in copied.mirror_ids, (offset, record)
        elif cause is GapCause.COMPACTED:
            if offset in copied.source.readable:
                assert record is not None
                is_replaced = copied.has_written(record.told) or _is_replaced_in_what_is_left(copied, offset)
                assert is_replaced, (offset, "was never copied and is said to be cleaned")
            else:
                assert copied.kind is TopicKind.COMPACTED or record is None, (offset, cause, record)
        elif not copied.is_undecided:
            assert offset not in copied.owed, (offset, cause, record)


def _is_replaced_in_what_is_left(copied: Copied, offset: int) -> bool:
    """Whether the target lost its end and has a later record of the key: that looks as if a cleaner had been there, and
    no key lacks its last value."""
    target, records = copied.target(copied.account.target_topic_id), copied.source.records
    key = key_of(records[offset].told[1])
    later = (other for other in copied.account.pairs if other > offset and other in records)
    is_found = key is not None and any(key_of(records[other].told[1]) == key for other in later)
    return is_found and target.log.truncated_to is not None


def check_losses_are_losses(copied: Copied) -> None:
    for offset, cause in copied.account.lost.items():
        if cause is not SyncCause.SKIPPED:
            assert offset not in copied.source.readable, (offset, cause)


def check_own_records_are_told(copied: Copied) -> None:
    """Exactly once: a record of the flow at the target that no row tells of was written twice, or lost its fact."""
    topic_id = copied.account.target_topic_id
    if not topic_id:
        return
    target = copied.target(topic_id)
    untold = sorted(target.own(copied.producer_ids) & target.readable - copied.told)
    if copied.stop is not None or not copied.is_source_living:
        # What was under way when the partition had to stop lies after everything that is told.
        untold = [offset for offset in untold if offset < max(copied.told, default=0)]
    if copied.promise is Promise.TOLD and not copied.is_exclusive:
        return  # among others' records what came late is looked for before the first batch of an attempt only
    assert untold == [], ("no row tells of them", untold)


def check_expired_records_are_counted(copied: Copied) -> None:
    """What a target deleted before the flow looked is gone there, and so many of it were the flow's own."""
    for expired in copied.account.expired:
        target = copied.target(expired.start.topic_id)
        assert expired.end <= target.log.log_start, (expired, target.log.log_start)
        between = range(expired.start.offset, expired.end)
        own = target.own(copied.producer_ids) & set(between)
        may_lack_more = target.log.truncated_to is not None or copied.kind is TopicKind.COMPACTED
        if may_lack_more and expired.records > len(own):
            # What came late, behind an end that the target had lost, has sequences that count what was lost, too. So
            # has the first batch that is left, where a cleaner took those before it.
            at = At(expired.start.topic_id, expired.end)
            assert expired.sequence in _sequences_behind(copied, at) | _first_sequence_from(copied, at), (
                expired
            )
            continue
        # A broker that has forgotten the flow says nothing: the flow goes on as if there had been nothing.
        assert expired.records in (len(own), 0), (expired, sorted(own))


def check_learned_sequences_were_written(copied: Copied) -> None:
    """A sequence that a flow takes from a target's memory is that of its own records, deleted there since."""
    for at, sequence in copied.account.learned:
        following = _sequences_behind(copied, at)
        assert sequence in following, (at, sequence, following)


def _sequences_behind(copied: Copied, at: At) -> set[int]:
    """What follows each of the flow's own batches that a target deleted below a place."""
    log = copied.target(at.topic_id).log
    return {
        next_sequence(header.base_sequence, header.count)
        for header, _batch in log.written()
        if header.producer_id in copied.producer_ids and header.end_offset <= at.offset <= log.log_start
    }


def _first_sequence_from(copied: Copied, at: At) -> set[int]:
    """That of the first batch of the flow that a target holds behind a place; empty without one."""
    own = (
        header.base_sequence
        for header, _batch in copied.target(at.topic_id).log.batches()
        if header.producer_id in copied.producer_ids and header.end_offset > at.offset
    )
    return set(islice(own, 1))


def check_sequences_count_records(copied: Copied) -> None:
    """The sequence of a batch at the target is what the row that tells of it says."""
    if copied.promise is Promise.TOLD or not copied.account.target_topic_id:
        return
    target = copied.target(copied.account.target_topic_id)
    first_by_offset = {
        header.base_offset: header.base_sequence
        for header, _batch in target.log.written()
        if header.producer_id in copied.producer_ids and not target.is_out_of_sight(header.base_offset)
    }
    for row in copied.account.rows:
        at = At(row["target_topic_id"], row["target_start"])
        is_current = at.topic_id == copied.account.target_topic_id
        holds = is_current and at in copied.account.pairs.values() and at not in copied.account.superseded
        is_former = row["former_producer_id"] is not None  # its sequence is that of the current id
        if (
            row["kind"] == "copied"
            and row["records"]
            and holds
            and not is_former
            and at.offset in first_by_offset
        ):
            assert first_by_offset[at.offset] == row["first_sequence"], row


def check_cleaned_records_are_gone(copied: Copied) -> None:
    """Sequences that rows pass over are of records that were written, and that nobody can read any more."""
    for topic_id, sequence in copied.account.cleaned:
        target = copied.target(topic_id)
        at = [
            header.base_offset + sequence - header.base_sequence
            for header, _batch in target.log.written()
            if header.producer_id in copied.producer_ids
            and 0 <= sequence - header.base_sequence < header.count
        ]
        assert at or target.log.truncated_to is not None, (sequence, "was never written")
        assert not target.readable & set(at), (sequence, at, "can be read")


def check_last_values_are_equal(copied: Copied) -> None:
    """The last that the flow wrote of a key is the last that the source has, where that was to be copied."""
    if (
        copied.kind is not TopicKind.COMPACTED
        or copied.stop is not None
        or copied.is_reopened
        or not copied.is_source_living
        or copied.promise is Promise.TOLD
        or not copied.account.target_topic_id
    ):
        return
    target = copied.target(copied.account.target_topic_id)
    own = sorted(target.own(copied.producer_ids))
    last_written = {key_of(target.records[offset].told[1]): target.records[offset].told for offset in own}
    skipped = copied.account.lost.keys() | set(range(copied.account.start))
    last = {
        key_of(copied.source.records[offset].told[1]): offset
        for offset in sorted(copied.source.readable & copied.owed)
    }
    for key, offset in last.items():
        if offset not in skipped:
            assert last_written.get(key) == copied.source.records[offset].told, (key, offset)


def check_foreign_records_were_noticed(copied: Copied) -> None:
    """An exclusive partition does not go on after somebody else's record without a word."""
    if not copied.is_exclusive or not copied.account.target_topic_id:
        return
    records = copied.target(copied.account.target_topic_id).records
    expired = {  # unread, whoever wrote it: that stopped the partition, too
        offset
        for stretch in copied.account.expired
        if stretch.start.topic_id == copied.account.target_topic_id
        for offset in range(stretch.start.offset, stretch.end)
    }
    is_told = copied.is_accepted or StopCause.TARGET_OUT_OF_RANGE in copied.stops_told
    assert is_told or not expired, expired
    foreign = [
        offset
        for offset, record in records.items()
        if record.producer_id not in copied.producer_ids
        and offset not in expired
        and offset >= _begins_at(copied)
    ]
    last = max(
        (at.offset for at in copied.account.pairs.values() if at.topic_id == copied.account.target_topic_id),
        default=-1,
    )
    if foreign and last > foreign[0] and not copied.account.adopted and not copied.is_accepted:
        assert StopCause.FOREIGN_WRITE in copied.stops_told, foreign


def _begins_at(copied: Copied) -> int:
    """Where the target's log began when the flow came to it: what was deleted below, nobody could notice."""
    here = copied.account.target_topic_id
    return min(
        (row["target_start"] for row in copied.account.rows if row["target_topic_id"] == here), default=0
    )


def check_translation(copied: Copied) -> None:
    """A committed offset lands on the copy of the next record that has one; no earlier copy is passed."""
    account = copied.account
    if account.adopted or not account.pairs.keys() | account.gaps.keys() | account.lost.keys():
        return
    offset_map = OffsetMap.from_syncs(account.flow, [recorded_sync(row).sync for row in account.rows])
    target_topic_id = account.rows[-1]["target_topic_id"]
    pairs = sorted((s, at.offset) for s, at in account.pairs.items() if at.topic_id == target_topic_id)
    copies_before = account.earlier_copies()
    following = len(pairs) - 1
    for committed in range(offset_map.source_end + 1, -1, -1):
        while following >= 0 and pairs[following][0] >= committed:
            following -= 1
        is_beyond = following + 1 == len(pairs)
        earlier = [target for source, target in copies_before if source >= committed]
        expected = min([offset_map.target_end if is_beyond else pairs[following + 1][1], *earlier])
        found = offset_map.next_target(committed)
        if account.unpaired and found != expected:
            # Records without a source offset may be those that come next: they are read first, or again.
            assert (pairs[following][1] if following >= 0 and not earlier else -1) < found < expected, (
                committed
            )
        else:
            assert found == expected, (committed, found, expected)
