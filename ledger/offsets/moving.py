"""Groups whose commits at a cluster have moved lately, as the ledger has them: they are at work there."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ledger.facts.group_offsets import OffsetsSet
from ledger.facts.operations import OperationKind
from ledger.facts.tables import CHECKPOINTS, GROUP_SYNCS, OPERATIONS, Row
from ledger.facts.ways import Direction
from ledger.store import narrowed, sql
from ledger.store.snapshots import DeltaSnapshot

LATELY_MS = 600_000
"""For how long a commit that moved says that its group is at work."""
Place = tuple[str, str, int]
"""A group, a topic and a partition."""


def moving_groups(at: DeltaSnapshot, cluster: str, topics: Collection[str], since_ms: int) -> frozenset[str]:
    """Groups with a commit on one of these topics of a cluster that was read at two offsets since then.

    What a flow or an operator has committed there for a group is no work of the group.
    """
    rows = at.rows(CHECKPOINTS.name, [("cluster", "=", cluster), ("read_at_ms", ">=", since_ms)])
    if not rows:
        return frozenset()
    return moving(rows, topics, committed_for_groups(at, cluster))


def committed_for_groups(at: DeltaSnapshot, cluster: str) -> dict[Place, set[int]]:
    """What flows and operators have committed at places of a cluster, or were about to."""
    committed = offsets_set_at(at, cluster)
    for row in at.rows(GROUP_SYNCS.name, [("target_cluster", "=", cluster)]):
        place = row["group_id"], row["target_topic"], row["target_partition"]
        committed.setdefault(place, set()).add(row["target_offset"])
    return committed


def offsets_set_at(at: DeltaSnapshot, cluster: str) -> dict[Place, set[int]]:
    """The same of operators alone."""
    found: dict[Place, set[int]] = {}
    for row in at.rows(OPERATIONS.name, [("kind", "=", OperationKind.OFFSETS_SET)]):
        intended = OffsetsSet.of_row(row)
        if intended.target_cluster == cluster:
            for one in intended.commits:
                found.setdefault((intended.group, one.topic, one.partition), set()).add(one.to)
    return found


def groups_at_own_commits(
    at: DeltaSnapshot, way: Direction, selects: Callable[[str, str], str | None]
) -> list[str]:
    """Groups with commits at both clusters of which one at the target is nobody's but the group's.

    `selects`: by group and topic of the source its name at the target, None: the flow does not sync it.
    """
    wanted = {
        (group, target, partition)
        for group, topic, partition, _ in _commits(at, way.source)
        if (target := selects(group, topic)) is not None
    }
    if not wanted:
        return []
    committed = committed_for_groups(at, way.target)
    return sorted(
        {
            group
            for group, topic, partition, offset in _commits(at, way.target)
            if (place := (group, topic, partition)) in wanted and offset not in committed.get(place, ())
        }
    )


def _commits(at: DeltaSnapshot, cluster: str) -> Iterator[tuple[str, str, int, int]]:
    """Groups of a cluster, the topics and partitions that they have commits on, and these."""
    for row in sql.cluster_commits(at, cluster, narrowed.summed(at, sql.READ_FOR_COMMITS)).to_pylist():
        if row["committed_offset"] is not None and row["absence"] is None:
            yield row["group_id"], row["topic"], row["partition"], row["committed_offset"]


def moving(
    rows: Iterable[Row], topics: Collection[str], committed: Mapping[Place, Collection[int]]
) -> frozenset[str]:
    """By rows of `checkpoints`; `committed`: what others than the group have committed at a place."""
    seen: dict[Place, set[int]] = {}
    for row in rows:
        place = row["group_id"], row["topic"], row["partition"]
        offset = row["committed_offset"]
        if row["topic"] in topics and offset is not None and offset not in committed.get(place, ()):
            seen.setdefault(place, set()).add(offset)
    return frozenset(group for (group, _, _), offsets in seen.items() if len(offsets) > 1)
