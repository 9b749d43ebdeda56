"""Which leader epochs a log has seen, and where each began: how readers find out that a log was truncated.

Written from Kafka's `LeaderEpochFileCache` and from what `Partition` does with it in a Fetch.
"""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest known epoch that is not above the one asked for, and the offset after its last record."""

    epoch: int
    end: int


class LeaderEpochs:
    """Epochs with the offset at which each began, both strictly ascending."""

    def __init__(self) -> None:
        self._epochs: list[int] = [0]
        self._starts: list[int] = [0]

    @property
    def latest(self) -> int:
        return self._epochs[-1]

    def begin(self, epoch: int, start: int) -> None:
        """A new leader takes over at the end of the log; epochs in which nothing was written are forgotten."""
        self.truncate(start)
        self._epochs.append(epoch)
        self._starts.append(start)

    def truncate(self, end: int) -> None:
        """The log lost everything from `end` on."""
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()

    def delete_before(self, log_start: int) -> None:
        """The log now begins at `log_start`; the epoch that it lies in begins there too."""
        kept = max(bisect_right(self._starts, log_start) - 1, 0)
        del self._starts[:kept], self._epochs[:kept]
        self._starts[0] = max(self._starts[0], log_start)

    def end_of(self, epoch: int, *, log_end: int) -> EpochEnd | None:
        """Where the records of an epoch end; None for one that is above all known."""
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return EpochEnd(epoch, log_end) if self.latest == epoch else None
        known = self._epochs[following - 1] if following else epoch
        return EpochEnd(known, self._starts[following])
