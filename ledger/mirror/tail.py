"""What lies at the end of a target log already: read, searched for what the flow wrote last, and whose it is."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b

from ledger.errors import ProtocolError
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import SEQUENCE_MODULUS, Gap, GapCause, OffsetRange, Position, SyncCause
from ledger.kafka.batches import (
    HEADER_BYTES,
    BatchHeader,
    batches,
    crc_matches,
    decode,
    next_sequence,
    read_header,
    unpacked,
)
from ledger.kafka.record_fields import key_state, tombstone
from ledger.kafka.requests import ErrorCode
from ledger.mirror.assignment import Divergence, Stop, StopCause
from ledger.mirror.cleaned_tail import (
    ANY_NUMBER,
    Left,
    Pairing,
    Proof,
    SourceSide,
    TailRange,
    TargetSide,
    prove,
    times_of,
)
from ledger.mirror.cutting import BY_SIZE, records_of
from ledger.mirror.steps import Copy, Skip, Step
from ledger.mirror.sync_builder import SyncBuilder
from ledger.store.producers import NO_PRODUCER_ID
from ledger.words import instant

# Foreign records ----------------------------------------------------------------------------------
# Records at a target partition that its flow did not write: what their batches tell of who did.


_NO_TIME = -1


@dataclass(frozen=True, slots=True)
class ForeignRecords:
    """The first batch of others, and how many of their records were read from there up to `end`."""

    first: BatchHeader
    records: int
    end: int

    @classmethod
    def beginning(cls, found: BatchHeader) -> "ForeignRecords":
        return cls(found, found.count, found.end_offset)

    def followed_by(self, found: BatchHeader) -> "ForeignRecords":
        return ForeignRecords(self.first, self.records + found.count, found.end_offset)

    @property
    def producer_id(self) -> int | None:
        """None: their producer is not idempotent."""
        return None if self.first.producer_id == NO_PRODUCER_ID else self.first.producer_id

    def described(self, *, own: int) -> str:
        """In words; `own`: the flow's producer id."""
        first = self.first
        if self.producer_id is None:
            writer = f"without a producer id (its producer is not idempotent), not by this flow's {own}"
        else:
            writer = f"by producer id {first.producer_id}, not by this flow's {own}"
        kind = "of a transaction" if first.is_transactional else "not transactional"
        batch = f"a batch of {_records(first.count)}, {kind}, {_time(first)}"
        more = (
            f"; {_records(self.records)} of others up to offset {self.end}"
            if self.end > first.end_offset
            else ""
        )
        return f"target offset {first.base_offset} was written {writer}: {batch}{more}"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _time(first: BatchHeader) -> str:
    if first.max_timestamp == _NO_TIME:
        return "without a time"
    clock = "the target's" if first.has_log_append_time else "its producer's"
    return f"of {instant(first.max_timestamp)} by {clock} clock"


# Target tail --------------------------------------------------------------------------------------
# Tail reconciliation: what of the target's tail is this flow's own work, not yet in the ledger.
#
# Ownership of a batch is proved by producer id and sequence; pairing with the source by count, times and
# bytes from 61 on, or by decoded records where these differ: the broker recompressed, or a cleaner removed
# records on either side since the batch was written. Applications write the same key and value again and
# again, so the bytes from 61 on, which hold times as differences alone, prove nothing without the time that
# they begin with.


_REGISTRY_NOOP = b"\x44\x00\x00\x00" + tombstone(b'{"keytype":"NOOP","magic":0}')
"""What a schema registry writes to `_schemas` at each start, alone and by a plain producer: it holds no schema."""
Kept = tuple[int, bytes]
"""Timestamp and content of a record: what a copy keeps."""


@dataclass(frozen=True, slots=True)
class TailBatch:
    """A batch that lies on the target past the recorded end."""

    header: BatchHeader
    batch: memoryview

    @property
    def written(self) -> int:
        """Records that were written, those included that a cleaner has removed since."""
        return self.header.last_offset_delta + 1


def _is_noop(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a schema registry wrote it at its start, whatever codec the topic has."""
    is_plain = (header.producer_id, header.count) == (NO_PRODUCER_ID, 1)
    with suppress(ProtocolError):
        return is_plain and unpacked(header, batch) == _REGISTRY_NOOP
    return False


class TargetTail:
    """The target partition from the recorded end to its high watermark, read piece by piece.

    `first`: the batch that the first piece began with, also one of a transaction's markers; `markers`: their offsets.
    """

    def __init__(self, *, start: int) -> None:
        self.position = start
        self.first: BatchHeader | None = None
        self.complete = False
        self.held_bytes = 0
        self.markers: list[OffsetRange] = []
        self._batches: deque[TailBatch] = deque()

    @property
    def needs_read(self) -> bool:
        return not self.complete and not self._batches

    @property
    def head(self) -> TailBatch | None:
        return self._batches[0] if self._batches else None

    def others(self, producer: FlowProducer, *, below: int | None = None) -> ForeignRecords | None:
        """What of it, as far as it was read, this producer did not write; `below` an offset, or to its end."""
        found: ForeignRecords | None = None
        for header in (held.header for held in self._batches):
            is_meant = below is None or header.base_offset < below
            if is_meant and header.count and not producer.wrote(header.producer_id):
                found = ForeignRecords.beginning(header) if found is None else found.followed_by(header)
        return found

    def pop(self) -> None:
        self.held_bytes -= len(self._batches.popleft().batch)

    def add(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece as fetched, of batches that begin below the high watermark; complete once none is left.

        Raises `ProtocolError` for a batch that is none, or not the one that was stored.
        """
        for header, batch in batches(records):
            if header.end_offset <= self.position:
                continue
            if header.base_offset >= high_watermark:
                self.position = high_watermark
                break
            if not crc_matches(header, batch):
                raise ProtocolError(f"the batch at offset {header.base_offset} fails its CRC")
            self.position = header.end_offset
            self.first = self.first or header
            if not (header.is_control or _is_noop(header, batch)):
                self.held_bytes += len(batch)
                self._batches.append(TailBatch(header, batch))
            else:
                self.markers.append((header.base_offset, header.end_offset))
        self.complete = self.position >= high_watermark


def paired(step: Copy, found: TailBatch, *, others_may_be_deleted: bool) -> Copy | None:
    """The step as it was when the batch on the target was written; None when the two cannot be paired.

    `others_may_be_deleted`: the batch may as well be the copy of source records that were deleted, so one that a
    cleaner has emptied is nobody's.

    A cleaner may have been at work since. At the target it leaves the batch's range, and what remains lies
    at the index that it was written at. At the source it leaves the range too: a batch that was whole then
    has one record for each of its offsets, so the records deleted since were copied and are no gaps.
    """
    if step.count == found.written and are_same_bytes(step, found):
        return step
    try:
        wanted, stored = records_by_source_offset(step), records_by_index(found)
    except ProtocolError:
        return None  # bytes that cannot be decoded prove nothing
    if others_may_be_deleted and not stored:
        return None
    if found.written == step.count and _agree(dict(enumerate(wanted.values())), stored):
        return step
    at_index = {offset - step.source_start: kept for offset, kept in wanted.items()}
    if found.written == step.source_end - step.source_start and _agree(at_index, stored):
        return replace(step, gaps=(), count=found.written)
    return None


def begins(step: Copy, found: TailBatch) -> bool:
    """Whether what is left of the first records of a batch are those of the step."""
    try:
        wanted, stored = records_by_source_offset(step), records_by_index(found)
    except ProtocolError:
        return False  # bytes that cannot be decoded prove nothing
    left = {index: kept for index, kept in stored.items() if index < step.count}
    return found.written >= step.count and _agree(dict(enumerate(wanted.values())), left)


def are_same_bytes(step: Copy, found: TailBatch) -> bool:
    """Whether the records are the same by their bytes and the base timestamp that these count from.

    A broker that stamps its own time writes it over the largest timestamp and leaves the base as it was sent.
    """
    sent = read_header(step.batch)
    has_same_times = sent.base_timestamp == found.header.base_timestamp and (
        found.header.has_log_append_time or sent.max_timestamp == found.header.max_timestamp
    )
    return has_same_times and step.batch[HEADER_BYTES:] == found.batch[HEADER_BYTES:]


def _agree(wanted: dict[int, Kept], stored: dict[int, Kept]) -> bool:
    """Whether what is left on both sides is the same; an empty batch is known by its sequence alone."""
    common = wanted.keys() & stored.keys()
    return all(wanted[index] == stored[index] for index in common) and bool(common or not stored)


def records_by_index(found: TailBatch) -> dict[int, Kept]:
    """What is left of a batch, by the index that it was written at. Raises `ProtocolError` for what is no batch."""
    base = found.header.base_offset
    return {r.offset - base: (r.timestamp, r.content) for r in decode(found.header, found.batch)}


def records_by_source_offset(step: Copy) -> dict[int, Kept]:
    """What is to be copied. Raises `ProtocolError` for what is no batch."""
    return {offset: (r.timestamp, r.content) for offset, r in records_of(step)}


# Search -------------------------------------------------------------------------------------------
# Reads both sides of a tail that cannot be paired batch by batch, and records what was found out about it.
#
# What is held is a digest of each record, so a task's memory is bounded by `MOST_RECORDS`: a longer tail,
# and one that cannot be read, is not searched. Nor is one with batches of several producer ids, whose
# sequences do not follow each other, or with times of the target's own.


MOST_RECORDS = 200_000
"""Of both sides together."""
_DIGEST_BYTES = 16


class TailSearch:
    """Takes the tail's own batches and the source's steps from where the builder stands; then says what is proved.

    `is_given_up`: nothing was searched, so nothing speaks against what else tells that a batch is a copy.
    """

    def __init__(
        self,
        builder: SyncBuilder,
        *,
        source_may_be_deleted: bool,
        is_target_cleaned: bool,
        is_target_known: bool,
    ) -> None:
        """`source_may_be_deleted`: nobody knows how many copied records before the builder's position were deleted.

        `is_target_cleaned`: what the target lacks a cleaner may have taken; else it lost it otherwise, and that is not
        searched. `is_target_known`: no record of the flow was deleted there before it was read.
        """
        self._is_target_cleaned = is_target_cleaned
        self._builder = builder
        self._start = builder.position.source_offset
        self._hole_before = ANY_NUMBER if source_may_be_deleted else 0
        self._producer_id: int | None = None
        self._first_sequence: int | None = None
        self._batches: list[TailRange] = []
        self._at_target: dict[int, Left] = {}
        self._at_source: list[Left] = []
        self._gaps: list[Gap] = []
        self._epochs: list[tuple[int, int | None]] = []
        self.is_given_up = not is_target_known

    @property
    def has_enough_source(self) -> bool:
        """What comes next at the source can be no record of the tail: so many are before it."""
        written = self._batches[-1].end if self._batches else 0
        return self.is_given_up or len(self._at_source) >= written

    def take_batch(self, found: TailBatch, expected_sequence: int | None) -> None:
        """The next batch of the flow's own; `expected_sequence`: of its producer id, where the builder stands."""
        if self.is_given_up:
            return
        header = found.header
        if self._producer_id is None:
            self._producer_id, self._first_sequence = header.producer_id, expected_sequence
        is_of_another = self._producer_id != header.producer_id
        if self._first_sequence is None or is_of_another or header.has_log_append_time:
            self.is_given_up = True
            return
        index = (header.base_sequence - self._first_sequence) % SEQUENCE_MODULUS
        follows = self._batches[-1].end if self._batches else 0
        is_whole = index == follows and found.header.is_dense
        if not (is_whole or (self._is_target_cleaned and follows <= index < SEQUENCE_MODULUS // 2)):
            self.is_given_up = True
            return
        self._batches.append(TailRange(header.base_offset, found.written, index))
        try:
            for n, kept in records_by_index(found).items():
                self._at_target[index + n] = _left(index + n, kept)
        except ProtocolError:
            self.is_given_up = True
        self._give_up_if_too_long()

    def take_step(self, step: Step) -> None:
        """The next step of the source's plan."""
        if self.is_given_up:
            return
        start = self._at_source[-1].at + 1 if self._at_source else self._start
        if step.leader_epoch is not None and (not self._epochs or self._epochs[-1][1] != step.leader_epoch):
            begins = step.source_start if isinstance(step, Copy) else step.gap.source_start
            self._epochs.append((begins if self._epochs else min(begins, start), step.leader_epoch))
        if isinstance(step, Skip):
            self._gaps.append(step.gap)
            return
        self._gaps += step.gaps
        try:
            self._at_source += [
                _left(offset, kept) for offset, kept in records_by_source_offset(step).items()
            ]
        except ProtocolError:
            self.is_given_up = True
        self._give_up_if_too_long()

    def _give_up_if_too_long(self) -> None:
        if len(self._at_source) + len(self._at_target) > MOST_RECORDS:
            self.is_given_up = True

    def found(self) -> Proof | None:
        """What is proved; None when nothing is."""
        if self.is_given_up or not self._batches:
            return None
        holes = [(gap.source_start, gap.source_end) for gap in self._gaps if gap.cause is GapCause.COMPACTED]
        source = SourceSide(self._start, self._at_source, holes, self._hole_before)
        proof = prove(source, TargetSide(self._batches, self._at_target))
        return (
            proof if proof.found or proof.source_end > self._start or not proof.rest_holds_records else None
        )

    # -- recording -------------------------------------------------------------------------------

    def record(self, proof: Proof) -> None:
        """What is proved, in order, in rows of its own; `proof.rest` is left to be explained otherwise."""
        self._builder.end_row()
        for piece in proof.found:
            if isinstance(piece, TailRange):
                self.leave_unpaired([piece])
            else:
                self._record_pairing(piece)
        self._pass_to(proof.source_end)
        self._builder.end_row()

    def leave_unpaired(self, pieces: Iterable[TailRange]) -> None:
        """Own records whose source record nobody can tell."""
        for piece in pieces:
            self._builder.unpaired(
                first_sequence=self._sequence(piece.index),
                target_start=piece.target_start,
                count=piece.count,
                cause=SyncCause.COMPACTED,
                producer_id=self._producer_id,
            )

    def _sequence(self, index: int) -> int:
        assert self._first_sequence is not None
        return next_sequence(self._first_sequence, index)

    def _record_pairing(self, pairing: Pairing) -> None:
        self._pass_to(pairing.source_start)
        for part in self._by_epoch(pairing):
            self._builder.found_cleaned(
                part,
                first_sequence=self._sequence(part.place.index),
                leader_epoch=self._epoch_at(part.source_start),
                producer_id=self._producer_id,
            )

    def _by_epoch(self, pairing: Pairing) -> Iterator[Pairing]:
        """An offset sync ends where the leader epoch changes."""
        sides = SourceSide(self._start, self._at_source, ()), TargetSide((), self._at_target)
        begins = [at for at, _ in self._epochs if pairing.source_start < at < pairing.source_end]
        for start, end in zip([pairing.source_start, *begins], [*begins, pairing.source_end], strict=True):
            first = pairing.place.index + start - pairing.source_start
            place = pairing.place.part(first, first + end - start)
            times = times_of(*sides, start, place) or [pairing.first_timestamp, pairing.last_timestamp]
            yield Pairing(start, place, times[0], max(times))

    def _pass_to(self, source_end: int) -> None:
        """What was not paired up to there are gaps: of their own cause, or a cleaner has taken the copy."""
        while (position := self._builder.position.source_offset) < source_end:
            gap = self._gap_from(position, source_end)
            self._builder.skip(Skip(gap, self._epoch_at(position)))

    def _gap_from(self, position: int, source_end: int) -> Gap:
        following = bisect_right(self._gaps, position, key=lambda gap: gap.source_end)
        gap = self._gaps[following] if following < len(self._gaps) else None
        ends = [at for at, _ in self._epochs if at > position]
        end = min([source_end, *ends[:1]])
        if gap is None or gap.source_start >= end:
            return Gap(position, end, GapCause.COMPACTED)
        if gap.source_start > position:
            return Gap(position, gap.source_start, GapCause.COMPACTED)
        return Gap(position, min(gap.source_end, end), gap.cause)

    def _epoch_at(self, offset: int) -> int | None:
        before = bisect_right(self._epochs, offset, key=lambda mark: mark[0])
        return self._epochs[before - 1][1] if before else None


def _left(at: int, kept: tuple[int, bytes]) -> Left:
    timestamp, content = kept
    digest = blake2b(timestamp.to_bytes(8, "big", signed=True), digest_size=_DIGEST_BYTES)
    digest.update(content)
    key = key_state(content).key
    if key is not None and len(key) > _DIGEST_BYTES:
        key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
    return Left(at, digest.digest(), key, timestamp)


# Partition stops ----------------------------------------------------------------------------------
# The stops of a partition whose logs do not hold what they should, in words that name the values.


def source_truncated(position: int, epoch: int | None, divergence: Divergence) -> Stop:
    return Stop(
        StopCause.SOURCE_TRUNCATED,
        f"the source truncated records of leader epoch {epoch} before offset {position}: what it holds of epoch "
        f"{divergence.epoch} ends at {divergence.end}; nothing after that was copied",
    )


def source_differs(position: int) -> Stop:
    return Stop(
        StopCause.SOURCE_TRUNCATED,
        f"the source has another record before offset {position} than the one that was copied last",
    )


def unreadable(tail: TargetTail, error: Exception) -> Stop:
    return Stop(
        StopCause.TARGET_CORRUPT,
        f"the target's log cannot be read from offset {tail.position} on: {error}; nothing was written after it",
    )


def not_explained(found: TailBatch, *, expected: str) -> Stop:
    header = found.header
    return Stop(
        StopCause.TAIL_MISMATCH,
        f"target offset {header.base_offset} holds {found.written} records of this flow with sequence "
        f"{header.base_sequence}, but {expected}; nothing was written",
    )


def copied_again(start: int, position: int) -> str:
    """The notice where a flow continues that could have stopped; the target offset, and the source's."""
    return (
        f"from target offset {start} on the target holds records of this flow that were not recorded and cannot be "
        "paired with the source's: a cleaner has been at work since; the source is copied again from offset "
        f"{position}, behind them"
    )


def repeated(batches: Sequence[TailBatch]) -> Stop:
    """Late requests wrote these a second time."""
    first, count = batches[0].header, sum(found.written for found in batches)
    return Stop(
        StopCause.TAIL_MISMATCH,
        f"target offset {first.base_offset} holds records of this flow once more, {count} of them: they came late, "
        f"with sequence {first.base_sequence}, after the target had forgotten this flow's producer id; they are "
        "recorded as repeated, nothing was written after them",
    )


def foreign(found: ForeignRecords, *, own: int) -> Stop:
    return Stop(
        StopCause.FOREIGN_WRITE,
        f"{found.described(own=own)}; nothing was written after it",
        found.producer_id,
    )


def landed_behind(base_offset: int, *, expected: int, between: ForeignRecords | None, own: int) -> Stop:
    others = "what lies between holds no record" if between is None else between.described(own=own)
    return Stop(
        StopCause.FOREIGN_WRITE,
        f"a batch was expected at target offset {expected} and landed at {base_offset}: somebody else writes to this "
        f"exclusive target; {others}; nothing was written after it",
        None if between is None else between.producer_id,
    )


def landed_below(base_offset: int, *, expected: int) -> Stop:
    return Stop(
        StopCause.TARGET_OUT_OF_RANGE,
        f"a batch was expected at target offset {expected} or later and landed at {base_offset}: the target lost what "
        "was there; nothing more was written",
    )


def went_back(end: int, *, epoch: int | None) -> Stop:
    return Stop(
        StopCause.TARGET_OUT_OF_RANGE,
        f"what the target holds of leader epoch {epoch} ends at offset {end} by now: behind that it may have lost "
        "records of this flow, and hold others in their place; nothing more was written",
    )


def another_record(producer: FlowProducer, found: BatchHeader, at: Position) -> Stop | None:
    """For a batch that lies where the flow's last record lay and has another one; None when it has that."""
    last = at.target_offset - 1
    is_former = found.producer_id in producer.former
    is_next = next_sequence(found.sequence_at(last), 1) == at.next_sequence
    if not found.is_control and producer.wrote(found.producer_id) and (is_former or is_next):
        return None
    return Stop(
        StopCause.TARGET_OUT_OF_RANGE,
        f"target offset {last} holds a record of producer id {found.producer_id}, sequence "
        f"{found.sequence_at(last)}, where this flow's with sequence {at.next_sequence - 1} was: the target lost what "
        "was there; nothing was written",
    )


def refused(step: Copy, code: int, detail: str) -> Stop:
    """A record that the target does not take; it was sent alone, if its batch could be decoded at all."""
    offset, size = step.source_start, len(step.batch)
    if code in BY_SIZE:
        why = f"max.message.bytes of the target topic has to be {size} or more"
    elif code == ErrorCode.INVALID_TIMESTAMP:
        why = (
            f"its time is {instant(step.max_timestamp)}; message.timestamp.before.max.ms and .after.max.ms of the "
            "target topic say how far from the broker's it may be"
        )
    else:
        why = "a record without a key is refused where cleanup.policy of the target topic is compact"
    what = "record" if step.source_end - offset == 1 else f"batch up to offset {step.source_end}"
    return Stop(
        StopCause.REFUSED,
        f"the target refuses the {what} at source offset {offset}, of {size} B: error {detail}; {why}; skip-to with "
        f"--offset {step.source_end} leaves it out",
    )


def sequence_refused(times: int) -> Stop:
    """The target says 45 though nothing that was found there explains it."""
    return Stop(
        StopCause.SEQUENCE_REFUSED,
        f"the target refused the next sequence {times} times, and its log holds nothing of this flow that the ledger "
        "does not know: it remembers another last sequence; nothing more was written",
    )
