"""What a broker remembers of the producers of one partition: rules B2 and B3 of `partition_log`."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.kafka.batches import BatchHeader, next_sequence
from tests.simulation.kafka.stored_batches import NO_PRODUCER

PRODUCER_EXPIRATION_MS = 86_400_000
_REMEMBERED_BATCHES = 5


@dataclass(frozen=True, slots=True)
class KnownBatch:
    """A batch that the broker remembers of a producer, as it was written."""

    first_sequence: int
    count: int
    base_offset: int
    max_timestamp: int


@dataclass(slots=True)
class _State:
    epoch: int
    batches: deque[KnownBatch] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))


class ProducerStates:
    """Producer id to the epoch and the last batches that were seen of it."""

    def __init__(self, headers: Iterable[BatchHeader] = ()) -> None:
        self._states: dict[int, _State] = {}
        for header in headers:
            self.remember(header)

    def remember(self, header: BatchHeader) -> None:
        if header.producer_id == NO_PRODUCER:
            return
        state = self._states.setdefault(header.producer_id, _State(header.producer_epoch))
        if header.producer_epoch != state.epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        if not header.is_control:
            written = header.last_offset_delta + 1  # a cleaner may have left fewer
            state.batches.append(
                KnownBatch(header.base_sequence, written, header.base_offset, header.max_timestamp)
            )

    def has_later_epoch(self, header: BatchHeader) -> bool:
        state = self._states.get(header.producer_id)
        return state is not None and header.producer_epoch < state.epoch

    def duplicate_of(self, header: BatchHeader) -> KnownBatch | None:
        """The remembered batch that this one repeats."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            return None
        asked = (header.base_sequence, header.count)
        return next((k for k in state.batches if (k.first_sequence, k.count) == asked), None)

    def is_next(self, header: BatchHeader) -> bool:
        """Whether the batch's sequence follows on what is remembered; without state any does."""
        state = self._states.get(header.producer_id)
        if header.producer_id == NO_PRODUCER or state is None:
            return True
        if header.producer_epoch > state.epoch:
            return header.base_sequence == 0
        if not state.batches:
            return True
        last = state.batches[-1]
        return header.base_sequence == next_sequence(last.first_sequence, last.count)

    def next_of(self, producer_id: int) -> int | None:
        """The sequence that is expected of a producer; None without state."""
        last = self.last_of(producer_id)
        return None if last is None else next_sequence(last.first_sequence, last.count)

    def last_of(self, producer_id: int) -> KnownBatch | None:
        """The last batch of a producer; None without state."""
        state = self._states.get(producer_id)
        return state.batches[-1] if state is not None and state.batches else None

    def epoch_of(self, producer_id: int) -> int | None:
        """The last epoch of a producer; None without state."""
        state = self._states.get(producer_id)
        return None if state is None else state.epoch

    def is_last(self, header: BatchHeader) -> bool:
        """Whether the batch is the last one of its producer."""
        state = self._states.get(header.producer_id)
        return (
            state is not None and bool(state.batches) and state.batches[-1].base_offset == header.base_offset
        )

    def expire(self, *, now_ms: int) -> None:
        """What the broker does every ten minutes: a producer goes by the time of its last batch."""
        self._states = {
            producer_id: state
            for producer_id, state in self._states.items()
            if not state.batches or state.batches[-1].max_timestamp >= now_ms - PRODUCER_EXPIRATION_MS
        }

    def restart(self, *, now_ms: int) -> None:
        """Read again from the snapshot that a stopping broker wrote: only the last batch of each producer."""
        self.expire(now_ms=now_ms)
        for state in self._states.values():
            state.batches = deque(list(state.batches)[-1:], maxlen=_REMEMBERED_BATCHES)
