"""Where groups continue at another cluster, by all flows that the ledger knows of between the two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck import between_clusters
from ledger.adapters.duck.engine import Relation
from ledger.adapters.duck.outputs import commits_up_to, outputs_copied
from ledger.app.group_offsets import ALL, Chosen, chosen_rows, required_rows
from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UsageError
from ledger.operations.groups.beside_outputs import NO_OUTPUTS, OutputsOfGroups, beside_outputs
from ledger.operations.groups.outcomes import Row


@dataclass(frozen=True, slots=True)
class Way:
    """From which cluster to which one groups move, by alias."""

    from_cluster: str
    to_cluster: str

    def __str__(self) -> str:
        return f"from {self.from_cluster} to {self.to_cluster}"


def require_way(config: MirrorConfig, at: DeltaSnapshot, way: Way) -> None:
    """Refuse clusters that nobody knows, or of which nothing was recorded: an empty answer would seem fine."""
    recorded = between_clusters.clusters(at)
    known = {*config.clusters, *recorded}
    for alias in (way.from_cluster, way.to_cluster):
        if alias not in known:
            raise UsageError(
                f"no cluster {alias!r}; known: {', '.join(sorted(known))}; nothing was translated"
            )
    if way.from_cluster == way.to_cluster:
        raise UsageError(f"{way}: they are one cluster; nothing was translated")
    if missing := sorted({way.from_cluster, way.to_cluster} - recorded):
        raise PreconditionError(
            f"no flow from or to {' or '.join(missing)} has ever run as of cut {at.cut.token}; "
            "there is nothing to answer from"
        )


def translate_groups(
    at: DeltaSnapshot,
    way: Way,
    chosen: Chosen = ALL,
    *,
    at_ms: int | None = None,
    outputs: OutputsOfGroups = NO_OUTPUTS,
) -> pa.Table:
    """Where groups continue, partitions without a commit among them; `at_ms`: beside it, at the offset of a time.

    With `outputs` those groups continue where what they have written was copied (`beside_outputs`, its columns).
    Raises `PreconditionError` when one of the groups, or all that was chosen, has no commit.
    """
    found = between_clusters.translate(at, (way.from_cluster, way.to_cluster), at_ms=at_ms)
    if outputs:
        found = _beside_outputs(at, way, found, outputs, at_ms=at_ms)
    for group in chosen.groups:
        required_rows(found, Chosen((group,)), way.from_cluster)
    return required_rows(found, chosen, way.from_cluster)


def _beside_outputs(
    at: DeltaSnapshot, way: Way, found: pa.Table, outputs: OutputsOfGroups, *, at_ms: int | None
) -> pa.Table:
    rows = answers_beside_outputs(at, way, found.to_pylist(), outputs, at_ms=at_ms)
    columns = [("outputs", pa.string()), ("last_committed_offset", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*found.schema, *columns]))


def answers_beside_outputs(
    at: DeltaSnapshot,
    way: Way,
    answers: Sequence[Row],
    outputs: OutputsOfGroups,
    *,
    at_ms: int | None = None,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> list[dict[str, object]]:
    """What `beside_outputs` makes of answers between clusters; `overrides` stand in for tables of the snapshot."""
    commits = commits_beside_outputs(at, way, outputs, overrides)
    clusters = (way.from_cluster, way.to_cluster)
    shown = {"checkpoints": commits}
    earlier = (
        between_clusters.translate(at, clusters, at_ms=at_ms, overrides=shown) if commits.num_rows else None
    )
    return beside_outputs(answers, [] if earlier is None else earlier.to_pylist(), outputs)


def commits_beside_outputs(
    at: DeltaSnapshot,
    way: Way,
    outputs: OutputsOfGroups,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """Rows of `checkpoints` of the groups, up to when all that they had written was copied.

    None of a group of which no such time is known. `overrides` stand in for tables of the snapshot.
    """
    known = {group: order for group, order in copied_up_to(at, way, outputs).items() if order is not None}
    return commits_up_to(at, way.from_cluster, known, overrides)


def copied_up_to(at: DeltaSnapshot, way: Way, outputs: OutputsOfGroups) -> dict[str, int | None]:
    """By group the last reading where it runs by which all that it had written was copied, as `outputs_copied`."""
    clusters = (way.from_cluster, way.to_cluster)
    copied = {topics: outputs_copied(at, clusters, topics) for topics in {*map(tuple, outputs.values())}}
    return {group: copied[tuple(topics)] for group, topics in outputs.items()}


def translate_offset(
    at: DeltaSnapshot, way: Way, chosen: Chosen, offset: int, *, at_ms: int | None = None
) -> pa.Table:
    """Where a group continues that has read all below an offset of the chosen partition there, whoever that is.

    Raises `UsageError` for a choice that is no partition, an offset that there cannot be, and a topic that the cluster
    is not known to have.
    """
    topic, partition = chosen.topic, chosen.partition
    if topic is None or partition is None or chosen.groups:
        raise UsageError("one offset is that of a topic and a partition, of no group; nothing was translated")
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63):
        raise UsageError(f"no partition {partition} with offset {offset}; nothing was translated")
    commit = between_clusters.one_commit(
        at, way.from_cluster, topic=topic, partition=partition, offset=offset
    )
    if commit.num_rows == 0:
        raise UsageError(
            f"nothing is known of a topic {topic!r} at {way.from_cluster} that is there by now; nothing was translated"
        )
    found = between_clusters.translate(
        at, (way.from_cluster, way.to_cluster), at_ms=at_ms, overrides={"checkpoints": commit}
    )
    found = chosen_rows(found, chosen)
    return found.filter(pc.is_null(found["group_id"]))
