"""Offsets of groups and of single commits: translated from the ledger, and set at the target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UsageError
from ledger.facts.groups import Place
from ledger.facts.roles import writer_of
from ledger.facts.tables import TOPICS, WRITERS
from ledger.kafka.cluster import require_recorded
from ledger.offsets.metadata import metadata_in_step
from ledger.offsets.setting import (
    Basis,
    Choice,
    Rules,
    Setting,
    SourceCommit,
    SourceCommits,
    TargetGroups,
    not_below_log_start,
    oddities,
    seen_at,
    set_and_record,
)
from ledger.roles import is_at_work
from ledger.store import narrowed, sql
from ledger.store.catalog import query
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.state import DeltaLedgerState

if TYPE_CHECKING:  # it brings the Kafka client, and translating needs none
    from ledger.context import Context

# Known partitions ---------------------------------------------------------------------------------
# Which source topics and partitions the ledger knows: what was mirrored, and what recorders saw at the
# source.


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """By topic name all partitions that any incarnation of the topic was seen to have."""

    by_topic: Mapping[str, frozenset[int]]

    @classmethod
    def of(
        cls, recorded: Iterable[tuple[str, int]], topic_rows: Iterable[Mapping[str, Any]]
    ) -> "KnownPartitions":
        """From what the flow recorded something about, and the rows of the table `topics` about its source."""
        found: dict[str, set[int]] = {}
        for topic, partition in recorded:
            found.setdefault(topic, set()).add(partition)
        for row in topic_rows:
            found.setdefault(row["topic"], set()).update(range(row["partitions"]))
        return cls({topic: frozenset(partitions) for topic, partitions in found.items()})

    def require(self, flow: str, topic: str, partition: int | None) -> None:
        """Raise `UsageError` for a topic, or a partition of it, that the ledger does not know."""
        known = self.by_topic.get(topic)
        if known is None:
            raise UsageError(
                f"the ledger knows no topic {topic!r} at the source of {flow}; it knows "
                f"{_listed(sorted(self.by_topic))}; nothing was translated"
            )
        if partition is not None and partition not in known:
            raise UsageError(
                f"topic {topic} at the source of {flow} has no partition {partition} as far as the ledger knows; it "
                f"has {_listed(list(map(str, sorted(known))))}; nothing was translated"
            )


_SHOWN = 20


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


# Group offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which answers are asked for: of these groups (none named: all), of a topic, of a partition of it."""

    groups: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        of_groups = [f"group {group!r}" for group in self.groups]
        of_topic = [] if self.topic is None else [f"topic {self.topic!r}"]
        of_partition = [] if self.partition is None else [f"partition {self.partition}"]
        return ", ".join([*of_groups, *of_topic, *of_partition])


ALL = Chosen()


def driver_lives(config: MirrorConfig, at: DeltaSnapshot, flow_name: str) -> bool:
    """Whether a driver may have copied what this cut of the newest ledger does not have; unknown is no.

    One is known to be at work, or has recorded something since.
    """
    if flow_name not in config.flows:
        return False
    writer = writer_of(flow_name)
    claim = DeltaLedgerState(open_ledger(config.ledger.path)).last_claim(writer)
    if claim is None:
        return False
    if is_at_work(config.flow(flow_name), claim):
        return True
    return claim.last_recorded_at_ms > at.last_recorded_at_ms(writer)


def translate_groups(
    at: DeltaSnapshot, flow: str, chosen: Chosen = ALL, *, driver_lives: bool = False
) -> pa.Table:
    """Where committed offsets land on the flow's target, and partitions of their topics without a commit.

    Raises `UsageError` for a topic or partition that the ledger does not know, and `PreconditionError` when one of
    the groups, or all that was chosen, has no commit: an empty answer would seem fine.
    """
    queries = [query("offset_translation"), query("uncommitted_partitions")]
    answers = narrowed.run_queries(queries, {"flow": flow, "driver_lives": driver_lives}, at)
    found = pa.concat_tables(answers.values(), promote_options="default")
    grain = ("group_id", "source_topic", "source_partition")
    found = found.sort_by([(name, "ascending") for name in grain])
    source = f"the source of {flow}"
    for group in chosen.groups:
        required_rows(found, Chosen((group,)), source)
    if chosen.topic is not None:
        _known_partitions(at, flow).require(flow, chosen.topic, chosen.partition)
    return required_rows(found, chosen, source)


def set_offsets(
    context: "Context",
    at: DeltaSnapshot,
    flow_name: str,
    answer: pa.Table,
    choice: Choice,
    *,
    dry_run: bool,
) -> tuple[str | None, list[Setting]]:
    """Set a translation's offsets at the flow's target; returns the operation id and what became of each partition.

    None: nothing was to be set, or it is a dry run. Raises when another cluster answers than the recorded one.
    """
    flow = context.config.flow(flow_name)
    target = context.cluster(flow.target)
    require_recorded(context.state, target)
    rows = not_below_log_start(answer.to_pylist(), target)
    rows = metadata_in_step(rows, partial(context.state.recorded_syncs, flow_name))
    groups = TargetGroups.read(target, {row["group_id"] for row in rows})
    rules = Rules(choice, oddities)
    settings = rules.judged(rows, groups)
    if dry_run:
        return None, settings
    left = SourceCommits(flow.source, source_commits(sql.last_commits(at, flow_name)))
    basis = Basis(flow_name, at.cut.token, left, seen_at(at.cut, flow.target))
    return set_and_record(target, settings, context.operations, basis, context.why, rules)


def source_commits(last: pa.Table) -> dict[Place, SourceCommit]:
    """By group, topic and partition what is known of the last known commits, of a flow's source or of a cluster."""
    return {
        (row["group_id"], row["topic"], row["partition"]): SourceCommit(
            topic_id=row["topic_id"], leader_epoch=row["leader_epoch"], made_after_ms=row["made_after_ms"]
        )
        for row in last.to_pylist()
    }


def translate_offset(at: DeltaSnapshot, flow: str, *, topic: str, partition: int, offset: int) -> pa.Table:
    """Where one source offset lands on the flow's target. Raises `UsageError` for a partition that nobody knows."""
    _known_partitions(at, flow).require(flow, topic, partition)
    return narrowed.translate_offset(at, flow, topic, partition, offset)


def chosen_rows(found: pa.Table, chosen: Chosen) -> pa.Table:
    """Of the rows of a translation those that are asked for."""
    if chosen.groups:
        found = found.filter(pc.is_in(found["group_id"], value_set=pa.array(chosen.groups)))
    if chosen.topic is not None:
        found = found.filter(pc.equal(found["source_topic"], chosen.topic))
    if chosen.partition is not None:
        found = found.filter(pc.equal(found["source_partition"], chosen.partition))
    return found


def required_rows(found: pa.Table, chosen: Chosen, where: str) -> pa.Table:
    """The same; raises `PreconditionError` when there is none of what was chosen. `where`: the groups' cluster."""
    rows = chosen_rows(found, chosen)
    if rows.num_rows == 0 and chosen != ALL:
        raise PreconditionError(
            f"the ledger has no committed offset of {chosen} at {where}; nothing was translated"
        )
    return rows


def _known_partitions(at: DeltaSnapshot, flow: str) -> KnownPartitions:
    claims = at.rows(WRITERS.name, [("flow", "=", flow), ("event", "=", "claimed")])
    return KnownPartitions.of(
        sql.partitions(at, flow, narrowed.summed(at)),
        at.rows(TOPICS.name, [("cluster", "=", claims[-1]["source_cluster"])]),
    )
