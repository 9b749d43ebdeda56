"""Fences as they are recorded: what was made for a topic, what proves it, and what of it was lifted."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.domain.fences.closing import denial
from ledger.domain.fences.proof import Proof
from ledger.domain.operations.content import OperationContent, Row, objects_of
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.requests import AskedBy
from ledger.domain.topics.topic_acls import TopicAcl


class FenceHow(StrEnum):
    """What stops writers."""

    CLOSED = "closed"  # rules that deny every principal to write
    SHUT = "shut"  # max.message.bytes so low that no batch fits
    HOOK = "hook"  # a command of the operator's


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedPartition:
    """Where a partition stood when its fence was proved, or given up: no data record lay behind `end`.

    `quiet_ms`: how far the two readings that prove it had to be apart. `is_telling`: writers had not paused for longer,
    or it is no matter. `proof`: a `Proof`, `evidence`: an `Evidence`, or what a later program knows. `evidence` and
    `leader_epoch` are None in rows of earlier programs, which watched stillness alone.
    """

    partition: int
    end: int
    last_stable: int
    quiet_ms: int
    is_telling: bool
    proof: str
    evidence: str | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """A command that was run: its exit code, None when it was ended for its time; what it printed, shortened."""

    command: tuple[str, ...]
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(OperationContent):
    """A fence of a topic; of several rows about a topic of a cluster the last one counts.

    `denied`: principals for which a rule was created (DENY WRITE, for this topic, from every host), those of earlier
    rows included; others had one already. `former`: own settings that were changed, as they were (None: not set).
    `super_users`: those that no rule stops, None: the brokers do not say; `confirmed`: those that do not write, by the
    operator's word. `override`: why somebody continues without a proof.
    """

    kind: ClassVar = OperationKind.FENCE
    cluster: str
    cluster_id: str | None
    topic: str
    topic_id: str | None
    how: str
    proof: str
    denied: tuple[str, ...] = ()
    former: Mapping[str, str | None] = field(default_factory=dict)
    super_users: tuple[str, ...] | None = None
    confirmed: tuple[str, ...] = ()
    hook: HookRun | None = None
    partitions: tuple[FencedPartition, ...] = ()
    override: str | None = None

    @property
    def rules(self) -> frozenset[TopicAcl]:
        """The rules that were created for it."""
        return frozenset(denial(self.topic, principal) for principal in self.denied)

    @property
    def is_open(self) -> bool:
        """Whether it is not proved; what only a later program knows is not known to be."""
        return self.proof not in (Proof.PROVEN, Proof.OBSERVED)

    @property
    def is_made(self) -> bool:
        """Whether anything was changed for it that has to be changed back."""
        return bool(self.denied or self.former or self.hook is not None)

    def content(self) -> dict[str, object]:
        return {
            **OperationContent.content(self),
            "hook": None if self.hook is None else {**asdict(self.hook), "command": list(self.hook.command)},
            "partitions": objects_of(self.partitions),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        named = ("cluster", "cluster_id", "topic", "topic_id", "how", "proof", "former", "override")
        hook, users = content["hook"], content["super_users"]
        return cls(
            **{name: content[name] for name in named},
            denied=tuple(content["denied"]),
            super_users=None if users is None else tuple(users),
            confirmed=tuple(content["confirmed"]),
            hook=None
            if hook is None
            else HookRun(command=tuple(hook["command"]), exit_code=hook["exit_code"], output=hook["output"]),
            partitions=tuple(map(_partition, content["partitions"])),
        )


def _partition(recorded: Mapping[str, Any]) -> FencedPartition:
    names = ("partition", "end", "last_stable", "quiet_ms", "is_telling", "proof")
    later = ("evidence", "leader_epoch")
    known = [*names, *(name for name in later if name in recorded)]
    return FencedPartition(**{name: recorded[name] for name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfenced(OperationContent):
    """A fence of a topic that was lifted: rules that were removed, settings that were set back (None: removed)."""

    kind: ClassVar = OperationKind.UNFENCED
    cluster: str
    cluster_id: str
    topic: str
    topic_id: str | None
    how: str
    denied: tuple[str, ...] = ()
    restored: Mapping[str, str | None] = field(default_factory=dict)
    hook: HookRun | None = None

    def content(self) -> dict[str, object]:
        return {
            **OperationContent.content(self),
            "hook": None if self.hook is None else {**asdict(self.hook), "command": list(self.hook.command)},
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        named = ("cluster", "cluster_id", "topic", "topic_id", "how", "restored")
        hook = content["hook"]
        return cls(
            **{name: content[name] for name in named},
            denied=tuple(content["denied"]),
            hook=None
            if hook is None
            else HookRun(command=tuple(hook["command"]), exit_code=hook["exit_code"], output=hook["output"]),
        )


FENCE_KINDS = (OperationKind.FENCE, OperationKind.UNFENCED)


@dataclass(frozen=True, slots=True)
class StandingFence:
    """A fence that was not lifted, as its last row has it; who made it, in words, under which operation."""

    fence: Fence
    operation_id: str
    made_by: str
    recorded_at_ms: int


@dataclass(frozen=True, slots=True)
class Fences:
    """All fences that stand, by cluster and topic."""

    standing: Mapping[tuple[str, str], StandingFence] = field(default_factory=dict)

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `FENCE_KINDS`, in the order of their stamps."""
        standing: dict[tuple[str, str], StandingFence] = {}
        for row in rows:
            if row["kind"] == Unfenced.kind:
                lifted = Unfenced.of_row(row)
                standing.pop((lifted.cluster, lifted.topic), None)
                continue
            fence = Fence.of_row(row)
            words = AskedBy.of_row(row).described(row["operation_id"], row["recorded_at_ms"])
            at = fence.cluster, fence.topic
            standing[at] = StandingFence(fence, row["operation_id"], words, row["recorded_at_ms"])
        return cls(standing)

    def of(self, cluster: str, topic: str) -> StandingFence | None:
        return self.standing.get((cluster, topic))

    def at(self, cluster: str) -> list[StandingFence]:
        """Those of a cluster, by topic."""
        return [one for (alias, _), one in sorted(self.standing.items()) if alias == cluster]

    def which(self, matches: Callable[[Fence], bool]) -> list[StandingFence]:
        """By cluster and topic."""
        return [one for _, one in sorted(self.standing.items()) if matches(one.fence)]
