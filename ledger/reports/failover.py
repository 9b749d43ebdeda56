"""`report failover`: a change of direction, step by step: what it cost, what was lost and repeated, what proves it."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.changeover.losses import compared_words, downtime_span, downtime_words, loss_words
from ledger.changeover.plans import APPLY_KINDS, Applies, Apply, Plan, StepName, recorded_plan
from ledger.changeover.text import DONE, UNPROVEN, repeated_words
from ledger.errors import UsageError
from ledger.facts.changeovers import ApplyClaimed, PlanApproved, PlanRecorded
from ledger.facts.operations import OperationKind, Settled
from ledger.facts.tables import Row
from ledger.reports.documents import Cell, Report, Section, Span, Table, Timeline
from ledger.reports.periods import Period, at, evidence, head, partition_words, why_of
from ledger.words import counted, instant, some_of

_OF_STEPS = frozenset({*map(str, APPLY_KINDS), str(OperationKind.APPLY_ALIVE)})


def failover_report(period: Period, operation_id: str) -> Report:
    """Of the apply of this id; of a plan's id, of its last one.

    Raises `UsageError` for an id under which nothing was carried out, and `PreconditionError` where its plan is not as
    it was recorded.
    """
    applies = Applies.of_rows(period.of_kinds(*APPLY_KINDS))
    of_plan = applies.of_plan(operation_id)
    one = of_plan[-1] if of_plan else _the(applies, operation_id)
    plan, recorded = recorded_plan(period.of_kinds(OperationKind.PLAN), one.plan_id, is_begun=True)
    rows = [row for row in period.operations if row["operation_id"] == one.operation_id]
    tries = list(_tries(one, rows))
    return Report(
        kind="failover",
        title=f"{str(plan.kind).capitalize()} from {plan.from_cluster} to {plan.to_cluster}",
        about=f"What was done, what it cost and what proves it; begun {instant(one.begun_at_ms)}, {_state(one)}.",
        facts={
            **{name: value for name, value in head(period).items() if name != "period"},
            "operation": one.operation_id,
            "plan": one.plan_id,
            "as of": instant(period.until_ms),
        },
        sections=(
            _summary(plan, recorded, one, tuple(_people(period, one))),
            _timeline(one, tries),
            _losses(period, plan, recorded, one, rows),
            _groups(period, plan, rows),
            _decided(plan, recorded),
            _changed(rows),
            _proof(one, rows),
            _configuration(period, plan),
            evidence(period),
        ),
    )


def _the(applies: Applies, operation_id: str) -> Apply:
    if operation_id not in applies.by_id:
        known = [f"{one.operation_id} of plan {one.plan_id}" for one in applies.by_id.values()]
        raise UsageError(
            f"no change of direction is recorded under {operation_id!r} as of this cut; recorded: "
            f"{some_of(known[::-1], 'operation') or 'none'}; nothing was reported"
        )
    return applies.by_id[operation_id]


def _state(one: Apply) -> str:
    words = {"done": "carried out to its end", "open": "begun and not ended", "undone": "undone"}
    return words.get(str(one.state), str(one.state))


# Summary ------------------------------------------------------------------------------------------


def _people(period: Period, one: Apply) -> Iterator[tuple[str, Cell]]:
    """Who planned it, who approved it and who carried it out."""
    rows = period.of_kinds(OperationKind.PLAN, OperationKind.PLAN_APPROVED, OperationKind.APPLY_CLAIMED)
    claims = [row for row in rows if row["kind"] == OperationKind.APPLY_CLAIMED]
    claim = ApplyClaimed.of_row(next(row for row in claims if row["operation_id"] == one.operation_id))
    plans = [row for row in rows if row["kind"] == OperationKind.PLAN]
    read = next(row for row in plans if row["operation_id"] == claim.planned_by)
    yield "planned by", f"{read['operator']}, {instant(read['recorded_at_ms'])}"
    for row in rows:
        if row["kind"] == OperationKind.PLAN_APPROVED:
            approval = PlanApproved.of_row(row)
            if approval.planned_by == claim.planned_by:
                why = why_of(row)
                yield (
                    f"approved by {approval.person}",
                    f"as {row['operator']}, {instant(row['recorded_at_ms'])}: {why}",
                )
    if claim.people_asked > 1:
        yield "people behind it", f"{', '.join(claim.people)}, of {claim.people_asked} that were asked for"
    yield "carried out by", one.operator


def _summary(plan: Plan, recorded: PlanRecorded, one: Apply, people: Sequence[tuple[str, Cell]]) -> Section:
    figures, forecast = one.figures, recorded.forecast
    loss = _loss_figures(one)
    facts: dict[str, Cell] = {
        "what": f"{plan.kind} of {counted(len(plan.topics), 'topic')} from {plan.from_cluster} to {plan.to_cluster}",
        **dict(people),
        "why": why_of({"reason": one.reason, "ticket": one.ticket}),
        "state": _state(one),
        "begun": instant(one.begun_at_ms),
        "downtime": downtime_span(figures),
        "lost": None if loss is None else loss_words(loss),
        "forecast of what is read again": repeated_words(forecast),
    }
    if not plan.kind.is_planned:
        facts["forecast of the loss"] = loss_words(forecast)
    facts["forecast of the downtime"] = downtime_words(forecast["downtime"])
    if compared := figures.get("forecast"):
        facts["forecast and what it took"] = compared_words(compared)
    said = "Downtime is how long applications had no cluster to write to"
    if figures.get("downtime_bound") == "at_least":
        said += "; at least, for nobody recorded when people had stopped or started them"
    return Section(title="Summary", text=(f"{said}.",), facts=facts)


def _loss_figures(one: Apply) -> Mapping[str, Any] | None:
    """As the report of the apply has them; of one that has not come to it, as its cut has; None: not known yet."""
    if "records_lost" in one.figures:
        return one.figures
    found: Mapping[str, Any] | None = one.read_back(StepName.CUT).get("loss")
    return found


# Timeline -----------------------------------------------------------------------------------------


def _tries(one: Apply, rows: Sequence[Row]) -> Iterator[tuple[str, int, int | None, str, str]]:
    """Each time that a step was carried out: step, begun, ended (None: not by its process), how, words."""
    under_way: dict[str, int] = {}
    for row in rows:
        content = json.loads(row["content"] or "{}")
        step = content.get("step", "")
        if row["kind"] == OperationKind.STEP_BEGUN:
            if step in under_way:
                yield step, under_way[step], None, "interrupted", ""
            under_way[step] = row["recorded_at_ms"]
        elif row["kind"] in (OperationKind.STEP_DONE, OperationKind.STEP_FAILED):
            is_done = row["kind"] == OperationKind.STEP_DONE
            how = "FAILED" if not is_done else DONE if one.is_proved(StepName(step)) else UNPROVEN
            yield (
                step,
                under_way.pop(step, row["recorded_at_ms"]),
                row["recorded_at_ms"],
                how,
                _words(content),
            )
    for step, begun_ms in under_way.items():
        yield step, begun_ms, None, "not ended", ""


def _words(content: Mapping[str, Any]) -> str:
    hook = content.get("hook")
    ran = "" if not hook else f"; hook {hook.get('command')}: exit code {hook.get('exit_code')}"
    return f"{content['words']}{ran}"


def _timeline(one: Apply, tries: Sequence[tuple[str, int, int | None, str, str]]) -> Section:
    last_ms = max((ended or begun for _, begun, ended, _, _ in tries), default=one.begun_at_ms)
    spans = tuple(
        Span(step, begun, last_ms if ended is None else ended) for step, begun, ended, _, _ in tries
    )
    return Section(
        title="Timeline",
        text=(
            "Each step says what it is about to do, does what is lacking, reads back and leaves a receipt.",
        ),
        plots=(
            Timeline(
                name="steps",
                caption="Steps, in seconds from the beginning",
                start_ms=one.begun_at_ms,
                spans=spans[:30],
            ),
        )
        if spans
        else (),
        tables=(
            Table(
                name="steps",
                caption="Steps and their receipts",
                columns=("step", "what is done", "begun", "took (s)", "result", "receipt"),
                rows=tuple(
                    (
                        step,
                        StepName(step).description if step in tuple(StepName) else "",
                        at(begun),
                        None if ended is None else round((ended - begun) / 1000, 1),
                        how,
                        words,
                    )
                    for step, begun, ended, how, words in tries
                ),
                empty="no step was begun",
                most=40,
                most_characters=600,
            ),
        ),
    )


# Loss and repeats ---------------------------------------------------------------------------------


def _losses(period: Period, plan: Plan, recorded: PlanRecorded, one: Apply, rows: Sequence[Row]) -> Section:
    figures = _loss_figures(one)
    is_known = figures is not None
    found = figures if figures is not None else recorded.forecast
    settled = [Settled.of_row(row) for row in rows if row["kind"] == OperationKind.SETTLED]
    partitions, source = int(found.get("partitions", 0)), plan.from_cluster
    known = f"Of {counted(partitions, 'partition')} {partitions - len(found.get('losses', ())):,} "
    is_read_to_its_end = plan.kind.is_planned or found.get("unseen_seconds") == 0
    if is_known and is_read_to_its_end and one.is_proved(StepName.FENCE):
        known += f"are known to be complete: writers were fenced, and {source} was read to its end."
    else:
        known += f"had all that {source} had when it was read last. What came behind that is not known of any of them."
    return Section(
        title="What was lost, and what was gained, by partition",
        text=(
            (
                "The loss as it was counted at the cut."
                if is_known
                else "Not counted yet: this is the forecast."
            )
            + " Records that the source was known to have and the target had not. They may be fewer: offsets without a "
            "record count. They may be more, by what came after the source was read last.",
            known,
        ),
        tables=(
            Table(
                name="losses",
                caption=f"Partitions of {source} that lacked something, or of which nobody knows",
                columns=(
                    *("partition", "copied up to", "known end", "records", "at least", "at most", "seconds"),
                    "source read",
                ),
                rows=tuple(
                    (
                        partition_words(row["source_topic"], row["partition"]),
                        row["copied_to"],
                        row["known_end"],
                        row["records"],
                        row["at_least"],
                        row["at_most"],
                        row["seconds"],
                        "never" if row["read_at_ms"] is None else at(row["read_at_ms"]),
                    )
                    for row in sorted(
                        found.get("losses", ()),
                        key=lambda row: (
                            row["records"] is not None,
                            -(row["records"] or 0),
                            row["source_topic"],
                            row["partition"],
                        ),
                    )
                ),
                empty="none",
            ),
            Table(
                name="settled",
                caption="Records that the mirror had copied and not recorded, found at the target without the source",
                columns=("partition", "records of the mirror", "of other writers"),
                rows=tuple(
                    (partition_words(one.topic, one.partition), one.records, one.others)
                    for one in sorted(settled, key=lambda one: (-one.records, one.topic, one.partition))
                    if one.records or one.others
                ),
                empty=f"none, on {counted(len(settled), 'partition')} that were read"
                if settled
                else "nobody read for them",
            ),
            _alone(period, plan, one),
        ),
    )


def _alone(period: Period, plan: Plan, one: Apply) -> Table:
    """Extras with what this change of direction decided about them; of a lost source until it was back."""
    since_ms, turns = one.begun_at_ms, period.goes(plan.flows[0])
    back_ms = next((at_ms for at_ms, _ in turns if at_ms > since_ms), period.until_ms)
    return Table(
        name="alone",
        caption="What one side turned out to have alone, and what was decided about it",
        columns=("at", "cluster", "topic", "what becomes of it", "offsets", "who", "why"),
        rows=tuple(
            (
                *(at(row["recorded_at_ms"]), extras.cluster, extras.topic, extras.policy),
                *(
                    sum(part.extra_end - part.extra_start for part in extras.ranges),
                    row["operator"],
                    why_of(row),
                ),
            )
            for row, extras in period.extras
            for is_lost in [not plan.kind.is_planned and extras.cluster == plan.from_cluster]
            if row["operation_id"] == one.operation_id
            or (is_lost and since_ms <= row["recorded_at_ms"] <= back_ms)
        ),
        empty="nothing was decided",
    )


def _groups(period: Period, plan: Plan, rows: Sequence[Row]) -> Section:
    results: dict[str, Counter[str]] = defaultdict(Counter)
    cuts: dict[str, str] = {}
    places: list[tuple[Cell, ...]] = []
    for row in rows:
        content = json.loads(row["content"] or "{}")
        if row["kind"] == OperationKind.OFFSETS_SET_RESULT:
            results[content["group"]].update(one["result"] for one in content["results"])
        elif row["kind"] == OperationKind.OFFSETS_SET:
            cuts[content["group"]] = content["cut"]
            places += _places(content)
    repeats = _repeats(period, plan, cuts)
    bound = "" if plan.kind.is_planned else ", at least"  # commits since its last reading are not known
    return Section(
        title="Groups: where each continues, and what it reads again",
        text=(
            "A group continues at the first record that it has not read. Records read again are those that lie behind "
            "that place and that it had read where it was, as of the cut by which it was placed.",
        ),
        tables=(
            Table(
                name="groups",
                caption="Groups that were moved",
                columns=("group", "partitions set", "otherwise", f"records read again{bound}"),
                rows=tuple(
                    (
                        group,
                        counts["set"],
                        ", ".join(
                            f"{name}: {count}" for name, count in sorted(counts.items()) if name != "set"
                        ),
                        None if repeats is None else sum(repeats.get(group, {}).values()),
                    )
                    for group, counts in sorted(results.items())
                ),
                empty="none was moved by this operation",
            ),
            Table(
                name="repeats",
                caption="Records read again, by partition",
                columns=("group", "partition", "records"),
                rows=tuple(
                    (group, place, records)
                    for group, places in sorted((repeats or {}).items())
                    for place, records in sorted(places.items())
                ),
                empty="unknown" if repeats is None else "none",
            ),
            Table(
                name="places",
                caption="Where groups continue",
                columns=(
                    *("group", "partition", "had committed"),
                    *("target partition", "continues at", "how sure"),
                ),
                rows=tuple(places),
                empty="no place was set by this operation",
            ),
        ),
    )


def _places(content: Mapping[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for one in content["commits"]:
        source = partition_words(one.get("source_topic"), one.get("source_partition"))
        offset = one.get("source_offset")
        yield (
            content["group"],
            source,
            "no commit" if offset is None else offset,
            partition_words(one["topic"], one["partition"]),
            one["to"],
            one.get("status") or "",
        )


def _repeats(period: Period, plan: Plan, cuts: Mapping[str, str]) -> dict[str, dict[str, int]] | None:
    """By group and partition, each as of the cut by which it was placed; None: nobody can tell."""
    found: dict[str, dict[str, int]] = {}
    for cut in sorted(set(cuts.values())):
        try:
            earlier = period.ledger.at(cut)
        except UsageError:  # a copy of the ledger from before it, or facts of then have left
            return None
        answer = earlier.query("repeated_records", from_cluster=plan.from_cluster, to_cluster=plan.to_cluster)
        for row in answer.table.to_pylist():
            group = row["group_id"]
            if cuts.get(group) == cut and row["records"]:
                place = partition_words(row["source_topic"], row["source_partition"])
                of_group = found.setdefault(group, {})
                of_group[place] = of_group.get(place, 0) + row["records"]
    return found


# Decisions, changes, proof --------------------------------------------------------------------------


def _decided(plan: Plan, recorded: PlanRecorded) -> Section:
    choices = plan.choices
    facts: dict[str, Cell] = {
        "accepted": ", ".join(choices.all_accepted) or "nothing",
        "fence": str(choices.fence) + (f"; without a proof: {choices.unproven}" if choices.unproven else ""),
        "left out": ", ".join(choices.left_out) or "nothing",
        "records that one side alone has": "; ".join((*choices.extras, *choices.deficits))
        or "nothing was to be decided",
    }
    return Section(
        title="What was decided beforehand",
        text=(
            "By the plan, whose id is a hash of all that it says; it was shown before it was carried out.",
        ),
        facts=facts,
        tables=(
            Table(
                name="blockers",
                caption="What stood against the plan when it was made",
                columns=("code", "what was seen", "what to do"),
                rows=tuple((one.code, one.words, one.advice) for one in recorded.blockers),
                empty="nothing",
                most=10,
            ),
        ),
    )


def _changed(rows: Sequence[Row]) -> Section:
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] not in _OF_STEPS:
            kinds[row["kind"]].append(row)
    return Section(
        title="What was recorded beside the steps",
        tables=(
            Table(
                name="recorded",
                caption="Operations under the same id",
                columns=("kind", "rows", "first", "last", "about"),
                rows=tuple(
                    (
                        kind,
                        len(found),
                        at(found[0]["recorded_at_ms"]),
                        at(found[-1]["recorded_at_ms"]),
                        some_of(_about(found), "name", at_most=5),
                    )
                    for kind, found in kinds.items()
                ),
                empty="nothing",
                most=30,
            ),
        ),
    )


def _about(rows: Sequence[Row]) -> list[str]:
    names: set[str] = set()
    for row in rows:
        content = json.loads(row["content"] or "{}")
        names.update(str(content[key]) for key in ("topic", "group") if content.get(key))
        topics = content.get("topics") if isinstance(content.get("topics"), list) else ()
        names.update(one["topic"] if isinstance(one, Mapping) else str(one) for one in topics)
    return sorted(names)


def _proof(one: Apply, rows: Sequence[Row]) -> Section:
    fences = [json.loads(row["content"]) for row in rows if row["kind"] == OperationKind.FENCE]
    last = {(fence["cluster"], fence["topic"]): fence for fence in fences}
    proofs = Counter((fence["cluster"], fence["how"], fence["proof"]) for fence in last.values())
    audited = one.done.get(StepName.AUDIT)
    facts: dict[str, Cell] = {"invariants, during the change": "not audited"}
    if audited is not None:
        passed = audited.read_back.get("audits", ())
        facts = {
            "invariants, during the change": f"{counted(len(passed), 'audit')} passed",
            "at the cut": audited.read_back.get("cut"),
        }
    return Section(
        title="What proves that nobody wrote at the former cluster",
        text=(
            "A fence keeps applications from writing. 'proven': each leader refused writes and its end stood still; "
            "'unproven': nobody could ask, and the plan says why it was carried out all the same.",
        ),
        facts=facts,
        tables=(
            Table(
                name="fences",
                caption="Fences",
                columns=("cluster", "how", "proof", "topics"),
                rows=tuple((*key, count) for key, count in sorted(proofs.items())),
                empty="none was made",
            ),
        ),
    )


def _configuration(period: Period, plan: Plan) -> Section:
    flows = {topic.flow for topic in plan.topics}
    last = {row["flow"]: row for row in period.claims if row["flow"] in flows}
    return Section(
        title="Configuration of the flows",
        tables=(
            Table(
                name="claims",
                caption="Last claim of a driver, by flow",
                columns=("flow", "at", "epoch", "hash of the configuration"),
                rows=tuple(
                    (flow, at(row["recorded_at_ms"]), row["writer_epoch"], row["config_hash"])
                    for flow, row in sorted(last.items())
                ),
                empty="no driver has claimed them",
                most=10,
            ),
        ),
    )
