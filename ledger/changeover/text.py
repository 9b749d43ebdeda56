"""A plan as text: for people, for programs, and for a ticket."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from ledger.changeover.losses import downtime_words, loss_words
from ledger.changeover.not_followed import not_followed_words
from ledger.changeover.plans import (
    Apply,
    ApplyState,
    ChangeoverKind,
    Plan,
    StepName,
    apply_command,
    approve_command,
    undo_command,
)
from ledger.changeover.static_members import member_words
from ledger.facts.changeovers import RecordedBlocker
from ledger.offsets.rendering import RENDERERS
from ledger.offsets.sheets import commits_age, repeat_words
from ledger.plain_text import json_text
from ledger.words import counted, instant, shown, shown_lines, some_of

Blockers = Sequence[RecordedBlocker]
Forecast = Mapping[str, Any]
_LACK = {ChangeoverKind.FAILOVER: "lost"}  # other changes wait for what is not at the target
_FEW, _MANY = 3, 10
"""How many names stand in a line, and how many partitions below one another, where not all are asked for."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan, and what is said of it: its forecast, what stands against it, and each time that it was carried out.

    `is_recorded`: whether it can be carried out. `lacking`: how many people have to approve it first. `is_at_work`:
    whether a process carries it out, or undoes it, at present.
    """

    plan: Plan
    forecast: Forecast
    blockers: Blockers = ()
    applies: Sequence[Apply] = ()
    is_recorded: bool = True
    lacking: int = 0
    is_at_work: bool = False

    @property
    def last(self) -> Apply | None:
        """The last carrying out; None: there was none."""
        return self.applies[-1] if self.applies else None

    @property
    def losses(self) -> Forecast:
        """As the last carrying out has measured them, or forecast while none has."""
        measured = {} if self.last is None else self.last.figures
        return measured if "losses" in measured else self.forecast


def plan_table(of: ShownPlan, *, width: int | None = None) -> str:
    """Lines for a terminal: first what it does, what it costs, what stands against it and what to type, then the rest.

    What is said in front of the steps is a line each, of `width` characters at most, but for figures, of which nothing
    is cut; `width` None: all of it, however long.
    """
    summary = _Summary(width)
    for label, text in plan_facts(of).items():
        summary.say(label, text, is_folded=label in _FIGURES)
    causes = _causes(of.blockers)
    for cause in causes:
        summary.say("blocked", cause.words)
    for words in next_words(of):
        summary.say("next", words, is_folded=True)
    if summary.is_cut or any(cause.number > 1 for cause in causes):
        summary.say("", "all of it: --wide, or -o json")
    lines = [plan_title(of.plan), *summary.lines]
    for advice, codes in _advice(of.blockers).items():
        lines += [f"  to do     {', '.join(codes)}: {shown(advice)}"]
    lines.append("  steps")
    for number, one in enumerate(checklist(of.plan, of.last), start=1):
        lines.append(f"    {number:2}  {shown_lines(one.line)}")
    lines += [f"  {_LACK.get(of.plan.kind, 'to come'):9} {shown(line)}" for line in _lost_lines(of, width)]
    if width is None:
        lines += [f"  blocked   {one.code}: {shown(one.words)}" for one in of.blockers]
    return "\n".join([*lines, ""])


@dataclass(slots=True)
class _Summary:
    """Labels with a line each; `is_cut`: one had more to say than fits."""

    width: int | None
    lines: list[str] = field(default_factory=list)
    is_cut: bool = False

    def say(self, label: str, text: str, *, is_folded: bool = False) -> None:
        """A command is neither cut nor folded: it is there to be copied."""
        line = f"  {label:9} {shown(text)}"
        if self.width is None or len(line) <= self.width or _COMMAND in text:
            self.lines.append(line)
        elif is_folded:
            self.lines += textwrap.wrap(
                line, self.width, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False
            )
        else:
            self.lines.append(line[: self.width - len(_CUT)] + _CUT)
            self.is_cut = True


_CUT = " ..."
_COMMAND = "mirror-ledger "
_FIGURES = ("lost", "repeated", "downtime", "followed")


@dataclass(frozen=True, slots=True)
class _Cause:
    """What stands against a plan for one reason, however often, with an example."""

    code: str
    number: int
    example: str

    @property
    def words(self) -> str:
        return f"{self.code}: " + (
            self.example if self.number == 1 else f"{self.number:,} times, such as {self.example}"
        )


def _causes(blockers: Blockers) -> list[_Cause]:
    found: dict[tuple[str, str], list[str]] = {}
    for one in blockers:
        found.setdefault((one.code, one.cause), []).append(one.words)
    return [_Cause(code, len(words), words[0]) for (code, _), words in found.items()]


def causes_of(blockers: Blockers) -> list[str]:
    """Why a plan may not be carried out, a line for each cause, however often it was seen."""
    return [cause.words for cause in _causes(blockers)]


def _advice(blockers: Blockers) -> dict[str, list[str]]:
    """By what is to be done the codes about which it is said."""
    found: dict[str, list[str]] = {}
    for one in blockers:
        codes = found.setdefault(one.advice, [])
        if one.code not in codes:
            codes.append(one.code)
    return found


def next_words(of: ShownPlan) -> Iterator[str]:
    """What is typed next, complete."""
    causes, last, lacking = _causes(of.blockers), of.last, of.lacking
    if not of.is_recorded:
        yield "a plan as of the past is not recorded: it cannot be carried out"
    elif last is not None and last.state is ApplyState.OPEN:
        yield from (f"{step} waits: {words}" for step, words in last.waits.items())
        if not of.is_at_work:
            yield apply_command(of.plan.plan_id)
            yield f"or take it back: {undo_command(last.operation_id)}"
    elif last is not None and last.state is ApplyState.UNDOING:
        yield from () if of.is_at_work else (undo_command(last.operation_id),)
    elif last is not None and last.state is ApplyState.DONE:
        yield f"mirror-ledger verify {last.operation_id}"
    elif causes:
        yield f'nothing is carried out: {counted(len(causes), "cause")} against it; see "to do", then plan again'
    else:
        if lacking:
            yield f"{'one more person approves' if lacking == 1 else f'{lacking} more people approve'} it first"
            yield approve_command(of.plan.plan_id)
        yield apply_command(of.plan.plan_id)


def plan_markdown(of: ShownPlan) -> str:
    """The same for a ticket."""
    facts = list(plan_facts(of, names=len(of.plan.topics)).items())
    steps, title = [one.cells for one in checklist(of.plan, of.last)], plan_title(of.plan)
    parts = [
        f"# {title[0].upper()}{title[1:]}",
        _markdown_table(("", ""), facts),
        "## Steps",
        _markdown_table(("step", "what is done", "hook", "state", "at", "receipt"), steps),
    ]
    if lost := list(_lost(of)):
        parts += [
            f"## {_LACK.get(of.plan.kind, 'to come').capitalize()}",
            _markdown_table(("where", "what"), lost),
        ]
    if of.blockers:
        rows = [(one.code, one.words, one.advice) for one in of.blockers]
        parts += ["## Blocked by", _markdown_table(("code", "what was seen", "what to do"), rows)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """On one line, and in one cell whatever people or programs have written."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def plan_json(of: ShownPlan) -> str:
    """For programs: the plan, and of each time it was carried out the receipts."""
    return json_text(
        [
            {
                "plan_id": of.plan.plan_id,
                "plan": of.plan.content(),
                "blockers": [asdict(one) for one in of.blockers],
                "forecast": dict(of.forecast),
                "applies": [apply_content(one) for one in of.applies],
            }
        ]
    )


def apply_content(one: Apply) -> dict[str, Any]:
    """One carrying out, with its receipts."""
    return {
        "operation_id": one.operation_id,
        "plan_id": one.plan_id,
        "state": str(one.state),
        "operator": one.operator,
        "reason": one.reason,
        "ticket": one.ticket,
        "begun_at_ms": one.begun_at_ms,
        "begun": {str(step): at_ms for step, at_ms in one.begun.items()},
        "steps": [
            {
                "step": str(step),
                "begun_at_ms": one.begun.get(step),
                "done_at_ms": one.done_at_ms.get(step),
                "words": receipt.words,
                "read_back": dict(receipt.read_back),
                "hook": None if receipt.hook is None else dict(receipt.hook),
            }
            for step, receipt in one.done.items()
        ],
        "failed": {str(step): failure.words for step, failure in one.failed.items()},
        "figures": dict(one.figures),
    }


def repeated_words(forecast: Forecast) -> str:
    """What would be read again, and by whom, as of the plan's cut."""
    words = f"{repeat_words(forecast)} by {counted(forecast['groups'], 'group')}{commits_age(forecast)}"
    if forecast["groups_without_place"]:
        words += f"; {counted(forecast['groups_without_place'], 'group')} without a place"
    if pending := forecast.get("groups_in_transactions"):
        words += f"; commits of {', '.join(map(repr, pending))} in transactions that were open, waited for"
    if ahead := forecast["groups_ahead"]:
        words += f"; {counted(ahead, 'group')} had read more than is copied"
    if earlier := forecast["groups_at_earlier_commits"]:
        words += f"; {counted(earlier, 'group')} at an earlier commit, up to which the outputs were copied"
    return words


def _lost_lines(of: ShownPlan, width: int | None) -> Iterator[str]:
    """Some of the partitions that lose something, or all; as it was measured, or forecast while it was not."""
    found = [f"{where}: {what}" for where, what in _lost(of)]
    shown_ones = found if width is None else found[:_MANY]
    yield from shown_ones
    if left := len(found) - len(shown_ones):
        yield f"and {counted(left, 'more partition')}: --wide, or -o json"


def _lost(of: ShownPlan) -> Iterator[tuple[str, str]]:
    """Where, and which offsets of the source the target lacks; none where facts say when all of it comes back."""
    for row in () if "returned" in of.forecast else of.losses.get("losses", ()):
        where = f"{row['source_topic']} partition {row['partition']} of {of.plan.from_cluster}"
        if row["records"] is None:
            yield where, "unknown"
        else:
            offsets = f"{row['copied_to']} to {row['known_end'] - 1}"
            yield where, f"offsets {offsets}, at most {counted(row['records'], 'record')}"


def plan_title(plan: Plan) -> str:
    """Its id, and what it does."""
    return f"plan {plan.plan_id}: {plan.kind} from {plan.from_cluster} to {plan.to_cluster}"


def plan_facts(of: ShownPlan, *, names: int = _FEW) -> dict[str, str]:
    """What is said in front of the steps, by label, a line each; `names`: how many topics are named."""
    plan, forecast = of.plan, of.forecast
    unproven = f", unproven: {plan.choices.unproven}" if plan.choices.unproven else ""
    returned = forecast.get("returned")
    figures = {
        _LACK.get(plan.kind, "to come"): loss_words(of.losses),
        "repeated": repeated_words(forecast),
    }
    found = {
        "moves": f"{_topics(plan, names)}; {counted(forecast['groups'], 'group')}",
        **(figures if returned is None else _returned(plan, returned, figures)),
        "downtime": downtime_words(forecast["downtime"]),
        "followed": not_followed_words(forecast["not_followed"]),
        **({"shares": _shared(forecast["shared_transactions"])} if "shared_transactions" in forecast else {}),
        **({"static": _static(plan, forecast["static_members"])} if "static_members" in forecast else {}),
        "fence": f"{plan.choices.fence}{unproven}",
    }
    if plan.kind is ChangeoverKind.FAILBACK and returned is None:
        found["back"] = (
            "nothing was promoted, so nothing has to come back: the flows of both directions continue"
        )
    if plan.choices.left_out:
        found["left out"] = _left_out(plan, forecast)
    if of.applies:
        found["applied"] = _applied(of.applies)
    return found


def _shared(shared: Mapping[str, Sequence[str]] | None) -> str:
    """Topics that stay and are written in transactions with topics that move."""
    if shared is None:
        return "unknown which topics are written in transactions together: producers could not be described"
    return "; ".join(
        f"{stays} stays, and is written in transactions with {', '.join(names)}: after the move none can span both"
        for stays, names in shared.items()
    )


def _static(plan: Plan, members: Mapping[str, Sequence[str]] | None) -> str:
    if members is None:
        return f"unknown which groups have static members: {shown(plan.from_cluster)} could not be asked"
    return member_words(members, plan.from_cluster)


def _returned(plan: Plan, returned: Mapping[str, Any], figures: Mapping[str, str]) -> dict[str, str]:
    """Of a failback: what comes back, and what the cluster that is back has alone. What groups would read again is
    known once that is decided and the way back is open."""
    offsets = returned["offsets_to_come"]
    known = "an unknown number of offsets" if offsets is None else counted(offsets, "offset")
    if not plan.moves_applications and returned["is_open"]:
        size = returned["bytes_to_come"]
        about = "of unknown size" if size is None else f"about {size / 1e6:,.1f} MB"
        return {"copies": f"{known} of {plan.from_cluster}, {about}, and what is written there meanwhile"}
    when = f"not copied yet, come back in step {plan.steps.index(StepName.CATCH_UP) + 1}"
    found = {"back": f"{known} of {plan.from_cluster}, {when}, and what is written there meanwhile"}
    if returned["is_open"]:
        return {**found, "repeated": figures["repeated"]}
    alone = sum(one["offsets"] for one in returned["extras"])
    decided = "; ".join(plan.choices.extras) or "not decided"
    records = sum(one["records"] or 0 for one in returned["extras"])
    found["alone"] = (
        f"{counted(alone, 'offset')} at {plan.to_cluster} were never copied ({counted(records, 'record')})"
        + (f": {decided}" if alone else "")
    )
    if names := returned.get("recreated"):
        found["deleted"] = (
            f"{some_of(names, 'topic')} of {plan.to_cluster}, and created again: until all has come back "
            f"{plan.from_cluster} alone has it"
        )
    if plan.moves_applications or returned.get("repeats"):
        found["repeated"] = repeats_by_cause_words(returned.get("repeats", {}))
    if returned.get("deficits"):
        lacking = sum(one["offsets"] for one in returned["deficits"])
        comes_back = "; ".join(plan.choices.deficits) or "not decided"
        found["lacking"] = (
            f"{counted(lacking, 'record')} that were copied are not at {plan.to_cluster}: {comes_back}"
        )
    if returned["expiring"]:
        found["expires"] = "; ".join(returned["expiring"])
    return found


def repeats_by_cause_words(repeats: Mapping[str, Mapping[str, int | None]]) -> str:
    """What each group reads again on the way home, by cause."""
    said = [
        f"{group!r} {'an unknown number' if count is None else f'{count:,}'} ({cause})"
        for group, causes in sorted(repeats.items())
        for cause, count in causes.items()
        if count != 0
    ]
    return (
        "; ".join(said) or "nothing by decision; what commits lack is counted before applications are stopped"
    )


def _applied(applies: Sequence[Apply]) -> str:
    """The last carrying out, and how many there were before it."""
    last = applies[-1]
    reason = f" ({last.reason})" if last.reason else ""
    before = f"; {counted(len(applies) - 1, 'time')} before" if len(applies) > 1 else ""
    return (
        f"{last.state}: operation {last.operation_id}, begun {instant(last.begun_at_ms)} by {last.operator}"
        f"{reason}{before}"
    )


def _topics(plan: Plan, at_most: int) -> str:
    names = sorted(
        one.topic if one.topic == one.source_topic else f"{one.source_topic} as {one.topic}"
        for one in plan.topics
    )
    return f"{counted(len(names), 'topic')} ({some_of(names, 'topic', at_most=at_most)})"


def _left_out(plan: Plan, forecast: Forecast) -> str:
    """Nothing of it is fenced, promoted or set."""
    readers = forecast.get("without_place", {})
    return ", ".join(
        f"{name} ({counted(readers[name], 'group')} that move get no place there)"
        if name in readers
        else name
        for name in plan.choices.left_out
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStep:
    """A step of a plan, and how far the last carrying out has come with it: `state` empty: it has not begun."""

    step: StepName
    hook: str = ""
    state: str = ""
    at: str = ""
    words: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.step, self.step.description, self.hook, self.state, self.at, self.words)

    @property
    def line(self) -> str:
        line = f"{self.step}: {self.step.description}"
        if self.hook:
            line += f" (hook: {self.hook})"
        if self.state in (DONE, UNPROVEN):
            return f"{line}. {self.at}{', not proved' * (self.state == UNPROVEN)}: {self.words}"
        if self.state:
            line += f". {self.state}"
        return f"{line}: {self.words}" if self.words else line


DONE, UNPROVEN, FAILED, BEGUN = "done", "done, unproven", "FAILED", "begun"


def checklist(plan: Plan, last: Apply | None) -> Iterator[CheckedStep]:
    """The steps of a plan in order, each with how far the last carrying out has come with it (None: there was none)."""
    for step in plan.steps:
        one = CheckedStep(step=step, hook=plan.hooks.get(step, ""))
        if last is not None and step in last.failed:
            one = replace(one, state=FAILED, words=last.failed[step].words)
        elif last is not None and step in last.done:
            at, words = instant(last.done_at_ms[step]), last.done[step].words
            one = replace(one, state=DONE if last.is_proved(step) else UNPROVEN, at=at, words=words)
        elif last is not None and step in last.begun:
            one = replace(one, state=BEGUN, words=last.waits.get(step, ""))
        yield one


def rendered_rows(rows: Sequence[Mapping[str, Any]], output: str) -> str:
    """Rows in a form of `RENDERERS`."""
    return RENDERERS[output](pa.Table.from_pylist(list(rows)))
