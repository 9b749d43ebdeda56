"""Of the ledger's commits those of some groups, and what moves have left."""

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from ledger.adapters.duck.engine import Snapshot, connect
from ledger.adapters.duck.views import sql_file
from ledger.domain.group_syncs import Place


def commits_of_groups(snapshot: Snapshot, groups: Collection[str]) -> pa.Table:
    """Rows of `checkpoints` of these groups, at all clusters: what is asked about them alone costs as much."""
    with connect(snapshot, {}, ("checkpoints",)) as connection:
        return connection.sql(
            "select * from checkpoints where group_id in (select unnest($groups))",
            params={"groups": list(groups)},
        ).to_arrow_table()


def commit_intervals(snapshot: Snapshot, cluster: str) -> dict[str, float]:
    """By group of a cluster the seconds between its commits, of the last hour in which it made some: half took longer.

    As recorders saw them, so none is shorter than their own interval. None of a group that seldom commits.
    """
    with connect(snapshot, {}, ("checkpoints",)) as connection:
        found = connection.execute(sql_file("commit_intervals.sql"), {"cluster": cluster}).fetchall()
    return {group: interval_ms / 1000 for group, interval_ms in found}


def left_offsets(snapshot: Snapshot, cluster: str, groups: Collection[str]) -> dict[Place, int]:
    """By group, topic and partition of a cluster the commit from which its last recorded move away took the group.

    What a driver synced is no such move: the group stayed where it was.
    """
    with connect(snapshot, {}, ("group_moves",)) as connection:
        found = connection.execute(
            "select group_id, from_topic, from_partition, left_offset from group_moves "
            "where from_cluster = $cluster and kind <> 'group_synced' and left_offset is not null "
            "and group_id in (select unnest($groups)) order by move_order",
            {"cluster": cluster, "groups": list(groups)},
        ).fetchall()
    return {(group, topic, partition): left for group, topic, partition, left in found}


def last_group_syncs(snapshot: Snapshot, cluster: str, flow: str | None = None) -> list[dict[str, Any]]:
    """Rows of `group_syncs` at a cluster, in order: of each flow and place the last one read back, and those behind it.

    Of one flow alone where it is given.
    """
    with connect(snapshot, {}, ("group_syncs",)) as connection:
        found = connection.sql(
            sql_file("last_group_syncs.sql"), params={"cluster": cluster, "flow": flow}
        ).to_arrow_table()
    return list(found.to_pylist())
