"""When the heads of the ledger's links were last written to its anchor, as the anchor itself says."""

from dataclasses import dataclass

from ledger.clock import HOUR_MS
from ledger.config.mirror import MirrorConfig
from ledger.errors import MirrorLedgerError
from ledger.store.snapshots import OpenedTables
from ledger.words import duration, instant


@dataclass(frozen=True, slots=True)
class Anchored:
    """When that was, milliseconds since the epoch; None: nobody knows, for what `why` says."""

    at_ms: int | None
    why: str = ""

    def is_late(self, now_ms: int) -> bool:
        """Whether what came since is more than a driver or a recorder at work leaves."""
        return self.at_ms is None or now_ms - self.at_ms > HOUR_MS

    def words(self, now_ms: int) -> str:
        if self.at_ms is None:
            return f"nobody knows when heads were last written to the anchor: {self.why}"
        ago = duration(max(0, now_ms - self.at_ms) // 1000)
        return f"heads were last written to the anchor at {instant(self.at_ms)}, {ago} ago"


def last_anchored(config: MirrorConfig) -> Anchored | None:
    """By the newest heads at `[evidence] anchor`; None: the configuration names none."""
    place = config.evidence.anchor
    if place is None:
        return None
    from ledger.store.heads import anchors_at  # who names none would wait for it

    try:
        [newest] = anchors_at(place, newest=True)
    except MirrorLedgerError as error:
        return Anchored(None, str(error))
    ledger_id = OpenedTables.of(config.ledger.path, ("writers",)).ledger_id
    if newest.ledger_id != ledger_id:
        return Anchored(None, f"{newest.place} is of ledger {newest.ledger_id}, this is {ledger_id}")
    return Anchored(newest.at_ms)
