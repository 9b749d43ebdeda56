"""The ledger's tables as a whole: made by `init`, kept small by `maintain`."""

import json
from collections.abc import Callable
from functools import partial

from ledger.answers.spark import merge_on_spark
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import LedgerUnavailableError
from ledger.facts.operations import GivenUp, LedgerRepaired
from ledger.mirror.spark import SessionFactory
from ledger.store import heads
from ledger.store.damage import Damage
from ledger.store.delta_tables import create_tables
from ledger.store.leaving import Leaving, Left
from ledger.store.ledger_copy import require_no_copy
from ledger.store.maintenance import Merging, TableUpkeep, Upkeep, maintain, table_upkeeps
from ledger.store.snapshots import open_ledger
from ledger.words import instant


def init_ledger(config: MirrorConfig) -> list[str]:
    """Create the ledger's tables; returns the names of those that were created now."""
    ledger = config.ledger
    return create_tables(ledger.path, now_ms=SystemClock().now_ms(), keep_hours=ledger.keep_superseded_hours)


def maintain_ledger(
    config: MirrorConfig, *, dry_run: bool, session: SessionFactory | None = None
) -> tuple[list[Upkeep], list[LedgerUnavailableError]]:
    """Merge, and remove what is superseded, table by table; in a dry run only say what would be done.

    With a session its workers write the merged files. Returns what was done, and why tables were left out.
    """
    open_ledger(config.ledger.path)
    require_no_copy(config.ledger.path)
    merging: Merging = TableUpkeep.merge
    if session is not None and not dry_run:
        merging = partial(merge_on_spark, session().sparkContext)
    done: list[Upkeep] = []
    failed: list[LedgerUnavailableError] = []
    for upkeep in table_upkeeps(config.ledger):
        try:
            done.append(upkeep.planned() if dry_run else maintain(upkeep, merging=merging))
        except LedgerUnavailableError as error:
            failed.append(error)
    return done, failed


def anchor_heads(config: MirrorConfig) -> str | None:
    """Write the heads of the ledger's links down at its anchor; returns the file, None: it has no anchor.

    Raises `UnsafeError` where the anchor has an append that the ledger lacks.
    """
    if config.evidence.anchor is None:
        return None
    return heads.anchor_heads(config.ledger.path, config.evidence.anchor, now_ms=SystemClock().now_ms())


def leave_facts(context: Context, *, dry_run: bool, progress: Callable[[str], None]) -> list[Left]:
    """Let facts leave the ledger that are older than it is to keep them; returns what left.

    In a dry run it is only said."""
    ledger, now_ms = context.config.ledger, context.clock.now_ms()
    if ledger.keep_facts_days is None or ledger.archive is None:
        return []
    require_no_copy(ledger.path)
    leaving = Leaving(ledger.path, ledger.archive, table_upkeeps(ledger), context.operations)
    if dry_run:
        if (until_ms := leaving.due(keep_days=ledger.keep_facts_days, now_ms=now_ms)) is not None:
            progress(f"facts from before {instant(until_ms)} would leave the ledger into {ledger.archive}")
        return []
    return leaving.leave(keep_days=ledger.keep_facts_days, now_ms=now_ms, why=context.why, progress=progress)


def rebuild_projections(config: MirrorConfig) -> list[str]:
    """Make what answers read instead of whole tables from the facts again; returns of which tables."""
    open_ledger(config.ledger.path)
    require_no_copy(config.ledger.path)
    return [upkeep.table for upkeep in table_upkeeps(config.ledger) if upkeep.rebuild()]


def damages(config: MirrorConfig) -> list[Damage]:
    """What is damaged of the ledger; every file of it is read."""
    return [one for upkeep in table_upkeeps(config.ledger) for one in upkeep.damages()]


def repair_ledger(context: Context) -> list[Damage]:
    """Continue without what is damaged; returns what that was, and records it, for each table in an operation."""
    require_no_copy(context.config.ledger.path)
    repaired: dict[str, list[Damage]] = {}
    try:
        for upkeep in table_upkeeps(context.config.ledger):
            if found := upkeep.repair():
                repaired[upkeep.table] = found
    finally:
        for table, found in repaired.items():
            content = LedgerRepaired(table, [_given_up(one) for one in found])
            context.record(content)
    return [one for found in repaired.values() for one in found]


def _given_up(damage: Damage) -> GivenUp:
    file = str(damage.file.relative_to(damage.file.parents[0 if damage.rows is not None else 1]))
    statistics = None if damage.rows is None else damage.rows.get("stats")
    return GivenUp(file, damage.words, json.loads(statistics) if statistics else None)
