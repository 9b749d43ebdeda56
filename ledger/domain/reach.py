"""That something does not answer: since when, why, and when that is sure. No clock; instants are passed in.

One probe that failed is no outage when the next one succeeds. The second in a row is one, or a first that took as
long.
"""

from dataclasses import dataclass, replace

SURE_AFTER_PROBES = 2
_SURE_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Instant:
    """When something began: milliseconds since the epoch, and seconds for measuring."""

    at_ms: int
    monotonic: float


@dataclass(frozen=True, slots=True)
class Failing:
    """That something does not answer; `probes`: how often in a row that was found.

    `began`: when the first probe did that failed, which may have been answered in part; `since_ms`: when it had failed.
    """

    began: Instant
    since_ms: int
    reason: str
    probes: int = 1

    def lasted_s(self, now: float) -> float:
        return now - self.began.monotonic

    def is_sure(self, now: float) -> bool:
        return self.probes >= SURE_AFTER_PROBES or self.lasted_s(now) >= _SURE_AFTER_S


def failed_again(before: Failing | None, reason: str, *, began: Instant, at_ms: int) -> Failing:
    """After one more probe that began then and has failed at `at_ms`; `before` None: it had answered the last one."""
    if before is None:
        return Failing(began, at_ms, reason)
    return replace(before, reason=reason, probes=before.probes + 1)
