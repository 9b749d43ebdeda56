"""Offsets of groups that were set at a target, as it is recorded: what was about to be set, and what became of it."""

from dataclasses import dataclass
from typing import ClassVar

from ledger.facts.operations import OperationContent, OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class IntendedCommit:
    """A partition of the target where a group's commit is about to go from `former` to `to`, and why there.

    `former` None: nothing was committed there. `source_offset` None: the group has no commit at the source; then
    `source_topic_id` is that of its other commits on the topic, None where these are of several. What is known of
    the commit at the source: `source_leader_epoch`, and `source_made_after_ms`, when it was not there yet; None
    where nobody knows.
    """

    topic: str
    topic_id: str
    partition: int
    former: int | None
    to: int
    source_topic: str
    source_topic_id: str | None = None
    source_partition: int
    source_offset: int | None
    source_leader_epoch: int | None = None
    source_made_after_ms: int | None = None
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of a partition of a group; `topic`, `partition` and `to` are None where the answers had none."""

    source_topic: str
    source_partition: int
    topic: str | None
    partition: int | None
    former: int | None
    to: int | None
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAppend:
    """The last append of a writer to a table that answers were computed from: what it appended later they knew not."""

    table: str
    writer: str
    epoch: int
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSet(OperationContent):
    """Offsets of a group are about to be set, by answers at a cut.

    By `mirror-ledger offsets set` before it commits, a row per group. All rows of one command share the operation id.
    `flow` of the row is null where all flows between two clusters answered. An operation that is carried out again,
    after a crash, may intend the same again: a result is about the intention before it. So is what somebody else has
    committed since the intention: it is intended again with that as `former`, or left as it is.

    Keys: `group`, `source_cluster` (alias), `target_cluster`, `group_type` (`share`: what is set are share-partition
    start offsets of a share group; null: commits), `cut` (of the answers), `commits`: per partition `topic`,
    `topic_id`, `partition` (of the target), `former` (what was committed there; null: nothing), `to`, `source_topic`,
    `source_topic_id`, `source_partition`, `source_offset` (null: no commit), `source_leader_epoch` (of that commit;
    null: unknown), `source_made_after_ms` (when the group was last seen with another offset, or with none; null:
    never), `status`; `seen`: of the cut the last append of the target's recorder to `checkpoints` and of each writer
    to `group_syncs`, as `table`, `writer`, `epoch`, `round`.
    """

    kind: ClassVar = OperationKind.OFFSETS_SET
    group: str
    source_cluster: str
    target_cluster: str
    group_type: str | None = None
    cut: str
    commits: tuple[IntendedCommit, ...]
    seen: tuple[SeenAppend, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSetResult(OperationContent):
    """What became of an intention to set offsets of a group, as it was read back.

    By `mirror-ledger offsets set` after it has read back, a row per group, with the operation id of the intention.
    Without this row it is unknown what the target has.

    Keys: `group`, `results`: per partition `source_topic`, `source_partition`, `topic`, `partition`, `former`, `to`,
    `result` (OPERATIONS.md, "Results of offsets set").
    """

    kind: ClassVar = OperationKind.OFFSETS_SET_RESULT
    group: str
    results: tuple[CommitResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRemoved(OperationContent):
    """Static members of a group are about to be removed, whose consumers are said to be stopped.

    By `mirror-ledger remove-members` before it asks the broker.

    Keys: `cluster` (alias), `cluster_id`, `group`, `instances`: their `group.instance.id`.
    """

    kind: ClassVar = OperationKind.MEMBERS_REMOVED
    cluster: str
    cluster_id: str
    group: str
    instances: tuple[str, ...]
