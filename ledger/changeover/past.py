"""The ledger at an earlier instant, and the clusters as it knew them then: what a plan of the past is made from.

A plan asks the ledger and both clusters. Nobody can ask a cluster how it was: of an earlier instant the one that is
taken for lost does not answer, and the other one answers what had been recorded of it by then, as old as that was.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from ledger.clock import Clock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import ClusterConfig
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import GroupEvent, GroupFact
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind
from ledger.facts.roles import ProcessMark
from ledger.facts.state import LedgerState
from ledger.facts.syncs import Checkpoint, TopicPartition
from ledger.kafka.cluster import GroupListing, PartitionEnds, Place, ShareOffsetsAnswer, TopicDescription
from ledger.kafka.connection import ClusterConnection
from ledger.kafka.leaders import KafkaFencing
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.state import DeltaLedgerState, SnapshotState


@dataclass(frozen=True, slots=True)
class _AtInstant:
    """Implements `Clock`: it is that instant, and stays so."""

    at_ms: int

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000


class _NoProcesses:
    """Implements `ProcessTable`: of processes of then nothing can be seen, so their silence alone tells of them."""

    def own(self) -> ProcessMark:
        return ProcessMark("", 0, 0, "the past")

    def is_alive(self, mark: ProcessMark) -> bool:
        raise AssertionError(f"{mark} runs beside nobody")


class PastContext(Context):
    """Implements `Context` for the ledger at a cut: `at_ms` is now, `lost` is the cluster that does not answer.

    The configuration is that of today. Nothing can be recorded, set or changed through it.
    """

    asks_clusters = False

    def __init__(self, config: MirrorConfig, at: DeltaSnapshot, at_ms: int, *, lost: str) -> None:
        super().__init__(config)
        self.clock = _AtInstant(at_ms)
        self.processes = _NoProcesses()
        self._at = at
        self._lost = lost

    @cached_property
    def state(self) -> DeltaLedgerState:
        return SnapshotState(self._at)

    def snapshot(self, as_of: str | None = None) -> DeltaSnapshot:
        assert as_of is None, "it is of one cut"
        return self._at

    def _reached(self, alias: str, *, as_administrator: bool) -> KafkaFencing:  # noqa: ARG002  # as nobody
        known = None if alias == self._lost else self.state
        return PastCluster(alias, self.config.cluster(alias), self.clock, known)


class _NobodyAsked(ClusterConnection):
    """Whatever is asked that the ledger does not answer, nobody does."""

    def __init__(self, cluster: ClusterConfig, why: str) -> None:
        super().__init__(cluster, {}, timeout_s=0.0)
        self._why = why

    def run(self, operation: str, *_asked: Any, **_how: Any) -> NoReturn:
        raise ClusterUnavailableError(f"{self._why}: could not {operation}")


class PastCluster(KafkaFencing):
    """A cluster as the ledger had it; `known` None: it is taken for lost, and answers nothing."""

    def __init__(self, alias: str, cluster: ClusterConfig, clock: Clock, known: LedgerState | None) -> None:
        super().__init__(alias, cluster, clock)
        why = f"{alias} is taken for lost" if known is None else f"nobody can ask {alias} how it was"
        self.connection = _NobodyAsked(cluster, why)
        self._recorded = known

    @property
    def _known(self) -> LedgerState:
        if self._recorded is None:
            raise ClusterUnavailableError(f"{self.alias} is taken for lost")
        return self._recorded

    # -- what was recorded of it -----------------------------------------------------------------

    def cluster_id(self) -> str:
        recorded = self._known.identities().recorded_id(self.alias)
        if recorded is None:
            raise ClusterUnavailableError(f"which cluster {self.alias} was, nobody had recorded by then")
        return recorded

    def metadata_offset(self) -> int | None:
        return None

    def topics(self) -> dict[str, TopicDescription]:
        """Those that a recorder had seen; and what flows had written to, where none had seen that name."""
        known = self._known
        written = {
            at.target_topic: TopicDescription(at.target_topic, at.target_topic_id, 0, 0, internal=False)
            for flow, (_, target) in sorted(known.identities().ways().items())
            if target == self.alias
            for at in known.positions(flow)
            if at.target_topic_id not in known.deleted_topic_ids(self.alias)
        }
        seen = {
            one.topic: TopicDescription(
                one.topic, one.topic_id, one.partitions, one.replication_factor, internal=False
            )
            for one in known.last_topic_states(self.alias)
        }
        return {**written, **seen}

    def ends(self, partitions: Sequence[Place]) -> dict[Place, PartitionEnds]:
        topics = self.topics()
        return {
            (one.topic, one.partition): PartitionEnds(
                one.log_start, one.last_stable, one.high_watermark, one.leader_epoch
            )
            for one in self._known.last_high_watermarks(self.alias)
            if (one.topic, one.partition) in set(partitions)
            and one.topic in topics
            and topics[one.topic].topic_id == one.topic_id
        }

    def batches_at(self, partition: TopicPartition, offset: int) -> tuple[()]:  # noqa: ARG002
        return ()

    whole_batches_at = batches_at

    def topic_acls(self) -> frozenset[Permission]:
        kinds = self._known.last_permissions(self.alias, self.cluster_id())
        found = kinds.get(PermissionKind.ACL)
        if found is None or found.reading is not PermissionEvent.READABLE:
            how = "nobody had recorded" if found is None else f"{found.reading.replace('_', ' ')}:"
            raise PreconditionError(f"{how} the access control lists of {self.alias}, as of then")
        return frozenset(one for one in found.found if one.resource_type == "topic")

    # -- groups ----------------------------------------------------------------------------------

    def groups(self) -> list[GroupListing]:
        return [
            GroupListing(str(one.group_id), one.group_type, one.group_state, one.protocol_type)
            for one in self._recorded_groups()
            if one.event == GroupEvent.PRESENT
        ]

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        names = {one.group_id for one in groups}
        return [
            one
            for one in self._known.last_checkpoints(self.alias)
            if one.group_id in names and one.topic in topic_ids and one.committed_offset is not None
        ]

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        found = [one for one in self._known.last_share_offsets(self.alias) if one.group_id in groups]
        return ShareOffsetsAnswer(found, {})

    def dead_groups(self, groups: Collection[str]) -> frozenset[str]:
        """All that nobody had seen there: whether others could have been seen, the age of the answer says."""
        unread = {one.group_id for one in self._recorded_groups() if one.event != GroupEvent.GONE}
        return frozenset(groups) - unread

    def _recorded_groups(self) -> list[GroupFact]:
        return [one for one in self._known.last_groups(self.alias) if one.group_id is not None]
