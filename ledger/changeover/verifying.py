"""`verify`: what an apply has made is read back."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ledger.changeover.checks import (
    Check,
    asked,
    audit_checks,
    cut_checks,
    group_checks,
    group_places,
    hand_over_checks,
    operation_checks,
    said,
)
from ledger.changeover.conditions import Reading, conditions
from ledger.changeover.groups import last_sheets
from ledger.changeover.hand_over import show_hand_over
from ledger.changeover.pairs import Pair
from ledger.changeover.plans import Apply, StepName
from ledger.changeover.seeing import read_applies, read_plan
from ledger.context import Context
from ledger.errors import UsageError
from ledger.facts.hand_overs import Purpose, TopicHandOver, merged
from ledger.store import answers
from ledger.words import counted


def verify_changeover(context: Context, operation_id: str) -> list[Check]:
    """Of an operation of `apply`. Raises `UsageError` where there is none of this id.

    Clusters that do not answer are no error: what they would say is unknown.
    """
    of = read_applies(context.snapshot()).by_id.get(operation_id)
    if of is None:
        raise UsageError(
            f"{operation_id} is no operation of apply; nothing was read. Their ids: mirror-ledger plan list"
        )
    plan = read_plan(context, of.plan_id, is_begun=True).plan
    reading = Reading(
        context=context.part_of(operation_id),
        plan=plan,
        of=of,
        done=frozenset(of.done),
        are_started=StepName.START_APPLICATIONS in of.acted,
    )
    checks = operation_checks(of, plan)
    for check, cluster, ask in _checks(reading):
        checks += asked(check, cluster, ask)
    return checks + asked("group", plan.to_cluster, lambda: _groups(reading, of))


def _checks(reading: Reading) -> list[tuple[str, str, Callable[[], Sequence[Check]]]]:
    """What its steps rest on, and what they have made; but groups, which are read at last."""
    found, target = [one for one in conditions(reading) if one[0] != "group"], reading.plan.to_cluster
    if (cut := reading.cut) is not None:
        found.append(("cut", target, lambda: cut_checks(cut, reading.plan)))
    if reading.has(StepName.HAND_OVER):
        found.append(("hand_over", target, lambda: _hand_over(reading)))
    found.append(("audit", "ledger", lambda: _audits(reading)))
    return found


def _hand_over(reading: Reading) -> list[Check]:
    plan = reading.plan
    pair = Pair(plan.to_cluster, plan.from_cluster, reading.plan.target_names)
    lacking = show_hand_over(reading.context, pair, Purpose.APPLICATIONS)
    if reading.has(StepName.REVERSE):
        # The flow back follows settings at the former source: they are those of applications no longer.
        lacking = replace(lacking, topics=_undone(reading, reading.operation_id))
    return hand_over_checks(lacking)


def _undone(reading: Reading, operation_id: str) -> tuple[TopicHandOver, ...]:
    """Settings that applications were given by an operation, and that are again what they were before."""
    given = [
        topic
        for one in reading.state.hand_overs().handed_over(operation_id)
        if one.cluster == reading.plan.to_cluster and one.purpose == Purpose.APPLICATIONS
        for topic in one.topics
    ]
    own = reading.target.configurations(sorted({topic.topic for topic in given}))
    return tuple(one for topic in merged(given) if (one := topic.lacking(own.get(topic.topic, {}))))


def _audits(reading: Reading) -> list[Check]:
    found = answers.audit_rows(reading.context.snapshot())
    return audit_checks(found.keys(), {name: rows for name, rows in found.items() if rows})


def _groups(reading: Reading, of: Apply) -> list[Check]:
    if not reading.has(StepName.MOVE_GROUPS):
        return []
    sheets = last_sheets(reading.context, reading.operation_id)
    if not sheets:
        groups = of.done[StepName.MOVE_GROUPS].read_back.get("groups", 0)
        words = f"{counted(groups, 'group')} was to move"
        return [said("group", reading.plan.to_cluster, None if groups else True, words)]
    places = group_places(reading.target, list(sheets.values()), reading.cut)
    return group_checks(places, are_started=reading.are_started)
