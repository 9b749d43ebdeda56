"""What a ledger answers about flows with: where they stand, how far they are behind, and what would be lost.

Fields of a row are the columns of the query that it comes from, whose header says what they mean.
"""

from dataclasses import dataclass

import pyarrow as pa

from ledger.answers.lag import LagStatus
from ledger.answers.status import FlowReport, partition_columns
from ledger.answers.values import with_status
from ledger.changeover.losses import LossStatus
from ledger.changeover.role import OpenApply
from ledger.config.values import Figure
from ledger.store.delta_tables import arrow_type


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How much of a source partition is not on the target, and as of when: `replication_lag`. Unknown is None."""

    flow: str
    source_topic: str
    source_topic_id: str
    source_partition: int
    last_stable: int | None
    high_watermark: int | None
    mirrored_end: int | None
    source_end: int | None
    lag_records: int | None
    lag_records_to_high_watermark: int | None
    open_since_ms: int | None
    lag_bytes: int | None
    behind_since_ms: int | None
    lag_ms: int | None
    lag_ms_bound: str | None
    last_known_records: int | None
    measured_at_ms: int | None
    recorded_since_ms: int | None
    status: LagStatus


@dataclass(frozen=True, slots=True)
class Status:
    """Where flows stand. `maintenance`: a line for each table that nobody seems to maintain; none of the past.

    `objections`: a line for each objective of the configuration that a flow does not keep to, of its `figures`.
    `open_apply`: a change of direction that has begun and has not ended. `at_ms`: what ages are counted to.
    """

    flows: tuple[FlowReport, ...]
    maintenance: tuple[str, ...]
    objections: tuple[str, ...] = ()
    open_apply: OpenApply | None = None
    at_ms: int = 0
    figures: tuple[Figure, ...] = ()

    @property
    def needs_attention(self) -> list[str]:
        """Flow and reason, for each that does not pass `status --check`; empty when all do."""
        return [*self.of_flows, *self.objections]

    @property
    def of_flows(self) -> list[str]:
        """The same without the objectives."""
        begun = [] if self.open_apply is None else [self.open_apply.words]
        return [
            *begun,
            *(f"{report.flow}: {reason}" for report in self.flows for reason in report.needs_attention),
        ]

    @property
    def partitions(self) -> pa.Table:
        """A row for each partition of the flows: the columns of `flow_status`, and those of its lag."""
        columns = [(column.name, arrow_type(column.type)) for column in partition_columns()]
        rows = [dict(row) for report in self.flows for row in report.partitions]
        return pa.Table.from_pylist(rows, schema=pa.schema(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoss:
    """What of a partition would be lost if its cluster were, and as of when: `failover_loss`. Unknown is None."""

    flow: str
    source_topic: str
    source_topic_id: str
    source_partition: int
    last_stable: int | None
    high_watermark: int | None
    known_end: int | None
    map_end: int | None
    settled_records: int | None
    records_at_risk: int | None
    level_at_ms: int | None
    lost_since_ms: int | None
    at_risk_ms: int | None
    ends_read_at_ms: int | None
    age_ms: int | None
    unseen_ms: int | None
    rate_per_second: float | None
    rate_at_ms: int | None
    extra_estimate: int | None
    unrecorded_copies: int | None
    has_gaps: bool
    loss_at_least: int | None
    loss_at_most: int | None
    status: LossStatus


partition_lag = with_status(PartitionLag, LagStatus)
partition_loss = with_status(PartitionLoss, LossStatus)
