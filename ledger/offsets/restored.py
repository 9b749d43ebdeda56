"""Whether commits that an answer goes by are old: since the ledger was restored from a copy, or nobody has recorded."""

from collections.abc import Collection

from ledger.config.mirror import MirrorConfig
from ledger.errors import UnsafeError
from ledger.facts.operations import LedgerRestored
from ledger.facts.roles import recorder_of
from ledger.facts.tables import CHECKPOINTS, GROUPS, OPERATIONS, Filter
from ledger.offsets.setting import NOT_RECORDED
from ledger.roles import LATE_AFTER_SWEEPS
from ledger.store.snapshots import DeltaSnapshot
from ledger.words import duration, instant


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


def old_commits(config: MirrorConfig, at: DeltaSnapshot, cluster: str, *, at_ms: int) -> str | None:
    """That nobody has recorded commits of a cluster for several full sweeps, or since the ledger was restored, and
    since when; None: somebody has, or nobody ever did."""
    if (unread := unread_since_restored(at, cluster)) is not None:
        return unread
    sweeps = [one.full_sweep_seconds for one in config.flows.values() if cluster in (one.source, one.target)]
    recorded_ms = at.last_recorded_in(CHECKPOINTS.name, recorder_of(cluster))
    if recorded_ms is None or not sweeps or at_ms - recorded_ms <= LATE_AFTER_SWEEPS * min(sweeps) * 1000:
        return None
    return (
        f"commits of {cluster} were recorded last at {instant(recorded_ms)}, {duration((at_ms - recorded_ms) / 1000)} "
        f"before: what groups have committed since is not in this answer. mirror-ledger record {cluster} --once reads "
        "them while it answers"
    )


def require_read(at: DeltaSnapshot, cluster: str, accepted: Collection[str], *, undone: str) -> None:
    """Raise `UnsafeError` where commits are unknown since the ledger was restored, and nobody accepts that."""
    if NOT_RECORDED not in accepted and (words := unread_since_restored(at, cluster)) is not None:
        raise UnsafeError(f"{words}; {undone}. --accept {NOT_RECORDED} goes by the old ones")
