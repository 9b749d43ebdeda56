"""Which action carries out which step."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ledger.app.changeover import afterwards, at_target, before_cut
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
_STARTED = _ORDER.index(StepName.START_APPLICATIONS)
_ABOUT_TOPICS = frozenset(_ORDER[:_STARTED])
"""Steps before which both sides have to hold the topics of the plan: once groups have moved they may change."""
_PROMOTED = frozenset(_ORDER[_ORDER.index(StepName.PROMOTE) + 1 : _STARTED + 1])
"""Steps before which the target has to be promoted still, of a plan that promotes it: applications come there."""
_LOOKED_BEFORE = frozenset(_ORDER[_ORDER.index(StepName.RECORD) : _ORDER.index(StepName.MOVE_GROUPS)])
"""Steps before which it is read where groups stand."""


def actions(scene: Scene) -> dict[StepName, Action]:
    """By step what it does."""
    return {step: partial(_act, scene, step) for step in _ACTIONS}


def checked_hook(scene: Scene, run: Hook) -> Hook:
    """The same hook, which is not run where its step would do nothing: it comes before what the step does itself."""

    def checked(step: StepName, command: str, waits: Waits) -> Mapping[str, Any]:
        _require(scene, step)
        return run(step, command, waits)

    return checked


def _act(scene: Scene, step: StepName, waits: Waits) -> StepResult:
    _require(scene, step)
    if step in _LOOKED_BEFORE:
        before_cut.look_at_groups(scene)
    return _ACTIONS[step](scene, waits)


def _require(scene: Scene, step: StepName) -> None:
    if step in _ABOUT_TOPICS:
        scene.require_planned_topics()
    if step in _PROMOTED and StepName.PROMOTE in scene.plan.steps:
        scene.require_promoted()
