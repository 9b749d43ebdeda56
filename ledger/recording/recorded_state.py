"""What drivers and recorders read of the newest ledger, whoever keeps its rows.

A rule about rows that only they ask for stands here once, over a `RowSource`. Where a flow stands is the
exception: ledgers on disk have too many offset syncs for that, and leave it to a query.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import Checkpoint, HighWatermark, SyncCause, TopicState, WriterEvent
from ledger.domain.fences.closing import denial
from ledger.domain.fences.receipts import FENCE_KINDS, Fence, Fences
from ledger.domain.groups import GroupFact, ShareOffset
from ledger.domain.hand_over.receipts import HAND_OVER_KINDS, HandOvers
from ledger.domain.offsets.adopted import ADOPTION_KINDS, AdoptionHistory
from ledger.domain.offsets.cut_offsets import Cut, CutOffset, CutSide
from ledger.domain.offsets.restored_history import FormerCopy
from ledger.domain.offsets.supersession import RecordedSync
from ledger.domain.operations.directions import DIRECTION_ROWS, Directions
from ledger.domain.operations.finding_events import FINDING_KINDS, FindingKey, open_findings
from ledger.domain.operations.flow_events import ConfigurationChanged, DriverStarting, accepted_reductions
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.partition_events import (
    STOP_KINDS,
    PartitionStopped,
    RecordedStop,
    SettledByEpoch,
    last_stops,
    settlements,
    stopped_partitions,
)
from ledger.domain.operations.promotion.changeovers import PlanExported
from ledger.domain.operations.promotion.shut_outs import SHUT_OUT_KINDS, ShutOuts
from ledger.domain.operations.receipts import Acceptance, acceptances
from ledger.domain.operations.requests import REQUEST_ROWS, FlowRequests
from ledger.domain.operations.target_changes import created_acls, followed_settings
from ledger.domain.permissions import Permissions
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.domain.writer_roles import LastClaim
from ledger.ports.ledger import FlowPosition
from ledger.recording.changes.group_offsets import recorded_offset
from ledger.recording.changes.groups import recorded_group
from ledger.recording.changes.permissions import IDENTITY, recorded_permissions
from ledger.recording.changes.topic_states import TopicEvent
from ledger.recording.row_source import Filter, RowSource
from ledger.recording.sync_rows import adoptions, copying_flows, former_copies, recorded_sync
from ledger.schema import (
    CHECKPOINTS,
    CUT_OFFSETS,
    GROUPS,
    HIGH_WATERMARKS,
    OFFSET_SYNCS,
    OPERATIONS,
    PERMISSIONS,
    SHARE_OFFSETS,
    TOPICS,
)

Rows = list[dict[str, Any]]


class RecordedState(ABC):
    """Implements `recording_state.RecordingState`, and with it `ports.LedgerState`."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    @abstractmethod
    def positions(self, flow: str) -> list[FlowPosition]: ...

    # -- offset syncs ----------------------------------------------------------------------------

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        rows = self._syncs(
            ("flow", "=", flow), ("source_topic", "=", source_topic), ("source_partition", "=", partition)
        )
        return [recorded_sync(row) for row in rows]

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        rows = self._syncs(
            ("source_cluster", "=", cluster),
            ("source_topic", "in", sorted(topic_ids)),
            ("source_topic_id", "not in", sorted(topic_ids.values())),
        )
        return former_copies(rows)

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        of_topics: Filter = ("source_topic_id", "in", sorted(source_topic_ids))
        return copying_flows(self._syncs(of_topics, ("flow", "not in", [flow])))

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        at_target: Filter = ("target_topic_id", "in", sorted(topic_ids))
        at_source: Filter = ("source_topic_id", "in", sorted(topic_ids))
        adopted = self._syncs(("kind", "in", sorted(ADOPTION_KINDS)), at_target)
        went_back = self._syncs(("cause", "=", SyncCause.SOURCE_TRUNCATED), at_source)
        return adoptions([*adopted, *went_back])

    # -- writers ---------------------------------------------------------------------------------

    def has_run(self, flow: str) -> bool:
        return bool(self._source.claims([("flow", "=", flow)]))

    def identities(self) -> ClusterIdentities:
        claimed = self._source.claims([("event", "=", WriterEvent.CLAIMED)])
        told = self._operations(("kind", "in", (OperationKind.CLUSTER_ACCEPTED, *SHUT_OUT_KINDS)))
        accepted = [row for row in told if row["kind"] == OperationKind.CLUSTER_ACCEPTED]
        return ClusterIdentities.of_rows(
            claimed, accepted, [row for row in told if row["kind"] in SHUT_OUT_KINDS]
        )

    def last_claim(self, writer: str) -> LastClaim | None:
        rows = self._source.claims([("writer", "=", writer)])
        last_recorded_at_ms = self._source.last_recorded_at_ms(writer) if rows else None
        if last_recorded_at_ms is None:
            return None
        return last_claim(rows, last_recorded_at_ms=last_recorded_at_ms)

    # -- operations ------------------------------------------------------------------------------

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        return stopped_partitions(self._of_flow(flow, *STOP_KINDS))

    def requests(self, flow: str) -> FlowRequests:
        return self.requests_and_directions(flow)[0]

    def requests_and_directions(self, flow: str) -> tuple[FlowRequests, Directions]:
        rows = self._operations(("kind", "in", (*REQUEST_ROWS, *DIRECTION_ROWS)))
        changes = [row for row in rows if row["kind"] in DIRECTION_ROWS]
        return FlowRequests.of_rows([row for row in rows if row["flow"] == flow]), Directions.of_rows(changes)

    def directions(self) -> Directions:
        return Directions.of_rows(self._operations(("kind", "in", DIRECTION_ROWS)))

    def fences(self) -> Fences:
        return Fences.of_rows(self._operations(("kind", "in", FENCE_KINDS)))

    def denied_by_fences(self, cluster: str) -> frozenset[TopicAcl]:
        """The rules that any fence ever made at a cluster: of one that was lifted they may have been seen last."""
        rows = map(Fence.of_row, self._operations(("kind", "=", OperationKind.FENCE)))
        return frozenset(rule for fence in rows if fence.cluster == cluster for rule in fence.rules)

    def denied_by_hand(self, cluster: str) -> frozenset[TopicAcl]:
        """The rules that people were to make at a cluster by exported plans, whether they have or not."""
        rows = map(PlanExported.of_row, self._operations(("kind", "=", OperationKind.PLAN_EXPORTED)))
        return frozenset(
            denial(topic, principal)
            for exported in rows
            if exported.from_cluster == cluster
            for topic, principals in exported.denied.items()
            for principal in principals
        )

    def hand_overs(self) -> HandOvers:
        return HandOvers.of_rows(self._operations(("kind", "in", HAND_OVER_KINDS)))

    def last_stops(self, flow: str) -> list[PartitionStopped]:
        """Of each partition that stands still, what its last row says."""
        return list(last_stops(self._of_flow(flow, *STOP_KINDS)).values())

    def shut_outs(self) -> ShutOuts:
        """What shuts the mirror out of promoted topics."""
        return ShutOuts.of_rows(self._operations(("kind", "in", SHUT_OUT_KINDS)))

    def driver_began_at(self, flow: str, host: str) -> int | None:
        """Place among operations at which this process, as writers say it, began to run the flow; None: it did not."""
        starts = self._of_flow(flow, OperationKind.DRIVER_STARTING)
        return max((row["round"] for row in starts if DriverStarting.of_row(row).host == host), default=None)

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        return acceptances(self._of_flow(flow, OperationKind.RECEIPT))

    def settlements(self, flow: str) -> dict[tuple[str, int], SettledByEpoch]:
        return settlements(self._of_flow(flow, OperationKind.SETTLED))

    def configuration(self, flow: str, config_hash: str) -> dict[str, Any] | None:
        """The flow's configuration of that hash, when it was recorded."""
        changes = map(ConfigurationChanged.of_row, self._of_flow(flow, ConfigurationChanged.kind))
        found = [dict(change.configuration) for change in changes if change.new_hash == config_hash]
        return found[-1] if found else None

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        return open_findings(self._of_flow(flow, *FINDING_KINDS))

    def findings_of(self, writer: str) -> frozenset[FindingKey]:
        return open_findings(self._operations(("kind", "in", FINDING_KINDS), ("writer", "=", writer)))

    def accepted_reductions(self, flow: str) -> dict[str, int]:
        """Topics that an operator meant to leave out, with how far they had been copied then."""
        return accepted_reductions(self._of_flow(flow, OperationKind.SCOPE_REDUCED))

    def created_acls(self, flow: str) -> frozenset[TopicAcl]:
        return created_acls(self._of_flow(flow, OperationKind.ACLS_FOLLOWED))

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        return followed_settings(self._of_flow(flow, OperationKind.TOPIC_FOLLOWED))

    # -- clusters --------------------------------------------------------------------------------

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        rows = self._source.rows(TOPICS.name, [("cluster", "=", cluster), ("event", "=", TopicEvent.DELETED)])
        return frozenset(row["topic_id"] for row in rows)

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]:
        rows = self._newest(CHECKPOINTS.name, cluster, ("group_id", "topic", "partition"))
        return [recorded_offset(Checkpoint, row) for row in rows]

    def last_groups(self, cluster: str) -> list[GroupFact]:
        return [recorded_group(row) for row in self._newest(GROUPS.name, cluster, ("group_id",))]

    def last_share_offsets(self, cluster: str) -> list[ShareOffset]:
        rows = self._newest(SHARE_OFFSETS.name, cluster, ("group_id", "topic", "partition"))
        return [recorded_offset(ShareOffset, row) for row in rows]

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]:
        rows = self._newest(HIGH_WATERMARKS.name, cluster, ("topic", "topic_id", "partition"))
        return [HighWatermark(**row) for row in rows]

    def last_topic_states(self, cluster: str) -> list[TopicState]:
        rows = self._newest(TOPICS.name, cluster, ("topic",))
        return [_topic_state(row) for row in rows if row["event"] != TopicEvent.DELETED]

    def topic_history(self, cluster: str) -> list[TopicState]:
        """All states that recorders have seen of topics of a cluster, in the order of recording."""
        return [_topic_state(row) for row in self._source.rows(TOPICS.name, [("cluster", "=", cluster)])]

    def last_permissions(self, cluster: str, cluster_id: str) -> Permissions:
        rows = self._newest(PERMISSIONS.name, cluster, IDENTITY)
        return recorded_permissions([row for row in rows if row["cluster_id"] == cluster_id])

    # -- cuts ------------------------------------------------------------------------------------

    def cut(self, operation_id: str) -> Cut:
        """What an operation recorded of a cut; of one that recorded none it is empty."""
        rows = self._source.rows(CUT_OFFSETS.name, [("operation_id", "=", operation_id)])
        return Cut.of_rows(operation_id, rows)

    def cut_targets(self, flow: str, topic: str, partition: int) -> list[CutOffset]:
        """What all cuts of a flow say of a partition of its target."""
        of_target: Sequence[Filter] = (
            ("flow", "=", flow),
            ("side", "=", CutSide.TARGET),
            ("topic", "=", topic),
            ("partition", "=", partition),
        )
        return [CutOffset.of_row(row) for row in self._source.rows(CUT_OFFSETS.name, of_target)]

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
