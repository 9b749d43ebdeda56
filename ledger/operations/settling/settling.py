"""Settles a flow: its target is read behind what is recorded, and what of it the flow wrote is recorded, unpaired.

For a flow whose driver and whose source are dead. What was copied and not recorded is at the target all the same:
applications that continue there read it, so it is not lost, and translations must not pass it. With the source back,
the flow's next driver voids these rows and pairs the records with the source's ("Settling", PROTOCOL.md).

Run twice, or again after a crash at any point, it comes to the same end: it begins at what is recorded by then. The
operation is appended before the offset syncs that it tells of, so that no such row is without one.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from ledger.config.flow import FlowConfig
from ledger.domain.cluster_identity import FlowProducer, LiveCluster
from ledger.domain.facts import PartitionPair
from ledger.domain.words.count_words import counted
from ledger.domain.writer_roles import writer_of
from ledger.errors import PreconditionError
from ledger.mirror.driver.flow_driver import claim_row_of, claim_row_with
from ledger.operations.settling.tails import Tail, Tails
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, live_cluster
from ledger.ports.ledger import FactLog, LedgerState, Row
from ledger.ports.network import Network
from ledger.recording.operation_log import ClaimedOperations
from ledger.recording.sync_rows import FlowIdentity, sync_row
from ledger.recording.writer_session import FLOW_TABLES, WriterSession
from ledger.schema import OFFSET_SYNCS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettlePorts:
    """Everything that it talks to; of `network` the target's side only. `source_answers`: asked once, at first."""

    target: ClusterAdmin
    state: LedgerState
    fact_log: FactLog
    operations: ClaimedOperations
    network: Network
    clock: Clock
    sleep: Callable[[float], None]
    source_answers: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class SettledPartition:
    """One partition's line; `refused`: why it was not settled (None: it was).

    `source_start`: where its records count from at the source. `target_start`, `target_end`: what was read.
    """

    pair: PartitionPair
    source_start: int
    target_start: int
    target_end: int | None = None
    records: int = 0
    others: str | None = None
    refused: str | None = None

    @classmethod
    def of(cls, tail: Tail) -> Self:
        at, found = tail.recorded.position, tail.found
        if found is None:
            return cls(tail.pair, at.source_offset, at.target_offset, refused=tail.refused)
        others = found.others
        return cls(
            tail.pair,
            at.source_offset,
            at.target_offset,
            found.end,
            found.records,
            None if others is None else f"{others.records} from target offset {others.first.base_offset} on",
        )

    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {
            "topic": self.pair.source.topic,
            "partition": self.pair.source.partition,
            "target_topic": self.pair.target.topic,
            "source_start": self.source_start,
            "target_start": self.target_start,
            "target_end": self.target_end,
            "records": self.records,
            "others": self.others,
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True)
class SettledFlow:
    """What came of it; `operation_id` None: the flow has no partition at the target, nothing was recorded."""

    flow: str
    operation_id: str | None
    partitions: tuple[SettledPartition, ...]

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def refused(self) -> dict[PartitionPair, str]:
        return {one.pair: one.refused for one in self.partitions if one.refused is not None}

    @property
    def words(self) -> str:
        read = [one for one in self.partitions if one.refused is None]
        with_records = sum(1 for one in read if one.records)
        settled = (
            f"{self.flow}: {counted(self.records, 'record')} copied and not recorded, "
            f"on {with_records} of {counted(len(read), 'partition')} read"
        )
        with_others = sum(1 for one in read if one.others is not None)
        others = f"; records of other writers on {with_others}" if with_others else ""
        return f"{settled}{others}" + (f"; {len(self.refused)} not settled" if self.refused else "")

    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {
            "flow": self.flow,
            "records": self.records,
            "partitions": [one.facts() for one in self.partitions],
        }


def settle(
    flow: FlowConfig,
    ports: SettlePorts,
    *,
    host: str,
    reason: str,
    ticket: str | None = None,
    operation_id: str | None = None,
    after: int | None = None,
    progress: Callable[[str], None] = log.info,
) -> SettledFlow:
    """Claim the flow, read the target's tails, record what the flow wrote there, and release the claim.

    `after`: the epoch of the driver that is known to be dead. Raises `PreconditionError` where the source answers,
    another cluster is behind the target's alias, or the flow never ran; `ShutOutError` where a driver claims it
    meanwhile; `ClusterUnavailableError` where the target does not answer. Nothing is recorded then.
    """
    source = _recorded_source(flow, ports)
    row = _claim_row(flow, source, ports, host)
    with _claimed(flow, ports, row, after) as session:
        ports.operations.begin(session)
        # As the ledger is after the claim: the driver may have recorded until then.
        producer = ports.state.identities().producers(str(row["target_cluster_id"]))[flow.name]
        tails = Tails(flow, producer, ports.target, ports.state, ports.network, ports.clock).read(progress)
        found = [tail for tail in tails if tail.found is not None]
        if found:
            operation_id = ports.operations.record_parts(
                [tail.operation() for tail in found],
                operation_id=operation_id,
                flow=flow.name,
                reason=reason,
                ticket=ticket,
            )
        _record_syncs(flow, session, producer, found)
        session.release()
    return SettledFlow(flow.name, operation_id if found else None, tuple(map(SettledPartition.of, tails)))


def _claim_row(flow: FlowConfig, source: LiveCluster, ports: SettlePorts, host: str) -> Row:
    """With the producer id of the flow's driver, though it be fenced by now: nothing is written with it."""
    identities, at_target = ports.state.identities(), live_cluster(ports.target)
    identities.require(flow.source, source)
    identities.require(flow.target, at_target)
    known = identities.producers(at_target.cluster_id).get(flow.name)
    if known is None:
        return claim_row_of(flow, source, target=ports.target, state=ports.state, host=host)
    return claim_row_with(flow, source, at_target, host=host, producer_id=known.current)


def _claimed(flow: FlowConfig, ports: SettlePorts, row: Row, after: int | None) -> WriterSession:
    writer = writer_of(flow.name)
    if after is None:
        return WriterSession.claimed(ports.fact_log, writer, FLOW_TABLES, row)
    return WriterSession.following(
        ports.fact_log,
        writer,
        FLOW_TABLES,
        row,
        after=after,
        last_epoch=lambda: max(
            one["writer_epoch"] for one in ports.state.identities().writers if one["writer"] == writer
        ),
        sleep=ports.sleep,
    )


def _recorded_source(flow: FlowConfig, ports: SettlePorts) -> LiveCluster:
    """The source as claims know it."""
    recorded = ports.state.identities().recorded_id(flow.source)
    if recorded is None or not ports.state.has_run(flow.name):
        raise PreconditionError(
            f"flow {flow.name} has never run: nothing of it can be at {flow.target}; nothing was settled"
        )
    if ports.source_answers():
        raise PreconditionError(
            f"{flow.source} answers: beside it the flow itself finds what it copied and did not record, and pairs it; "
            f"nothing was settled. Run it instead: mirror-ledger run {flow.name} --until-caught-up"
        )
    return LiveCluster(recorded, None)


def _record_syncs(
    flow: FlowConfig, session: WriterSession, producer: FlowProducer, tails: Sequence[Tail]
) -> None:
    identity = FlowIdentity(flow.name, flow.source, flow.target, producer.current)
    rows = [sync_row(identity, sync) for tail in tails for sync in tail.syncs]
    if rows:
        session.append(OFFSET_SYNCS.name, rows)
