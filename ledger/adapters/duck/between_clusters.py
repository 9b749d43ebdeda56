"""Where groups of one cluster continue at another: their commits, one offset, and the offsets of a time."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from ledger import catalog
from ledger.adapters.arrow_schema import arrow_rows
from ledger.adapters.duck.engine import Relation, Snapshot, answer, connect, run_query
from ledger.adapters.duck.views import Clusters, sql_file
from ledger.schema import TABLE_BY_NAME

_GRAIN = ("group_id", "source_topic", "source_partition", "target_topic", "target_partition")
_READ_FOR_A_TIME = ("compared_offsets", "unread_pieces")
"""The views that `time_offsets.sql` and `at_time.sql` read beside those of the query."""
_OF_A_TIME = ("time_offset", "skipped", "repeated_by_time")


def translate(
    snapshot: Snapshot,
    clusters: Clusters,
    *,
    at_ms: int | None = None,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """The answer of `group_translation`; with a time, beside it what each group would skip and repeat by it.

    `overrides` stand in for tables of the snapshot.
    """
    exact = catalog.query("group_translation")
    params = {"from_cluster": clusters[0], "to_cluster": clusters[1]}
    if at_ms is None:
        return run_query(exact, params, snapshot, overrides)
    reads = (*exact.reads, *_READ_FOR_A_TIME)
    with connect(snapshot, overrides, reads, clusters=clusters, at_ms=at_ms) as connection:
        found = answer(connection, exact, params)
        return _beside(found, connection.sql(sql_file("at_time.sql")).to_arrow_table())


def _beside(found: pa.Table, of_time: pa.Table) -> pa.Table:
    """Each row with what would become of its group at the offset of a time; null where there is no answer."""
    by_place = {_place(row): row for row in of_time.to_pylist()}
    rows: Sequence[Mapping[str, object]] = [by_place.get(_place(row), {}) for row in found.to_pylist()]
    for name in _OF_A_TIME:
        found = found.append_column(name, pa.array([row.get(name) for row in rows], pa.int64()))
    return found


def _place(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _GRAIN)


def one_commit(snapshot: Snapshot, cluster: str, *, topic: str, partition: int, offset: int) -> pa.Table:
    """Rows of `checkpoints` for an offset of the topic as it is now, whoever may have committed it.

    None where there is no such topic. It counts as committed now, with the last leader epoch recorded of the log.
    """
    with connect(snapshot, {}, ("current_topics", "offset_syncs")) as connection:
        found = connection.execute(
            "select t.topic_id, max(o.source_leader_epoch), coalesce(max(o.recorded_at_ms), 0) "
            "from current_topics as t left join offset_syncs as o on o.source_topic_id = t.topic_id "
            "where t.cluster = $cluster and t.topic = $topic group by t.topic_id",
            {"cluster": cluster, "topic": topic},
        ).fetchall()
    rows = [
        {
            **dict.fromkeys(TABLE_BY_NAME["checkpoints"].column_names),
            "writer_epoch": 0,
            "round": number,
            "cluster": cluster,
            "topic": topic,
            "topic_id": topic_id,
            "partition": partition,
            "committed_offset": committed,
            "leader_epoch": leader_epoch,
            "read_at_ms": recorded_at_ms,
        }
        for topic_id, leader_epoch, recorded_at_ms in found
        for number, committed in enumerate((None, offset))  # so it was made after it was absent
    ]
    return arrow_rows(TABLE_BY_NAME["checkpoints"], rows)


def clusters(snapshot: Snapshot) -> frozenset[str]:
    """Aliases of all clusters that flows were ever claimed for."""
    with connect(snapshot, {}, ("last_claims",)) as connection:
        found = connection.execute(
            "select source_cluster from last_claims union select target_cluster from last_claims"
        ).fetchall()
    return frozenset(cluster for (cluster,) in found)
