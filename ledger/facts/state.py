"""What drivers and recorders read of the newest ledger, whoever keeps its rows.

A rule about rows that only they ask for stands here once, over a `RowSource`. Where a flow stands is the
exception: ledgers on disk have too many offset syncs for that, and leave it to a query.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ledger.errors import ClaimBegunError
from ledger.facts.codec import decode
from ledger.facts.cut_offsets import Cut, CutOffset, CutSide
from ledger.facts.deficits import DecidedDeficits
from ledger.facts.direction import DIRECTION_ROWS, Directions
from ledger.facts.extras import DecidedExtras
from ledger.facts.fences import FENCE_KINDS, SHUT_OUT_KINDS, Fence, Fences, ShutOuts
from ledger.facts.groups import GroupFact, ShareOffset
from ledger.facts.hand_overs import HAND_OVER_KINDS, HandOvers
from ledger.facts.history import ADOPTION_KINDS, AdoptionHistory, FormerCopy
from ledger.facts.identity import ClusterIdentities
from ledger.facts.operations import (
    FINDING_KINDS,
    STOP_KINDS,
    ConfigurationChanged,
    DriverStarting,
    FindingKey,
    OperationContent,
    OperationKind,
    PartitionStopped,
    RecordedStop,
    SettledByEpoch,
    Why,
    accepted_reductions,
    created_acls,
    followed_settings,
    last_stops,
    open_findings,
    settlements,
    stopped_partitions,
)
from ledger.facts.permissions import Permission, Permissions
from ledger.facts.recreated import Recreations
from ledger.facts.requests import REQUEST_ROWS, Acceptance, FlowRequests, acceptances
from ledger.facts.roles import LastClaim, recorder_of
from ledger.facts.rows import (
    IDENTITY,
    TopicEvent,
    adoptions,
    copying_flows,
    former_copies,
    permission_of,
    recorded_permissions,
    recorded_sync,
    written_ranges,
)
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    Checkpoint,
    FlowPosition,
    HighWatermark,
    OffsetRange,
    OffsetSync,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicState,
    WriterEvent,
    behind_others_from,
    holding,
)
from ledger.facts.tables import (
    CHECKPOINTS,
    CUT_OFFSETS,
    GROUPS,
    HIGH_WATERMARKS,
    OFFSET_SYNCS,
    OPERATIONS,
    PERMISSIONS,
    SHARE_OFFSETS,
    TOPICS,
    Filter,
    Row,
)

# Row source ---------------------------------------------------------------------------------------
# Where rows of the ledger come from: what memory, DuckDB and Delta have in common for those who read them.


class RowSource(Protocol):
    """Rows of the newest ledger, or of one cut."""

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """The rows of a table that pass all filters, each writer's in the order of recording.

        Raises `LedgerUnavailableError` when the table cannot be read.
        """
        ...

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        """Of each combination of these columns the row recorded last, of those that pass; without their stamps.

        The rows of a combination have to be of one writer, and no two of one append. Raises as `rows`.
        """
        ...

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """Of the rows of `writers` that pass, of each epoch at least the claim and the last one of each other event.

        Raises as `rows`.
        """
        ...

    def last_recorded_at_ms(self, writer: str) -> int | None:
        """When the writer last appended to any table; None: never. Raises as `rows`."""
        ...


# Recorded state -----------------------------------------------------------------------------------


Rows = list[dict[str, Any]]
_READ_AT_ONCE = 50
"""Partitions whose offset syncs are read by one question: of each there may be some ten thousand rows."""


class LedgerState(ABC):
    """The read side of the ledger over its rows: latest state, no time travel."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    @abstractmethod
    def positions(self, flow: str) -> list[FlowPosition]: ...

    # -- offset syncs ----------------------------------------------------------------------------

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        """All rows of one flow and source partition, of each topic id that it had, superseded ones included."""
        rows = self._syncs(
            ("flow", "=", flow), ("source_topic", "=", source_topic), ("source_partition", "=", partition)
        )
        return [recorded_sync(row) for row in rows]

    def syncs_of_each(
        self, flow: str, places: Iterable[tuple[str, int]]
    ) -> Iterator[tuple[tuple[str, int], list[RecordedSync]]]:
        """The same of many, by topic and partition: so many at once that who asks for all of a flow reads seldom."""
        in_order = sorted(set(places))
        for start in range(0, len(in_order), _READ_AT_ONCE):
            found: dict[tuple[str, int], list[RecordedSync]] = {
                place: [] for place in in_order[start : start + _READ_AT_ONCE]
            }
            rows = self._syncs(
                ("flow", "=", flow),
                ("source_topic", "in", sorted({topic for topic, _ in found})),
                ("source_partition", "in", sorted({partition for _, partition in found})),
            )
            for row in rows:
                if (known := found.get((row["source_topic"], row["source_partition"]))) is not None:
                    known.append(recorded_sync(row))
            yield from found.items()

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        """What flows copied from these topics of a cluster when they had another id than the one given."""
        rows = self._syncs(
            ("source_cluster", "=", cluster),
            ("source_topic", "in", sorted(topic_ids)),
            ("source_topic_id", "not in", sorted(topic_ids.values())),
        )
        return former_copies(rows)

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        """By source topic id, partition and target topic id another flow whose map holds records there."""
        of_topics: Filter = ("source_topic_id", "in", sorted(source_topic_ids))
        return copying_flows(self._syncs(of_topics, ("flow", "not in", [flow])))

    def written_by_flows(
        self, cluster: str, topics: Sequence[str], besides: Collection[str] = ()
    ) -> dict[tuple[str, int], list[OffsetRange]]:
        """By topic id and partition of these topics of a cluster the offsets that flows have written there.

        `besides`: clusters of which it does not count what came from there.
        """
        rows = self._syncs(
            ("target_cluster", "=", cluster),
            ("target_topic", "in", sorted(topics)),
            ("source_cluster", "not in", sorted(besides)),
        )
        return written_ranges(rows)

    def behind_others(self, flow: str) -> dict[tuple[str, int], int]:
        """By topic id and partition of the target where a flow stood before it copied extras behind what others wrote.

        Only where what these wrote may still have to come back (`behind_others_from`).
        """
        marks = self._syncs(("flow", "=", flow), ("cause", "=", SyncCause.EXTRAS))
        found = {}
        places = {(row["source_topic"], row["source_partition"]) for row in marks}
        for _, rows in self.syncs_of_each(flow, places):
            by_target: dict[tuple[str, int], list[OffsetSync]] = {}
            for sync in holding(rows):
                by_target.setdefault(sync.target.key, []).append(sync)
            for key, syncs in by_target.items():
                if (stood := behind_others_from(syncs)) is not None:
                    found[key] = stood
        return found

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        """By flow and source partition, what was adopted at these topics, and what tells that their logs went back."""
        at_target: Filter = ("target_topic_id", "in", sorted(topic_ids))
        at_source: Filter = ("source_topic_id", "in", sorted(topic_ids))
        adopted = self._syncs(("kind", "in", sorted(ADOPTION_KINDS)), at_target)
        went_back = self._syncs(("cause", "in", sorted(LOST_AT_SOURCE)), at_source)
        return adoptions([*adopted, *went_back])

    def last_loss_at_ms(self, flow: str, source_topic_ids: Collection[str]) -> int | None:
        """When it was recorded last that one of these sources of a flow had lost its end, ms; None: never."""
        rows = self._syncs(
            ("flow", "=", flow),
            ("source_topic_id", "in", sorted(source_topic_ids)),
            ("cause", "=", SyncCause.SOURCE_TRUNCATED),
        )
        return max((row["recorded_at_ms"] for row in rows), default=None)

    # -- writers ---------------------------------------------------------------------------------

    def has_run(self, flow: str) -> bool:
        """Whether a driver has ever claimed an epoch of the flow."""
        return bool(self._source.claims([("flow", "=", flow)]))

    def identities(self) -> ClusterIdentities:
        """Which Kafka clusters aliases stand for, and whose producer ids are whose there."""
        claimed = self._source.claims([("event", "=", WriterEvent.CLAIMED)])
        reported = self._operations(("kind", "in", (OperationKind.CLUSTER_ACCEPTED, *SHUT_OUT_KINDS)))
        accepted = [row for row in reported if row["kind"] == OperationKind.CLUSTER_ACCEPTED]
        return ClusterIdentities.of_rows(
            claimed, accepted, [row for row in reported if row["kind"] in SHUT_OUT_KINDS]
        )

    def brokers(self, cluster: str) -> tuple[str | None, list[list[str]]]:
        """The id of the Kafka cluster that an alias stands for, and addresses of its brokers as they were seen."""
        known = self.identities().recorded_id(cluster)
        rows = self._source.claims([("writer", "=", recorder_of(cluster))])
        seen = [row["brokers"] for row in rows if row["source_cluster_id"] == known and row.get("brokers")]
        return known, [addresses.split(",") for addresses in seen]

    def last_claim(self, writer: str) -> LastClaim | None:
        """The latest claim of a writer and what the writer did since; None: nobody ever claimed."""
        rows = self._source.claims([("writer", "=", writer)])
        last_recorded_at_ms = self._source.last_recorded_at_ms(writer) if rows else None
        if last_recorded_at_ms is None:
            return None
        return last_claim(rows, last_recorded_at_ms=last_recorded_at_ms)

    # -- operations ------------------------------------------------------------------------------

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        """By (source topic id, partition) those whose last event is that they stopped."""
        return stopped_partitions(self._of_flow(flow, *STOP_KINDS))

    def requests(self, flow: str) -> FlowRequests:
        return self.requests_and_directions(flow)[0]

    def requests_and_directions(self, flow: str) -> tuple[FlowRequests, Directions]:
        """The same, and what of which clusters is promoted: by one read, for drivers ask before every round."""
        rows = self._operations(("kind", "in", (*REQUEST_ROWS, *DIRECTION_ROWS)))
        changes = [row for row in rows if row["kind"] in DIRECTION_ROWS]
        return FlowRequests.of_rows([row for row in rows if row["flow"] == flow]), Directions.of_rows(changes)

    def directions(self) -> Directions:
        return Directions.of_rows(self._operations(("kind", "in", DIRECTION_ROWS)))

    def fences(self) -> Fences:
        """Fences that were not lifted."""
        return Fences.of_rows(self._carried(FENCE_KINDS))

    def recreations(self) -> Recreations:
        """Topics that were deleted by decision and created again."""
        return Recreations.of_rows(self._operations(("kind", "=", OperationKind.TOPIC_RECREATED)))

    def _carried(self, kinds: Sequence[str]) -> list[Row]:
        """Rows of these kinds, as what was created again since has them."""
        rows = self._operations(("kind", "in", (*kinds, OperationKind.TOPIC_RECREATED)))
        made = Recreations.of_rows(row for row in rows if row["kind"] == OperationKind.TOPIC_RECREATED)
        return [made.carried(row) for row in rows if row["kind"] != OperationKind.TOPIC_RECREATED]

    def denied_by_fences(self, cluster: str) -> frozenset[Permission]:
        """The rules that any fence ever made at a cluster: of one that was lifted they may have been seen last."""
        rows = map(Fence.of_row, self._operations(("kind", "=", OperationKind.FENCE)))
        return frozenset(rule for fence in rows if fence.cluster == cluster for rule in fence.rules)

    def hand_overs(self) -> HandOvers:
        return HandOvers.of_rows(self._carried(HAND_OVER_KINDS))

    def last_stops(self, flow: str) -> list[PartitionStopped]:
        """Of each partition that stands still, what its last row says."""
        return list(last_stops(self._of_flow(flow, *STOP_KINDS)).values())

    def extras(self) -> DecidedExtras:
        """What was decided about records that one cluster alone has."""
        return DecidedExtras.of_rows(self._operations(("kind", "=", OperationKind.EXTRAS_DECIDED)))

    def deficits(self) -> DecidedDeficits:
        """What was decided about copies of records that the cluster they came from holds no more."""
        return DecidedDeficits.of_rows(self._operations(("kind", "=", OperationKind.DEFICITS_DECIDED)))

    def shut_outs(self) -> ShutOuts:
        """What shuts the mirror out of promoted topics."""
        return ShutOuts.of_rows(self._operations(("kind", "in", SHUT_OUT_KINDS)))

    def restored_by(self) -> str | None:
        """The operation by which the ledger was restored from a copy last; None: it never was."""
        rows = self._operations(("kind", "=", OperationKind.LEDGER_RESTORED))
        return str(rows[-1]["operation_id"]) if rows else None

    def driver_began_at(self, flow: str, host: str) -> int | None:
        """Place among operations at which this process, as writers say it, began to run the flow; None: it did not."""
        starts = self._of_flow(flow, OperationKind.DRIVER_STARTING)
        return max((row["round"] for row in starts if DriverStarting.of_row(row).host == host), default=None)

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        """By source topic id and partition, what operators accepted last."""
        return acceptances(self._of_flow(flow, OperationKind.RECEIPT))

    def settlements(self, flow: str) -> dict[tuple[str, int], SettledByEpoch]:
        """By source topic id and partition, what was recorded of their targets' ends without the source."""
        return settlements(self._of_flow(flow, OperationKind.SETTLED))

    def configuration(self, flow: str, config_hash: str) -> dict[str, Any] | None:
        """The flow's configuration of that hash, when it was recorded."""
        changes = map(ConfigurationChanged.of_row, self._of_flow(flow, ConfigurationChanged.kind))
        found = [dict(change.configuration) for change in changes if change.new_hash == config_hash]
        return found[-1] if found else None

    def has_only_begun(self, flow: str, at: FlowPosition) -> bool:
        """Whether all that is recorded of a partition of a flow is where it began: it has copied nothing of it."""
        return not at.position.next_sequence and all(
            row.sync.kind in (SyncKind.STARTED, SyncKind.SUPERSEDED)
            for row in self.recorded_syncs(flow, at.source_topic, at.partition)
        )

    def written_topics(self, cluster: str) -> frozenset[str]:
        """Names of topics of a cluster that flows of the ledger have copied to, whatever the configuration says now."""
        ways = self.identities().ways().items()
        return frozenset(
            at.target_topic for flow, (_, target) in ways if target == cluster for at in self.positions(flow)
        )

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        """Findings that were raised and not cleared since."""
        return open_findings(self._of_flow(flow, *FINDING_KINDS))

    def findings_of(self, writer: str) -> frozenset[FindingKey]:
        """Findings that the writer raised and has not cleared since."""
        return open_findings(self._operations(("kind", "in", FINDING_KINDS), ("writer", "=", writer)))

    def accepted_reductions(self, flow: str) -> dict[str, int]:
        """Topics that an operator meant to leave out, with how far they had been copied then."""
        return accepted_reductions(self._of_flow(flow, OperationKind.SCOPE_REDUCED))

    def created_acls(self, flow: str) -> frozenset[Permission]:
        """Access control lists that the flow had created and not removed."""
        return created_acls(self._of_flow(flow, OperationKind.ACLS_FOLLOWED))

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        """Names of settings that the flow had set and not removed, by target topic id."""
        return followed_settings(self._of_flow(flow, OperationKind.TOPIC_FOLLOWED))

    # -- clusters --------------------------------------------------------------------------------

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        """Ids of topics of a cluster that were seen deleted by a recorder."""
        rows = self._source.rows(TOPICS.name, [("cluster", "=", cluster), ("event", "=", TopicEvent.DELETED)])
        return frozenset(row["topic_id"] for row in rows)

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]:
        rows = self._newest(CHECKPOINTS.name, cluster, ("group_id", "topic", "partition"))
        return [decode(Checkpoint, row) for row in rows]

    def last_groups(self, cluster: str) -> list[GroupFact]:
        """What was recorded last of each group, and of the listing."""
        return [decode(GroupFact, row) for row in self._newest(GROUPS.name, cluster, ("group_id",))]

    def last_share_offsets(self, cluster: str) -> list[ShareOffset]:
        """What was recorded last of each share group and partition."""
        rows = self._newest(SHARE_OFFSETS.name, cluster, ("group_id", "topic", "partition"))
        return [decode(ShareOffset, row) for row in rows]

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]:
        rows = self._newest(HIGH_WATERMARKS.name, cluster, ("topic", "topic_id", "partition"))
        return [HighWatermark(**row) for row in rows]

    def last_topic_states(self, cluster: str) -> list[TopicState]:
        """The latest state of each topic that was not deleted since."""
        rows = self._newest(TOPICS.name, cluster, ("topic",))
        return [_topic_state(row) for row in rows if row["event"] != TopicEvent.DELETED]

    def topic_history(self, cluster: str) -> list[TopicState]:
        """All states that recorders have seen of topics of a cluster, in the order of recording."""
        return [_topic_state(row) for row in self._source.rows(TOPICS.name, [("cluster", "=", cluster)])]

    def topic_changes(self, cluster: str) -> list[tuple[int, TopicState]]:
        """The same, each with when it was recorded, ms, the earliest first."""
        rows = self._source.rows(TOPICS.name, [("cluster", "=", cluster)])
        found = [(row["recorded_at_ms"], _topic_state(row)) for row in rows]
        return sorted(found, key=lambda one: one[0])

    def permission_changes(self, cluster: str) -> dict[Permission, int]:
        """When the last row about each permission that a cluster has or had was recorded, ms."""
        rows = self._source.rows(PERMISSIONS.name, [("cluster", "=", cluster)])
        found: dict[Permission, int] = {}
        for row in rows:
            if row["entity"] is not None:
                one = permission_of(row)
                found[one] = max(found.get(one, 0), row["recorded_at_ms"])
        return found

    def last_permissions(self, cluster: str, cluster_id: str) -> Permissions:
        """What was recorded last of the permissions of the cluster with this Kafka cluster id."""
        rows = self._newest(PERMISSIONS.name, cluster, IDENTITY)
        return recorded_permissions([row for row in rows if row["cluster_id"] == cluster_id])

    # -- cuts ------------------------------------------------------------------------------------

    def cut(self, operation_id: str) -> Cut:
        """What an operation recorded of a cut; of one that recorded none it is empty."""
        rows = self._source.rows(CUT_OFFSETS.name, [("operation_id", "=", operation_id)])
        return Cut.of_rows(operation_id, rows)

    def cut_targets(self, flow: str, topics: Collection[str]) -> dict[tuple[str, int], list[CutOffset]]:
        """What all cuts of a flow say of these topics of its target, by topic and partition."""
        of_target: Sequence[Filter] = (
            ("flow", "=", flow),
            ("side", "=", CutSide.TARGET),
            ("topic", "in", sorted(topics)),
        )
        found: dict[tuple[str, int], list[CutOffset]] = {}
        for row in self._source.rows(CUT_OFFSETS.name, of_target):
            found.setdefault((row["topic"], row["partition"]), []).append(decode(CutOffset, row))
        return found

    # --------------------------------------------------------------------------------------------

    def _syncs(self, *filters: Filter) -> Rows:
        return self._source.rows(OFFSET_SYNCS.name, filters)

    def _operations(self, *filters: Filter) -> Rows:
        return self._source.rows(OPERATIONS.name, filters)

    def _of_flow(self, flow: str, *kinds: str) -> Rows:
        return self._operations(("kind", "in", kinds), ("flow", "=", flow))

    def _newest(self, table: str, cluster: str, grain: Sequence[str]) -> Rows:
        return self._source.newest(table, [("cluster", "=", cluster)], grain)


def last_claim(rows: Sequence[Mapping[str, Any]], *, last_recorded_at_ms: int) -> LastClaim:
    """From all rows of `writers` of one writer."""
    last = max(rows, key=lambda row: (row["writer_epoch"], row["round"]))
    claim = min(
        (row for row in rows if row["writer_epoch"] == last["writer_epoch"]), key=lambda row: row["round"]
    )
    return LastClaim(
        epoch=last["writer_epoch"],
        host=last["host"],
        released=last["event"] == WriterEvent.RELEASED,
        last_recorded_at_ms=last_recorded_at_ms,
        claimed_at_ms=claim["recorded_at_ms"],
        config_hash=claim["config_hash"],
    )


def _topic_state(row: Mapping[str, Any]) -> TopicState:
    return TopicState(
        cluster=row["cluster"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partitions=row["partitions"],
        replication_factor=row["replication_factor"],
        configuration=tuple(sorted(json.loads(row["configuration"]).items())),
    )


# Ledger -------------------------------------------------------------------------------------------
# Both sides of the ledger: what is appended under a claim, and what of it drivers read.


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """A claimed writer epoch; every append names it."""

    writer: str
    epoch: int


class FactLog(Protocol):
    """The append side of the ledger. Each append is one commit of one table, read back before it counts."""

    def claim(self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None) -> WriterClaim:
        """Take the next epoch of `writer`: a commit to each of `tables`, then the claim as a row of `writers`.

        `after`: the epoch that is to be followed; raises `ClaimBegunError` when a table knows of a later one. None:
        any.

        The log itself adds the column `shut_out` to the row: where each table stood when earlier epochs were
        shut out of it. Raises `PreconditionError` when another driver claimed at the same moment.
        """
        ...

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        """Append rows of one round. Raises `ShutOutError` when a later epoch has been claimed."""
        ...

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        """Append rows as the next round of a writer that claims nothing (epoch 0); returns the round.

        Of two that append at the same moment each gets a round of its own.
        """
        ...

    def last_epoch(self, writer: str, table: str) -> int:
        """The epoch of the writer's last commit to a table by now, of a claim too; 0: none."""
        ...


def require_last(writer: str, epoch: int, *, after: int | None) -> None:
    """Raise `ClaimBegunError` unless the writer's last epoch is the one that a claim is to follow."""
    if after is not None and epoch != after:
        raise ClaimBegunError(
            f"{writer} was to be claimed after epoch {after}; another process is about to claim it, or has: epoch "
            f"{epoch} is known already; nothing was claimed",
            epoch,
        )


class MirrorProducers(Protocol):
    """Tells mirror flows from applications by their producer ids, for one Kafka cluster id."""

    def is_mirror(self, producer_id: int) -> bool:
        """Whether a flow has recorded this id. Ask only after a batch with it was fetched: then it is final.

        Raises `LedgerUnavailableError` when the ledger cannot be asked.
        """
        ...


OperationEntry = tuple[str | None, OperationContent]
"""Reason and content of an operation."""


class OperationLog(ABC):
    """Appends to `operations`; the content knows its kind. Whoever inherits says how rows are appended."""

    def __init__(self, *, operator: str, new_id: Callable[[], str]) -> None:
        self._operator = operator
        self._new_id = new_id

    def record(self, content: OperationContent, *, flow: str | None, reason: str | None) -> str:
        """Append one row and return its operation id."""
        return self.record_parts([content], Why(reason), flow=flow)

    def record_all(self, entries: Sequence[OperationEntry], *, flow: str | None) -> None:
        """Append an operation for each reason and content, all of them at once or none."""
        self._append([self._row(self._new_id(), content, flow, Why(reason)) for reason, content in entries])

    def record_parts(self, contents: Sequence[OperationContent], why: Why, *, flow: str | None = None) -> str:
        """Append at once the rows of one operation; returns its id, which they share: a new one unless given."""
        operation_id = why.operation_id or self._new_id()
        self._append([self._row(operation_id, content, flow, why) for content in contents])
        return operation_id

    @abstractmethod
    def _append(self, rows: Sequence[Row]) -> None:
        """All of them as one commit."""

    def _row(self, operation_id: str, content: OperationContent, flow: str | None, why: Why) -> Row:
        return {
            "operation_id": operation_id,
            "kind": str(content.kind),
            "flow": flow,
            "operator": self._operator,
            "reason": why.reason,
            "ticket": why.ticket,
            "content": json.dumps(content.content()),
        }
