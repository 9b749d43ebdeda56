"""What is not known any more of groups after the ledger was restored from a copy, until a recorder has read them."""

from collections.abc import Collection

from ledger.errors import UnsafeError
from ledger.facts.operations import LedgerRestored
from ledger.facts.roles import recorder_of
from ledger.facts.tables import CHECKPOINTS, GROUPS, OPERATIONS, Filter
from ledger.offsets.setting import NOT_RECORDED
from ledger.store.snapshots import DeltaSnapshot
from ledger.words import instant


def unread_since_restored(at: DeltaSnapshot, cluster: str) -> str | None:
    """In words that nobody has read the commits of a cluster since the ledger was restored; None: somebody has, or the
    ledger never was.

    Whoever reads after it appends in an epoch that no recorder of the lost ledger had; a recorder begins with all.
    """
    rows = at.rows(OPERATIONS.name, [("kind", "=", LedgerRestored.kind)])
    if not rows:
        return None
    restored = max(map(LedgerRestored.of_row, rows), key=lambda one: one.first_epoch)
    writer = recorder_of(cluster)
    since: list[Filter] = [("writer", "=", writer), ("writer_epoch", ">=", restored.first_epoch)]
    if any(at.rows(table.name, since) for table in (CHECKPOINTS, GROUPS)):
        return None
    return (
        f"commits of {cluster} are those of {instant(restored.cut_at_ms)}: the ledger was restored from a copy of "
        f"then, and nobody has read them since. What groups have committed is unknown. mirror-ledger record "
        f"{cluster} --once reads them while it answers"
    )


def require_read(at: DeltaSnapshot, cluster: str, accepted: Collection[str], *, undone: str) -> None:
    """Raise `UnsafeError` where commits are unknown since the ledger was restored, and nobody accepts that."""
    if NOT_RECORDED not in accepted and (words := unread_since_restored(at, cluster)) is not None:
        raise UnsafeError(f"{words}; {undone}. --accept {NOT_RECORDED} goes by the old ones")
