"""Operations as they are recorded: kinds, contents, and what happened to partitions, topics and flows."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.errors import InvalidValueError
from ledger.facts.codec import LEFT_OUT, decode, encode, form, inline
from ledger.facts.permissions import Permission, topic_acl
from ledger.facts.tables import Row, in_order
from ledger.topics.following import SettingsChange

# Kinds --------------------------------------------------------------------------------------------
# The kinds of rows of `operations`.


class OperationKind(StrEnum):
    """What a row says: the docstring of its content's class (`every_kind`), and PROTOCOL.md, "Kinds of operations"."""

    # Of operators: what they ask of a flow's driver.
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP_TO = "skip_to"
    ACCEPT_FOREIGN = "accept_foreign"
    RESYNC = "resync"
    RELOAD = "reload"
    # Of operators: what they did, or declare.
    DRIVER_STARTING = "driver_starting"
    SCOPE_REDUCED = "scope_reduced"
    CLUSTER_ACCEPTED = "cluster_accepted"
    OFFSETS_SET = "offsets_set"
    OFFSETS_SET_RESULT = "offsets_set_result"
    MEMBERS_REMOVED = "members_removed"
    EXTRAS_DECIDED = "extras_decided"
    DEFICITS_DECIDED = "deficits_decided"
    TOPIC_RECREATED = "topic_recreated"
    WAY_BACK_OPENED = "way_back_opened"
    PROMOTED = "promoted"
    DEMOTED = "demoted"
    FENCE = "fence"
    UNFENCED = "unfenced"
    HANDED_OVER = "handed_over"
    HAND_OVER_UNDONE = "hand_over_undone"
    HAND_OVER_RESULT = "hand_over_result"
    SETTLED = "settled"
    MIRROR_SHUT_OUT = "mirror_shut_out"
    MIRROR_LET_IN = "mirror_let_in"
    KEYS_RESYNCED = "keys_resynced"
    # Of changes of direction.
    PLAN = "plan"
    PLAN_APPROVED = "plan_approved"
    APPLY_CLAIMED = "apply_claimed"
    APPLY_ALIVE = "apply_alive"
    STEP_BEGUN = "step_begun"
    STEP_DONE = "step_done"
    STEP_FAILED = "step_failed"
    APPLY_ENDED = "apply_ended"
    DRILLED = "drilled"
    SHEET = "sheet"
    UNDO_BEGUN = "undo_begun"
    UNDONE = "undone"
    # Of drivers and recorders.
    RECEIPT = "receipt"
    CONFIGURATION_CHANGED = "configuration_changed"
    PARTITION_STOPPED = "partition_stopped"
    PARTITION_RESUMED = "partition_resumed"
    TAIL_COPIED_AGAIN = "tail_copied_again"
    TOPIC_FOLLOWED = "topic_followed"
    ACLS_FOLLOWED = "acls_followed"
    FINDING_RAISED = "finding_raised"
    FINDING_CLEARED = "finding_cleared"
    LEDGER_REPAIRED = "ledger_repaired"
    LEDGER_RESTORED = "ledger_restored"
    FACTS_ARCHIVED = "facts_archived"
    FACTS_LEFT = "facts_left"
    FORMER_DRIVERS_SHUT_OUT = "former_drivers_shut_out"


# Content ------------------------------------------------------------------------------------------
# What a row of `operations` says: the base of one class for each kind.
#
# Whoever records an operation gives an object of its class, which knows its kind; whoever reads one gets
# the same object back. A later program may know more: kinds and keys that this one does not know are
# ignored, and a value that is one of several (a cause, a result, an action) is kept as the text that it is.


@dataclass(frozen=True, slots=True)
class Why:
    """Why somebody changes something, as its rows say it.

    `operation_id`: the operation that all of it is a part of; None: it is one of its own.
    """

    reason: str | None = None
    ticket: str | None = None
    operation_id: str | None = None


class OperationContent:
    """Base of frozen dataclasses, whose fields are the keys of the JSON object (`facts.codec`)."""

    __slots__ = ()
    kind: ClassVar[OperationKind]

    def content(self) -> dict[str, object]:
        """The JSON object of a row, as PROTOCOL.md has it for the kind."""
        return encode(self)

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """From the JSON object of a row; raises `KeyError` or `TypeError` where a key is missing."""
        return decode(cls, content)

    @classmethod
    def of_row(cls, row: Row) -> Self:
        """What a row of `operations` of this kind says.

        Raises `InvalidValueError` when it does not have what rows of the kind have.
        """
        try:
            return cls.of_content(json.loads(row["content"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidValueError(
                f"operation {row.get('operation_id')} is no {cls.kind} as PROTOCOL.md has it, it was not read: "
                f"{row['content']} ({type(error).__name__}: {error})"
            ) from error


def recorded_cut(rows: Iterable[Row]) -> str | None:
    """The token of the cut that an operation, of whatever kind, says it went by, from its rows; None: it says none."""
    said = (json.loads(row["content"] or "{}").get("cut") for row in rows)
    return next((token for token in said if isinstance(token, str)), None)


# Partition events ---------------------------------------------------------------------------------
# What happened to a partition of a flow, as it is recorded.


@dataclass(frozen=True, slots=True)
class RecordedStop:
    """Why a partition stands still, as the ledger has it."""

    cause: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStopped(OperationContent):
    """A partition of the source stands still; `cause` may be one that only a later program knows.

    By a flow's driver.

    Keys: `topic`, `topic_id`, `partition`, `cause`, `message`, `next`.
    """

    kind: ClassVar = OperationKind.PARTITION_STOPPED
    topic: str
    topic_id: str
    partition: int
    cause: str
    message: str
    next: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Source topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResumed(OperationContent):
    """A partition of the source that had stopped makes progress again.

    By a flow's driver.

    Keys: `topic`, `topic_id`, `partition`.
    """

    kind: ClassVar = OperationKind.PARTITION_RESUMED
    topic: str
    topic_id: str
    partition: int

    @property
    def place(self) -> tuple[str, int]:
        """Source topic id and partition."""
        return self.topic_id, self.partition


STOP_KINDS = (PartitionResumed.kind, PartitionStopped.kind)


def stopped_partitions(rows: Sequence[Row]) -> dict[tuple[str, int], RecordedStop]:
    """Partitions that stand still by topic id and number, from rows of `STOP_KINDS`."""
    return {place: RecordedStop(stop.cause, stop.message) for place, stop in last_stops(rows).items()}


def last_stops(rows: Sequence[Row]) -> dict[tuple[str, int], PartitionStopped]:
    """The same with all that the last row of each says; of a round a stop comes last."""
    stopped: dict[tuple[str, int], PartitionStopped] = {}
    for row in sorted(
        rows, key=lambda row: (row["writer_epoch"], row["round"], STOP_KINDS.index(row["kind"]))
    ):
        if row["kind"] == PartitionStopped.kind:
            stop = PartitionStopped.of_row(row)
            stopped[stop.place] = stop
        else:
            stopped.pop(PartitionResumed.of_row(row).place, None)
    return stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCopiedAgain(OperationContent):
    """A partition is copied again from what may have been copied already, because nothing of it could be proved.

    By a flow's driver, before the facts of a round in which it does so.

    Keys: `topic`, `topic_id`, `partition`, `message`.
    """

    kind: ClassVar = OperationKind.TAIL_COPIED_AGAIN
    topic: str
    topic_id: str
    partition: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysResynced(OperationContent):
    """Keys of a partition were compared, and tombstones that were missing at the target written.

    By `mirror-ledger resync-keys`, per partition that was compared. `reason` of the row says why tombstones are
    missing (null: none is).

    Keys: `topic`, `partition`, `source_keys` (with any record at the source), `target_keys` (whose last record at the
    target has a value), `tombstones` (written and recorded).
    """

    kind: ClassVar = OperationKind.KEYS_RESYNCED
    topic: str
    partition: int
    source_keys: int
    target_keys: int
    tombstones: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(OperationContent):
    """A target partition was read behind the flow's recorded end, while its source did not answer ("Settling").

    By `mirror-ledger settle`, a row per partition whose target was read; all rows of one command share the operation
    id. `target_end`: up to where it was read.

    Keys: `topic`, `topic_id`, `partition`, `target_topic`, `target_topic_id`; `source_start`, `target_start` (where
    the flow stood), `target_end`, `first_sequence` (the flow's next one then) of `producer_id` (null: it has had one
    only); `records` (of the flow), `others` (records of other writers), `others_start` (null: none).
    """

    kind: ClassVar = OperationKind.SETTLED
    topic: str
    topic_id: str
    partition: int
    target_topic: str
    target_topic_id: str
    source_start: int
    target_start: int
    target_end: int
    first_sequence: int
    producer_id: int | None
    records: int
    others: int
    others_start: int | None


SettledByEpoch = Mapping[int, Settled]
"""Of one source partition, by the writer epoch that was claimed to settle it."""


def settlements(rows: Iterable[Row]) -> dict[tuple[str, int], SettledByEpoch]:
    """By source topic id and partition, from rows of `settled`; those that found nothing are left out."""
    found: dict[tuple[str, int], dict[int, Settled]] = {}
    for row in rows:
        settled = Settled.of_row(row)
        if settled.records:
            found.setdefault((settled.topic_id, settled.partition), {})[row["writer_epoch"]] = settled
    return dict(found)


# Target changes -----------------------------------------------------------------------------------
# What a flow changed at its target, as it is recorded: topics, their settings, access control lists.


SETTINGS_CHANGE = inline(to_set="set", to_remove="removed")
"""As rows of `operations` have a change of settings: its keys are among those of the topic."""


class TopicAction(StrEnum):
    """What a flow did with a target topic."""

    CREATED = "created"
    PARTITIONS_ADDED = "partitions_added"
    SETTINGS_CHANGED = "settings_changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFollowed(OperationContent):
    """A target topic was created, changed or deleted.

    By a flow's driver.

    Keys: `action` (`created`, `partitions_added`, `settings_changed`, `deleted`), `topic`, `topic_id` (of the target),
    `partitions` (null: unchanged), `set` (settings), `removed` (names of settings).
    """

    kind: ClassVar = OperationKind.TOPIC_FOLLOWED
    action: str
    topic: str
    topic_id: str
    partitions: int | None = None
    change: SettingsChange = field(default_factory=SettingsChange, metadata=SETTINGS_CHANGE)


def followed_settings(rows: Sequence[Row]) -> dict[str, frozenset[str]]:
    """Names of settings that a flow had set and not removed, by target topic id, from rows in order."""
    names: dict[str, frozenset[str]] = {}
    for row in rows:
        followed = TopicFollowed.of_row(row)
        before = names.get(followed.topic_id, frozenset())
        after = (before | followed.change.to_set.keys()) - set(followed.change.to_remove)
        names[followed.topic_id] = after
    return names


def _acl_content(acl: Permission) -> dict[str, object]:
    return {
        "pattern": acl.pattern_type,
        "name": acl.resource_name,
        "principal": acl.entity,
        "host": acl.host,
        "operation": acl.operation,
        "permission": acl.permission_type,
    }


def _known_acls(recorded: Iterable[Mapping[str, str]]) -> Iterator[Permission]:
    """The rules whose words this program knows."""
    for rule in recorded:
        if rule["pattern"] in ("literal", "prefixed") and rule["permission"] in ("allow", "deny"):
            yield topic_acl(
                rule["name"],
                rule["principal"],
                rule["operation"],
                permission_type=rule["permission"],
                pattern_type=rule["pattern"],
                host=rule["host"],
            )


TOPIC_ACLS = form(
    write=lambda acls: [_acl_content(acl) for acl in acls], read=lambda acls: tuple(_known_acls(acls))
)
"""Rules about topics as rows of `operations` have them."""


class AclAction(StrEnum):
    """What a flow did with access control lists."""

    CREATED = "created"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class AclsFollowed(OperationContent):
    """Access control lists were created or removed at the target; kinds that are not known here are left out.

    By a flow's driver.

    Keys: `action` (`created`, `removed`), `acls`: `pattern`, `name`, `principal`, `host`, `operation`, `permission`
    each.
    """

    kind: ClassVar = OperationKind.ACLS_FOLLOWED
    action: str
    acls: tuple[Permission, ...] = field(metadata=TOPIC_ACLS)


def created_acls(rows: Sequence[Row]) -> frozenset[Permission]:
    """Access control lists that a flow had created and not removed, from rows in order."""
    created: set[Permission] = set()
    for row in rows:
        followed = AclsFollowed.of_row(row)
        if followed.action == AclAction.CREATED:
            created |= set(followed.acls)
        elif followed.action == AclAction.REMOVED:
            created -= set(followed.acls)
    return frozenset(created)


# Finding events -----------------------------------------------------------------------------------
# Findings as they are recorded: raised, cleared, and which of them are open.


FindingKey = tuple[str, str | None, int | None]
"""Name, topic and partition of a finding (`mirror.findings`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfFinding(OperationContent):
    """What is said of one finding."""

    finding: str
    topic: str | None
    partition: int | None

    @property
    def key(self) -> FindingKey:
        return self.finding, self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRaised(_OfFinding):
    """Something needs attention, and nothing stopped.

    By a flow's driver; by a recorder (`flow` is null) when its cluster does not answer, or a record was written behind
    a fence.

    Keys: `finding`, `topic`, `partition` (null: all), `message`, `next`; of recorders and clusters that do not answer
    also `cluster` (alias), of the latter `since_ms` (when the first request had failed).
    """

    kind: ClassVar = OperationKind.FINDING_RAISED
    message: str
    next: str | None = None
    cluster: str | None = field(default=None, metadata=LEFT_OUT)
    since_ms: int | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCleared(_OfFinding):
    """A finding holds no longer.

    By a flow's driver; by `mirror-ledger resync-keys`; by a recorder.

    Keys: `finding`, `topic`, `partition`.
    """

    kind: ClassVar = OperationKind.FINDING_CLEARED

    @classmethod
    def of_key(cls, key: FindingKey) -> Self:
        finding, topic, partition = key
        return cls(finding=finding, topic=topic, partition=partition)


FINDING_KINDS = (OperationKind.FINDING_RAISED, OperationKind.FINDING_CLEARED)


def open_findings(rows: Sequence[Row]) -> frozenset[FindingKey]:
    """Findings raised and not cleared since, from rows of `FINDING_KINDS`."""
    left: set[FindingKey] = set()
    for row in in_order(rows):
        if row["kind"] == FindingRaised.kind:
            left.add(FindingRaised.of_row(row).key)
        else:
            left.discard(FindingCleared.of_row(row).key)
    return frozenset(left)


# Flow events --------------------------------------------------------------------------------------
# What happened to a flow as a whole, as it is recorded.


@dataclass(frozen=True, slots=True)
class DriverStarting(OperationContent):
    """A process is about to run the flow; Spark starts before the claim.

    By `mirror-ledger run` and its job when they begin; by a standby right before its claim. A `stop` of an earlier
    place is not meant for that driver.

    Keys: `host` (the process, as in `writers`), `until_caught_up` (it ends by itself).
    """

    kind: ClassVar = OperationKind.DRIVER_STARTING
    host: str
    until_caught_up: bool = False


@dataclass(frozen=True, slots=True)
class PendingStart:
    """The process that began to run a flow, as writers say it, and when."""

    host: str
    at_ms: int

    @classmethod
    def of_row(cls, row: Row) -> "PendingStart":
        """The start that a row of `operations` holds."""
        return cls(DriverStarting.of_row(row).host, row["recorded_at_ms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChanged(OperationContent):
    """A flow continues with another configuration than that of the last claim.

    By a flow's driver.

    Keys: `old_hash` (null: unknown), `new_hash`, `changed` (keys; null: unknown), `configuration`.
    """

    kind: ClassVar = OperationKind.CONFIGURATION_CHANGED
    old_hash: str | None
    new_hash: str
    changed: Sequence[str] | None
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScopeReduced(OperationContent):
    """Topics that were mirrored are meant to be left out.

    By `mirror-ledger run --allow-scope-reduction`.

    Keys: `topics`: source topic to how far it had been copied (source offsets summed over partitions).
    """

    kind: ClassVar = OperationKind.SCOPE_REDUCED
    topics: Mapping[str, int]


def accepted_reductions(rows: Sequence[Row]) -> dict[str, int]:
    """By source topic how far it had been copied when leaving it out was last accepted, from rows in order."""
    accepted: dict[str, int] = {}
    for row in rows:
        accepted |= ScopeReduced.of_row(row).topics
    return accepted


# Repairs ------------------------------------------------------------------------------------------
# What was given up of a ledger whose files were damaged.


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A damaged file, and in `words` how it was.

    `rows`: the least and greatest values that the log has of its rows; None: the log had none, or it was an entry of
    the log: nobody knows which rows it named.
    """

    file: str
    words: str
    rows: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LedgerRepaired(OperationContent):
    """Damaged files of a table were given up, and are read no more.

    By `mirror-ledger maintain --repair`, for each table; `flow` is null.

    Keys: `table`, `given_up` (a list of `file`, `words` and `rows`: what the log said of the rows of the file; null:
    it was a file of the log, and nobody knows which rows it named).
    """

    kind: ClassVar = OperationKind.LEDGER_REPAIRED
    table: str
    given_up: Sequence[GivenUp]


# Restorations -------------------------------------------------------------------------------------
# A copy of a ledger became the ledger, for the former one was lost.


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRestored(OperationContent):
    """The ledger was restored from a copy: what had been recorded behind `cut` is lost.

    By `mirror-ledger ledger restore`; `flow` is null.

    Keys: `ledger_id` (of the ledger that was lost, and of this one), `origin` (where that lay), `cut` (token of what
    was copied), `cut_at_ms` (when that was), `first_epoch` (the epoch that each writer was given then: earlier ones are
    of the lost ledger).
    """

    kind: ClassVar = OperationKind.LEDGER_RESTORED
    ledger_id: str
    origin: str
    cut: str
    cut_at_ms: int
    first_epoch: int
