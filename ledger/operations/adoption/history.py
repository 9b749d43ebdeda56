"""Which records were passed, so that a copier's repeats are recognised: hashes alone, a bounded number."""

from array import array

_MOST = 1 << 21  # records; 32 MB


class PassedRecords:
    """The last records in the order in which they were passed, found by their hash.

    A record can be missed, when a later one has taken its slot; it is never found where it was not, but for
    two records of one 64-bit hash.
    """

    def __init__(self, expected: int) -> None:
        size = min(_MOST, 1 << max(expected, 1).bit_length())
        self._mask = size - 1
        self._ring = array("q", bytes(8 * size))
        self._slots = array("q", bytes(8 * size))
        self.count = 0

    def add(self, record_hash: int) -> None:
        self._ring[self.count & self._mask] = record_hash
        self.count += 1
        self._slots[record_hash & self._mask] = self.count

    def rewind(self, count: int) -> None:
        """Forget the last `count` records."""
        self.count -= count

    def find(self, record_hash: int) -> int | None:
        """The place of a record that was passed."""
        place = self._slots[record_hash & self._mask] - 1
        return place if place >= 0 and self.is_at(place, record_hash) else None

    def is_at(self, place: int, record_hash: int) -> bool:
        is_kept = self.count - self._mask <= place < self.count
        return is_kept and self._ring[place & self._mask] == record_hash
