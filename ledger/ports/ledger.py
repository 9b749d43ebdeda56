"""Both sides of the ledger: what is appended under a claim, and what of it drivers read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import Checkpoint, HighWatermark
from ledger.domain.offsets.adopted import AdoptionHistory
from ledger.domain.offsets.cut_offsets import Cut, CutOffset
from ledger.domain.offsets.position import Position
from ledger.domain.offsets.restored_history import FormerCopy
from ledger.domain.offsets.supersession import RecordedSync
from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.directions import Directions
from ledger.domain.operations.finding_events import FindingKey
from ledger.domain.operations.partition_events import PartitionStopped, RecordedStop, SettledByEpoch
from ledger.domain.operations.promotion.shut_outs import ShutOuts
from ledger.domain.operations.receipts import Acceptance
from ledger.domain.operations.requests import FlowRequests
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.domain.writer_roles import LastClaim
from ledger.errors import ClaimBegunError
from ledger.ports.clusters import ClusterAdmin, live_cluster

Row = Mapping[str, object]
"""One row of a table without its stamp: column name of `schema.py` to value."""


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


@dataclass(frozen=True, slots=True)
class FlowPosition:
    """Where a flow stands on one partition, from its last row.

    Sequences are of `producer_id`, None when the flow has had one only.
    """

    source_topic: str
    source_topic_id: str
    partition: int
    target_topic: str
    target_topic_id: str
    position: Position
    producer_id: int | None = None

    def for_producer(self, producer_id: int) -> "FlowPosition":
        """As a driver with this producer id continues: nothing was written with it when the last row is of another."""
        if self.producer_id is None or self.producer_id == producer_id:
            return self
        position = self.position.with_another_producer(self.producer_id)
        return replace(self, producer_id=producer_id, position=position)


class LedgerState(Protocol):
    """The read side that drivers need: latest state, no time travel."""

    def positions(self, flow: str) -> list[FlowPosition]: ...

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        """All rows of one flow and source partition, of each topic id that it had, superseded ones included."""
        ...

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        """What flows copied from these topics of a cluster when they had another id than the one given."""
        ...

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        """By source topic id, partition and target topic id another flow whose map holds records there."""
        ...

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        """By flow and source partition, what was adopted at these topics, and what tells that their logs went back."""
        ...

    def has_run(self, flow: str) -> bool:
        """Whether a driver has ever claimed an epoch of the flow."""
        ...

    def last_claim(self, writer: str) -> LastClaim | None:
        """The latest claim of a writer and what the writer did since; None: nobody ever claimed."""
        ...

    def identities(self) -> ClusterIdentities:
        """Which Kafka clusters aliases stand for, and whose producer ids are whose there."""
        ...

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        """Ids of topics of a cluster that were seen deleted by a recorder."""
        ...

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]: ...

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]: ...

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        """By (source topic id, partition) those whose last event is that they stopped."""
        ...

    def requests(self, flow: str) -> FlowRequests: ...

    def requests_and_directions(self, flow: str) -> tuple[FlowRequests, Directions]:
        """The same, and what of which clusters is promoted: by one read, for drivers ask before every round."""
        ...

    def cut(self, operation_id: str) -> Cut:
        """What an operation recorded of both sides when it took a cut; empty where it took none."""
        ...

    def cut_targets(self, flow: str, topic: str, partition: int) -> list[CutOffset]:
        """What all cuts of a flow say of a partition of its target."""
        ...

    def directions(self) -> Directions: ...

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        """By source topic id and partition, what operators accepted last."""
        ...

    def settlements(self, flow: str) -> dict[tuple[str, int], SettledByEpoch]:
        """By source topic id and partition, what was recorded of their targets' ends without the source."""
        ...

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        """Findings that were raised and not cleared since."""
        ...

    def created_acls(self, flow: str) -> frozenset[TopicAcl]:
        """Access control lists that the flow had created and not removed."""
        ...

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        """Names of settings that the flow had set and not removed, by target topic id."""
        ...


class ChangeoverState(LedgerState, Protocol):
    """What those read besides who promote and demote: the last of other writers."""

    def last_stops(self, flow: str) -> list[PartitionStopped]:
        """Of each partition that stands still, what its last row says."""
        ...

    def directions(self) -> Directions: ...

    def shut_outs(self) -> ShutOuts:
        """What shuts the mirror out of promoted topics."""
        ...


def require_recorded(state: LedgerState, *admins: ClusterAdmin) -> None:
    """Raise `PreconditionError` when another cluster answers behind an alias than the ledger knows."""
    identities = state.identities()
    for admin in admins:
        identities.require(admin.alias, live_cluster(admin))


class MirrorProducers(Protocol):
    """Tells mirror flows from applications by their producer ids, for one Kafka cluster id."""

    def is_mirror(self, producer_id: int) -> bool:
        """Whether a flow has recorded this id. Ask only after a batch with it was fetched: then it is final.

        Raises `LedgerUnavailableError` when the ledger cannot be asked.
        """
        ...


OperationEntry = tuple[str | None, OperationContent]
"""Reason and content of an operation."""


class OperationLog(Protocol):
    """Appends to `operations`; the content knows its kind."""

    def record(
        self, content: OperationContent, *, flow: str | None, reason: str | None, ticket: str | None = None
    ) -> str:
        """Append one row and return its operation id."""
        ...

    def record_all(self, entries: Sequence[OperationEntry], *, flow: str | None) -> None:
        """Append an operation for each reason and content, all of them at once or none."""
        ...

    def record_parts(
        self,
        contents: Sequence[OperationContent],
        *,
        operation_id: str | None = None,
        flow: str | None,
        reason: str | None,
        ticket: str | None = None,
    ) -> str:
        """Append at once the rows of one operation; returns its id, which they share: a new one unless given."""
        ...
