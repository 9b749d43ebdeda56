"""`verify`: what an apply has made, or people by an exported plan, is read back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ledger.changeover.checks import (
    Check,
    CheckStatus,
    ComparedCommit,
    asked,
    audit_checks,
    cut_checks,
    group_checks,
    group_places,
    hand_over_checks,
    left_out_checks,
    operation_checks,
    said,
    shut_checks,
)
from ledger.changeover.conditions import Reading, conditions, lacking_now
from ledger.changeover.groups import RecordedSheets, exported_sheets, sheets_of_operation
from ledger.changeover.hand_over import show_hand_over
from ledger.changeover.measures import SETTING
from ledger.changeover.pairs import Pair
from ledger.changeover.plans import FenceChoice, StepName
from ledger.changeover.seeing import read_applies, read_plan
from ledger.context import Context
from ledger.errors import UsageError
from ledger.facts.group_offsets import CommitResult, OffsetsSet, OffsetsSetResult
from ledger.facts.hand_overs import Purpose, TopicHandOver, merged
from ledger.facts.operations import OperationContent, Why
from ledger.offsets.setting import Outcome
from ledger.store import answers
from ledger.words import counted


def verify_changeover(context: Context, name: str) -> list[Check]:
    """By the id of an operation, or of a plan that was exported; of the latter what is proved is recorded.

    Raises `UsageError` for an id of neither. Clusters that do not answer are no error: what they would say is unknown.
    """
    applies = read_applies(context.snapshot())
    of = applies.by_id.get(name)
    plan = read_plan(context, name if of is None else of.plan_id, is_begun=of is not None).plan
    sheets = exported_sheets(context, name) if of is None else sheets_of_operation(context, of.operation_id)
    if sheets is None:
        raise UsageError(
            f"plan {name} was not exported: there is nothing to compare with. Of a plan that was carried out by apply "
            "give the operation id (mirror-ledger plan list); nothing was done"
        )
    reading = Reading(
        context=context if of is None else context.part_of(of.operation_id),
        plan=plan,
        of=of,
        done=frozenset(plan.steps if of is None else of.done),
        are_started=of is None or StepName.START_APPLICATIONS in of.acted,
    )
    checks = [] if of is None else operation_checks(of, plan)
    for check, ask in _checks(reading):
        checks += asked(check, plan.to_cluster, ask)
    return checks + asked("group", plan.to_cluster, lambda: _groups(reading, sheets))


def _checks(reading: Reading) -> list[tuple[str, Callable[[], Sequence[Check]]]]:
    """What its steps rest on, and what they have made."""
    found = [(name, ask) for name, ask in conditions(reading) if name not in _GROUPS]
    if reading.of is None:
        found = [one for one in found if one[0] in ("cluster", "promoted", "shut_out")]
        if reading.has(StepName.FENCE):
            found.append(("fence", lambda: _fences_by_hand(reading)))
    elif (cut := reading.cut) is not None:
        found.append(("cut", lambda: cut_checks(cut, reading.plan)))
    if reading.has(StepName.HAND_OVER):
        found.append(("hand_over", lambda: _hand_over(reading)))
    found.append(("audit", lambda: _audits(reading)))
    return found


_GROUPS = ("group",)
"""Which `verify` reads by itself: what it finds of an exported plan is recorded."""


def _fences_by_hand(reading: Reading) -> list[Check]:
    """Nothing is recorded of them: what is there now is compared with what would close the topics."""
    plan, alias = reading.plan, reading.plan.from_cluster
    if plan.choices.fence is FenceChoice.NONE:
        return [said("fence", alias, None, f"the plan has none: {plan.choices.unproven}")]
    if plan.choices.fence is FenceChoice.HOOK:
        return [said("fence", alias, None, "no cluster tells what a hook has stopped")]
    topics = plan.source_names
    if plan.choices.fence is FenceChoice.SHUT:
        own = reading.source.configurations(topics)
        return shut_checks({topic: own.get(topic, {}).get(SETTING) for topic in topics})
    lacking, refusals = lacking_now(reading)
    if refusals:
        return [said("fence", alias, None, words) for words in refusals]
    missing = [said("fence", one.resource_name, False, f"{one.entity} is not denied") for one in lacking]
    return missing or [said("fence", alias, True, "every principal that a rule allows to write is denied")]


def _hand_over(reading: Reading) -> list[Check]:
    plan = reading.plan
    pair = Pair(plan.to_cluster, plan.from_cluster, reading.plan.target_names)
    lacking = show_hand_over(reading.context, pair, Purpose.APPLICATIONS)
    if reading.of is not None and reading.has(StepName.REVERSE):
        # The flow back follows settings at the former source: they are those of applications no longer.
        lacking = replace(lacking, topics=_undone(reading, reading.of.operation_id))
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


# Groups -----------------------------------------------------------------------------------------


def _groups(reading: Reading, sheets: RecordedSheets) -> list[Check]:
    if not reading.has(StepName.MOVE_GROUPS):
        return []
    if reading.of is not None and not sheets.by_group:
        groups = reading.of.done[StepName.MOVE_GROUPS].read_back.get("groups", 0)
        words = f"{counted(groups, 'group')} was to move"
        return [said("group", reading.plan.to_cluster, None if groups else True, words)]
    places = group_places(reading.target, list(sheets.by_group.values()), reading.cut)
    if reading.of is not None:
        return group_checks(places, are_started=reading.are_started)
    recorded = _record_moves(reading, sheets, places)
    checks = [
        *group_checks(places, are_started=reading.are_started),
        *left_out_checks(reading.plan.to_cluster, sheets.left_out),
    ]
    return [
        one if one.subject in recorded or one.status is not CheckStatus.OK else _beyond(one) for one in checks
    ]


def _beyond(check: Check) -> Check:
    """Nobody saw it where the plan put it."""
    return replace(
        check, words=f"{check.words}; its move is not recorded: it had read on before it was verified"
    )


def _record_moves(
    reading: Reading, sheets: RecordedSheets, places: Mapping[str, list[ComparedCommit] | None]
) -> frozenset[str]:
    """Of groups that stand exactly where an exported plan put them, once; returns all groups whose move is recorded."""
    proved = {
        group: sheets.by_group[group]
        for group, found in places.items()
        if found and group not in sheets.moved and all(one.is_exact for one in found)
    }
    contents: list[OperationContent] = []
    for group, sheet in sorted(proved.items()):
        contents += [sheet, OffsetsSetResult(group=group, results=_results(sheet))]
    if contents:
        reason = f"verified export of plan {reading.plan.plan_id}"
        why = Why(reason, operation_id=sheets.operation_id)
        reading.context.operations.record_parts(contents, why)
    return sheets.moved | proved.keys()


def _results(sheet: OffsetsSet) -> tuple[CommitResult, ...]:
    return tuple(
        CommitResult(
            source_topic=one.source_topic,
            source_partition=one.source_partition,
            topic=one.topic,
            partition=one.partition,
            former=one.former,
            to=one.to,
            result=Outcome.SET.value,
        )
        for one in sheet.commits
    )
