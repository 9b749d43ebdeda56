"""Carrying out a recorded plan: the claim, the actions of its steps, and where people follow them."""

import os
import time

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.hook_process import HookProcesses
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.app import answers
from ledger.app.changeover.claimed_role import beside, claimed_role
from ledger.app.changeover.planning import read_applies, read_plan
from ledger.app.changeover.scene import Asked, Scene, both_clusters
from ledger.app.changeover.seeing import scope_of
from ledger.app.changeover.steps import actions, checked_hook
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.applies import Applies, Apply
from ledger.domain.changeover.plans import Plan
from ledger.domain.operations.promotion.changeovers import PlanRecorded
from ledger.domain.writer_roles import APPLY_WRITER
from ledger.errors import UnsafeError
from ledger.operations.changeover.applying import Applying, Told
from ledger.operations.changeover.hooks import StepHooks
from ledger.operations.changeover.role import continued, require_nobody_at_work, require_not_done
from ledger.recording.operation_log import random_id


def apply_plan(config: MirrorConfig, plan_id: str, asked: Asked, told: Told) -> str:
    """Carry out a plan, or continue it; returns the operation id.

    Raises `UsageError` for a plan that this ledger does not have, `UnsafeError` for one with blockers,
    `PreconditionError` for one that is stale or done, or while another process is at work; and what a step raises.
    """
    before = read_plan(config, plan_id)
    plan = before.plan
    _require_free_of_blockers(plan)
    _former(before.applies, before.recorded)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    clock, processes = SystemClock(), LocalProcesses()
    after = require_nobody_at_work(lambda: state.last_claim(APPLY_WRITER), processes, clock, time.sleep)
    with both_clusters(config, plan) as clusters, claimed_role(config, plan, after=after) as role:
        # Again: who held the role may have come to the end.
        former = _former(read_applies(answers.snapshot(config, None)), before.recorded)
        operation_id = random_id() if former is None else former.operation_id
        begun_at_ms = clock.now_ms() if former is None else former.begun_at_ms
        scope = scope_of(config, state, plan)
        scene = Scene(
            config, plan, former, state, clusters, operation_id, asked, begun_at_ms, scope, role.require_own
        )
        scene.require_current()
        record = role.record(operation_id, reason=asked.reason, ticket=asked.ticket)
        hooks = StepHooks(HookProcesses(config.secrets(os.environ)), plan, operation_id)
        Applying(record, actions(scene), checked_hook(scene, hooks.run), told, beside).carry_out(
            plan, former, host=role.host
        )
    return operation_id


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
