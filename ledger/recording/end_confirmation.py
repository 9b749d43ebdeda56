"""When ends that did not change are confirmed: what is appended only when it changes does not tell how old it is.

At every heartbeat; and, as soon as all ends stand still, after a short while that doubles: what a flow has caught up
with is soon measured to be so, and a cluster at rest costs a row for each heartbeat.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class EndConfirmation:
    """Of one recorder in one epoch; `first_seconds`: after how long a standstill is confirmed first.

    A confirmation of all at once needs `has_all_ends`: every partition has a row of this epoch, and none was missing
    at the last read.
    """

    first_seconds: float
    heartbeat_seconds: float
    has_all_ends: bool = False
    _confirmed_at: float = float("-inf")
    _changed_at: float = float("-inf")
    _wait_seconds: float = 0.0

    def is_due(self, now: float, *, changed: bool) -> bool:
        """At a read that found that some ends `changed`, or none; `now` is monotonic."""
        if changed:
            self._changed_at, self._wait_seconds = now, self.first_seconds
        since = max(self._confirmed_at, self._changed_at)
        is_at_rest = not changed and now - since >= self._wait_seconds
        return is_at_rest or now - self._confirmed_at >= self.heartbeat_seconds

    def was_read(self, *, is_complete: bool, are_all_recorded: bool) -> None:
        """At ends: whether none of those that were asked for was missing, and whether each got a row."""
        self.has_all_ends = is_complete and (are_all_recorded or self.has_all_ends)

    def confirmed(self, now: float) -> None:
        """All ends that were read are in the ledger as of this read."""
        self._confirmed_at = now
        self._wait_seconds = min(2 * max(self._wait_seconds, self.first_seconds), self.heartbeat_seconds)
