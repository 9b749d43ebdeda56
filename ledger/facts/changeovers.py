"""Plans of changes of direction, and what became of each step of carrying one out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from ledger.facts.codec import LEFT_OUT, inline
from ledger.facts.group_offsets import OffsetsSet
from ledger.facts.operations import OperationContent, OperationKind


class ApplyResult(StrEnum):
    """How carrying out a plan ended."""

    DONE = "done"
    FAILED = "failed"  # at a step; it can be continued


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBlocker:
    """Why a plan could not be carried out as things stood: a code, words, and what to do.

    `cause`: what those of a code have in common that are shown as one; empty: nothing.
    """

    code: str
    words: str
    advice: str
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecorded(OperationContent):
    """What a change of direction would do, as it was shown.

    By `mirror-ledger plan`. `flow` of the row is null.

    Keys: `plan_id`, `plan` (what the id is a hash of), `blockers`: `code`, `words`, `advice`, `cause` each, `cut`,
    `forecast` (as of the cut).
    """

    kind: ClassVar = OperationKind.PLAN
    plan_id: str
    plan: Mapping[str, Any]
    blockers: tuple[RecordedBlocker, ...]
    cut: str
    forecast: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproved(OperationContent):
    """Somebody has read a plan and stands behind it, with their signature.

    By `mirror-ledger plan approve`. `flow` of the row is null.

    Keys: `plan_id`, `planned_by` (operation id of the row of the plan that was read), `person` (of `[approvals]`),
    `key` (the public one, PEM), `signature` (base64, over the text that "Approvals" has).
    """

    kind: ClassVar = OperationKind.PLAN_APPROVED
    plan_id: str
    planned_by: str
    person: str
    key: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyClaimed(OperationContent):
    """A process carries out a plan from now on.

    By `mirror-ledger apply` when it begins or continues. All its rows share the operation id.

    Keys: `plan_id`, `planned_by` (operation id of the row of the plan that was read when it began), `host` (the
    process, as in `writers`), `is_continued` (an earlier process had begun it); `people_asked` (how many `[approvals]`
    asked for when it began) and `people` (those who stood behind it), where that was more than one.
    """

    kind: ClassVar = OperationKind.APPLY_CLAIMED
    plan_id: str
    host: str
    is_continued: bool
    planned_by: str | None = field(default=None, metadata=LEFT_OUT)
    people_asked: int = field(default=1, metadata=LEFT_OUT)
    people: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAlive(OperationContent):
    """The process is at work on a step that takes long.

    By `mirror-ledger apply`, while a step waits.

    Keys: `step`, `waits` (for what, how far that is, and who can end it, in words; left out: it has not said).
    """

    kind: ClassVar = OperationKind.APPLY_ALIVE
    step: str
    waits: str = field(default="", metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBegun(OperationContent):
    """A step is about to change something.

    By `mirror-ledger apply`, before a step changes anything.

    Keys: `step`.
    """

    kind: ClassVar = OperationKind.STEP_BEGUN
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone(OperationContent):
    """The receipt of a step.

    By `mirror-ledger apply`.

    Keys: `step`, `words`, `read_back` (what was read afterwards; its keys depend on the step; where `by` is not `hook`,
    or `proof` is or has what is unproven, the step was taken for done on somebody's word), `hook` (null: none;
    `command`, `exit_code`, `output`).
    """

    kind: ClassVar = OperationKind.STEP_DONE
    step: str
    words: str
    read_back: Mapping[str, Any] = field(default_factory=dict)
    hook: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed(OperationContent):
    """A step ended without having come to what it was to come to; it can be carried out again.

    By `mirror-ledger apply`, which can be continued.

    Keys: `step`, `words` (of a hook that failed or was ended for its time with what it printed), `did_nothing` (what it
    rests on was not so: neither it nor its hook did anything; left out where that is not known).
    """

    kind: ClassVar = OperationKind.STEP_FAILED
    step: str
    words: str
    did_nothing: bool = field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEnded(OperationContent):
    """All steps are done, or one has failed.

    By `mirror-ledger apply`.

    Keys: `result` (`done`, `failed`), `words`, `figures` (of `report`, "Plans").
    """

    kind: ClassVar = OperationKind.APPLY_ENDED
    result: str
    words: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoBegun(OperationContent):
    """A process undoes from now on what an apply has changed, which cannot be continued any more.

    By `mirror-ledger undo` before it takes anything back, with the operation id of the apply.

    Keys: `plan_id`, `host`, `is_continued` (an earlier process had begun to).
    """

    kind: ClassVar = OperationKind.UNDO_BEGUN
    plan_id: str
    host: str
    is_continued: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone(OperationContent):
    """What an apply had changed was undone.

    By `mirror-ledger undo`.

    Keys: `steps` (step to what became of it, in words), `read_back` (step to what was read afterwards).
    """

    kind: ClassVar = OperationKind.UNDONE
    steps: Mapping[str, str]
    read_back: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet(OperationContent):
    """Where a group is to continue by a plan.

    By an apply, a row for each group that stands there. `flow` of the row is null.

    Keys: `plan_id`, and as in `offsets_set` `group`, `source_cluster`, `target_cluster`, `group_type`, `cut`,
    `commits`: `topic`, `topic_id`, `partition`, `former` (what was there when the row was made), `to`, `source_topic`,
    `source_topic_id`, `source_partition`, `source_offset`, `source_leader_epoch`, `source_made_after_ms`, `status`;
    `seen`: `table`, `writer`, `epoch`, `round`.
    """

    kind: ClassVar = OperationKind.SHEET
    plan_id: str
    intended: OffsetsSet = field(metadata=inline())
