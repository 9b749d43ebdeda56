"""Answers from the ledger at a cut: what every command reads that asks nothing else. No JVM, no broker."""

from collections.abc import Collection, Mapping

import pyarrow as pa

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.cuts import Cut
from ledger.facts.tables import place_of
from ledger.store import catalog, narrowed, sql
from ledger.store.catalog import Query, Value
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot
from ledger.store.sql import rows_since
from ledger.words import counted

_NOTHING_MISSING = "audit_l8_nothing_missing"
MISSING_ROWS = "missing_rows"
"""Accepted by who sets offsets from a ledger that has lost rows."""


def snapshot(config: MirrorConfig, as_of: str | None) -> DeltaSnapshot:
    """The ledger at the cut that `as_of` names; none is now."""
    return DeltaLedger(config.ledger.path).as_of(as_of, now_ms=SystemClock().now_ms())


def require_flow(config: MirrorConfig, at: DeltaSnapshot, flow_name: str) -> None:
    """Refuse a flow that nobody knows, and one that has nothing in the ledger yet: an empty answer would seem fine."""
    if flow_name in sql.flows(at):
        return
    config.flow(flow_name)
    raise PreconditionError(
        f"flow {flow_name} has never run as of cut {at.cut.token}; there is nothing to answer from"
    )


def run_query(at: DeltaSnapshot, name: str, params: Mapping[str, Value]) -> pa.Table:
    """The answer of a query of the catalog."""
    return narrowed.run_query(catalog.query(name), params, at)


def require_complete(at: DeltaSnapshot, accepted: Collection[str], *, undone: str) -> None:
    """Raise `UnsafeError` where the ledger has lost rows, and nobody accepts that (`MISSING_ROWS`).

    A map that has lost its beginning, or a part, sends groups past records that they have not read.
    """
    missing = 0 if MISSING_ROWS in accepted else run_query(at, _NOTHING_MISSING, {}).num_rows
    if missing:
        raise UnsafeError(
            f"the ledger has lost rows ({_NOTHING_MISSING}: {counted(missing, 'row')}): groups may pass records that "
            f"they have not read; {undone}. mirror-ledger query {_NOTHING_MISSING} says which; --accept "
            f"{MISSING_ROWS} continues with what is left"
        )


def audit_rows(at: DeltaSnapshot, since: Cut | None = None) -> dict[str, int]:
    """By audit how many rows break its invariant; `since`: of what came after a cut alone, which was audited itself.

    Of what is missing only all rows tell: with `since`, that audit is left out (`audits_of`).
    """
    rest = {} if since is None else rows_since(at, since)
    return {name: rows.num_rows for name, rows in sql.run_queries(audits_of(since), {}, at, rest).items()}


def audits_of(since: Cut | None) -> list[Query]:
    """Those that can be carried out by what came after a cut; None: all."""
    audits = [query for query in catalog.queries().values() if query.is_audit]
    return audits if since is None else [query for query in audits if query.name != _NOTHING_MISSING]


def run_audit(at: DeltaSnapshot, wanted: Query, since: Cut) -> pa.Table:
    """The rows that break an invariant, of what came after a cut alone; raises `UsageError` as `require_range`."""
    require_range(wanted)
    return sql.run_query(wanted, {}, at, rows_since(at, since))


def require_range(wanted: Query) -> None:
    """Raise `UsageError` for a query that is no audit, and for the audit of what is missing."""
    if not wanted.is_audit:
        raise UsageError(f"--since is for audits, and {wanted.name} is none; nothing was read")
    if wanted.name == _NOTHING_MISSING:
        raise UsageError(
            f"of what is missing only all rows tell: {_NOTHING_MISSING} takes no --since; nothing was read"
        )


def cut_since(config: MirrorConfig, at: DeltaSnapshot, since: str) -> Cut:
    """The cut that a `--since` names: a time, an operation id or a cut token.

    Raises `UsageError` where the ledger at `at` has less than that.
    """
    found = snapshot(config, since).cut
    last = {(one.table, one.writer): place_of(one.epoch, one.round) for one in at.cut.last}
    for one in found.last:
        if place_of(one.epoch, one.round) > last.get((one.table, one.writer), -1):
            raise UsageError(
                f"what --since names has appends of {one.writer} that the cut which is asked about has not; nothing "
                "was read. Give an earlier --since"
            )
    return found
