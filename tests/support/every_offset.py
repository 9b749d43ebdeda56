"""Commits at every offset of some partitions, to translate all of them by one query."""

from collections.abc import Mapping

import pyarrow as pa

from ledger.facts.tables import TABLE_BY_NAME
from ledger.sandbox.reading import Partition
from ledger.store import catalog, sql
from ledger.store.delta_tables import arrow_schema
from tests.support.runs import FLOW

BEYOND = 3
"""How many offsets past the end there are commits at, the end itself counted."""


def topic_ids(at: sql.Snapshot) -> dict[str, str]:
    status = sql.run_query(catalog.query("flow_status"), {"flow": FLOW}, at)
    return dict(zip(*(status[name].to_pylist() for name in ("source_topic", "source_topic_id")), strict=True))


def every_offset(source_ends: Mapping[Partition, int], ids: Mapping[str, str]) -> pa.Table:
    """`checkpoints` in which a group of its own has committed each offset."""
    rows = [
        {
            "writer": "recorder:east",
            "writer_epoch": 1,
            "round": 1,
            "recorded_at_ms": 1,
            "cluster": "east",
            "group_id": f"at-{offset}",
            "topic": topic,
            "topic_id": ids[topic],
            "partition": partition,
            "committed_offset": offset,
            "read_at_ms": 1,
        }
        for (topic, partition), end in source_ends.items()
        for offset in range(end + BEYOND)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_BY_NAME["checkpoints"]))
