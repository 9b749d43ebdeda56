"""Which records were passed, so that a copier's repeats are recognised: hashes alone, a bounded number."""

from array import array
from collections.abc import Sequence

_MOST = 1 << 21  # records; with their slots 80 MB
_FEWEST = 1 << 12
_SLOTS_PER_RECORD = 8


class PassedRecords:
    """The last records in the order in which they were passed, found by their hash.

    A record can be missed, when a later one has taken its slot; it is never found where it was not, but for
    two records of one 64-bit hash.
    """

    def __init__(self, expected: int) -> None:
        size = min(_MOST, max(_FEWEST, 1 << expected.bit_length()))
        self._mask = size - 1
        self._ring = array("q", bytes(8 * size))
        self._slot_mask = size * _SLOTS_PER_RECORD - 1
        self._slots = array("I", bytes(4 * size * _SLOTS_PER_RECORD))
        self.count = 0

    def add(self, record_hash: int) -> None:
        self._ring[self.count & self._mask] = record_hash
        self.count += 1
        self._slots[record_hash & self._slot_mask] = self.count

    def find_run(self, hashes: Sequence[int]) -> int | None:
        """The place of the first of some records that follow each other, by any of them."""
        for number, record_hash in enumerate(hashes):
            place = self.find(record_hash)
            if place is not None and all(self.is_at(place - number + at, hashes[at]) for at in range(number)):
                return place - number
        return None

    def rewind(self, count: int) -> None:
        """Forget the last `count` records."""
        self.count -= count

    def find(self, record_hash: int) -> int | None:
        """The place of a record that was passed."""
        place = self._slots[record_hash & self._slot_mask] - 1
        return place if place >= 0 and self.is_at(place, record_hash) else None

    def is_at(self, place: int, record_hash: int) -> bool:
        is_kept = self.count - self._mask <= place < self.count
        return is_kept and self._ring[place & self._mask] == record_hash
