"""Reads both sides of a tail that cannot be paired batch by batch, and records what was found out about it.

What is held is a digest of each record, so a task's memory is bounded by `MOST_RECORDS`: a longer tail, and one that
cannot be read, is not searched. Nor is one with batches of several producer ids, whose sequences do not follow each
other, or with times of the target's own.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from ledger.domain.facts import SEQUENCE_MODULUS, Gap, GapCause, SyncCause
from ledger.errors import ProtocolError
from ledger.mirror.task.batch_plan import Copy, Skip, Step
from ledger.mirror.task.cleaned_tail.proof import Pairing, Proof, prove
from ledger.mirror.task.cleaned_tail.sides import ANY_NUMBER, Left, SourceSide, TailRange, TargetSide
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.mirror.task.tail.target_tail import TailBatch, records_by_index, records_by_source_offset
from ledger.wire.record_batch import next_sequence
from ledger.wire.record_fields import key_state

MOST_RECORDS = 200_000
"""Of both sides together."""
_DIGEST_BYTES = 16


class TailSearch:
    """Takes the tail's own batches and the source's steps from where the builder stands; then says what is proved."""

    def __init__(
        self,
        builder: SyncBuilder,
        *,
        source_may_be_gone: bool,
        is_target_cleaned: bool,
        is_target_known: bool,
    ) -> None:
        """`source_may_be_gone`: nobody knows how many copied records before the builder's position were deleted.

        `is_target_cleaned`: what the target lacks a cleaner may have taken; else it lost it otherwise, and that is not
        searched. `is_target_known`: no record of the flow was deleted there before it was read.
        """
        self._is_target_cleaned = is_target_cleaned
        self._builder = builder
        self._start = builder.position.source_offset
        self._hole_before = ANY_NUMBER if source_may_be_gone else 0
        self._producer_id: int | None = None
        self._first_sequence: int | None = None
        self._batches: list[TailRange] = []
        self._at_target: dict[int, Left] = {}
        self._at_source: list[Left] = []
        self._gaps: list[Gap] = []
        self._epochs: list[tuple[int, int | None]] = []
        self._is_given_up = not is_target_known

    @property
    def is_given_up(self) -> bool:
        """Nothing was searched, so nothing speaks against what else tells that a batch is a copy."""
        return self._is_given_up

    @property
    def has_enough_source(self) -> bool:
        """What comes next at the source can be no record of the tail: so many are before it."""
        written = self._batches[-1].end if self._batches else 0
        return self._is_given_up or len(self._at_source) >= written

    def take_batch(self, found: TailBatch, expected_sequence: int | None) -> None:
        """The next batch of the flow's own; `expected_sequence`: of its producer id, where the builder stands."""
        if self._is_given_up:
            return
        header = found.header
        if self._producer_id is None:
            self._producer_id, self._first_sequence = header.producer_id, expected_sequence
        is_of_another = self._producer_id != header.producer_id
        if self._first_sequence is None or is_of_another or header.has_log_append_time:
            self._is_given_up = True
            return
        index = (header.base_sequence - self._first_sequence) % SEQUENCE_MODULUS
        follows = self._batches[-1].end if self._batches else 0
        is_whole = index == follows and found.header.is_dense
        if not (is_whole or (self._is_target_cleaned and follows <= index < SEQUENCE_MODULUS // 2)):
            self._is_given_up = True
            return
        self._batches.append(TailRange(header.base_offset, found.written, index))
        try:
            for n, kept in records_by_index(found).items():
                self._at_target[index + n] = _left(index + n, kept)
        except ProtocolError:
            self._is_given_up = True
        self._give_up_if_too_long()

    def take_step(self, step: Step) -> None:
        """The next step of the source's plan."""
        if self._is_given_up:
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
            self._is_given_up = True
        self._give_up_if_too_long()

    def _give_up_if_too_long(self) -> None:
        if len(self._at_source) + len(self._at_target) > MOST_RECORDS:
            self._is_given_up = True

    def found(self) -> Proof | None:
        """What is proved; None when nothing is."""
        if self._is_given_up or not self._batches:
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
        begins = [at for at, _ in self._epochs if pairing.source_start < at < pairing.source_end]
        for start, end in zip([pairing.source_start, *begins], [*begins, pairing.source_end], strict=True):
            first = pairing.place.index + start - pairing.source_start
            yield replace(pairing, source_start=start, place=pairing.place.part(first, first + end - start))

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
