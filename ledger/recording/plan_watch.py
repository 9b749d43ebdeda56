"""Whether a plan is carried out now: what is waited for then is to come soon.

Applications may have no cluster to write to meanwhile. That all is copied, and that the mirror has stopped for a
promotion, is known at the end of a round of its driver; where groups stand, when a recorder has read them.
"""

from collections.abc import Callable

from ledger.domain.writer_roles import LastClaim
from ledger.ports.clock import Clock

SOON_S = 1.0
_ASKED_EVERY_S = 5.0
_SILENT_S = 30.0
"""Who carries out a plan records something every ten seconds at least."""


class PlanWatch:
    """As one process sees it; `last_claim`: of the role of who carries out plans.

    A plan may be left in the middle. Silence is measured by this process's own clock, from when something was heard.
    """

    def __init__(self, last_claim: Callable[[], LastClaim | None], clock: Clock) -> None:
        self._last_claim = last_claim
        self._clock = clock
        self._asked_at = float("-inf")
        self._is_at_work = False
        self._heard: tuple[int, int] | None = None
        self._heard_at = 0.0

    def at_most(self, seconds: float) -> float:
        """A pace of so many seconds, which is quicker while a plan is carried out."""
        now = self._clock.monotonic()
        if now - self._asked_at >= (SOON_S if self._is_at_work else min(seconds, _ASKED_EVERY_S)):
            self._asked_at, self._is_at_work = now, self._hears(now)
        return min(seconds, SOON_S) if self._is_at_work else seconds

    def _hears(self, now: float) -> bool:
        claim = self._last_claim()
        if claim is None or claim.released:
            return False
        heard = (claim.epoch, claim.last_recorded_at_ms)
        if heard != self._heard:
            self._heard, self._heard_at = heard, now
        return now - self._heard_at <= _SILENT_S
