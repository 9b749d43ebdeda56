"""Commits of groups that write what they read, as they stood when all that had been written was copied."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from ledger.adapters.duck.engine import Relation, Snapshot, connect
from ledger.adapters.duck.views import Clusters, sql_file
from ledger.domain.tables.places import ROUNDS_PER_EPOCH

_READ = (
    "current_topics",
    "covered_ends",
    "gaps",
    "last_claims",
    "recorder_signs",
    "high_watermarks",
    "topics",
)


def outputs_copied(snapshot: Snapshot, clusters: Clusters, outputs: Collection[str]) -> int | None:
    """The last reading of the first cluster by which all that these topics of it held is at the second one.

    As its place in the order of the recorder (epoch times `ROUNDS_PER_EPOCH`, and round). Commits that were recorded up
    to there stand for nothing that was not copied: a recorder reads commits before ends. None: nobody knows of one.
    """
    with connect(snapshot, {}, _READ) as connection:
        (found,) = connection.execute(
            sql_file("outputs_copied.sql"),
            {"from_cluster": clusters[0], "to_cluster": clusters[1], "outputs": list(outputs)},
        ).fetchall()
    order: int | None = found[0]
    return order


def commits_up_to(
    snapshot: Snapshot,
    cluster: str,
    last: Mapping[str, int],
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """Rows of `checkpoints` of the groups that `last` names; of those at the cluster the ones up to that reading.

    `overrides` stand in for tables of the snapshot.
    """
    groups: Sequence[str] = sorted(last)
    bounds = pa.table(
        {
            "group_id": pa.array(groups, pa.string()),
            "last_order": pa.array([last[group] for group in groups], pa.int64()),
        }
    )
    with connect(snapshot, overrides, ("checkpoints",)) as connection:
        connection.register("bounds", bounds)
        return connection.sql(
            "select c.* from checkpoints as c inner join bounds as b using (group_id) "
            f"where c.cluster <> $cluster or c.writer_epoch * {ROUNDS_PER_EPOCH} + c.round <= b.last_order",
            params={"cluster": cluster},
        ).to_arrow_table()
