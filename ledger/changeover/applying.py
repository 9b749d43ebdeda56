"""Carrying out a recorded plan: the claim, the actions of its steps, and where people follow them."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ledger.changeover import failback_steps, steps
from ledger.changeover.conditions import Reading, require_conditions
from ledger.changeover.plans import Applies, Apply, Plan, StepName
from ledger.changeover.receipts import Action, Applying, Hook, StepReports, StepResult, Waits
from ledger.changeover.role import beside, claimed_role, continued, followed_epoch, require_not_done
from ledger.changeover.seeing import PlannedBefore, read_applies, read_plan, scope_of
from ledger.changeover.step_context import Confirm, StepContext
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.changeovers import ApplyClaimed, PlanRecorded
from ledger.machine import HookCommand, HookProcesses, Hooks, words_of
from ledger.store.session import random_id

# Steps --------------------------------------------------------------------------------------------
# Which action carries out which step.


_ACTIONS: Mapping[StepName, Callable[[StepContext, Waits], StepResult]] = {
    StepName.CHECK: steps.check,
    **failback_steps.STEPS,
    StepName.RECORD: steps.record,
    StepName.STOP_PRODUCERS: steps.stop_producers,
    StepName.FENCE: steps.fence_source,
    StepName.DRAIN: steps.drain_source,
    StepName.STOP_GROUPS: steps.stop_groups,
    StepName.SETTLE: steps.settle_flows,
    StepName.PROMOTE: steps.promote,
    StepName.SHUT_OUT: steps.shut_out_mirror,
    StepName.CUT: steps.cut,
    StepName.HAND_OVER: steps.hand_over_to_applications,
    StepName.MOVE_GROUPS: steps.move_groups,
    StepName.AUDIT: steps.audit,
    StepName.START_APPLICATIONS: steps.start_applications,
    StepName.FIRST_PROGRESS: steps.groups_progress,
    StepName.REVERSE: steps.reverse,
    StepName.REPORT: steps.report,
}

_ORDER = tuple(StepName)
_CHECKED_BEFORE = frozenset(_ORDER[_ORDER.index(StepName.RECORD) : _ORDER.index(StepName.MOVE_GROUPS)]) - {
    StepName.DRAIN,
    StepName.STOP_GROUPS,
}
"""Steps before which it is read where groups stand: `stop_groups` reads that itself, and drains are short."""


def actions(shared: StepContext) -> dict[StepName, Action]:
    """By step what it does."""
    return {step: partial(_act, shared, step) for step in _ACTIONS}


def checked_hook(shared: StepContext, run: Hook) -> Hook:
    """The same hook, which is not run where its step would do nothing: it comes before what the step does itself."""

    def checked(step: StepName, command: str, waits: Waits) -> Mapping[str, Any]:
        require_conditions(_reading(shared, step), step)
        return run(step, command, waits)

    return checked


def _act(shared: StepContext, step: StepName, waits: Waits) -> StepResult:
    """Where its hook has started applications it is too late to ask: that was done before the hook."""
    is_done_by_hook = step is StepName.START_APPLICATIONS and step in shared.plan.hooks
    unknown = [] if is_done_by_hook else require_conditions(_reading(shared, step), step)
    if step in _CHECKED_BEFORE:
        steps.read_groups(shared)
    done = _ACTIONS[step](shared, waits)
    return replace(done, words="; ".join([done.words, *unknown])) if unknown else done


def _reading(shared: StepContext, step: StepName) -> Reading:
    """Behind all steps that come before this one."""
    shared.require_own()
    former = shared.former
    return Reading(
        context=shared.context,
        plan=shared.plan,
        of=former,
        done=frozenset(_ORDER[: _ORDER.index(step)]),
        are_started=former is not None and StepName.START_APPLICATIONS in former.acted,
    )


# Hooks --------------------------------------------------------------------------------------------
# External commands of a plan's steps: run for so long at most, and kept in the receipt with what they
# printed.


def run_step_hook(
    hooks: Hooks, plan: Plan, operation_id: str, step: StepName, command: str, waits: Waits
) -> Mapping[str, Any]:
    """What the receipt keeps of it; the command finds in its environment what it is run for.

    Raises `PreconditionError`, with what it printed, when it failed or took longer than the plan lets it.
    """
    seconds = plan.choices.hook_seconds
    environment = {
        "MIRROR_LEDGER_OPERATION": operation_id,
        "MIRROR_LEDGER_STEP": str(step),
        "MIRROR_LEDGER_FROM": plan.from_cluster,
        "MIRROR_LEDGER_TO": plan.to_cluster,
    }
    result = hooks.run(HookCommand(words_of(command), seconds, environment), waits)
    if not result.is_done:
        how = (
            f"took longer than {seconds:g} s, and was ended with what it had started"
            if result.exit_code is None
            else f"ended with {result.exit_code}"
        )
        raise PreconditionError(f"the hook of {step} {how}: {result.output.strip() or 'it printed nothing'}")
    return {"command": command, "exit_code": result.exit_code, "output": result.output}


# Applying -----------------------------------------------------------------------------------------


def apply_plan(context: Context, plan_id: str, confirm: Confirm, reports: StepReports) -> str:
    """Carry out a plan, or continue it; returns the operation id.

    Raises `UsageError` for a plan that this ledger does not have, `UnsafeError` for one with blockers, or that too few
    people stand behind, `PreconditionError` for one that is stale or done, or while another process is at work; and
    what a step raises.
    """
    before = read_plan(context, plan_id)
    plan = before.plan
    _require_free_of_blockers(plan)
    if _former(before.applies, before.recorded) is None:
        # What has begun is brought to its end, or undone, by whoever is there.
        before.approvals.require(plan_id)
    after = followed_epoch(context, partial(reports.waits, StepName.CHECK))
    with claimed_role(context, plan, after=after) as role:
        # Again: who held the role may have come to the end.
        former = _former(read_applies(context.snapshot()), before.recorded)
        operation_id = random_id() if former is None else former.operation_id
        begun_at_ms = context.clock.now_ms() if former is None else former.begun_at_ms
        scope = scope_of(context, plan)
        context = context.part_of(operation_id)
        shared = StepContext(context, plan, former, begun_at_ms, scope, confirm, role.require_own)
        shared.require_current(before.planned_at_ms)
        run = partial(run_step_hook, HookProcesses(context.config.secrets(os.environ)), plan, operation_id)
        applying = Applying(
            role.record(context.why), actions(shared), checked_hook(shared, run), reports, beside
        )
        applying.carry_out(plan, former, _claimed(before, former, role.host))
    return operation_id


def _claimed(before: PlannedBefore, former: Apply | None, host: str) -> ApplyClaimed:
    """Who stands behind a plan is recorded when it begins."""
    claimed = ApplyClaimed(plan_id=before.recorded.plan_id, host=host, is_continued=former is not None)
    if former is not None:
        return claimed
    people_asked, people = before.approvals.asked, before.approvals.people
    return replace(claimed, planned_by=before.planned_by, people_asked=people_asked, people=people)


def _former(applies: Applies, recorded: PlanRecorded) -> Apply | None:
    """What is to be continued, None: it begins."""
    require_not_done(applies, recorded)
    return continued(applies, recorded.plan_id)


def _require_free_of_blockers(plan: Plan) -> None:
    if plan.blockers:
        raise UnsafeError(
            f"plan {plan.plan_id} is blocked: {', '.join(plan.blockers)}; nothing was done. mirror-ledger plan show "
            f"{plan.plan_id} says what to do; then plan again"
        )
