"""What the ledger of a test says."""

import json
from typing import Any

from deltalake import DeltaTable

from ledger.config.mirror import MirrorConfig
from ledger.store import answers, catalog, sql
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.runs import FLOW

Row = dict[str, Any]


def rows(config: MirrorConfig, table: str) -> list[Row]:
    """All rows of a table, in the order of recording."""
    found = DeltaTable(f"{config.ledger.path}/{table}").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["recorded_at_ms"])


def query(config: MirrorConfig, name: str, **params: str) -> list[Row]:
    """The answer of a catalogued query, now."""
    found: list[Row] = answers.run_query(answers.snapshot(config, None), name, params).to_pylist()
    return found


def broken_invariants(config: MirrorConfig) -> dict[str, list[Row]]:
    """Rows that audits return, by audit; `{}` when all of them find nothing."""
    at = answers.snapshot(config, None)
    audits = [found for found in catalog.queries().values() if found.is_audit]
    assert len(audits) >= 6
    found = sql.run_queries(audits, {}, at)
    return {name: offending.to_pylist() for name, offending in found.items() if offending.num_rows}


def operations(config: MirrorConfig, kind: str) -> list[Row]:
    """Contents of the operations of a kind, in the order of recording."""
    return [json.loads(row["content"]) for row in rows(config, "operations") if row["kind"] == kind]


def open_findings(config: MirrorConfig, flow: str = FLOW) -> set[tuple[str, str | None]]:
    """Names and topics of the findings that were raised and not cleared."""
    found = DeltaLedgerState(open_ledger(config.ledger.path)).open_findings(flow)
    return {(name, topic) for name, topic, _ in found}


def gaps(config: MirrorConfig, flow: str) -> dict[str, int]:
    """Source offsets without a copied record, by cause."""
    with sql.connect(answers.snapshot(config, None), {}, ("gaps",)) as connection:
        found = connection.execute(
            "select cause, sum(source_end - source_start)::bigint from gaps where flow = ? group by cause",
            [flow],
        ).fetchall()
    return dict(found)


def driver_events(config: MirrorConfig, flow: str = FLOW) -> list[tuple[int, str]]:
    """Epochs and events of a flow's drivers, in the order of recording."""
    own = [row for row in rows(config, "writers") if row["writer"] == f"flow:{flow}"]
    return [(row["writer_epoch"], row["event"]) for row in own]


def configuration_changes(config: MirrorConfig) -> list[list[str] | None]:
    """The keys of each recorded change of a configuration; None for the first one."""
    return [content["changed"] for content in operations(config, "configuration_changed")]
