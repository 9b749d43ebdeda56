"""Plans: steps, choices, blockers with their advice, and how far carrying one out has come."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self

from ledger.errors import PreconditionError, UsageError
from ledger.facts.changeovers import (
    ApplyAlive,
    ApplyClaimed,
    ApplyEnded,
    PlanRecorded,
    StepDone,
    StepFailed,
    UndoBegun,
)
from ledger.facts.codec import LEFT_OUT, decode, encode, form
from ledger.facts.fences import QuietBounds
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS, Filter, Row
from ledger.words import shell_word

# Blockers -----------------------------------------------------------------------------------------
# Why a plan may not be carried out as things stand, and what to do about each reason.


class BlockerCode(StrEnum):
    """The code is part of the plan; the words beside it may differ from one reading to the next."""

    TARGET_UNREACHABLE = "target_unreachable"
    SOURCE_UNREACHABLE = "source_unreachable"
    SOURCE_ANSWERS = "source_answers"
    OTHER_CLUSTER = "other_cluster"
    NOT_MIRRORED = "not_mirrored"
    NOT_COPIED_ANY_MORE = "not_copied_any_more"
    OTHER_TOPIC = "other_topic"
    PARTITION_STOPPED = "partition_stopped"
    PROMOTED_ALREADY = "promoted_already"
    EXTRAS_AT_TARGET = "extras_at_target"
    DRIVER_NOT_RUNNING = "driver_not_running"
    UNRECORDED_COPIES = "unrecorded_copies"
    OBJECTIVE = "objective"
    GROUP_WITHOUT_PLACE = "group_without_place"
    GROUP_ACTIVE_AT_TARGET = "group_active_at_target"
    GROUP_HINDERED_AT_TARGET = "group_hindered_at_target"
    CHANGELOG = "changelog"
    GROUPS_UNKNOWN = "groups_unknown"
    FENCE = "fence"
    TARGET_FENCED = "target_fenced"
    MIRROR_NOT_SHUT_OUT = "mirror_not_shut_out"
    NO_REVERSE_FLOW = "no_reverse_flow"
    NOT_PROMOTED = "not_promoted"
    EXTRAS = "extras"
    DEFICITS = "deficits"
    LOST_WITH_TOPIC = "lost_with_topic"
    NOT_ALLOWED = "not_allowed"
    NOT_FENCED = "not_fenced"


_ADVICE: Mapping[BlockerCode, str] = {
    BlockerCode.TARGET_UNREACHABLE: "nothing moves to a cluster that does not answer: repair it, or plan for another",
    BlockerCode.SOURCE_UNREACHABLE: "wait until the source answers; where it is lost: PLAN",
    BlockerCode.SOURCE_ANSWERS: "fence it and --accept source_answers; or switch over, which loses nothing: PLAN",
    BlockerCode.OTHER_CLUSTER: "correct bootstrap_servers; where it is meant: mirror-ledger accept-cluster "
    "ALIAS --cluster-id ID --reason WHY",
    BlockerCode.NOT_MIRRORED: "let the flow copy them first, or plan without them: PLAN",
    BlockerCode.NOT_COPIED_ANY_MORE: "let a flow copy it again (topics, exclude, enabled), or plan without it, then no "
    "group gets a place there: PLAN",
    BlockerCode.OTHER_TOPIC: "it was recreated since; let the flow decide about it first: mirror-ledger status FLOW",
    BlockerCode.PARTITION_STOPPED: "resume what has stopped (`status` has the command), or plan without it: PLAN",
    BlockerCode.PROMOTED_ALREADY: "nothing is to be done; where it was a mistake: mirror-ledger demote "
    "TARGET --over SOURCE --keep-ends --reason WHY",
    BlockerCode.EXTRAS_AT_TARGET: "go there by a failback, which fences TARGET and decides about them: PLAN",
    BlockerCode.DRIVER_NOT_RUNNING: "without a driver nothing is drained: mirror-ledger run FLOW",
    BlockerCode.UNRECORDED_COPIES: "no driver is known to be at work: use the newest copy of the ledger; where this is "
    "it: mirror-ledger settle FLOW --reason WHY",
    BlockerCode.OBJECTIVE: "wait until it is met, or: PLAN",
    BlockerCode.GROUP_WITHOUT_PLACE: "choose it by hand (offsets translate says why it has none), leave the group "
    "out (--group), or accept its status: PLAN",
    BlockerCode.GROUP_ACTIVE_AT_TARGET: "stop its consumers at the target",
    BlockerCode.GROUP_HINDERED_AT_TARGET: "do what is said of it, leave the group out (--group), or take a newer one "
    "back: PLAN",
    BlockerCode.CHANGELOG: "let the application rebuild its state at the target "
    "(kafka-streams-application-reset.sh, local stores removed), and: PLAN",
    BlockerCode.GROUPS_UNKNOWN: "with the right to describe the groups, let a recorder read them: mirror-ledger record "
    "SOURCE",
    BlockerCode.FENCE: "mend the reasons and plan again; where SOURCE is lost, or its producers are stopped: PLAN",
    BlockerCode.TARGET_FENCED: "with --hook where a hook made it: mirror-ledger unfence TARGET --reason WHY",
    BlockerCode.MIRROR_NOT_SHUT_OUT: "give the mirror a principal of its own (mirror_principal), or: PLAN",
    BlockerCode.NO_REVERSE_FLOW: "configure the opposite flow; where nothing is to come back: PLAN",
    BlockerCode.NOT_PROMOTED: "both sides have the same records, or it stays where it is: PLAN",
    BlockerCode.EXTRAS: "say what becomes of them: keep (they stay, and groups pass them), salvage (the same, once "
    "they are copied to topics of their own), replicate or recreate (they are lost with their topics): PLAN",
    BlockerCode.DEFICITS: "let them come back (return; not of compacted topics), or stay there (keep): PLAN",
    BlockerCode.LOST_WITH_TOPIC: "give it up (--accept lost_with_topic=TOPIC), or keep the topic: PLAN",
    BlockerCode.NOT_ALLOWED: "grant it to the administrator of TARGET, or keep the topics: PLAN",
    BlockerCode.NOT_FENCED: "once no producer is to write there, fence it, and plan again: mirror-ledger fence TARGET "
    "--how shut --accept producers_stopped --reason WHY TOPICS",
}


@dataclass(frozen=True, slots=True, order=True)
class Blocker:
    """One reason, in words; `cause`: what it has in common with others of its code, empty: the code says it.

    `group`: the one that it is about, empty: it is about none, or about several. `chosen`: what a plan chooses against
    which it does not stand, beside what was chosen, and its `kind` where that is another one.
    """

    code: BlockerCode
    words: str
    cause: str = ""
    group: str = ""
    chosen: Mapping[str, Any] = field(default_factory=dict, compare=False)


# Steps --------------------------------------------------------------------------------------------
# The steps of a change of direction, in their order.
#
# A switchover is planned: the source answers, its producers are stopped and fenced, and all that they wrote
# is copied before anything moves. A failover goes by what the ledger knows: the source does not answer, so
# what was not copied is lost until it comes back.
#
# A failback follows a failover, when the lost cluster answers again: it is fenced, what it has alone is decided, and it
# gets what was written meanwhile while applications stay at work; then it is a switchover.
#
# Not every pair has every step. Where the target is shared by applications and mirrors, or has topics of
# other names, nothing is promoted: there applications may write at any time, and only groups and producers
# move.


class ChangeoverKind(StrEnum):
    """Whether the source is asked, or given up."""

    SWITCHOVER = "switchover"
    FAILOVER = "failover"
    FAILBACK = "failback"  # what was written since a failover comes back first, then applications switch over
    PROTECT = "protect"  # another cluster, or one formatted again, gets all that the source has; nobody moves

    @property
    def is_planned(self) -> bool:
        """Whether the source answers: applications leave it when all of it is copied, so nothing is lost."""
        return self is not ChangeoverKind.FAILOVER


class DescribedName(StrEnum):
    """A name, and its `description`, as people read it."""

    description: str

    def __new__(cls, name: str, description: str = "") -> Self:
        member = str.__new__(cls, name)
        member._value_, member.description = name, description
        return member


class StepName(DescribedName):
    """In the order in which they are carried out, each with what is done."""

    CHECK = "check", "check what the plan was made from"
    ACCEPT_CLUSTER = "accept_cluster", "take the cluster that answers for the one that is meant"
    FENCE_TARGET = "fence_target", "fence the cluster that is back, and prove it"
    MIRROR_BACK = "mirror_back", "decide about what it has alone, and open the way back"
    CATCH_UP = "catch_up", "wait until the target has what was written"  # applications stay at work
    RECORD = "record", "record the target without the mirror"
    STOP_PRODUCERS = "stop_producers", "stop the producers"  # by a hook or a person
    FENCE = "fence", "fence the source, and prove it"  # nobody writes there any more
    DRAIN = "drain", "wait until all of the source is copied"
    STOP_GROUPS = "stop_groups", "stop the groups at the source"  # by a hook or a person, recorded
    PROMOTE = "promote", "promote the target"  # direction changes: the mirror stops
    SHUT_OUT = "shut_out", "shut the mirror out of the target"
    SETTLE = "settle", "record what was copied last"  # and nobody has recorded
    CUT = "cut", "record the ends of both sides"
    HAND_OVER = "hand_over", "give applications their settings and permissions"
    MOVE_GROUPS = "move_groups", "set the groups' offsets"  # and read them back
    AUDIT = "audit", "audit the ledger"
    START_APPLICATIONS = "start_applications", "start the applications at the target"  # by a hook or a person
    FIRST_PROGRESS = "first_progress", "wait for the groups' first progress"  # a commit behind what was set
    REVERSE = "reverse", "open the way for the reverse flow"  # it may copy from the cut
    REPORT = "report", "report"


BY_PEOPLE = (StepName.STOP_PRODUCERS, StepName.STOP_GROUPS, StepName.START_APPLICATIONS)
"""Steps that a hook or a person carries out; the tool finds out what came of them."""

_ONLY_SWITCHOVER = (StepName.DRAIN, StepName.STOP_GROUPS, StepName.REVERSE)
_ONLY_FAILOVER = (StepName.SETTLE,)
_ONLY_FAILBACK = (StepName.FENCE_TARGET, StepName.MIRROR_BACK, StepName.CATCH_UP)
_ONLY_PROMOTED = (StepName.PROMOTE, StepName.SHUT_OUT, StepName.HAND_OVER, StepName.REVERSE)


def steps_of(kind: ChangeoverKind, *, is_promoted: bool, stays: bool = False) -> tuple[StepName, ...]:
    """The steps of a plan, in order; `is_promoted`: the target's topics can be promoted; `stays`: applications stay
    where they are, once the cluster that is back gets what they write."""
    if stays:
        return (StepName.CHECK, *_ONLY_FAILBACK)
    if kind is ChangeoverKind.PROTECT:
        return (StepName.CHECK, StepName.ACCEPT_CLUSTER, StepName.CATCH_UP)
    left_out = {StepName.ACCEPT_CLUSTER, *(_ONLY_FAILOVER if kind.is_planned else _ONLY_SWITCHOVER)}
    if kind is not ChangeoverKind.FAILBACK or not is_promoted:
        left_out |= set(_ONLY_FAILBACK)
    if not is_promoted:
        left_out |= set(_ONLY_PROMOTED)
    return tuple(step for step in StepName if step not in left_out)


# Plans --------------------------------------------------------------------------------------------
# What a plan consists of, and its id.
#
# The id is a hash over exactly what the plan would do: kind, scope, choices, hooks, steps and the codes of
# what stands against it. Positions and forecasts are not in it, so a plan stays the same while records are
# copied, and is stale when another one would be made.


_ID_LENGTH = 16


class FenceChoice(StrEnum):
    """How producers are kept from the former source."""

    CLOSED = "closed"  # access control lists deny them
    SHUT = "shut"  # the topic takes no batch; with word that producers are stopped
    HOOK = "hook"  # an external command
    NONE = "none"  # not at all: the reason is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic of the former source, and the one that a flow copies it to; `topic_id` empty: it is not there yet, or
    it is deleted and created again."""

    flow: str
    source_topic: str
    source_topic_id: str
    topic: str
    topic_id: str


_BACK = ChangeoverKind.FAILBACK, ChangeoverKind.PROTECT


def _typed(default: Any, option: str, *kinds: ChangeoverKind, **more: Any) -> Any:
    """A choice, and how another one than the default is typed, where plans of some kinds alone have it of these."""
    return field(default=default, metadata={"option": option, "kinds": kinds or (*ChangeoverKind,), **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the operator chose.

    `topics` None: all that the flows of the pair copy, later ones too, less what is `left_out`; else their names at the
    target. `groups` None: all that have committed at the former source. `accepted`: statuses of translations, by name.
    `unproven`: why an unproven fence is enough. `abort_transactions_after`: open transactions at the fenced source are
    aborted so many seconds after it, None: never. `extras`: what becomes of records that the target of a failback has
    alone, `POLICY` or `TOPIC=POLICY` each; `deficits`: the same of what it has lost; `given_up`:
    topics with which more may be lost than their extras when they are created again. `stays`: a failback ends when the
    target gets what is written; `within`: how many offsets may be left to copy when applications are stopped.
    `watch_seconds`: for so long commits have to stand still before groups are set, and to stay where they were set, 0:
    nobody watches. `hook_seconds`: a hook is ended after these.
    """

    topics: tuple[str, ...] | None = _typed(None, "--topic {}")
    left_out: tuple[str, ...] = _typed((), "--leave-out {}", **LEFT_OUT)
    groups: tuple[str, ...] | None = _typed(None, "--group {}")
    accepted: tuple[str, ...] = _typed((), "--accept {}")
    fence: FenceChoice = _typed(FenceChoice.CLOSED, "--fence {}")
    unproven: str | None = _typed(None, "--accept unproven={}")
    producers_stopped: bool = _typed(False, "--accept producers_stopped")
    confirmed_super_users: tuple[str, ...] = _typed((), "--accept super_user={}")
    abort_transactions_after: float | None = _typed(None, "--abort-open-transactions-after {}")
    source_given_up: bool = _typed(False, "--accept source_answers", ChangeoverKind.FAILOVER)
    abort_marker: bool = _typed(False, "--abort-marker")
    accept_unproven_shut_out: bool = _typed(False, "--accept mirror_not_shut_out")
    overwrite_newer: bool = _typed(False, "--accept newer")
    reverse: bool = _typed(True, "--no-reverse")
    despite_objectives: bool = _typed(False, "--accept objective")
    drain_seconds: float = _typed(300.0, "--wait-drain {}")
    groups_seconds: float = _typed(300.0, "--wait-groups {}")
    progress_seconds: float = _typed(0.0, "--wait-progress {}")
    quiet_seconds: float = _typed(5.0, "--quiet-seconds {}")
    most_quiet_seconds: float = _typed(30.0, "--most-quiet-seconds {}")
    watch_seconds: float = _typed(10.0, "--watch {}")
    hook_seconds: float = _typed(600.0, "--hook-seconds {}")
    extras: tuple[str, ...] = _typed((), "--extras {}", *_BACK, **LEFT_OUT)
    deficits: tuple[str, ...] = _typed((), "--deficits {}", *_BACK, **LEFT_OUT)
    given_up: tuple[str, ...] = _typed((), "--accept lost_with_topic={}", *_BACK, **LEFT_OUT)
    stays: bool = _typed(False, "--stop-before switch", *_BACK, **LEFT_OUT)
    within: int = _typed(1_000, "--within {}", *_BACK, **LEFT_OUT)

    @property
    def quiet(self) -> QuietBounds:
        return QuietBounds(least_s=self.quiet_seconds, most_s=self.most_quiet_seconds)

    @property
    def all_accepted(self) -> list[str]:
        """Words that `--accept` takes, those of risks that are no status of a translation among them."""
        found: list[str] = []
        for one in fields(self):
            option, value = one.metadata["option"], getattr(self, one.name)
            if value and option.startswith("--accept "):
                each = value if isinstance(value, tuple) else (value,)
                found += [option.removeprefix("--accept ").format(word) for word in each]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `apply` carries out, and nothing else.

    `direction`: the operation that last changed a direction of the pair, None: none did. `permissions`: a digest of
    what both clusters allow to whom, as recorded. `hooks`: external commands by step.
    """

    kind: ChangeoverKind
    from_cluster: str
    from_cluster_id: str
    to_cluster: str
    to_cluster_id: str
    topics: tuple[PlannedTopic, ...]
    choices: Choices
    hooks: Mapping[StepName, str] = field(
        metadata=form(
            write=lambda hooks: {str(step): command for step, command in sorted(hooks.items())},
            read=lambda hooks: {StepName(step): command for step, command in hooks.items()},
        )
    )
    direction: str | None
    permissions: str
    steps: tuple[StepName, ...]
    blockers: tuple[BlockerCode, ...]

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows whose direction changes."""
        return tuple(sorted({topic.flow for topic in self.topics}))

    @property
    def moves_applications(self) -> bool:
        """Whether they write at the target when it has been carried out."""
        return StepName.START_APPLICATIONS in self.steps

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the topics where applications arrive, sorted."""
        return tuple(sorted({topic.topic for topic in self.topics}))

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the topics that applications leave, sorted."""
        return tuple(sorted({topic.source_topic for topic in self.topics}))

    @property
    def plan_id(self) -> str:
        """Equal for plans that would do the same."""
        return id_of(self.content())

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        return encode(self)

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """Raises `KeyError`, `TypeError` or `ValueError` for what is no plan of this program."""
        return decode(cls, content)

    def differences(self, other: "Plan") -> list[str]:
        """Keys in which another plan is not the same."""
        mine, others = self.content(), other.content()
        return [name for name in mine if mine[name] != others[name]]


def passing(plan: Plan, blockers: Iterable[Blocker]) -> str | None:
    """The command of a plan against which none of these stands, with all else as it was chosen; None: there is none."""
    kind, choices = plan.kind, plan.choices
    for name, value in (item for one in blockers for item in one.chosen.items()):
        if name == "kind":
            kind = value
            continue
        if name == "left_out" and choices.topics is not None:
            name, value = "topics", tuple(one for one in choices.topics if one not in value)
        elif isinstance(value, tuple):  # of decisions by topic the later one counts
            about = {one.rpartition("=")[0] for one in value} - {""}
            kept = [one for one in getattr(choices, name) if one.rpartition("=")[0] not in about]
            value = tuple(sorted({*kept, *value}))
        choices = replace(choices, **{name: value})
    is_same = (kind, choices) == (plan.kind, plan.choices)
    return None if is_same or choices.topics == () else plan_command(plan, kind, choices)


def plan_command(plan: Plan, kind: ChangeoverKind, choices: Choices) -> str:
    """What is typed for a plan of the same clusters and hooks."""
    way = f"--from {shell_word(plan.from_cluster)} --to {shell_word(plan.to_cluster)}"
    words = [f"mirror-ledger plan {kind} {way}"]
    for one in fields(choices):
        value = getattr(choices, one.name)
        if value != one.default and kind in one.metadata["kinds"]:
            each = value if isinstance(value, tuple) else (value,)
            words += [one.metadata["option"].format(shell_word(str(word))) for word in each]
    steps = steps_of(kind, is_promoted=StepName.PROMOTE in plan.steps, stays=choices.stays)
    for step, command in sorted(plan.hooks.items()):
        if step in steps and (step is not StepName.FENCE or choices.fence is FenceChoice.HOOK):
            words.append(f"--hook {shell_word(f'{step}={command}')}")
    return " ".join(words)


def advice_for(blocker: Blocker, plan: Plan, command: str | None) -> str:
    """What to do about it, with names in the commands: of clusters by alias, of a flow where the words have it;
    `command`: a plan against which it does not stand, None: there is none."""
    flow = next((one for one in plan.flows if one in blocker.words), plan.flows[0])
    topics = " ".join(f"--topic {shell_word(one)}" for one in plan.choices.topics or ())
    known = {"SOURCE": plan.from_cluster, "TARGET": plan.to_cluster, "FLOW": flow, "TOPICS": topics}
    known["PLAN"] = command or "no other choice helps"
    return re.sub("|".join(known), lambda found: known[found[0]], _ADVICE[blocker.code]).strip()


def id_of(content: Mapping[str, Any]) -> str:
    """The id of a plan with this content, whichever version of the program wrote it."""
    return digest_of(content)[:_ID_LENGTH]


def digest_of(content: Mapping[str, Any]) -> str:
    """The whole hash of which the id is the beginning: SHA-256 of the content as JSON with sorted keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# Applies ------------------------------------------------------------------------------------------
# How far carrying out a plan has come, from its rows of `operations`.


APPLY_KINDS = (
    OperationKind.APPLY_CLAIMED,
    OperationKind.STEP_BEGUN,
    OperationKind.STEP_DONE,
    OperationKind.STEP_FAILED,
    OperationKind.APPLY_ENDED,
    OperationKind.UNDO_BEGUN,
    OperationKind.UNDONE,
)


def apply_command(plan_id: str) -> str:
    """The command that carries out a plan, or continues that. It asks for the reason."""
    return f"mirror-ledger apply {plan_id}"


def approve_command(plan_id: str) -> str:
    """The command of another person who stands behind a plan."""
    return f"mirror-ledger plan approve {plan_id} --key FILE"


def undo_command(operation_id: str) -> str:
    """The command that undoes what an operation has done, or continues that. It asks for the reason."""
    return f"mirror-ledger undo {operation_id}"


class ApplyState(StrEnum):
    """Of an operation that carries out a plan."""

    OPEN = "open"  # begun, or failed at a step: it can be continued
    DONE = "done"
    UNDOING = "undoing"  # it is being undone, or that was interrupted: it can only be undone
    UNDONE = "undone"


@dataclass(slots=True)
class Apply:
    """One carrying out of a plan; `done`: receipts by step, the last of each. Times of its rows by step.

    `begun`: when a step was begun first, `took_ms`: what it took, all the times that it was carried out to its end.
    `acted`: steps that may have done something, they or their hooks. `waits`: by step that has not ended what it said
    last that it waits for. `ended_at`: epoch and round of the row that says
    that it was done, None: it was not.
    """

    operation_id: str
    plan_id: str
    operator: str
    reason: str | None
    ticket: str | None
    begun_at_ms: int
    state: ApplyState = ApplyState.OPEN
    host: str = ""
    begun: dict[StepName, int] = field(default_factory=dict)
    acted: set[StepName] = field(default_factory=set)
    done: dict[StepName, StepDone] = field(default_factory=dict)
    done_at_ms: dict[StepName, int] = field(default_factory=dict)
    took_ms: dict[StepName, int] = field(default_factory=dict)
    _under_way: dict[StepName, int] = field(default_factory=dict)
    _acted_before: set[StepName] = field(default_factory=set)
    failed: dict[StepName, StepFailed] = field(default_factory=dict)
    waits: dict[StepName, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    ended_at: tuple[int, int] | None = None

    def read(self, row: Row) -> None:
        """The next row of the operation."""
        at_ms = row["recorded_at_ms"]
        match row["kind"]:
            case OperationKind.APPLY_CLAIMED:
                self.host = ApplyClaimed.of_row(row).host
            case OperationKind.STEP_BEGUN:
                step = StepName(json.loads(row["content"])["step"])
                self.begun.setdefault(step, at_ms)
                self._acted_before = set(self.acted)
                self.acted.add(step)
                self._under_way[step] = at_ms
            case OperationKind.STEP_DONE:
                receipt = StepDone.of_row(row)
                step = StepName(receipt.step)
                self.done[step], self.done_at_ms[step] = receipt, at_ms
                if (since_ms := self._under_way.pop(step, None)) is not None:
                    self.took_ms[step] = self.took_ms.get(step, 0) + at_ms - since_ms
                self.failed.pop(step, None)
            case OperationKind.STEP_FAILED:
                failure = StepFailed.of_row(row)
                self.failed[StepName(failure.step)] = failure
                if failure.did_nothing:
                    self.acted = self._acted_before
            case OperationKind.APPLY_ENDED:
                ended = ApplyEnded.of_row(row)
                self.figures = ended.figures
                is_done = ended.result == "done"
                self.state = ApplyState.DONE if is_done else ApplyState.OPEN
                self.ended_at = (row["writer_epoch"], row["round"]) if is_done else None
            case OperationKind.UNDO_BEGUN:
                self.state, self.host = ApplyState.UNDOING, UndoBegun.of_row(row).host
            case OperationKind.UNDONE:
                self.state = ApplyState.UNDONE

    def read_back(self, step: StepName) -> Mapping[str, Any]:
        """What the receipt of a step has; empty: there is none."""
        return self.done[step].read_back if step in self.done else {}

    def is_proved(self, step: StepName) -> bool:
        """Whether more than somebody's word says that a step was done: the fence proves that producers are stopped."""
        by = StepName.FENCE if step is StepName.STOP_PRODUCERS else step
        proof = self.read_back(by).get("proof") or ()
        is_open = proof == "unproven" or any(one["reason"] for one in proof if isinstance(one, Mapping))
        return by in self.done and not is_open and self.read_back(by).get("by", "hook") == "hook"


RowsOf = Callable[[str, Sequence[Filter]], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Applies:
    """All of a ledger, in the order in which they began."""

    by_id: Mapping[str, Apply]

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `APPLY_KINDS`, each writer's in the order of recording."""
        found: dict[str, Apply] = {}
        for row in rows:
            operation_id = row["operation_id"]
            if operation_id not in found and row["kind"] == OperationKind.APPLY_CLAIMED:
                found[operation_id] = Apply(
                    operation_id=operation_id,
                    plan_id=ApplyClaimed.of_row(row).plan_id,
                    operator=row["operator"],
                    reason=row["reason"],
                    ticket=row["ticket"],
                    begun_at_ms=row["recorded_at_ms"],
                )
            if operation_id in found:
                found[operation_id].read(row)
        return cls(found)

    @classmethod
    def read(cls, rows: RowsOf) -> Self:
        """All of a ledger, and of the one that is open what it waits for."""
        found = cls.of_rows(rows(OPERATIONS.name, [("kind", "in", APPLY_KINDS)]))
        if (one := found.open()) is not None and one.begun:
            step = list(one.begun)[-1]
            of_it: list[Filter] = [
                ("kind", "=", OperationKind.APPLY_ALIVE),
                ("operation_id", "=", one.operation_id),
            ]
            for alive in map(ApplyAlive.of_row, rows(OPERATIONS.name, of_it)):
                if alive.waits and alive.step == step not in {*one.done, *one.failed}:
                    one.waits[step] = alive.waits
        return found

    def open(self) -> Apply | None:
        """The one that has begun, or is being undone, and has not come to its end; there is one at most."""
        between = (ApplyState.OPEN, ApplyState.UNDOING)
        return next((one for one in self.by_id.values() if one.state in between), None)

    def of_plan(self, plan_id: str) -> list[Apply]:
        return [one for one in self.by_id.values() if one.plan_id == plan_id]

    def the(self, operation_id: str) -> Apply:
        """Raises `UsageError` for an operation that nobody has begun."""
        if operation_id not in self.by_id:
            raise UsageError(
                f"no plan was carried out by operation {operation_id!r}; nothing was done. mirror-ledger plan list "
                "names those that were; an older copy of a ledger lacks the later ones"
            )
        return self.by_id[operation_id]


def last_downtimes(
    applies: Applies, plans: Iterable[Row], *, from_cluster: str, to_cluster: str
) -> dict[ChangeoverKind, float]:
    """By kind the seconds for which applications had nowhere to write when this direction was last changed so.

    `plans`: rows of that kind. What was undone since counts as well: it was measured. What is only known to have taken
    so long at least does not.
    """
    return {
        kind: one.figures["downtime_seconds"]
        for kind, one in _reported(applies, plans, (from_cluster, to_cluster))
        if one.figures.get("downtime_seconds") is not None and one.figures.get("downtime_bound") is None
    }


def last_step_seconds(
    applies: Applies, plans: Iterable[Row], *, from_cluster: str, to_cluster: str
) -> dict[ChangeoverKind, dict[str, float]]:
    """By kind what each step took when this direction was last changed so."""
    return {
        kind: dict(one.figures["step_seconds"])
        for kind, one in _reported(applies, plans, (from_cluster, to_cluster))
        if "step_seconds" in one.figures
    }


def _reported(
    applies: Applies, plans: Iterable[Row], way: tuple[str, str]
) -> Iterator[tuple[ChangeoverKind, Apply]]:
    """Those of one direction, in the order in which they began."""
    made = {one.plan_id: one.plan for one in map(PlanRecorded.of_row, plans)}
    for one in applies.by_id.values():
        plan = made.get(one.plan_id)
        if plan is not None and (plan["from_cluster"], plan["to_cluster"]) == way:
            yield ChangeoverKind(plan["kind"]), one


def recorded_plan(rows: Iterable[Row], plan_id: str, *, is_begun: bool = False) -> tuple[Plan, PlanRecorded]:
    """The plan of an id, as it was last recorded, from rows of its kind.

    Raises `UsageError` for an id that no plan has, `PreconditionError` for a plan of another program, and where the
    last row of the id is not what the id is the hash of: it is not what people have read. `is_begun`: it was carried
    out in part, so what was read is found behind such a row: the way back has to exist.
    """
    found = [row for row in map(PlanRecorded.of_row, rows) if row.plan_id == plan_id]
    if not found:
        raise UsageError(
            f"the ledger has no plan {plan_id!r}; nothing was done. mirror-ledger plan list names those that it has; "
            "an older copy of a ledger lacks the later ones"
        )
    own = [row for row in found if id_of(row.plan) == plan_id]
    if not own or (found[-1] is not own[-1] and not is_begun):
        raise PreconditionError(
            f"what the ledger holds last as plan {plan_id} is another plan (its content has the id "
            f"{id_of(found[-1].plan)}): not this program has written it, but somebody who may append to the ledger; "
            "nothing was done. mirror-ledger plan list shows who; then plan again"
        )
    try:
        plan = Plan.of_content(own[-1].plan)
    except (KeyError, TypeError, ValueError) as error:
        raise PreconditionError(
            f"plan {plan_id} was made by another version of the program ({error}); nothing was done: plan again"
        ) from error
    return plan, own[-1]
