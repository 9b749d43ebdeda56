"""Undoing what an apply has changed: the claim, who is at work at the target, and the steps back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from ledger.changeover.directions import change_direction
from ledger.changeover.fencing import fence_topics, leave_topics_open, unfence_topics
from ledger.changeover.groups import MovedCommit, moved_by, take_groups_back, why_at_work
from ledger.changeover.hand_over import undo_hand_over
from ledger.changeover.holding import hold_retention
from ledger.changeover.measures import AskedFence
from ledger.changeover.pairs import planned_way, way_home
from ledger.changeover.plans import Applies, Apply, ApplyState, Plan, StepName, undo_command
from ledger.changeover.receipts import (
    OPERATION,
    Action,
    ApplyRecord,
    Beside,
    StepReports,
    StepResult,
    Waits,
    name_in,
    nothing_beside,
)
from ledger.changeover.role import beside, claimed_role, followed_epoch
from ledger.changeover.scope import promoted_pair
from ledger.changeover.seeing import read_applies, read_plan, reverse_flows
from ledger.changeover.shut_out import shut_out
from ledger.changeover.step_context import PlanContext
from ledger.changeover.waiting import Behind, mirrors_at, written_behind
from ledger.context import Context
from ledger.errors import MirrorLedgerError, PreconditionError, ShutOutError
from ledger.facts.changeovers import ApplyAlive, UndoBegun, Undone
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.fences import FenceHow, Unfenced
from ledger.facts.hand_overs import HandOverUndone, Purpose
from ledger.facts.operations import OperationKind
from ledger.facts.roles import writer_of
from ledger.kafka.cluster import live_cluster
from ledger.roles import is_at_work
from ledger.words import listed

# Undoing ------------------------------------------------------------------------------------------
# Undoing what an apply has changed, step by step in reverse order, until applications write at the target.
#
# Each step reads what is there, undoes what is still as it was made, and reads back. So who was interrupted
# begins again. Once it has begun the apply cannot be continued any more.


UNDOABLE = (StepName.FENCE, StepName.PROMOTE, StepName.HAND_OVER, StepName.MOVE_GROUPS)
"""Steps that change something that can be undone. What others have recorded is so, and stays."""

_LEFT = "left_as_it_is"


def undoable(
    applies: Applies, operation_id: str, plan_of: Callable[[str], Plan]
) -> tuple[Apply, Plan] | None:
    """The apply and its plan; None: it was undone before.

    Raises `UsageError` for an operation that nobody has begun, `PreconditionError` where a later one about the same
    topics was not undone, or another apply is open.
    """
    found = applies.the(operation_id)
    if found.state is ApplyState.UNDONE:
        return None
    open_one = applies.open()
    if open_one is not None and open_one.operation_id != operation_id:
        raise PreconditionError(
            f"operation {open_one.operation_id} (plan {open_one.plan_id}) has not come to its end; nothing was done. "
            f"Continue it, or take it back first: {undo_command(open_one.operation_id)}"
        )
    plan = plan_of(found.plan_id)
    ids = _topic_ids(plan)
    names = list(applies.by_id)
    for later in names[names.index(operation_id) + 1 :]:
        one = applies.by_id[later]
        if one.state is not ApplyState.UNDONE and ids & _topic_ids(plan_of(one.plan_id)):
            raise PreconditionError(
                f"operation {later} came after it and is about the same topics; nothing was done. Take that back "
                f"first: {undo_command(later)}"
            )
    return found, plan


def _topic_ids(plan: Plan) -> set[str]:
    return {topic_id for one in plan.topics for topic_id in (one.topic_id, one.source_topic_id) if topic_id}


def require_nobody_at_work(plan: Plan, reasons: Sequence[str]) -> None:
    """Raise `PreconditionError` where applications are at work at the target, or may be."""
    if not reasons:
        return
    way = planned_way if plan.kind.is_planned else way_home
    raise PreconditionError(
        f"{plan.to_cluster} is in use since; nothing was undone:",
        *listed(reasons),
        f"The way back is a plan in the other direction: {way(plan.to_cluster, plan.from_cluster)}",
    )


class OnFailure(StrEnum):
    """What becomes of an undo when a step cannot be undone."""

    STOP = "stop"  # it can be continued
    LEAVE = "leave"  # the step is left as it is and named, and the undo comes to its end


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What became of each step that had begun, in words; `left`: those that stand as the apply made them."""

    words: Mapping[str, str]
    left: tuple[StepName, ...]


@dataclass(frozen=True, slots=True)
class Undoing:
    """`actions`: how each of `UNDOABLE` is undone."""

    record: ApplyRecord
    actions: Mapping[StepName, Action]
    reports: StepReports
    on_failure: OnFailure = OnFailure.STOP
    beside: Beside = nothing_beside

    def undo(self, of: Apply, plan: Plan, *, host: str) -> UndoResult:
        """Each step that had begun, in reverse order. Raises what a step raises, unless that is left."""
        self.record.add(
            UndoBegun(plan_id=plan.plan_id, host=host, is_continued=of.state is ApplyState.UNDOING)
        )
        done: dict[StepName, StepResult] = {}
        for step in reversed(plan.steps):
            if step in UNDOABLE and step in of.begun:
                stands = step is StepName.FENCE and _is_left(done.get(StepName.PROMOTE))
                done[step] = self._fence_left(plan) if stands else self._undone(of, step)
        words = {str(step): result.words for step, result in done.items()}
        self.record.add(
            Undone(steps=words, read_back={str(step): dict(one.read_back) for step, one in done.items()})
        )
        return UndoResult(words, tuple(step for step, result in done.items() if _is_left(result)))

    def _fence_left(self, plan: Plan) -> StepResult:
        """Applications would write at both sides."""
        why = (
            f"{plan.to_cluster} is promoted still, and without its fence {plan.from_cluster} would be written to as "
            f"well. First mirror-ledger demote {plan.to_cluster} --over {plan.from_cluster} --reason WHY, "
            "then mirror-ledger "
            f"unfence {plan.from_cluster} --reason WHY"
        )
        self.reports.begins(StepName.FENCE)
        self.reports.ends(StepName.FENCE, why, False)
        return _left(why)

    def _undone(self, of: Apply, step: StepName) -> StepResult:
        self.reports.begins(step)
        self.record.add(ApplyAlive(step=step))
        try:
            with self.beside(partial(self.record.alive, step)):
                result = self.actions[step](partial(self._waits, step))
        except ShutOutError:
            raise
        except MirrorLedgerError as error:
            name_in(error, OPERATION, of.operation_id)
            self.reports.ends(step, str(error), False)
            if self.on_failure is OnFailure.STOP:
                raise
            return _left(str(error))
        self.reports.ends(step, result.words, True)
        return result

    def _waits(self, step: StepName, words: str) -> None:
        self.reports.waits(step, words)
        self.record.alive(step, words)


def _left(why: str) -> StepResult:
    return StepResult(f"left as it is: {why}", {_LEFT: why})


def _is_left(result: StepResult | None) -> bool:
    return result is not None and _LEFT in result.read_back


# Undoing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Back(PlanContext):
    """What the steps back share; `moved`: what the operation set of groups."""

    of: Apply
    moved: list[MovedCommit]
    require_own: Callable[[], None]


def undo_apply(
    context: Context, operation_id: str, reports: StepReports, *, on_failure: OnFailure = OnFailure.STOP
) -> UndoResult | None:
    """Undo what an operation has changed; returns what became of each step, None: it was undone before.

    `on_failure`: what becomes of a step that cannot be undone. Raises `UsageError` for an operation that nobody has
    begun, `PreconditionError` where applications are at work at the target, another process is at work, or a later
    operation is to be undone first; and what a step raises.
    """
    if _undoable(context, operation_id) is None:
        return None
    after = followed_epoch(context, partial(reports.waits, StepName.CHECK))
    found = _undoable(context, operation_id)  # again: who held the role may have come to the end
    if found is None:
        return None
    of, plan = found
    context = context.part_of(operation_id)
    moved = moved_by(context, operation_id)
    with claimed_role(context, plan, after=after) as role:
        actions = _actions(_Back(context, plan, of, moved, role.require_own), on_failure)
        undoing = Undoing(role.record(context.why), actions, reports, on_failure, beside)
        return undoing.undo(of, plan, host=role.host)


def _undoable(context: Context, operation_id: str) -> tuple[Apply, Plan] | None:
    applies = read_applies(context.snapshot())
    return undoable(applies, operation_id, lambda plan_id: read_plan(context, plan_id, is_begun=True).plan)


def plan_of_operation(context: Context, operation_id: str) -> Plan:
    """The plan that an operation carries out; raises `UsageError` where nobody has begun one of that id."""
    applies = read_applies(context.snapshot())
    return read_plan(context, applies.the(operation_id).plan_id, is_begun=True).plan


# Who is at work ---------------------------------------------------------------------------------


def _require_free(back: _Back) -> None:
    """Raise where another cluster is the target by now, or applications are at work there, or may be.

    Before anything was changed there it is not asked.
    """
    if not back.of.begun.keys() & {StepName.PROMOTE, StepName.HAND_OVER, StepName.MOVE_GROUPS}:
        return
    live = live_cluster(back.target)
    back.state.identities().require(back.target.alias, live)
    if live.cluster_id != back.plan.to_cluster_id:
        raise PreconditionError(
            f"another cluster answers behind {back.target.alias}: its Kafka cluster id is {live.cluster_id}, the "
            f"operation was carried out at {back.plan.to_cluster_id}; nothing was done"
        )
    require_nobody_at_work(back.plan, [*why_at_work(back.target, back.moved), *_at_work(back)])


def _at_work(back: _Back) -> list[str]:
    """Who writes where the target was promoted, and who copies from there."""
    if StepName.PROMOTE not in back.of.begun:
        return []
    return [
        *written_behind(back.target, _behind(back), mirrors_at(back.state, back.plan.to_cluster_id)),
        *(f"flow {name} copies back: mirror-ledger stop {name}" for name in _copying_back(back)),
    ]


def _behind(back: _Back) -> list[Behind]:
    """Of each partition the end of what the flow has copied.

    At the cut what lay behind that was a mirror's or a marker, unless applications had come before their time. What
    retention had deleted by then is not asked for.
    """
    cut = back.state.cut(back.operation_id)
    planned = back.topics
    topics = {(one.flow, one.source_topic): one for one in planned}
    ends: dict[tuple[str, int], int] = {}
    for flow in back.plan.flows:
        for at in back.state.positions(flow):
            one = topics.get((flow, at.source_topic))
            if one is not None and one.topic_id == at.target_topic_id:
                ends[one.topic, at.partition] = at.position.target_offset
        for (source_topic, partition), pair in cut.pairs(flow).items():
            one = topics.get((flow, source_topic))
            if one is not None and pair.target is not None and pair.target.log_start is not None:
                place = one.topic, partition
                ends[place] = max(ends.get(place, 0), pair.target.log_start)
    described = back.target.topics()
    return [
        Behind(one.topic, one.topic_id, partition, ends.get((one.topic, partition), 0))
        for one in planned
        for partition in range(described[one.topic].partitions if one.topic in described else 1)
    ]


def _copying_back(back: _Back) -> list[str]:
    """Drivers at work that may write to the former source: none may where that is promoted still."""
    topics = back.plan.source_names
    held = back.state.directions().promotions(back.plan.to_cluster, back.plan.from_cluster, topics)
    if all(made_by is not None for made_by in held.values()):
        return []
    config = back.context.config
    flows = [config.flow(name) for name in back.plan.flows if name in config.flows]
    return [
        name
        for name in sorted(set(reverse_flows(config, flows).values()))
        if is_at_work(config.flow(name), back.state.last_claim(writer_of(name)))
    ]


# Steps back -------------------------------------------------------------------------------------


def _actions(back: _Back, on_failure: OnFailure) -> dict[StepName, Action]:
    """Where applications are at work, or nobody knows, all is left: an apply that has come to its end is refused."""
    try:
        _require_free(back)
    except MirrorLedgerError as error:
        if on_failure is OnFailure.STOP or back.of.state is ApplyState.DONE:
            raise
        return dict.fromkeys(UNDOABLE, partial(_refuse, error))
    reverting: Mapping[StepName, Callable[[_Back, Waits], StepResult]] = {
        StepName.MOVE_GROUPS: lambda back, _waits: take_groups_back(
            back.target, back.moved, back.require_own
        ),
        StepName.HAND_OVER: _hand_back,
        StepName.PROMOTE: _demote,
        StepName.FENCE: _unfence,
    }
    return {step: partial(act, back) for step, act in reverting.items()}


def _refuse(error: MirrorLedgerError, _waits: Waits) -> StepResult:
    raise error


def _hand_back(back: _Back, waits: Waits) -> StepResult:
    operation_id = back.operation_id
    again = (_hold_again(back, waits), _close_again(back, waits))
    closed = "; ".join(words for words in again if words is not None)
    if not back.state.hand_overs().handed_over(operation_id):
        return StepResult(closed or "nothing had been handed over")
    done = undo_hand_over(back.context, operation_id, waits)
    words = [*([closed] if closed else []), *(one.words for one in done)]
    return StepResult("; ".join(words), {"clusters": [one.facts for one in done]})


def _close_again(back: _Back, waits: Waits) -> str | None:
    """What the target was left with when applications left it before, and what this operation has lifted."""
    rows = back.context.operations_of(back.operation_id, OperationKind.UNFENCED)
    lifted = [one for one in map(Unfenced.of_row, rows) if one.cluster == back.plan.to_cluster]
    if not lifted:
        return None
    choices, words = back.plan.choices, []
    for how, reading in sorted({(one.how, one.denied_reading is not None) for one in lifted}):
        those = [one for one in lifted if (one.how, one.denied_reading is not None) == (how, reading)]
        asked = AskedFence(
            cluster=back.plan.to_cluster,
            topics=tuple(sorted({one.topic for one in those})),
            how=FenceHow(how),
            confirmed_super_users=choices.confirmed_super_users,
            producers_stopped=True,
            reading=reading,
            quiet=choices.quiet,
            wait_s=choices.drain_seconds,
        )
        was_made = any(one.denied or one.denied_reading or one.restored for one in those)
        if was_made:
            done = fence_topics(back.context, asked, waits)
        else:
            open_one = replace(asked, unproven="as it was before")
            done = leave_topics_open(back.context, open_one)
        words.append(done.words)
    return "; ".join(words)


def _hold_again(back: _Back, waits: Waits) -> str | None:
    """The retention that the target was held with before, and that this operation has let go."""
    cluster = back.plan.to_cluster
    released = [
        one
        for operation_id, one in back.state.hand_overs().rows
        if operation_id == back.operation_id and isinstance(one, HandOverUndone)
        if (one.cluster, one.purpose) == (cluster, Purpose.RETENTION)
    ]
    topics = {topic.topic for one in released for topic in one.topics}
    own = back.context.part_of(None)  # what is undone next is what the apply's own id has handed over
    return hold_retention(own, cluster, topics, waits) if topics else None


def _promote_again(back: _Back, waits: Waits) -> str | None:
    """The former source, where applications had come to it before and this operation has demoted it."""
    plan = back.plan
    demoted = [
        one
        for one in map(Demoted.of_row, back.context.operations_of(back.operation_id, OperationKind.DEMOTED))
        if one.cluster == plan.from_cluster
    ]
    if not demoted:
        return None
    way = replace(promoted_pair(plan), cluster=plan.from_cluster, former=plan.to_cluster)
    made = change_direction(back.context, Promoted, way, is_exchange=True)
    limit_s = plan.choices.drain_seconds
    done = shut_out(back.context, way, with_markers=False, limit_s=limit_s, say=waits)
    return f"{made.words}; {done.words}"


def _demote(back: _Back, waits: Waits) -> StepResult:
    plan = back.plan
    require_nobody_at_work(plan, _at_work(back))  # again: a mirror would find what was written since
    again = _promote_again(back, waits)
    made = change_direction(back.context, Demoted, promoted_pair(plan))
    words = made.words if again is None else f"{again}; {made.words}"
    return StepResult(words, {"is_new": made.operation_id is not None})


def _unfence(back: _Back, waits: Waits) -> StepResult:
    """Of the fences that stand those that the apply has made; what a hook has stopped, people start."""
    cluster, operation_id = back.plan.from_cluster, back.operation_id
    own = [one.fence for one in back.state.fences().at(cluster) if one.operation_id == operation_id]
    if not own:
        return StepResult(f"{cluster} has no fence that this operation made")
    done = unfence_topics(back.context, cluster, [one.topic for one in own], waits)
    words = done.words
    if any(one.how == FenceHow.HOOK for one in own):
        words += "; what the hook has stopped is to be started again"
    return StepResult(words, {"lifted": done.facts})
