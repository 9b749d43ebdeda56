"""What a group would skip and repeat that continues at another offset than the first unread record.

Such an offset is that of a time: the first record at or behind it. Times are the producers', no commit has one, and
the sides hold records in orders of their own. So it is the worse alternative, and says how much worse.
"""

from dataclasses import dataclass

from ledger.domain.offsets.offset_ranges import OffsetRange
from ledger.domain.pair.claims import count, shared
from ledger.domain.pair.first_unread import Place


@dataclass(frozen=True, slots=True)
class Difference:
    """Records of the pair, as ranges there: unread ones that are passed, and read ones that are read again."""

    skipped: tuple[OffsetRange, ...]
    repeated: tuple[OffsetRange, ...]

    @property
    def skips(self) -> int:
        return count(self.skipped)

    @property
    def repeats(self) -> int:
        return count(self.repeated)


def difference(place: Place, offset: int) -> Difference | None:
    """What continuing at an offset means against the exact place; None when there is none to compare with."""
    if place.offset is None:
        return None
    return Difference(shared(place.unread, 0, offset), shared(place.read, offset))
