"""Where groups continue at another cluster, by all flows that the ledger knows of between the two."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UsageError
from ledger.facts.groups import SHARE, Place
from ledger.facts.tables import CHECKPOINTS, ROUNDS_PER_EPOCH, SHARE_OFFSETS, TABLE_BY_NAME, TOPICS, Filter
from ledger.facts.ways import Direction
from ledger.offsets.setting import (
    NO_OUTPUTS,
    OTHER_GROUPS,
    UNREAD_ADVICE,
    Answer,
    OutputsOfGroups,
    SourceCommit,
    answer_key,
    beside_outputs,
)
from ledger.store import answers, catalog, narrowed, sql
from ledger.store.catalog import Value, query
from ledger.store.delta_tables import arrow_rows
from ledger.store.relations import arrow_rows as passing
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.sql import Clusters, Relation, Snapshot, answer, connect, selected, sql_file

# Asked --------------------------------------------------------------------------------------------
# From where to where groups continue, and which of them are asked about.


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which answers are asked for: of these groups (none named: all), of a topic, of a partition of it; and of what a
    flow copies alone (None: of all that flows carry between the clusters)."""

    groups: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    flow: str | None = None

    def __str__(self) -> str:
        of_groups = [f"group {group!r}" for group in self.groups]
        of_topic = [] if self.topic is None else [f"topic {self.topic!r}"]
        of_partition = [] if self.partition is None else [f"partition {self.partition}"]
        return ", ".join([*of_groups, *of_topic, *of_partition])

    @property
    def is_all(self) -> bool:
        """Whether neither a group nor a topic is named."""
        return replace(self, flow=None) == ALL


ALL = Chosen()


def chosen_rows(found: pa.Table, chosen: Chosen) -> pa.Table:
    """Of the rows of a translation those of the groups, the topic and the partition that are asked for."""
    filters: list[Filter] = []
    if chosen.groups:
        filters.append(("group_id", "in", chosen.groups))
    if chosen.topic is not None:
        filters.append(("source_topic", "=", chosen.topic))
    if chosen.partition is not None:
        filters.append(("source_partition", "=", chosen.partition))
    return passing(found, filters) if filters else found


def required_rows(found: pa.Table, chosen: Chosen, where: str) -> pa.Table:
    """The same; raises `PreconditionError` when there is none of what was chosen. `where`: the groups' cluster."""
    rows = chosen_rows(found, chosen)
    if rows.num_rows == 0 and not chosen.is_all:
        raise _nothing_committed(chosen, where)
    return rows


def _nothing_committed(chosen: Chosen, where: str) -> PreconditionError:
    return PreconditionError(
        f"the ledger has no committed offset of {chosen} at {where}; nothing was translated"
    )


def asked_way(
    config: MirrorConfig,
    at: DeltaSnapshot,
    from_cluster: str | None,
    to_cluster: str | None,
    flow: str | None,
) -> Direction:
    """From where to where it is asked: between two clusters, or, where none is named, as the flow copies.

    Raises `UsageError` where neither is said, or the flow copies between others, and for what the ledger does not know;
    `PreconditionError` where there is nothing to answer from.
    """
    if flow is not None:
        if flow not in config.flows:
            answers.require_flow(config, at, flow)
        copies = _direction_of(config, at, flow)
        asked = Direction(from_cluster or copies.source, to_cluster or copies.target)
        if asked != copies:
            raise UsageError(f"{flow} copies {copies}, not {asked}; nothing was translated")
        answers.require_flow(config, at, flow)
        return copies
    if from_cluster is None or to_cluster is None:
        raise UsageError(f"{NAME_CLUSTERS}; nothing was translated")
    way = Direction(from_cluster, to_cluster)
    require_direction(config, at, way)
    return way


NAME_CLUSTERS = "name the clusters (--from and --to), or a flow between them (--flow)"


def _direction_of(config: MirrorConfig, at: DeltaSnapshot, flow: str) -> Direction:
    if (known := config.flows.get(flow)) is not None:
        return Direction(known.source, known.target)
    with connect(at, {}, ("last_claims",)) as connection:
        [found] = connection.execute(
            "select source_cluster, target_cluster from last_claims where flow = $flow", {"flow": flow}
        ).fetchall()
    return Direction(*found)


def require_known(at: DeltaSnapshot, cluster: str, topic: str, partition: int | None) -> None:
    """Raise `UsageError` for a topic, or a partition of it, that the ledger does not know a cluster to have had."""
    known: dict[str, set[int]] = {}
    for name, number in sql.partitions(at, cluster, narrowed.summed(at, sql.READ_FOR_PARTITIONS)):
        known.setdefault(name, set()).add(number)
    for row in at.rows(TOPICS.name, [("cluster", "=", cluster)]):
        known.setdefault(row["topic"], set()).update(range(row["partitions"]))
    if topic not in known:
        raise UsageError(
            f"the ledger knows no topic {topic!r} at {cluster}; it knows {_listed(sorted(known))}; "
            "nothing was translated"
        )
    if partition is not None and partition not in known[topic]:
        raise UsageError(
            f"topic {topic} at {cluster} has no partition {partition} as far as the ledger knows; it has "
            f"{_listed(list(map(str, sorted(known[topic]))))}; nothing was translated"
        )


_SHOWN = 20


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


# Between clusters ---------------------------------------------------------------------------------
# Where groups of one cluster continue at another: their commits, one offset, and the offsets of a time.


_READ_FOR_A_TIME = ("class_reads", "compared_offsets", "place_counts", "range_reads")
"""The views that `time_offsets.sql` and `at_time.sql` read beside those of the query."""
_OF_A_TIME = ("time_offset", "skipped", "repeated_by_time")


def translate(
    snapshot: Snapshot,
    clusters: Clusters,
    *,
    flow: str | None = None,
    at_ms: int | None = None,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """The answer of `offset_translation`; with a time, beside it what each group would skip and repeat by it.

    With a flow that of what it copies. `overrides` stand in for tables of the snapshot.
    """
    exact = catalog.query("offset_translation")
    params: dict[str, Value] = {"from_cluster": clusters[0], "to_cluster": clusters[1], "flow": flow}
    if at_ms is None:
        return narrowed.run_query(exact, params, snapshot, overrides)
    reads = (*exact.reads, *_READ_FOR_A_TIME)
    with connect(snapshot, overrides, reads, clusters=clusters, at_ms=at_ms) as connection:
        found = answer(connection, exact, params)
        return _beside(found, selected(connection, sql_file("at_time.sql")))


def _beside(found: pa.Table, of_time: pa.Table) -> pa.Table:
    """Each row with what would become of its group at the offset of a time; null where there is no answer."""
    by_place = {answer_key(row): row for row in of_time.to_pylist()}
    rows: Sequence[Mapping[str, object]] = [by_place.get(answer_key(row), {}) for row in found.to_pylist()]
    for name in _OF_A_TIME:
        found = found.append_column(name, pa.array([row.get(name) for row in rows], pa.int64()))
    return found


def one_commit(snapshot: Snapshot, cluster: str, *, topic: str, partition: int, offset: int) -> pa.Table:
    """Rows of `checkpoints` for an offset of the topic as it is now, whoever may have committed it.

    None where there is no such topic. It counts as committed now, with the last leader epoch recorded of the log.
    """
    reads = ("current_topics", "offset_syncs")
    with connect(snapshot, narrowed.summed(snapshot, reads), reads) as connection:
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
    if not isinstance(snapshot, DeltaSnapshot):
        return _clusters(snapshot)
    if snapshot not in _known:
        _known[snapshot] = _clusters(snapshot)
    return _known[snapshot]


_known: WeakKeyDictionary[DeltaSnapshot, frozenset[str]] = WeakKeyDictionary()
"""A command asks for them several times, and the rows of a snapshot stay what they are."""


def _clusters(snapshot: Snapshot) -> frozenset[str]:
    with connect(snapshot, {}, ("last_claims",)) as connection:
        found = connection.execute(
            "select source_cluster from last_claims union select target_cluster from last_claims"
        ).fetchall()
    return frozenset(cluster for (cluster,) in found)


# Outputs ------------------------------------------------------------------------------------------
# Commits of groups that write what they read, as they stood when all that had been written was copied.


_READ = (
    "current_topics",
    "causes",
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
        return selected(
            connection,
            "select c.* from checkpoints as c inner join bounds as b using (group_id) "
            f"where c.cluster <> $cluster or c.writer_epoch * {ROUNDS_PER_EPOCH} + c.round <= b.last_order",
            {"cluster": cluster},
        )


# Between clusters ---------------------------------------------------------------------------------


def require_direction(config: MirrorConfig, at: DeltaSnapshot, way: Direction) -> None:
    """Refuse clusters that nobody knows, or of which nothing was recorded: an empty answer would seem fine."""
    recorded = clusters(at)
    known = {*config.clusters, *recorded}
    for alias in (way.source, way.target):
        if alias not in known:
            raise UsageError(
                f"no cluster {alias!r}; known: {', '.join(sorted(known))}; nothing was translated"
            )
    if way.source == way.target:
        raise UsageError(f"{way}: they are one cluster; nothing was translated")
    if missing := sorted({way.source, way.target} - recorded):
        raise PreconditionError(
            f"no flow from or to {' or '.join(missing)} has ever run as of cut {at.cut.token}; "
            "there is nothing to answer from"
        )


def translate_groups(
    at: DeltaSnapshot,
    way: Direction,
    chosen: Chosen = ALL,
    *,
    at_ms: int | None = None,
    outputs: OutputsOfGroups = NO_OUTPUTS,
) -> pa.Table:
    """Where groups continue, partitions without a commit among them; `at_ms`: beside it, at the offset of a time.

    With `outputs` those groups continue where what they have written was copied (`beside_outputs`, its columns).
    Raises `UsageError` for a topic or partition that the ledger does not know there, and `PreconditionError` when one
    of the groups, or all that was chosen, has no commit.
    """
    shown = {CHECKPOINTS.name: commits_of_groups(at, chosen.groups)} if chosen.groups else {}
    found = translate(at, (way.source, way.target), flow=chosen.flow, at_ms=at_ms, overrides=shown)
    if outputs:
        found = _beside_outputs(at, way, chosen.flow, found, outputs, at_ms=at_ms)
    committed = set(found["group_id"].to_pylist()) if chosen.groups else set()
    for group in chosen.groups:
        if group not in committed:
            raise _nothing_committed(Chosen((group,)), way.source)
    if chosen.topic is not None:
        require_known(at, way.source, chosen.topic, chosen.partition)
    return required_rows(found, chosen, way.source)


def _beside_outputs(
    at: DeltaSnapshot,
    way: Direction,
    flow: str | None,
    found: pa.Table,
    outputs: OutputsOfGroups,
    *,
    at_ms: int | None,
) -> pa.Table:
    rows = answers_beside_outputs(at, way, found.to_pylist(), outputs, flow=flow, at_ms=at_ms)
    columns = [("outputs", pa.string()), ("last_committed_offset", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*found.schema, *columns]))


def answers_beside_outputs(
    at: DeltaSnapshot,
    way: Direction,
    answers: Sequence[Answer],
    outputs: OutputsOfGroups,
    *,
    flow: str | None = None,
    at_ms: int | None = None,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> list[dict[str, object]]:
    """What `beside_outputs` makes of answers between clusters; `overrides` stand in for tables of the snapshot."""
    commits = commits_beside_outputs(at, way, outputs, overrides)
    clusters = (way.source, way.target)
    shown = {"checkpoints": commits}
    earlier = translate(at, clusters, flow=flow, at_ms=at_ms, overrides=shown) if commits.num_rows else None
    return beside_outputs(answers, [] if earlier is None else earlier.to_pylist(), outputs)


def commits_beside_outputs(
    at: DeltaSnapshot,
    way: Direction,
    outputs: OutputsOfGroups,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """Rows of `checkpoints` of the groups, up to when all that they had written was copied.

    None of a group of which no such time is known. `overrides` stand in for tables of the snapshot.
    """
    known = {group: order for group, order in copied_up_to(at, way, outputs).items() if order is not None}
    return commits_up_to(at, way.source, known, overrides)


def copied_up_to(at: DeltaSnapshot, way: Direction, outputs: OutputsOfGroups) -> dict[str, int | None]:
    """By group the last reading where it runs by which all that it had written was copied, as `outputs_copied`."""
    clusters = (way.source, way.target)
    copied = {topics: outputs_copied(at, clusters, topics) for topics in {*map(tuple, outputs.values())}}
    return {group: copied[tuple(topics)] for group, topics in outputs.items()}


def translate_offset(
    at: DeltaSnapshot, way: Direction, chosen: Chosen, offset: int, *, at_ms: int | None = None
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
    require_known(at, way.source, topic, partition)
    commit = one_commit(at, way.source, topic=topic, partition=partition, offset=offset)
    if commit.num_rows == 0:
        raise UsageError(
            f"nothing is known of a topic {topic!r} at {way.source} that is there by now; nothing was translated"
        )
    shown = {"checkpoints": commit}
    found = translate(at, (way.source, way.target), flow=chosen.flow, at_ms=at_ms, overrides=shown)
    of_nobody = (row for row in chosen_rows(found, chosen).to_pylist() if row["group_id"] is None)
    return pa.Table.from_pylist(list(of_nobody), schema=found.schema)


# Group commits ------------------------------------------------------------------------------------
# Of the ledger's commits those of some groups, and what moves have left.


def commits_of_groups(snapshot: Snapshot, groups: Collection[str]) -> pa.Table:
    """Rows of `checkpoints` that tell where these groups stand, at all clusters.

    What is asked about these groups alone costs as much.
    """
    reads = (CHECKPOINTS.name,)
    with connect(snapshot, narrowed.summed(snapshot, reads), reads) as connection:
        return selected(
            connection,
            "select * from checkpoints where group_id in (select unnest($groups))",
            {"groups": list(groups)},
        )


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
        found = selected(connection, sql_file("last_group_syncs.sql"), {"cluster": cluster, "flow": flow})
    return list(found.to_pylist())


# Untranslated -------------------------------------------------------------------------------------
# Groups of which a translation of committed offsets says nothing, or nothing that is sure to be their last.


_UNTRANSLATED = ("share_group", "hidden", "unavailable")


def unread_groups_at(at: DeltaSnapshot, cluster: str, groups: tuple[str, ...] = ()) -> dict[str, str]:
    """By group why nobody knows where it stands, the groups that were not listed (`OTHER_GROUPS`) among them.

    Of groups that are named nothing is said of others.
    """
    found = narrowed.run_query(query("cluster_groups"), {"cluster": cluster}, at).to_pylist()
    return {
        OTHER_GROUPS if row["group_id"] is None else row["group_id"]: row["status"]
        for row in found
        if row["status"] in UNREAD_ADVICE and (not groups or row["group_id"] in groups)
    }


def untranslated_groups_at(at: DeltaSnapshot, cluster: str, groups: tuple[str, ...] = ()) -> pa.Table:
    """Rows of `cluster_groups`; none named: of all groups."""
    found = narrowed.run_query(query("cluster_groups"), {"cluster": cluster}, at)
    return chosen_rows(passing(found, [("status", "in", _UNTRANSLATED)]), Chosen(groups))


# Source commits -----------------------------------------------------------------------------------


def source_commits(last: pa.Table) -> dict[Place, SourceCommit]:
    """By group, topic and partition what is known of the last known commits at a cluster."""
    return {
        (row["group_id"], row["topic"], row["partition"]): SourceCommit(
            topic_id=row["topic_id"], leader_epoch=row["leader_epoch"], made_after_ms=row["made_after_ms"]
        )
        for row in last.to_pylist()
    }


# Share offsets ------------------------------------------------------------------------------------
# Share-partition start offsets as commits: who is done with all below one has read all below it.
#
# Nothing that a share group has acknowledged behind its start offset is known, so what is concluded from it
# may repeat records and never skips one.


def share_commits(snapshot: Snapshot) -> pa.Table:
    """Rows of `checkpoints`: one for each of `share_offsets`, but for partitions that a group has not begun."""
    with connect(snapshot, {}, (SHARE_OFFSETS.name,)) as connection:
        found = selected(
            connection, "select * from share_offsets where start_offset is not null or absence is not null"
        )
    return arrow_rows(CHECKPOINTS, [_commit(row) for row in found.to_pylist()])


def _commit(row: dict[str, object]) -> dict[str, object]:
    known = {name: row[name] for name in SHARE_OFFSETS.column_names if name in CHECKPOINTS.column_names}
    unknown = dict.fromkeys(CHECKPOINTS.column_names)
    return {**unknown, **known, "group_type": SHARE, "committed_offset": row["start_offset"]}
