"""Changes of direction as rows, for what is served of them: a plan, and an apply of it that failed."""

import json

from ledger.changeover.plans import (
    BlockerCode,
    ChangeoverKind,
    Choices,
    Plan,
    PlannedTopic,
    StepName,
    steps_of,
)
from tests.support.forecasts import forecast
from tests.support.operated import FLOW, Operated, own_mark


def planned(flow: Operated) -> Plan:
    """A switchover as it is recorded."""
    plan = Plan(
        kind=ChangeoverKind.SWITCHOVER,
        from_cluster="east",
        from_cluster_id="E",
        to_cluster="west",
        to_cluster_id="W",
        topics=(
            PlannedTopic(
                flow=FLOW, source_topic="orders", source_topic_id="id-of-orders", topic="orders", topic_id="t"
            ),
        ),
        choices=Choices(),
        hooks={StepName.STOP_PRODUCERS: "systemctl stop <shop>"},
        direction=None,
        permissions="p",
        steps=steps_of(ChangeoverKind.SWITCHOVER, is_promoted=True),
        blockers=(BlockerCode.OBJECTIVE,),
    )
    blockers = [{"code": "objective", "words": "41 s behind", "advice": "wait", "cause": ""}]
    content = {"plan_id": plan.plan_id, "plan": plan.content(), "blockers": blockers, "cut": "c"}
    flow.append("operations", row("plan", {**content, "forecast": forecast(groups=3)}, "planned"))
    return plan


def row(kind: str, content: dict[str, object], operation_id: str) -> dict[str, object]:
    of = {"kind": kind, "operation_id": operation_id, "flow": None, "operator": "ann", "reason": "works"}
    return {**of, "ticket": None, "content": json.dumps(content), "writer": "apply", "writer_epoch": 1}


def carried_out(flow: Operated, plan: Plan, *, by: str | None = None, is_failed: bool = True) -> None:
    """Up to a step that failed, or stands, with the producers stopped; `by`: the mark of its process, None: of this
    one."""
    done: dict[str, object] = {"read_back": {}, "hook": None}
    rows: list[tuple[str, dict[str, object]]] = [
        ("apply_claimed", {"plan_id": plan.plan_id, "host": by or own_mark(), "is_continued": False}),
        ("step_begun", {"step": "check"}),
        ("step_done", {"step": "check", "words": "nothing has changed", **done}),
        ("step_begun", {"step": "stop_producers"}),
        ("step_done", {"step": "stop_producers", "words": "<i>stopped</i>", **done}),
        ("step_begun", {"step": "fence"}),
        ("step_failed", {"step": "fence", "words": "east refused a rule"}),
    ]
    for kind, content in rows if is_failed else rows[:-1]:
        flow.append("operations", row(kind, content, "applied"))
