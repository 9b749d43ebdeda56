"""Every table and column of the ledger: the one place that names a column.

`make references` writes the columns to `PROTOCOL.md`. Types are Spark SQL type names, the same words in DuckDB. Tables
are append-only; every row carries the four columns of `STAMP`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Row = Mapping[str, Any]
"""One row of a table, without its stamp where it is to be appended, or of an answer: column name to value."""
Comparison = Literal["=", "<", ">=", "in", "not in"]
Filter = tuple[str, Comparison, Any]
"""Column, comparison, and the value or values; null compares with nothing, and is `not in` no values alone."""


KEEP_SUPERSEDED_HOURS = 1
"""By default, and at least: what readers and writers that are at work hold on to is no older."""


# Columns ------------------------------------------------------------------------------------------
# What a table of the ledger consists of.


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` as Spark SQL writes it."""

    name: str
    type: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One append-only table."""

    name: str
    row_per: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


# Schema -------------------------------------------------------------------------------------------


LEDGER_FORMAT = 3
"""Of the tables, their columns, and what rows mean; a program knows one."""
FORMAT_PROPERTY = "mirrorLedger.schemaVersion"
"""Table property that says the format."""
GAPS_TYPE = "array<struct<source_start:bigint,source_end:bigint,cause:string>>"
SHUT_OUT_TYPE = "array<struct<fact_table:string,writer_epoch:bigint,round:bigint>>"


STAMP = (
    Column("writer", "string", "who appended the row: `flow:NAME`, `recorder:CLUSTER`, `operator`"),
    Column(
        "writer_epoch", "bigint", "how often that writer had been (re)started; later epochs shut out earlier"
    ),
    Column("round", "bigint", "the writer's append in this epoch; 0 is the claim itself"),
    Column("recorded_at_ms", "bigint", "when the append was made; equal for all rows of a commit"),
)

OFFSET_SYNCS = Table(
    "offset_syncs",
    "partition and round that had progress",
    (
        *STAMP,
        Column("flow", "string", "the flow that copied"),
        Column("source_cluster", "string", "alias of the source cluster"),
        Column("target_cluster", "string", "alias of the target cluster"),
        Column("source_topic", "string", "topic name at the source"),
        Column("source_topic_id", "string", "topic id at the source"),
        Column("source_partition", "int", "partition at the source"),
        Column(
            "source_leader_epoch",
            "int",
            "leader epoch of the last source batch; null when none was read",
            True,
        ),
        Column("target_topic", "string", "topic name at the target"),
        Column("target_topic_id", "string", "topic id at the target"),
        Column("target_partition", "int", "partition at the target"),
        Column("source_start", "bigint", "first source offset covered"),
        Column("source_end", "bigint", "first source offset not covered"),
        Column("target_start", "bigint", "target offset of the first copied record"),
        Column("target_end", "bigint", "target offset after the last copied record"),
        Column("first_sequence", "int", "producer sequence of the first copied record, or of the next one"),
        Column("producer_id", "bigint", "the flow's producer id, for which `first_sequence` is", True),
        Column(
            "former_producer_id",
            "bigint",
            "the earlier id that the row's records were written with; null: `producer_id`",
            True,
        ),
        Column(
            "gaps", GAPS_TYPE, "source offsets inside without a copied record, ascending, with their cause"
        ),
        Column("kind", "string", "`started`, `copied`, `adopted`, `lost`, `superseded` or `unpaired`"),
        Column(
            "cause",
            "string",
            "why a row that is not a copy was written; null for `copied`, mostly for `adopted`",
            True,
        ),
        Column("recovered", "boolean", "true when found on the target by tail reconciliation"),
        Column(
            "first_timestamp_ms",
            "bigint",
            "base timestamp of the first copied batch",
            True,
        ),
        Column("last_timestamp_ms", "bigint", "largest record timestamp copied", True),
        Column("records", "bigint", "copied records"),
        Column("bytes", "bigint", "bytes of the copied record batches as produced"),
        Column("checksum", "bigint", "CRC-32C over the copied batches from byte 61 on, chained", True),
        Column("raw_batches", "bigint", "batches copied as the bytes they were"),
        Column("record_path_batches", "bigint", "batches that took the record path"),
        Column(
            "merged_batches",
            "bigint",
            "batches of the source that were merged into fewer of the record path; null: none",
            True,
        ),
    ),
)

CHECKPOINTS = Table(
    "checkpoints",
    "group and partition, when changed; full sweeps now and then",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("group_id", "string", "consumer group"),
        Column("group_type", "string", "`classic`, `consumer`, ...; null when the broker did not say", True),
        Column("group_state", "string", "`Stable`, `Empty`, ...; null when the broker did not say", True),
        Column("topic", "string", "topic name"),
        Column(
            "topic_id", "string", "topic id when the commit was read; null when the topic did not exist", True
        ),
        Column("partition", "int", "partition"),
        Column(
            "committed_offset",
            "bigint",
            "the next offset that the group will read; null: `absence` says why",
            True,
        ),
        Column("leader_epoch", "int", "leader epoch stored with the commit", True),
        Column("metadata", "string", "metadata stored with the commit, verbatim", True),
        Column("read_at_ms", "bigint", "when the commit was read from the cluster"),
        Column(
            "absence",
            "string",
            "why there is no commit any more: `gone` or `hidden`; null when there is one",
            True,
        ),
        Column(
            "transaction_pending",
            "boolean",
            "whether an open transaction had committed another one; null: not asked",
            True,
        ),
    ),
)

GROUPS = Table(
    "groups",
    "group, when changed; and cluster, when its groups are listed otherwise",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("group_id", "string", "the group; null: the listing of the cluster", True),
        Column(
            "group_type",
            "string",
            "`classic`, `consumer`, `streams`, `share`; null when the broker did not say",
            True,
        ),
        Column(
            "protocol_type",
            "string",
            "`consumer`, `connect`, ...; null when it has none, or the broker did not say",
            True,
        ),
        Column("group_state", "string", "`Stable`, `Empty`, ...; null when the broker did not say", True),
        Column("has_members", "boolean", "whether it had members; null when that is unknown", True),
        Column(
            "event",
            "string",
            "`present`, `gone`, `hidden`, `unavailable`; listing: `all_listed`, `permitted_listed`",
        ),
        Column(
            "reason", "string", "Kafka's name of the error for which a group was not read; else null", True
        ),
        Column("read_at_ms", "bigint", "when this was read from the cluster"),
    ),
)

SHARE_OFFSETS = Table(
    "share_offsets",
    "share group and partition, when changed",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("group_id", "string", "share group"),
        Column("topic", "string", "topic name"),
        Column("topic_id", "string", "topic id", True),
        Column("partition", "int", "partition"),
        Column(
            "start_offset",
            "bigint",
            "the group is done with all before it; null: not begun, or `absence` says why",
            True,
        ),
        Column("leader_epoch", "int", "leader epoch stored with it", True),
        Column(
            "lag",
            "bigint",
            "records from there on that it is not done with; null when not reported",
            True,
        ),
        Column("read_at_ms", "bigint", "when this was read from the cluster"),
        Column(
            "absence",
            "string",
            "why there is no start offset any more: `gone` or `hidden`; else null",
            True,
        ),
    ),
)

GROUP_SYNCS = Table(
    "group_syncs",
    "group, partition and commit that a driver makes at its target, and again when it was read back",
    (
        *STAMP,
        Column("flow", "string", "flow name"),
        Column("group_id", "string", "consumer group"),
        Column("source_cluster", "string", "alias of the cluster that it reads at"),
        Column("source_topic", "string", "topic name there"),
        Column("source_topic_id", "string", "topic id of its commit there", True),
        Column("source_partition", "int", "partition there"),
        Column("source_offset", "bigint", "its commit there"),
        Column("source_leader_epoch", "int", "leader epoch of that commit; null: unknown", True),
        Column("source_made_after_ms", "bigint", "when that commit was not there yet; null: unknown", True),
        Column("target_cluster", "string", "alias of the target"),
        Column("target_topic", "string", "topic name there"),
        Column("target_topic_id", "string", "topic id there"),
        Column("target_partition", "int", "partition there"),
        Column("former_offset", "bigint", "what was committed there; null: nothing", True),
        Column("target_offset", "bigint", "what is committed there"),
        Column("status", "string", "status of the translation"),
        Column("event", "string", "`intended` or `synced`"),
    ),
)

HIGH_WATERMARKS = Table(
    "high_watermarks",
    "partition, when changed",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("topic", "string", "topic name"),
        Column("topic_id", "string", "topic id"),
        Column("partition", "int", "partition"),
        Column("leader_epoch", "int", "leader epoch at the end of the log", True),
        Column("log_start", "bigint", "first offset that can be read"),
        Column("last_stable", "bigint", "first offset that a read_committed reader cannot read"),
        Column("high_watermark", "bigint", "first offset that no reader can read"),
        Column("read_at_ms", "bigint", "when the read of the ends began"),
        Column(
            "confirms_others",
            "boolean",
            "whether ends without a row in this round were as recorded; null: unknown",
            True,
        ),
        Column(
            "previous_read_at_ms",
            "bigint",
            "when the read before began, with all ends as recorded; null: unknown",
            True,
        ),
    ),
)

TOPICS = Table(
    "topics",
    "topic, when changed",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("topic", "string", "topic name"),
        Column("topic_id", "string", "topic id"),
        Column("partitions", "int", "number of partitions"),
        Column("replication_factor", "int", "replicas of each partition"),
        Column("configuration", "string", "JSON object of the settings that differ from the defaults"),
        Column(
            "event",
            "string",
            "`observed`, `created`, `recreated`, `partitions_added`, `configuration_changed`, `deleted`",
        ),
    ),
)

PERMISSIONS = Table(
    "permissions",
    "access control list, SCRAM credential or quota, when changed; and kind, when it is read otherwise",
    (
        *STAMP,
        Column("cluster", "string", "alias of the cluster"),
        Column("cluster_id", "string", "Kafka cluster id of the cluster"),
        Column("kind", "string", "`acl`, `scram_user` or `quota`"),
        Column(
            "event",
            "string",
            "`present`, `removed`; of a kind `readable`, `not_permitted`, `not_enforced`, `refused`",
        ),
        Column(
            "entity",
            "string",
            "principal, user, or JSON object of a quota's entity; null: the whole kind",
            True,
        ),
        Column("setting", "string", "mechanism of a SCRAM credential, key of a quota; else null", True),
        Column("value", "double", "iterations of a SCRAM credential, limit of a quota; else null", True),
        Column("host", "string", "of an ACL: the host, `*` for all; else null", True),
        Column("operation", "string", "of an ACL: `read`, `describe_configs`, `all`, ...; else null", True),
        Column("permission_type", "string", "of an ACL: `allow` or `deny`; else null", True),
        Column(
            "resource_type",
            "string",
            "of an ACL: `topic`, `group`, `transactional_id`, `cluster`, ...; else null",
            True,
        ),
        Column("resource_name", "string", "of an ACL: name or prefix, `*` for all; else null", True),
        Column("pattern_type", "string", "of an ACL: `literal` or `prefixed`; else null", True),
    ),
)

WRITERS = Table(
    "writers",
    "claim, heartbeat or release of a writer epoch",
    (
        *STAMP,
        Column("event", "string", "`claimed`, `alive` or `released`"),
        Column("host", "string", "host name and process id of the driver"),
        Column("flow", "string", "flow name; null for a recorder", True),
        Column("source_cluster", "string", "alias of the flow's source; of the recorder's cluster"),
        Column("source_cluster_id", "string", "Kafka cluster id of the source"),
        Column("target_cluster", "string", "alias of the flow's target; null for a recorder", True),
        Column("target_cluster_id", "string", "Kafka cluster id of the target; null for a recorder", True),
        Column("producer_id", "bigint", "the flow's producer id at the target; null for a recorder", True),
        Column(
            "former_producer_id",
            "bigint",
            "the id that `producer_id` replaces; null: it is the flow's first one",
            True,
        ),
        Column(
            "allocated_producer_id", "bigint", "the id that the target gave; null: it was not asked", True
        ),
        Column(
            "source_metadata_offset",
            "bigint",
            "how far the source's metadata had come; null when not reported",
            True,
        ),
        Column(
            "target_metadata_offset",
            "bigint",
            "the same of the target; null when not reported, or for a recorder",
            True,
        ),
        Column("config_hash", "string", "SHA-256 of the flow's configuration; null for a recorder", True),
        Column(
            "brokers", "string", "of a recorder: `PROTOCOL://HOST:PORT,...` of all brokers; else null", True
        ),
        Column(
            "shut_out",
            SHUT_OUT_TYPE,
            "of a claim: by table, the last append of its earlier epochs; else null",
            True,
        ),
    ),
)

OPERATIONS = Table(
    "operations",
    "plan, step, receipt, drill, stop and resume request",
    (
        *STAMP,
        Column("operation_id", "string", "identity of the operation; its rows share it"),
        Column("kind", "string", "`stop`, `partition_stopped`, ..."),
        Column("flow", "string", "the flow concerned; null when none", True),
        Column("operator", "string", "who asked"),
        Column("reason", "string", "why, in the operator's words", True),
        Column("ticket", "string", "reference to a ticket", True),
        Column("content", "string", "JSON object; its keys depend on the kind"),
    ),
)

CUT_OFFSETS = Table(
    "cut_offsets",
    "partition of a cut, at either side",
    (
        *STAMP,
        Column("operation_id", "string", "the operation that the cut is of; its rows share it"),
        Column("flow", "string", "the flow that copied from one side to the other"),
        Column("side", "string", "`source` or `target` of that flow"),
        Column("cluster", "string", "alias of the cluster"),
        Column("cluster_id", "string", "Kafka cluster id of the cluster; null when nobody knows it", True),
        Column("source_topic", "string", "topic name at the source: both rows of a pair share it"),
        Column("topic", "string", "topic name"),
        Column("topic_id", "string", "topic id"),
        Column("partition", "int", "partition"),
        Column("leader_epoch", "int", "leader epoch at the end of the log; null when unknown", True),
        Column("log_start", "bigint", "first offset that can be read; null when unknown", True),
        Column(
            "last_stable",
            "bigint",
            "first offset that a read_committed reader cannot read; null when unknown",
            True,
        ),
        Column("high_watermark", "bigint", "first offset that no reader can read; null when unknown", True),
        Column("map_source_end", "bigint", "source end of the flow's map; null when it has none", True),
        Column("map_target_end", "bigint", "target end of the flow's map; null when it has none", True),
        Column(
            "reverse_start",
            "bigint",
            "where the way back begins, of a target; null at a source, or while unknown",
            True,
        ),
        Column("read_at_ms", "bigint", "when the read of the ends began; null when they are unknown", True),
        Column("is_live", "boolean", "whether the cluster answered; else the ends are as last recorded"),
    ),
)

TABLES: tuple[Table, ...] = (
    OFFSET_SYNCS,
    CHECKPOINTS,
    GROUPS,
    SHARE_OFFSETS,
    GROUP_SYNCS,
    HIGH_WATERMARKS,
    TOPICS,
    PERMISSIONS,
    CUT_OFFSETS,
    WRITERS,
    OPERATIONS,
)
TABLE_BY_NAME = {table.name: table for table in TABLES}


# Places -------------------------------------------------------------------------------------------
# Places: one number that orders a writer's appends to a table, from its epoch and its round.
#
# It is the version of the writer's app transaction in the Delta log, too (`ledger/PROTOCOL.md`, "Writer
# requirements").


ROUNDS_PER_EPOCH = 1 << 32


def place_of(epoch: int, number: int) -> int:
    """The place of an epoch's round."""
    return epoch * ROUNDS_PER_EPOCH + number


def epoch_of(place: int) -> int:
    return epoch_and_round(place)[0]


def epoch_and_round(place: int) -> tuple[int, int]:
    """What a place was made of."""
    return divmod(place, ROUNDS_PER_EPOCH)


# Order --------------------------------------------------------------------------------------------
# The order of rows.


_RowT = TypeVar("_RowT", bound=Mapping[str, Any])


def in_order(rows: Iterable[_RowT]) -> list[_RowT]:
    """Rows of one writer in the order in which it appended them.

    Rows of several writers have no order among each other; each writer's are in its own.
    """
    return sorted(rows, key=lambda row: (row["writer_epoch"], row["round"]))
