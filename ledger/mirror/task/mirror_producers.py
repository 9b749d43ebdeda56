"""Who wrote a source batch: an application, or a mirror flow whose writes must not be mirrored on.

A flow's producer id is recorded in `writers` before its first write, and a cluster gives no id twice. So an
answer that was asked for after the batch had been fetched is final, whichever it is.
"""

from collections.abc import Callable

NO_PRODUCER_ID = -1
"""What a batch carries whose producer is not idempotent: always an application's."""

_MAXIMUM_APPLICATIONS = 100_000  # about 10 MB; what was forgotten is asked for again


class CachedMirrorProducers:
    """Implements `ports.MirrorProducers`; `recorded` reads all producer ids that the ledger has now."""

    def __init__(self, recorded: Callable[[], frozenset[int]]) -> None:
        self._recorded = recorded
        self._mirrors: frozenset[int] = frozenset()
        self._applications: set[int] = {NO_PRODUCER_ID}

    def is_mirror(self, producer_id: int) -> bool:
        if producer_id in self._mirrors:
            return True
        return producer_id not in self._applications and self._look_up(producer_id)

    def _look_up(self, producer_id: int) -> bool:
        self._mirrors = self._recorded()
        if producer_id in self._mirrors:
            return True
        if len(self._applications) >= _MAXIMUM_APPLICATIONS:
            self._applications = {NO_PRODUCER_ID}
        self._applications.add(producer_id)
        return False


def no_mirror_producers() -> CachedMirrorProducers:
    """For a flow with `relay = true`: nobody counts as a mirror, and nothing is looked up."""
    return CachedMirrorProducers(frozenset)
