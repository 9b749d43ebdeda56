"""`plan export`: a plan as files of commands and offsets, to be carried out without the program."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.system import SystemClock
from ledger.app import answers
from ledger.app.acts.fencing import fence_parts, recorded_limits
from ledger.app.acts.hand_over import Asked as AskedHandOver
from ledger.app.acts.hand_over import show_hand_over
from ledger.app.changeover.planning import read_plan
from ledger.app.changeover.seeing import scope_of
from ledger.app.changeover.sheets import places_of
from ledger.app.position_sheets import Reasons, position_sheet, why_set
from ledger.app.wiring import operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.plans import FenceChoice, Plan
from ledger.domain.changeover.steps import StepName
from ledger.domain.fences.closing import closing
from ledger.domain.hand_over.receipts import Purpose
from ledger.domain.operations.promotion.changeovers import PlanExported
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.domain.words.time_words import instant
from ledger.errors import MirrorLedgerError, UsageError
from ledger.operations.changeover.planned_groups import accepted_when_moved
from ledger.operations.changeover.sheets import is_at_its_place, sheets_of
from ledger.operations.directions import Pair
from ledger.operations.groups.outcomes import Setting
from ledger.operations.groups.position_sheet import unread_words
from ledger.operations.hand_over.planning import HandOver
from ledger.ports.fencing import FenceControl
from ledger.reports.exported_plan import (
    GROUPS,
    LEFT_OUT,
    POSITIONS,
    RESET,
    STEPS,
    UNDO,
    ExportedPlan,
    groups_file,
    steps_script,
    undo_script,
)
from ledger.reports.plain_text import csv_text
from ledger.reports.rendering import render_kafka_reset

_ANSWERS = pa.schema(
    {
        "group_id": pa.string(),
        "target_topic": pa.string(),
        "target_topic_id": pa.string(),
        "target_partition": pa.int32(),
        "target_offset": pa.int64(),
        "status": pa.string(),
        "absence": pa.string(),
    }
)
Rules = tuple[Sequence[TopicAcl], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Exported:
    """`left_out`: what the reset file does not hold, a line each."""

    operation_id: str
    files: tuple[Path, ...]
    groups: int
    left_out: tuple[str, ...]


def export_plan(
    config: MirrorConfig,
    plan_id: str,
    folder: Path,
    *,
    is_renewed: bool = False,
    reason: str | None,
    ticket: str | None,
) -> Exported:
    """Write the files, and record where each group is to continue; `is_renewed`: offsets and groups alone, over those
    of an earlier export.

    Raises `UsageError` for a plan that the ledger does not have and a folder that is not empty, or is to be renewed and
    holds no export, and as a position sheet where the target does not answer. What the former source does not tell is
    left to people, in the files.
    """
    plan = read_plan(config, plan_id).plan
    if is_renewed:
        _require_export(folder, plan_id)
    else:
        _require_empty(folder)
    at = answers.snapshot(config, None)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    sheet = position_sheet(config, at, places_of(config, plan, scope_of(config, state, plan)))
    placed = [one for one in sheet.settings if is_at_its_place(one)]
    reset, unwritable = _reset(placed, plan)
    left_out = [
        *((one, str(one.outcome)) for one in sheet.settings if one not in placed),
        *((one, "not for the tool") for one in unwritable),
    ]
    lines = (*unread_words(sheet.unread_groups), *(f"{one.words}: {why}" for one, why in left_out))
    rules, no_rules = lacking_rules(config, plan, state)
    lacking, by_hand = _hand_over(config, plan)
    written = ExportedPlan(
        plan=plan,
        servers={
            alias: config.cluster(alias).bootstrap_servers for alias in (plan.from_cluster, plan.to_cluster)
        },
        cut=sheet.cut,
        at=instant(SystemClock().now_ms()),
        rules=rules,
        no_rules=no_rules,
        shut=_own_limits(config, plan),
        left_out=len(left_out),
        settings=() if lacking is None else lacking.topics,
        permissions=() if lacking is None else lacking.permissions,
        by_hand=by_hand,
    )
    texts = {
        RESET: reset,
        GROUPS: groups_file({one.group_id for one in placed} - {one.group_id for one in unwritable}),
        LEFT_OUT: _left_out_file(left_out),
        POSITIONS: _positions(plan, state),
    }
    if not is_renewed:
        texts |= {STEPS: steps_script(written), UNDO: undo_script(written)}
    why = why_set(at, sheet, Reasons(reason, ticket))
    sheets = sheets_of(plan_id, sheet.settings, target_cluster=plan.to_cluster, why=why)
    exported = PlanExported(
        plan_id=plan_id,
        cut=sheet.cut,
        groups=len(sheets),
        left_out=lines,
        from_cluster=plan.from_cluster,
        denied=_denied(rules),
    )
    with _written(folder, texts) as files:
        operation_id = operator_operations(config).record_parts(
            [exported, *sheets], flow=None, reason=reason, ticket=ticket
        )
    return Exported(operation_id, files, len(sheets), lines)


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there and not an empty folder; nothing was written or recorded")


def _require_export(folder: Path, plan_id: str) -> None:
    steps = folder / STEPS
    if not steps.is_file() or f"# Plan {plan_id}: " not in steps.read_text(encoding="utf-8"):
        raise UsageError(f"{folder} holds no export of plan {plan_id}; nothing was written or recorded")


def _own_limits(config: MirrorConfig, plan: Plan) -> dict[str, str | None]:
    """By topic that is to be shut its own limit as it was recorded last, None: it has none."""
    if plan.choices.fence is not FenceChoice.SHUT:
        return {}
    recorded = recorded_limits(config, plan.from_cluster)
    return {topic: recorded.get(topic) for topic in plan.source_names}


def _reset(placed: Sequence[Setting], plan: Plan) -> tuple[str, list[Setting]]:
    """The reset file, and what of these settings it cannot hold: the tool is not one for share groups."""
    committing = [one for one in placed if not one.is_of_share_group]
    rows: list[dict[str, Any]] = [
        {name: one.answer.get(name) for name in _ANSWERS.names} for one in committing
    ]
    reset = render_kafka_reset(
        pa.Table.from_pylist(rows, schema=_ANSWERS), accepted_when_moved(plan.kind, plan.choices)
    )
    lacking = {
        (row["group_id"], row["target_topic"], row["target_partition"])
        for table in (reset.unwritable, reset.left_out)
        for row in table.to_pylist()
    }
    return reset.csv, [one for one in placed if one.is_of_share_group or one.place in lacking]


def _left_out_file(left_out: Sequence[tuple[Setting, str]]) -> str:
    rows = [
        (one.group_id, one.answer["source_topic"], one.answer["source_partition"], one.answer["status"], why)
        for one, why in left_out
    ]
    return csv_text([("group_id", "source_topic", "source_partition", "status", "why"), *rows])


def _positions(plan: Plan, state: DeltaLedgerState) -> str:
    """Where the maps of the plan's topics ended."""
    ids = {(one.flow, one.source_topic_id): one for one in plan.topics}
    rows = sorted(
        (
            one.source_topic,
            one.partition,
            one.position.source_offset,
            one.target_topic,
            one.position.target_offset,
        )
        for flow in plan.flows
        for one in state.positions(flow)
        if (flow, one.source_topic_id) in ids
    )
    return csv_text([("source_topic", "partition", "source_offset", "topic", "offset"), *rows])


def lacking_rules(config: MirrorConfig, plan: Plan, state: DeltaLedgerState) -> Rules:
    """What is lacking to close the topics of a plan; why that would not, or nobody knows, is said instead."""
    try:
        with fence_parts(config, plan.from_cluster, state, lambda _words: None) as parts:
            return rules_that_close(plan, parts.control, parts.mirror)
    except MirrorLedgerError as error:
        return (), (f"what would close {plan.from_cluster} could not be read: {error}",)


def rules_that_close(
    plan: Plan, control: FenceControl, mirror: str | None, *, mirror_may_write: bool = False
) -> Rules:
    """The same by a connection that is open; raises what it raises.

    `mirror`: its principal; `mirror_may_write`: as it has to once it copies back.
    """
    if plan.choices.fence is not FenceChoice.CLOSED:
        return (), ()
    authorizations = control.authorizations()
    if authorizations is None:
        return (), (f"{plan.from_cluster} has no authorizer: no rule stops anybody there",)
    acls = control.topic_acls()
    if mirror_may_write:
        acls = frozenset(one for one in acls if one.principal != mirror)
    topics = plan.source_names
    found = closing(topics, acls, authorizations, mirror=mirror, confirmed=plan.choices.confirmed_super_users)
    return sorted({rule for rules in found.rules.values() for rule in rules} - acls), found.refusals


def _denied(rules: Sequence[TopicAcl]) -> dict[str, list[str]]:
    return {
        topic: sorted(rule.principal for rule in rules if rule.name == topic)
        for topic in sorted({rule.name for rule in rules})
    }


def _hand_over(config: MirrorConfig, plan: Plan) -> tuple[HandOver | None, Sequence[str]]:
    """What the target lacks, and what of that is left to people."""
    if StepName.HAND_OVER not in plan.steps:
        return None, ()
    topics = plan.target_names
    pair = Pair(plan.to_cluster, plan.from_cluster, topics)
    try:
        found = show_hand_over(config, AskedHandOver(pair, Purpose.APPLICATIONS))
    except MirrorLedgerError as error:
        return None, (f"what applications need could not be compared: {error}",)
    return found, (*found.manual, *(f"unknown: {words}" for words in found.unknown))


@contextmanager
def _written(folder: Path, texts: Mapping[str, str]) -> Iterator[tuple[Path, ...]]:
    """The files, which are removed again where what follows fails: what `verify` compares with is what people have."""
    files = tuple(folder / name for name in texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in zip(files, texts.values(), strict=True):
            file.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        _remove(files)
        raise UsageError(
            f"{error.filename or folder} cannot be written: {error.strerror}; nothing was recorded, the plan was not "
            "exported. Name another folder"
        ) from error
    try:
        yield files
    except BaseException:
        _remove(files)
        raise


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()
