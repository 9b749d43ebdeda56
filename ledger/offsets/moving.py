"""Groups whose commits at a cluster have moved lately, as the ledger has them: they are at work there."""

from collections.abc import Collection, Iterable, Mapping

from ledger.facts.group_offsets import OffsetsSet
from ledger.facts.operations import OperationKind
from ledger.facts.tables import CHECKPOINTS, GROUP_SYNCS, OPERATIONS, Row
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
    committed: dict[Place, set[int]] = {}
    for row in at.rows(GROUP_SYNCS.name, [("target_cluster", "=", cluster)]):
        place = row["group_id"], row["target_topic"], row["target_partition"]
        committed.setdefault(place, set()).add(row["target_offset"])
    for row in at.rows(OPERATIONS.name, [("kind", "=", OperationKind.OFFSETS_SET)]):
        intended = OffsetsSet.of_row(row)
        if intended.target_cluster == cluster:
            for one in intended.commits:
                committed.setdefault((intended.group, one.topic, one.partition), set()).add(one.to)
    return moving(rows, topics, committed)


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
