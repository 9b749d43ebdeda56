"""Fences, and the mirror shut out: what proves them, and what is recorded of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Self

from ledger.facts.acls import denial
from ledger.facts.codec import LEFT_OUT
from ledger.facts.operations import TOPIC_ACLS, OperationContent, OperationKind
from ledger.facts.permissions import Permission
from ledger.facts.requests import asked_in_words
from ledger.facts.tables import Row

# Shut outs ----------------------------------------------------------------------------------------
# What keeps the mirror itself from writing to topics that were promoted, as it is recorded, and how it
# ends.


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMarker:
    """An abort marker of a flow's producer id with a later producer epoch: earlier ones are refused behind it."""

    flow: str
    producer_id: int
    producer_epoch: int
    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutOutProof:
    """What proves that a flow writes no more to a partition of the promoted cluster.

    `stopped`: how it is known that its driver stopped. `fences`: what keeps a mirror out that does not know of the
    promotion (`deny`, `marker`). `reason`: why it is not proven, None: it is.
    """

    flow: str
    topic: str
    partition: int
    stopped: str
    fences: tuple[str, ...]
    reason: str | None

    @property
    def is_proven(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorShutOut(OperationContent):
    """What keeps the mirror itself from writing to promoted topics ("Directions").

    By `mirror-ledger promote --shut-out`. `flow` of the row is null.

    Keys: `cluster` (alias), `cluster_id`, `former` (alias), `principal` (the mirror's; null: not configured), `flows`
    (flow to the writer epoch that has stopped, 0: it never ran), `topics`, `rules` (created for it: `pattern`, `name`,
    `principal`, `host`, `operation`, `permission` each), `markers` (of which the cluster has them, or may have them:
    `flow`, `producer_id`, `producer_epoch`, `topic`, `topic_id`, `partition` each), `proof` (null: it is about to be
    done; `flow`, `topic`, `partition`, `stopped` in words, `fences` of `deny` and `marker`, `reason` why it is not
    proven, null: it is, each).
    """

    kind: ClassVar = OperationKind.MIRROR_SHUT_OUT
    cluster: str
    cluster_id: str
    former: str
    principal: str | None
    flows: Mapping[str, int]
    topics: tuple[str, ...]
    rules: tuple[Permission, ...] = field(metadata=TOPIC_ACLS)
    markers: tuple[EpochMarker, ...]
    proof: tuple[ShutOutProof, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLetIn(OperationContent):
    """Rules that shut the mirror out were removed; markers stay for ever.

    By `mirror-ledger demote`. `flow` of the row is null.

    Keys: `cluster`, `cluster_id`, `former` (over which it is promoted no more), `topics`,
    `rules` (those that keep flows from `former` out no more; one that keeps others out as well stays: `pattern`,
    `name`, `principal`, `host`, `operation`, `permission` each).
    """

    kind: ClassVar = OperationKind.MIRROR_LET_IN
    cluster: str
    cluster_id: str
    former: str
    topics: tuple[str, ...]
    rules: tuple[Permission, ...] = field(metadata=TOPIC_ACLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerDriversShutOut(OperationContent):
    """Drivers of a ledger that was lost are kept from the target of a flow, for the ledger was restored from a copy.

    By `run`, once before it claims the flow on the restored ledger: about to be done, then done.

    Keys: `restored_by` (the operation of the restoration), `cluster` (alias), `cluster_id`, `markers` (of which the
    cluster has them, or may have them: `flow`, `producer_id`, `producer_epoch`, `topic`, `topic_id`, `partition` each),
    `is_done`, `reason` (why there are none: the flow continues with its producer id; null: there are).
    """

    kind: ClassVar = OperationKind.FORMER_DRIVERS_SHUT_OUT
    restored_by: str
    cluster: str
    cluster_id: str
    markers: tuple[EpochMarker, ...]
    is_done: bool
    reason: str | None


SHUT_OUT_KINDS = (
    OperationKind.MIRROR_SHUT_OUT,
    OperationKind.MIRROR_LET_IN,
    OperationKind.FORMER_DRIVERS_SHUT_OUT,
)


@dataclass(frozen=True, slots=True)
class ShutOuts:
    """All that was recorded of it, in the order of the operators' serial.

    `of_former_drivers`: by restoration and flow what was recorded last of drivers of a ledger that was lost.
    """

    changes: Sequence[MirrorShutOut | MirrorLetIn] = ()
    of_former_drivers: Mapping[tuple[str, str], FormerDriversShutOut] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `SHUT_OUT_KINDS`, in the order of their stamps."""
        changes: list[MirrorShutOut | MirrorLetIn] = []
        former: dict[tuple[str, str], FormerDriversShutOut] = {}
        for row in rows:
            if row["kind"] == OperationKind.FORMER_DRIVERS_SHUT_OUT:
                found = FormerDriversShutOut.of_row(row)
                former[found.restored_by, str(row["flow"])] = found
            else:
                changes.append(_change(row))
        return cls(changes, former)

    def rules(
        self, cluster_id: str, topics: Collection[str] | None, former: str | None = None
    ) -> frozenset[Permission]:
        """Rules that were created at a cluster for these topics (None: all) and not removed since.

        `former`: those that keep flows from there out, None: from anywhere.
        """
        active = self._by_former(cluster_id)
        found = active.values() if former is None else (active.get(former, frozenset()),)
        return frozenset(
            rule for rules in found for rule in rules if topics is None or rule.resource_name in topics
        )

    def only_of(self, cluster_id: str, former: str, rules: Collection[Permission]) -> frozenset[Permission]:
        """Of these rules those that keep nobody out but flows from `former`."""
        active = self._by_former(cluster_id)
        others = [rules_of for name, rules_of in active.items() if name != former]
        return frozenset(rules).difference(*others)

    def _by_former(self, cluster_id: str) -> dict[str, frozenset[Permission]]:
        active: dict[str, frozenset[Permission]] = {}
        for change in self.changes:
            named = frozenset(change.rules)
            if change.cluster_id != cluster_id:
                continue
            if isinstance(change, MirrorShutOut):
                active[change.former] = active.get(change.former, frozenset()) | named
            elif change.former in active:
                active[change.former] -= named
        return active

    def has_rules(self, cluster: str, former: str, topics: Collection[str] | None) -> bool:
        """Whether rules stand that keep flows from `former` out of these topics (None: all) of what an alias stood
        for."""
        ids = {change.cluster_id for change in self.changes if change.cluster == cluster}
        return any(self.rules(cluster_id, topics, former) for cluster_id in ids)

    def fenced_topics(self, cluster_id: str, producer_id: int) -> frozenset[str]:
        """Topics that hold markers of a producer id, or may hold them: nothing is written there with it again."""
        made: list[MirrorShutOut | FormerDriversShutOut] = list(self.of_former_drivers.values())
        made += [change for change in self.changes if isinstance(change, MirrorShutOut)]
        return frozenset(
            marker.topic
            for change in made
            if change.cluster_id == cluster_id
            for marker in change.markers
            if marker.producer_id == producer_id
        )


def _change(row: Row) -> MirrorShutOut | MirrorLetIn:
    is_shut_out = row["kind"] == OperationKind.MIRROR_SHUT_OUT
    return MirrorShutOut.of_row(row) if is_shut_out else MirrorLetIn.of_row(row)


# Proof --------------------------------------------------------------------------------------------
# What proves a fence, partition by partition: that its leader refuses writers, and that all it has taken is
# seen.
#
# Rules
#    F1  a leader that refuses writers itself proves it: its authorizer lists the rules that deny them, or it refused a
#        batch for the size that the fence allows. Where only a setting was read back, five seconds of F3 come instead
#    F2  what no leader enforces (a hook), or what lets some records pass, stillness alone shows: no data record for the
#        longest pause that writers made in the last hour, within bounds; where nothing lies in the log, for the least
#    F3  a reading is *calm* when the leader's log ends where readers see it end (log end = high watermark = last stable
#        offset), and no coordinator has an open transaction there. A record that followers lack yet is behind the high
#        watermark, so nothing else shows it
#    F4  a partition is proved by two calm readings, so far apart as F1 or F2 want it, at the same leader in the same
#        leader epoch, between which no application has written: markers of transactions and copies may come. The first
#        one is made after the leader was found to refuse


class Proof(StrEnum):
    """What is known of a fence; of several partitions the last one in this order counts."""

    PROVEN = "proven"  # each leader refuses writers, and shows all that it took before
    OBSERVED = "observed"  # nothing was written for as long as writers pause, no leader tells more
    UNPROVEN = "unproven"  # it could not be proved, and an operator continues all the same
    BEGUN = "begun"  # rules are made, or about to be; not proved yet

    @property
    def is_open(self) -> bool:
        """Whether somebody has to care for it."""
        return self in (Proof.UNPROVEN, Proof.BEGUN)


_ORDER = tuple(Proof)


def least(proofs: Iterable[Proof]) -> Proof:
    """The one that holds for all; nothing proves nothing."""
    return max(proofs, key=_ORDER.index, default=Proof.UNPROVEN)


class Evidence(StrEnum):
    """What shows that nobody may write to a partition."""

    RULES = "rules"  # its leader's authorizer lists the rules that deny it
    REFUSAL = "refusal"  # its leader refused a batch for its size
    SETTING = "setting"  # its leader told the setting, and could not be asked to refuse anything
    STILLNESS = "stillness"  # nothing but that nobody does


@dataclass(frozen=True, slots=True)
class QuietBounds:
    """How long stillness is watched at least and at most, in seconds, where nothing else proves."""

    least_s: float = 5.0
    most_s: float = 30.0


@dataclass(frozen=True, slots=True)
class QuietTime:
    """How far two calm readings are to be apart; `is_telling`: writers never paused for longer, or it is no matter."""

    seconds: float
    is_telling: bool


_APART = {Evidence.RULES: 1.0, Evidence.REFUSAL: 1.0, Evidence.SETTING: 5.0}


def quiet_time(
    evidence: Evidence, longest_pause_s: float | None, bounds: QuietBounds, *, is_empty: bool
) -> QuietTime:
    """F1, F2. `longest_pause_s`: between two changes of the high watermark in the last hour, None: no two are known."""
    if evidence in _APART:
        return QuietTime(_APART[evidence], is_telling=True)
    if is_empty and longest_pause_s is None:
        return QuietTime(bounds.least_s, is_telling=True)
    if longest_pause_s is None or longest_pause_s > bounds.most_s:
        return QuietTime(bounds.most_s, is_telling=False)
    return QuietTime(max(longest_pause_s, bounds.least_s), is_telling=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderReading:
    """A partition as its leader has it; `log_end` None: it does not tell, `leader_epoch` None: nor in which epoch.

    `in_sync`: how many replicas have all of it, the leader among them.
    """

    leader: int
    leader_epoch: int | None
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int | None
    in_sync: int

    @property
    def behind(self) -> int:
        """Records that followers lack as far as is known, and nobody sees yet."""
        return 0 if self.log_end is None else max(0, self.log_end - self.high_watermark)

    @property
    def is_empty(self) -> bool:
        return self.log_start >= self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatch:
    """A partition since its leader was found to refuse, as it was read last.

    `end`: up to there it is known what was appended; behind it there was no data record. `still_since_s`: when the
    first calm reading of F4 was answered, None: there was none; `read_at_s`: when the last one was asked, both on a
    clock that never goes back: behind that nobody knows what came. `appended`: how often data was found behind the
    fence. `in_transaction`: a coordinator has one open there.
    """

    topic: str
    partition: int
    evidence: Evidence
    quiet: QuietTime
    reading: LeaderReading
    still_since_s: float | None
    read_at_s: float
    in_transaction: bool = False
    appended: int = 0

    @property
    def end(self) -> int:
        return self.reading.high_watermark

    def after(
        self,
        reading: LeaderReading,
        *,
        in_transaction: bool,
        has_data: bool,
        asked_s: float,
        answered_s: float,
    ) -> "PartitionWatch":
        """As it was read again; `has_data`: a data record lies behind the known end, or the log lost its end."""
        seen = replace(
            self,
            reading=reading,
            in_transaction=in_transaction,
            read_at_s=asked_s,
            appended=self.appended + has_data,
        )
        if has_data or not self._is_same_leader(reading) or self.still_since_s is None:
            return seen.begun(answered_s)
        return seen

    def begun(self, answered_s: float) -> "PartitionWatch":
        """From this reading on, where it is calm."""
        return replace(self, still_since_s=answered_s if self.is_calm else None)

    def _is_same_leader(self, reading: LeaderReading) -> bool:
        return (reading.leader, reading.leader_epoch) == (self.reading.leader, self.reading.leader_epoch)

    @property
    def has_open_transaction(self) -> bool:
        return self.in_transaction or self.reading.last_stable < self.end

    @property
    def is_calm(self) -> bool:
        """F3. Where stillness is all that there is, a leader that does not tell its log end is believed."""
        reading = self.reading
        is_known = reading.log_end is not None and reading.leader_epoch is not None
        if not is_known and self.evidence is not Evidence.STILLNESS:
            return False
        return not self.has_open_transaction and reading.log_end in (reading.high_watermark, None)

    def waits_s(self, now_s: float) -> float:
        """For how long it has to stay still, until it is read again."""
        begun_s = now_s if self.still_since_s is None else self.still_since_s
        return max(0.0, self.quiet.seconds - (now_s - begun_s))

    @property
    def is_still(self) -> bool:
        """F4."""
        return self.is_calm and self.still_since_s is not None and self.waits_s(self.read_at_s) == 0.0

    @property
    def proof(self) -> Proof:
        if not self.is_still:
            return Proof.UNPROVEN
        return Proof.OBSERVED if self.evidence is Evidence.STILLNESS else Proof.PROVEN


# Receipts -----------------------------------------------------------------------------------------
# Fences as they are recorded: what was made for a topic, what proves it, and what of it was lifted.


class FenceHow(StrEnum):
    """What stops writers."""

    CLOSED = "closed"  # rules that deny every principal to write
    SHUT = "shut"  # max.message.bytes so low that no batch fits
    HOOK = "hook"  # a command of the operator's


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedPartition:
    """Where a partition stood when its fence was proved, or given up: no data record lay behind `end`.

    `quiet_ms`: how far the two readings that prove it had to be apart. `is_telling`: writers had not paused for longer,
    or it is no matter. `proof`: a `Proof`, `evidence`: an `Evidence`, or what a later program knows. `leader_epoch`
    None: unknown.
    """

    partition: int
    end: int
    last_stable: int
    quiet_ms: int
    is_telling: bool
    proof: str
    evidence: str
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """A command that was run: its exit code, None when it was ended for its time; what it printed, shortened."""

    command: tuple[str, ...]
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(OperationContent):
    """Applications are kept from writing to a topic, and from reading it where asked, or are about to be ("Fences").

    By `mirror-ledger fence`, a row per topic: before it is made, when the proof was found or given up, and when a hook
    has run. Rows of one command share the operation id; `flow` is null.

    Keys: `cluster` (alias), `cluster_id` (null: nobody has recorded it), `topic`, `topic_id` (null: unknown), `how`
    (`closed`, `shut`, `hook`), `proof` (`begun`, `proven`, `observed`, `unproven`), `denied` (principals for which a
    rule was created: DENY WRITE, literal for the topic, host `*`), `denied_reading` (those for which one with READ was
    created; left out: groups may read), `former` (own settings that were changed to what they were; null: not set),
    `super_users` (null: the brokers do not say), `confirmed` (super users that do not write, by the operator's word),
    `hook` (null, or `command`, `exit_code`, null where it was ended for its time, and `output`), `partitions`:
    `partition`, `end` (offset behind the last data record), `last_stable`, `quiet_ms` (how far the two readings that
    prove it were to be apart), `is_telling` (its writers had not paused for longer, or it is no matter), `proof`,
    `evidence` (`rules`, `refusal`, `setting`, `stillness`), `leader_epoch` (null: unknown) each; `override` (why it was
    continued without a proof). A failover that makes none records one that is
    `unproven`, with nothing made.
    """

    kind: ClassVar = OperationKind.FENCE
    cluster: str
    cluster_id: str | None
    topic: str
    topic_id: str | None
    how: str
    proof: str
    denied: tuple[str, ...] = ()
    denied_reading: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    former: Mapping[str, str | None] = field(default_factory=dict)
    super_users: tuple[str, ...] | None = None
    confirmed: tuple[str, ...] = ()
    hook: HookRun | None = None
    partitions: tuple[FencedPartition, ...] = ()
    override: str | None = None

    @property
    def rules(self) -> frozenset[Permission]:
        """The rules that were created for it."""
        return frozenset(
            denial(self.topic, principal, operation)
            for operation, principals in (("write", self.denied), ("read", self.denied_reading or ()))
            for principal in principals
        )

    @property
    def is_for_reading(self) -> bool:
        """Whether groups are kept out as well."""
        return self.denied_reading is not None

    @property
    def is_open(self) -> bool:
        """Whether it is not proved; what only a later program knows is not known to be."""
        return self.proof not in (Proof.PROVEN, Proof.OBSERVED)

    @property
    def is_made(self) -> bool:
        """Whether anything was changed for it that has to be changed back."""
        return bool(self.rules or self.former or self.hook is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfenced(OperationContent):
    """The fence of a topic was lifted.

    By `mirror-ledger unfence`, a row per topic. `flow` is null.

    Keys: `cluster`, `cluster_id`, `topic`, `topic_id`, `how`, `denied` (whose rules were removed), `denied_reading`
    (whose rules about reading; left out: groups could read), `restored` (settings to what they were set back to; null:
    removed), `hook`.
    """

    kind: ClassVar = OperationKind.UNFENCED
    cluster: str
    cluster_id: str
    topic: str
    topic_id: str | None
    how: str
    denied: tuple[str, ...] = ()
    denied_reading: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    restored: Mapping[str, str | None] = field(default_factory=dict)
    hook: HookRun | None = None


FENCE_KINDS = (OperationKind.FENCE, OperationKind.UNFENCED)


@dataclass(frozen=True, slots=True)
class ActiveFence:
    """A fence that was not lifted, as its last row has it; who made it, in words, under which operation."""

    fence: Fence
    operation_id: str
    made_by: str
    recorded_at_ms: int


@dataclass(frozen=True, slots=True)
class Fences:
    """All fences that stand, by cluster and topic."""

    active: Mapping[tuple[str, str], ActiveFence] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `FENCE_KINDS`, in the order of their stamps."""
        active: dict[tuple[str, str], ActiveFence] = {}
        for row in rows:
            if row["kind"] == Unfenced.kind:
                lifted = Unfenced.of_row(row)
                active.pop((lifted.cluster, lifted.topic), None)
                continue
            fence = Fence.of_row(row)
            words = asked_in_words(row)
            at = fence.cluster, fence.topic
            active[at] = ActiveFence(fence, row["operation_id"], words, row["recorded_at_ms"])
        return cls(active)

    def of(self, cluster: str, topic: str) -> ActiveFence | None:
        return self.active.get((cluster, topic))

    def at(self, cluster: str) -> list[ActiveFence]:
        """Those of a cluster, by topic."""
        return [one for (alias, _), one in sorted(self.active.items()) if alias == cluster]

    def open_topics(
        self, cluster: str, topics: Iterable[tuple[str, str]], *, for_reading: bool = False
    ) -> list[str]:
        """Names of these, by name and id, to which somebody may write at a cluster: no fence of them is proved, and
        nobody has said why one that was made is enough. `for_reading`: those too that rules close, and groups may read.
        """
        closed = {
            (one.fence.topic, one.fence.topic_id)
            for one in self.at(cluster)
            if not one.fence.is_open or (one.fence.override is not None and one.fence.is_made)
            if not for_reading or one.fence.is_for_reading or one.fence.how != FenceHow.CLOSED
        }
        return sorted(
            {topic for topic, topic_id in topics if not {(topic, topic_id), (topic, None)} & closed}
        )

    def which(self, matches: Callable[[Fence], bool]) -> list[ActiveFence]:
        """By cluster and topic."""
        return [one for _, one in sorted(self.active.items()) if matches(one.fence)]
