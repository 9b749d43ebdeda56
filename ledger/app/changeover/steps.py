"""Which action carries out which step."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ledger.app.changeover import afterwards, at_target, before_cut
from ledger.app.changeover.conditions import Reading, require_conditions
from ledger.app.changeover.scene import Scene
from ledger.domain.changeover.steps import StepName
from ledger.operations.changeover.applying import Action, Hook, StepResult, Waits

_ACTIONS: Mapping[StepName, Callable[[Scene, Waits], StepResult]] = {
    StepName.CHECK: before_cut.check,
    StepName.RECORD: before_cut.record,
    StepName.STOP_PRODUCERS: before_cut.stop_producers,
    StepName.FENCE: before_cut.fence_source,
    StepName.DRAIN: before_cut.drain_source,
    StepName.STOP_GROUPS: before_cut.stop_groups,
    StepName.SETTLE: before_cut.settle_flows,
    StepName.PROMOTE: at_target.promote,
    StepName.SHUT_OUT: at_target.shut_out_mirror,
    StepName.CUT: at_target.cut,
    StepName.HAND_OVER: at_target.hand_over_to_applications,
    StepName.MOVE_GROUPS: at_target.move_groups,
    StepName.AUDIT: afterwards.audit,
    StepName.START_APPLICATIONS: afterwards.start_applications,
    StepName.FIRST_PROGRESS: afterwards.groups_progress,
    StepName.REVERSE: afterwards.reverse,
    StepName.REPORT: afterwards.report,
}

_ORDER = tuple(StepName)
_LOOKED_BEFORE = frozenset(_ORDER[_ORDER.index(StepName.RECORD) : _ORDER.index(StepName.MOVE_GROUPS)]) - {
    StepName.DRAIN,
    StepName.STOP_GROUPS,
}
"""Steps before which it is read where groups stand: `stop_groups` reads that itself, and drains are short."""


def actions(scene: Scene) -> dict[StepName, Action]:
    """By step what it does."""
    return {step: partial(_act, scene, step) for step in _ACTIONS}


def checked_hook(scene: Scene, run: Hook) -> Hook:
    """The same hook, which is not run where its step would do nothing: it comes before what the step does itself."""

    def checked(step: StepName, command: str, waits: Waits) -> Mapping[str, Any]:
        require_conditions(_reading(scene, step), step)
        return run(step, command, waits)

    return checked


def _act(scene: Scene, step: StepName, waits: Waits) -> StepResult:
    """Where its hook has started applications it is too late to ask: that was done before the hook."""
    is_done_by_hook = step is StepName.START_APPLICATIONS and step in scene.plan.hooks
    unknown = [] if is_done_by_hook else require_conditions(_reading(scene, step), step)
    if step in _LOOKED_BEFORE:
        before_cut.look_at_groups(scene)
    done = _ACTIONS[step](scene, waits)
    return replace(done, words="; ".join([done.words, *unknown])) if unknown else done


def _reading(scene: Scene, step: StepName) -> Reading:
    """Behind all steps that come before this one."""
    scene.require_own()
    former = scene.former
    return Reading(
        config=scene.config,
        plan=scene.plan,
        of=former,
        operation_id=scene.operation_id,
        state=scene.state,
        clusters=scene.clusters,
        done=frozenset(_ORDER[: _ORDER.index(step)]),
        are_started=former is not None and StepName.START_APPLICATIONS in former.begun,
    )
