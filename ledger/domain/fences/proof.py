"""What proves a fence, partition by partition: what was appended since, what is open, how long it has been still.

A partition is *still* when no data record was appended for its quiet time and no transaction is open there: markers of
transactions may come. The quiet time is the longest pause that its writers made in the last day, within bounds; where
they pause for longer than can be waited, stillness proves less.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Proof(StrEnum):
    """What is known of a fence; of several partitions the last one in this order counts."""

    PROVEN = "proven"  # nobody may write, nothing was written for longer than writers ever paused
    OBSERVED = "observed"  # still; but writers pause for longer, or nothing but stillness was measured
    UNPROVEN = "unproven"  # it could not be proved, and an operator continues all the same
    BEGUN = "begun"  # rules are made, or about to be; not proved yet

    @property
    def is_open(self) -> bool:
        """Whether somebody has to care for it."""
        return self in (Proof.UNPROVEN, Proof.BEGUN)


_ORDER = tuple(Proof)


def least(proofs: Iterable[Proof]) -> Proof:
    """The one that holds for all; nothing proves nothing."""
    return max(proofs, key=_ORDER.index, default=Proof.UNPROVEN)


@dataclass(frozen=True, slots=True)
class QuietBounds:
    """How long a partition is watched at least and at most, in seconds."""

    least_s: float = 10.0
    most_s: float = 120.0


@dataclass(frozen=True, slots=True)
class QuietTime:
    """How long a partition has to be still; `is_telling`: its writers have never paused for longer."""

    seconds: float
    is_telling: bool


def quiet_time(longest_pause_s: float | None, bounds: QuietBounds) -> QuietTime:
    """By the longest pause between two changes of the high watermark in the last day; None: no two are known."""
    if longest_pause_s is None or longest_pause_s > bounds.most_s:
        return QuietTime(bounds.most_s, is_telling=False)
    return QuietTime(max(longest_pause_s, bounds.least_s), is_telling=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatch:
    """A partition since the fence was closed.

    `end`: its high watermark up to which it is known what was appended; behind it there was no data record.
    `still_since_s` and `read_at_s`, its last reading, are on a clock that never goes back: behind that reading nobody
    knows what came. `appended`: how often data was found behind the fence.
    """

    topic: str
    partition: int
    quiet: QuietTime
    end: int
    last_stable: int
    still_since_s: float
    read_at_s: float
    appended: int = 0

    def after(
        self, *, last_stable: int, high_watermark: int, has_data: bool, now_s: float
    ) -> "PartitionWatch":
        """As it was read again; `has_data`: a data record lies behind the known end, or the log lost its end."""
        seen = replace(self, end=high_watermark, last_stable=last_stable, read_at_s=now_s)
        return replace(seen, still_since_s=now_s, appended=self.appended + 1) if has_data else seen

    @property
    def has_open_transaction(self) -> bool:
        return self.last_stable < self.end

    def waits_s(self, now_s: float) -> float:
        """For how long it has to stay still, until it is read again."""
        return max(0.0, self.quiet.seconds - (now_s - self.still_since_s))

    @property
    def is_still(self) -> bool:
        """Whether its last reading says so."""
        return not self.has_open_transaction and self.waits_s(self.read_at_s) == 0.0

    def proof(self, *, is_enforced: bool) -> Proof:
        """`is_enforced`: what stops writers was read back from the leader."""
        if not self.is_still:
            return Proof.UNPROVEN
        return Proof.PROVEN if is_enforced and self.quiet.is_telling else Proof.OBSERVED
