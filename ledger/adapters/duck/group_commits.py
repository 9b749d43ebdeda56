"""Of the ledger's commits those of some groups, and what moves have left."""

from collections.abc import Collection

import pyarrow as pa

from ledger.adapters.duck.engine import Snapshot, connect
from ledger.domain.group_syncs import Place


def commits_of_groups(snapshot: Snapshot, groups: Collection[str]) -> pa.Table:
    """Rows of `checkpoints` of these groups, at all clusters: what is asked about them alone costs as much."""
    with connect(snapshot, {}, ("checkpoints",)) as connection:
        return connection.execute(
            "select * from checkpoints where group_id in (select unnest($groups))", {"groups": list(groups)}
        ).to_arrow_table()


def left_offsets(snapshot: Snapshot, cluster: str, groups: Collection[str]) -> dict[Place, int]:
    """By group, topic and partition of a cluster the commit from which its last recorded move away took the group.

    What a driver synced is no such move: the group stayed where it was.
    """
    with connect(snapshot, {}, ("group_moves",)) as connection:
        found = connection.execute(
            "select group_id, from_topic, from_partition, left_offset from group_moves "
            "where from_cluster = $cluster and kind <> 'group_synced' and left_offset is not null "
            "and group_id in (select unnest($groups)) order by moved_at_ms",
            {"cluster": cluster, "groups": list(groups)},
        ).fetchall()
    return {(group, topic, partition): left for group, topic, partition, left in found}
