"""A plan as files for people: commands of Kafka's own tools in the plan's order, and the offsets of groups.

Names are of others: in a command each is one word for the shell, in a comment nothing of it ends the line. What a
command line cannot be given is said instead. Where secrets would be needed stands a placeholder for a file of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ledger.changeover.fencing import recorded_limits
from ledger.changeover.groups import is_at_its_place, places_of, sheets_of
from ledger.changeover.hand_over import show_hand_over
from ledger.changeover.measures import LEAST_MESSAGE_BYTES, SETTING
from ledger.changeover.pairs import Pair
from ledger.changeover.permissions import in_words, quota_names
from ledger.changeover.planning import accepted_when_moved
from ledger.changeover.plans import ChangeoverKind, FenceChoice, Plan, StepName
from ledger.changeover.seeing import read_plan, scope_of
from ledger.context import Context
from ledger.errors import MirrorLedgerError, UsageError
from ledger.facts.acls import closing
from ledger.facts.changeovers import PlanExported
from ledger.facts.hand_overs import HandedOver, Purpose, TopicHandOver
from ledger.facts.permissions import Permission, PermissionKind
from ledger.kafka.cluster import FenceControl
from ledger.offsets.rendering import render_kafka_reset
from ledger.offsets.setting import Setting
from ledger.offsets.sheets import basis_of, position_sheet, unread_words
from ledger.plain_text import csv_text
from ledger.store.state import DeltaLedgerState
from ledger.topics.following import SettingsChange
from ledger.words import instant, is_unicode, shell_word, shown

_FUNCTIONS = Path(__file__).with_name("exported_functions.sh")
"""What scripts ask people, record and wait for; it reads the file `GROUPS` beside them."""
STEPS, UNDO = "steps.sh", "undo.sh"
RESET, GROUPS, LEFT_OUT, POSITIONS = "reset.csv", "groups", "left_out.csv", "positions.csv"
_GROUPS_AT_ONCE = 50
_QUOTA_ENTITIES = {"user": "users", "client-id": "clients", "ip": "ips"}
_TOOLS = {
    "acls": "kafka-acls.sh",
    "configs": "kafka-configs.sh",
    "groups": "kafka-consumer-groups.sh",
    "offsets": "kafka-get-offsets.sh",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPlan:
    """What the files say. `servers`: bootstrap servers by alias. `cut`: as of which groups were placed.

    `rules`: what closes topics of the former source. `no_rules`: why that is not known, or why they would not be
    closed; a line each. `shut`: by topic of the former source its own `max.message.bytes`, None: the cluster's default.
    `settings`, `permissions`: what the target lacks. `by_hand`: what of that is left to people, or unknown.
    """

    plan: Plan
    servers: Mapping[str, str]
    cut: str
    at: str
    rules: Sequence[Permission]
    no_rules: Sequence[str]
    shut: Mapping[str, str | None]
    left_out: int
    settings: Sequence[TopicHandOver]
    permissions: Sequence[Permission]
    by_hand: Sequence[str]


def steps_script(of: ExportedPlan) -> str:
    """The script; it stops at each step of people."""
    lines = [*_head(of)]
    for number, step in enumerate(of.plan.steps, start=1):
        lines += ["", *_comments(f"{number}. {step}: {step.description}")]
        lines += (
            _STEPS[step](of) if step in _STEPS else _comments("nothing is to be done without the program")
        )
    lines += ["", *_comments("At last: compare what stands there with this plan"), _verification(of.plan)]
    return "\n".join(lines) + "\n"


def groups_file(groups: Iterable[str]) -> str:
    """The groups of the reset file, each with a NUL behind it; names that a command line cannot have are left out."""
    return "".join(f"{group}\0" for group in sorted(groups) if can_be_given(group))


def undo_script(of: ExportedPlan) -> str:
    """What undoes the steps, in the other order, as long as no application has written at the target."""
    plan = of.plan
    lines = [
        *_head(
            of,
            f"This undoes what {STEPS} made, as long as applications have not written at {plan.to_cluster}.",
        ),
        _line("people", f"no application has written at {plan.to_cluster}, and consumers there are stopped"),
    ]
    for topic in of.settings:
        former = SettingsChange(
            {name: value for name, value in topic.former.items() if value is not None},
            tuple(name for name, value in topic.former.items() if value is None),
        )
        lines += _settings("to_configs", topic.topic, former)
    lines += [_permission(one, is_removed=True) for one in of.permissions]
    if StepName.PROMOTE in plan.steps:
        demote = ("ledger", "demote", plan.to_cluster, "--over", plan.from_cluster, *_chosen(plan))
        lines.append(_line(*demote, "--reason", f"plan {plan.plan_id}, undone by hand"))
    lines += _unfence(of)
    lines += _comments(
        f"Groups keep the offsets that they were given at {plan.to_cluster}: another plan sets them again, and nobody "
        "reads there until then"
    )
    return "\n".join(lines) + "\n"


def _unfence(of: ExportedPlan) -> Iterator[str]:
    plan, topics = of.plan, [word for topic in of.plan.source_names for word in ("--topic", topic)]
    if plan.choices.fence is FenceChoice.NONE:
        return
    if plan.choices.fence is FenceChoice.HOOK:
        yield _line("people", f"what was stopped at {plan.from_cluster} is started again")
        return
    by_program = (
        "unfence",
        plan.from_cluster,
        *topics,
        "--reason",
        f"plan {plan.plan_id}, undone by hand",
    )
    yield "if by_program; then"
    yield f"unless_away {_line('mirror-ledger', *by_program)}"
    yield "else"
    for topic, value in of.shut.items():
        own = SettingsChange({SETTING: value}) if value is not None else SettingsChange({}, (SETTING,))
        yield from _settings("from_configs", topic, own)
    for rule in of.rules:
        yield _rule(rule, "--remove", "--force")
    yield ":"
    yield "fi"


def _head(of: ExportedPlan, what: str = "") -> Iterator[str]:
    plan = of.plan
    yield "#!/usr/bin/env bash"
    yield from _comments(
        f"Plan {plan.plan_id}: {plan.kind} of applications from {plan.from_cluster} to {plan.to_cluster}.",
        f"Written {of.at}, as of cut {of.cut}.",
        what
        or f"{LEFT_OUT} lists what {RESET} does not hold: {of.left_out} partitions of groups. {UNDO} undoes the steps.",
        "Kafka's tools exit with 0 also when they have refused something: read what they print.",
    )
    yield "set -euo pipefail"
    yield 'here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)'
    yield "export LC_ALL=C.UTF-8"
    yield from _comments("Client properties of administrators of both clusters, with their secrets")
    yield ': "${FROM_CONFIG:?a file of client properties for the cluster that applications leave}"'
    yield ': "${TO_CONFIG:?a file of client properties for the cluster that applications come to}"'
    for side, alias in (("from", plan.from_cluster), ("to", plan.to_cluster)):
        variables = side.upper()
        yield f"{variables}_SERVERS={shell_word(of.servers[alias])}"
        reached = f'--bootstrap-server "${variables}_SERVERS" --command-config "${variables}_CONFIG"'
        for name, tool in _TOOLS.items():
            asks = "unless_away " if side == "from" else ""
            yield f'{side}_{name}() {{ {asks}{tool} {reached} "$@"; }}'
    yield from _unless_away(plan)
    yield _FUNCTIONS.read_text(encoding="utf-8").rstrip()


def _unless_away(plan: Plan) -> Iterator[str]:
    """A former source that is lost is not asked: each command would wait for it in vain."""
    if plan.kind.is_planned:
        yield 'unless_away() { "$@"; }'
        return
    yield from _comments(f"FROM_ANSWERS=yes where {plan.from_cluster} answers nevertheless")
    yield (
        'unless_away() { if [ "${FROM_ANSWERS:-no}" = yes ]; then "$@"; '
        'else printf \'not asked, it is away:%s\\n\' "$(quoted "$@")"; fi; }'
    )


# Steps ------------------------------------------------------------------------------------------


def _check(of: ExportedPlan) -> Iterator[str]:
    codes = ", ".join(of.plan.blockers)
    if codes:
        yield from _comments(
            f"The plan is blocked ({codes}): mirror-ledger plan show {of.plan.plan_id} says why"
        )
        yield "exit 4"
    for alias, side, cluster_id in (
        (of.plan.from_cluster, "from", of.plan.from_cluster_id),
        (of.plan.to_cluster, "to", of.plan.to_cluster_id),
    ):
        yield from _comments(
            f"{alias} has to be the cluster with the id {cluster_id} (kafka-cluster.sh cluster-id)"
        )
        for topic in of.plan.source_names if side == "from" else of.plan.target_names:
            yield _line(f"{side}_offsets", "--topic", topic)


def _stop_producers(of: ExportedPlan) -> Iterator[str]:
    names = ", ".join(of.plan.source_names)
    yield _people(
        of.plan, StepName.STOP_PRODUCERS, f"producers of {names} at {of.plan.from_cluster} are stopped"
    )


def _fence(of: ExportedPlan) -> Iterator[str]:
    match of.plan.choices.fence:
        case FenceChoice.NONE:
            yield from _comments(f"none: {of.plan.choices.unproven}")
        case FenceChoice.HOOK:
            yield _people(of.plan, StepName.FENCE, f"nobody writes to {of.plan.from_cluster} any more")
        case FenceChoice.SHUT | FenceChoice.CLOSED:
            yield from _closed(of)
    yield from _comments("Twice, with a pause longer than producers ever pause: the ends have to be the same")
    for topic in of.plan.source_names:
        yield _line("from_offsets", "--topic", topic)


def _closed(of: ExportedPlan) -> Iterator[str]:
    """The program makes it, proves it and records it; else Kafka's tools make it, and it has to be recorded."""
    plan, topics = of.plan, of.plan.source_names
    named = [word for topic in topics for word in ("--topic", topic)]
    how = (
        ("--how", "shut", "--accept", "producers_stopped")
        if plan.choices.fence is FenceChoice.SHUT
        else ("--how", "closed")
    )
    confirmed = [
        word for user in plan.choices.confirmed_super_users for word in ("--accept", f"super_user={user}")
    ]
    why = ("--reason", f"plan {plan.plan_id}, carried out by hand")
    fence = _line("fence", plan.from_cluster, *named, *how, *confirmed, *why)
    yield "if by_program; then"
    yield f"unless_away mirror-ledger {fence}"
    yield "else"
    yield from _comments(*of.no_rules)
    for topic in of.shut:
        yield from _settings("from_configs", topic, SettingsChange({SETTING: LEAST_MESSAGE_BYTES}))
    for rule in of.rules:
        yield _rule(rule, "--add")
    yield f"people {shell_word(f'fenced by the tools; the ledger has to know of it: mirror-ledger {fence}')}"
    yield "fi"


def _rule(rule: Permission, act: str, *more: str) -> str:
    return _line(
        *("from_acls", act, *more, "--deny-principal", rule.entity, "--deny-host", rule.host),
        *("--operation", "Write", "--topic", rule.resource_name, "--resource-pattern-type", "literal"),
    )


def _settings(tool: str, topic: str, change: SettingsChange) -> Iterator[str]:
    about = (tool, "--alter", "--entity-type", "topics", "--entity-name", topic)
    if change.to_set:
        added = ",".join(f"{name}={_value(value)}" for name, value in change.to_set.items())
        yield _line(*about, "--add-config", added)
    if change.to_remove:
        yield _line(*about, "--delete-config", ",".join(change.to_remove))


def _drain(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        f"{POSITIONS} says which offset of {of.plan.to_cluster} belonged to which of {of.plan.from_cluster}. All is",
        f"copied when mirror-ledger status shows no lag; without it, when the ends of {of.plan.to_cluster} grow no",
        "more, and have grown by as many records as the source has behind its offset there (markers of transactions,",
        "and offsets that cleaning has left without a record, are not copied).",
    )
    for one in of.plan.topics:
        yield _line("from_offsets", "--topic", one.source_topic)
        yield _line("to_offsets", "--topic", one.topic)
    yield _people(of.plan, StepName.DRAIN, "all is copied")


def _stop_groups(of: ExportedPlan) -> Iterator[str]:
    names = ", ".join(of.plan.source_names)
    yield _people(
        of.plan, StepName.STOP_GROUPS, f"consumers of {names} at {of.plan.from_cluster} are stopped"
    )
    yield "no_members from_groups"


def _promote(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        "The ledger has to know, or the mirror writes on. Where the program cannot be used: end the process of every",
        f"flow into {of.plan.to_cluster} that the plan is about, and start none before it is recorded.",
    )
    yield _promotion(of.plan)


def _promotion(plan: Plan, *more: str) -> str:
    alone = () if plan.choices.reverse else ("--no-reverse",)
    return _line(
        *("ledger", "promote", plan.to_cluster, "--over", plan.from_cluster, *_chosen(plan), *alone, *more),
        *("--reason", f"plan {plan.plan_id}, carried out by hand"),
    )


def _chosen(plan: Plan) -> list[str]:
    """By name where anything stays as it is: what `promote` is to leave out cannot be said to it."""
    topics = plan.target_names if plan.choices.left_out else plan.choices.topics
    return [word for topic in topics or () for word in ("--topic", topic)]


def _shut_out(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        "This waits for the mirror's drivers, denies the mirror to write there, and records what proves it. Without",
        "the program it has stopped when no driver is at work and the ends stand still, twice",
    )
    line = _promotion(of.plan, "--shut-out", *(["--abort-marker"] if of.plan.choices.abort_marker else []))
    if of.plan.choices.accept_unproven_shut_out:
        yield from _comments("The plan accepts that it is not proven (exit code 4)")
        line += " || [ $? = 4 ]"
    yield line
    for one in of.plan.topics:
        yield _line("to_offsets", "--topic", one.topic)


def _cut(of: ExportedPlan) -> Iterator[str]:
    yield from _comments("Keep what these print: it is where both sides stood")
    for one in of.plan.topics:
        yield _line("from_offsets", "--topic", one.source_topic)
        yield _line("to_offsets", "--topic", one.topic)


def _hand_over_lines(of: ExportedPlan) -> Iterator[str]:
    for topic in of.settings:
        yield from _settings("to_configs", topic.topic, topic.change)
    for permission in of.permissions:
        yield _permission(permission)
    yield from _comments(*(f"by hand: {words}" for words in of.by_hand))


def _value(value: str) -> str:
    return f"[{value}]" if "," in value else value


def _permission(permission: Permission, *, is_removed: bool = False) -> str:
    if permission.kind is PermissionKind.QUOTA:
        words = [word for one in quota_names(permission).items() for word in _entity(*one)]
        if is_removed:
            return _line("to_configs", "--alter", *words, "--delete-config", permission.setting)
        limit = f"{permission.setting}={permission.value!r}"
        return _line("to_configs", "--alter", *words, "--add-config", limit)
    if permission.kind is not PermissionKind.ACL:
        return _comment(f"by hand: {in_words(permission)}")
    way = permission.permission_type
    operation = "".join(word.capitalize() for word in permission.operation.split("_"))
    resource = permission.resource_type.replace("_", "-")
    about = ("--cluster",) if resource == "cluster" else (f"--{resource}", permission.resource_name)
    return _line(
        *(
            "to_acls",
            *(("--remove", "--force") if is_removed else ("--add",)),
            f"--{way}-principal",
            permission.entity,
            f"--{way}-host",
            permission.host,
        ),
        *("--operation", operation, *about, "--resource-pattern-type", permission.pattern_type),
    )


def _entity(name: str, entity: str | None) -> tuple[str, ...]:
    """None: the default of all that have no limit of their own."""
    which = ("--entity-default",) if entity is None else ("--entity-name", entity)
    return ("--entity-type", _QUOTA_ENTITIES[name], *which)


def _move_groups(of: ExportedPlan) -> Iterator[str]:
    plan = of.plan
    yield from _comments("Where groups stand by now; nothing of what they have read since is read again")
    why = ("--reason", f"plan {plan.plan_id}, carried out by hand")
    yield "if command -v mirror-ledger > /dev/null; then"
    yield f'{_line("mirror-ledger", "plan", "export", plan.plan_id)} "$here" --renew {_line(*why)}'
    yield "else"
    words = f"without the program {RESET} is of {of.at}: groups that have committed at {plan.from_cluster} since then"
    yield _line("people", f"{words} read again what they read since")
    yield "fi"
    yield "no_members to_groups"
    yield from _comments("Without --execute it says what it would do")
    yield f'while mapfile -d "" -n {_GROUPS_AT_ONCE} -t groups <&3 && [ "${{#groups[@]}}" -gt 0 ]; do'
    yield f'  to_groups --reset-offsets "${{groups[@]/#/--group=}}" --execute --from-file "$here/{RESET}"'
    yield f'done 3< "$here/{GROUPS}"'


def _settle(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        "Only of flows whose driver died with the source: what it had copied last and nobody has recorded"
    )
    for flow in of.plan.flows:
        words = ("ledger", "settle", flow, "--reason", f"plan {of.plan.plan_id}, carried out by hand")
        yield f"{_line(*words)} || {_line('people', f'{flow} was not settled: its words say why')}"


def _verification(plan: Plan) -> str:
    """What is not known makes it fail as well: people decide."""
    return (
        f"{_line('ledger', 'verify', plan.plan_id)} || {_line('people', 'what is not ok above is meant so')}"
    )


def _start_applications(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        "Before they read: the comparison at the end of this file records which groups have moved, as long as they",
        "stand where they were set",
    )
    yield _verification(of.plan)
    yield _people(of.plan, StepName.START_APPLICATIONS, f"applications are started at {of.plan.to_cluster}")


def _reverse(of: ExportedPlan) -> Iterator[str]:
    yield from _comments(
        f"{of.plan.from_cluster} needs what copying back needs, and topics that were shut are to be opened again"
    )
    yield _line(
        *("ledger", "hand-over", "show", "--for", "mirror"),
        *("--from", of.plan.from_cluster, "--to", of.plan.to_cluster),
    )


_STEPS = {
    StepName.CHECK: _check,
    StepName.STOP_PRODUCERS: _stop_producers,
    StepName.FENCE: _fence,
    StepName.DRAIN: _drain,
    StepName.STOP_GROUPS: _stop_groups,
    StepName.PROMOTE: _promote,
    StepName.SHUT_OUT: _shut_out,
    StepName.SETTLE: _settle,
    StepName.CUT: _cut,
    StepName.HAND_OVER: _hand_over_lines,
    StepName.MOVE_GROUPS: _move_groups,
    StepName.START_APPLICATIONS: _start_applications,
    StepName.REVERSE: _reverse,
}


# Words ------------------------------------------------------------------------------------------


def can_be_given(text: str) -> bool:
    """Whether a command line may have it."""
    return "\0" not in text and is_unicode(text)


def _line(*words: str) -> str:
    """A command; what cannot be given to one is said instead."""
    if not all(map(can_be_given, words)):
        return _comment(f"by hand, no command line can have these: {' '.join(map(repr, words))}")
    return " ".join(map(shell_word, words))


def _people(plan: Plan, step: StepName, words: str) -> str:
    command = plan.hooks.get(step)
    return _line("people", words if command is None else f"{words}; the plan's hook: {shown(command)}")


def _comments(*texts: str) -> Iterable[str]:
    return [_comment(text) for text in texts]


def _comment(text: str) -> str:
    """One line, whatever is in a name."""
    return f"# {shown(text)}".encode("ascii", "backslashreplace").decode("ascii")


# Exporting ----------------------------------------------------------------------------------------
# `plan export`: a plan as files of commands and offsets, to be carried out without the program.


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
Rules = tuple[Sequence[Permission], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Exported:
    """`left_out`: what the reset file does not hold, a line each."""

    operation_id: str
    files: tuple[Path, ...]
    groups: int
    left_out: tuple[str, ...]


def export_plan(context: Context, plan_id: str, folder: Path, *, is_renewed: bool = False) -> Exported:
    """Write the files, and record where each group is to continue; `is_renewed`: offsets and groups alone, over those
    of an earlier export.

    Raises `UsageError` for a plan that the ledger does not have and a folder that is not empty, or is to be renewed and
    holds no export, and as a position sheet where the target does not answer. What the former source does not tell is
    left to people, in the files.
    """
    config, before = context.config, read_plan(context, plan_id)
    plan = before.plan
    before.approvals.require(plan_id)
    if plan.kind is ChangeoverKind.FAILBACK:
        raise UsageError(
            f"plan {plan_id} is a failback: what is to come back is known when it has; nothing was written. Plan it "
            "with --stop-before switch, and when that is carried out export a plan switchover"
        )
    if is_renewed:
        _require_export(folder, plan_id)
    else:
        _require_empty(folder)
    at = context.snapshot()
    sheet = position_sheet(context, at, places_of(config, plan, scope_of(context, plan)))
    placed = [one for one in sheet.settings if is_at_its_place(one)]
    reset, unwritable = _reset(placed, plan)
    left_out = [
        *((one, str(one.outcome)) for one in sheet.settings if one not in placed),
        *((one, "not for the tool") for one in unwritable),
    ]
    lines = (*unread_words(sheet.unread_groups), *(f"{one.words}: {why}" for one, why in left_out))
    rules, no_rules = lacking_rules(context, plan)
    lacking, by_hand = _hand_over(context, plan)
    written = ExportedPlan(
        plan=plan,
        servers={
            alias: config.cluster(alias).bootstrap_servers for alias in (plan.from_cluster, plan.to_cluster)
        },
        cut=sheet.cut,
        at=instant(context.clock.now_ms()),
        rules=rules,
        no_rules=no_rules,
        shut=_own_limits(context, plan),
        left_out=len(left_out),
        settings=() if lacking is None else lacking.topics,
        permissions=() if lacking is None else lacking.permissions,
        by_hand=by_hand,
    )
    texts = {
        RESET: reset,
        GROUPS: groups_file({one.group_id for one in placed} - {one.group_id for one in unwritable}),
        LEFT_OUT: _left_out_file(left_out),
        POSITIONS: _positions(plan, context.state),
    }
    if not is_renewed:
        texts |= {STEPS: steps_script(written), UNDO: undo_script(written)}
    sheets = sheets_of(plan_id, sheet.settings, target_cluster=plan.to_cluster, basis=basis_of(at, sheet))
    exported = PlanExported(
        plan_id=plan_id,
        cut=sheet.cut,
        groups=len(sheets),
        left_out=lines,
        from_cluster=plan.from_cluster,
        denied=_denied(rules),
    )
    with _written(folder, texts) as files:
        operation_id = context.record(exported, *sheets)
    return Exported(operation_id, files, len(sheets), lines)


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there and not an empty folder; nothing was written or recorded")


def _require_export(folder: Path, plan_id: str) -> None:
    steps = folder / STEPS
    if not steps.is_file() or f"# Plan {plan_id}: " not in steps.read_text(encoding="utf-8"):
        raise UsageError(f"{folder} holds no export of plan {plan_id}; nothing was written or recorded")


def _own_limits(context: Context, plan: Plan) -> dict[str, str | None]:
    """By topic that is to be shut its own limit as it was recorded last, None: it has none."""
    if plan.choices.fence is not FenceChoice.SHUT:
        return {}
    recorded = recorded_limits(context, plan.from_cluster)
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


def lacking_rules(context: Context, plan: Plan) -> Rules:
    """What is lacking to close the topics of a plan; why that would not, or nobody knows, is said instead."""
    try:
        control = context.administered(plan.from_cluster)
        return rules_that_close(plan, control, context.config.cluster(plan.from_cluster).mirror_principal)
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
        acls = frozenset(one for one in acls if one.entity != mirror)
    topics = plan.source_names
    found = closing(topics, acls, authorizations, mirror=mirror, confirmed=plan.choices.confirmed_super_users)
    return sorted({rule for rules in found.rules.values() for rule in rules} - acls), found.refusals


def _denied(rules: Sequence[Permission]) -> dict[str, list[str]]:
    return {
        topic: sorted(rule.entity for rule in rules if rule.resource_name == topic)
        for topic in sorted({rule.resource_name for rule in rules})
    }


def _hand_over(context: Context, plan: Plan) -> tuple[HandedOver | None, Sequence[str]]:
    """What the target lacks, and what of that is left to people."""
    if StepName.HAND_OVER not in plan.steps:
        return None, ()
    topics = plan.target_names
    pair = Pair(plan.to_cluster, plan.from_cluster, topics)
    try:
        found = show_hand_over(context, pair, Purpose.APPLICATIONS)
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
