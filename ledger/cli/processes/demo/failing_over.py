"""The failover of the demonstration: planned from the ledger, carried out, and applications at work at the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.app import answers, group_offsets
from ledger.app.changeover.applying import apply_plan
from ledger.app.changeover.planning import make_plan, read_applies, record_plan
from ledger.app.changeover.scene import Asked
from ledger.app.changeover.seeing import Pair
from ledger.cli.changeover.followed import Followed
from ledger.cli.printing import put, say, terminal_width
from ledger.cli.processes.demo.mirroring import FLOW
from ledger.cli.processes.demo.producing import Source
from ledger.cli.processes.demo.showing import Progress, show
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.plans import Choices
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.errors import UnsafeError
from ledger.reports.plan_text import plan_table
from ledger.sandbox.groups import resume
from ledger.sandbox.reading import Readings
from ledger.sandbox.resumption import Resumption, compare

WHY = "east was killed"
_CHOICES = Choices(
    accepted=(UncommittedStatus.NO_COMMIT,),  # the groups begin at the log start where they have no commit
    unproven=WHY,  # nobody can fence what does not answer
    accept_unproven_shut_out=True,  # these brokers have no authorizer
    watch_seconds=1.0,  # nobody else is here who would commit
)
_COMMAND = (
    "mirror-ledger plan failover --from east --to west --accept no_commit "
    f"--unproven '{WHY}' --accept-unproven-shut-out --watch 1"
)
_TRANSLATION_COLUMNS = (
    *("group_id", "source_topic", "source_partition", "committed_offset"),
    *("target_topic", "target_offset", "status"),
)


@dataclass(frozen=True, slots=True)
class Failover:
    """What was carried out; `records_lost`: as `apply` reports it, None: unknown; `audits`: those that passed."""

    records_lost: int | None
    audits: Sequence[str]
    figures: Mapping[str, Any]


def translate(config: MirrorConfig, shown: Progress) -> None:
    """Where every group would continue, from the ledger alone."""
    with shown.step("translate every group from the ledger alone") as step:
        at = answers.snapshot(config, None)
        translated = group_offsets.translate_groups(at, FLOW)
        step.outcome = f"{translated.num_rows} partitions of groups, cut {at.cut.token}"
    show("Where committed offsets land", translated.select(_TRANSLATION_COLUMNS))


def fail_over(config: MirrorConfig, shown: Progress) -> Failover:
    """Plan it and carry it out; raises `UnsafeError` where something stands against it."""
    say(_COMMAND)
    with shown.step("plan the failover") as step:
        made = make_plan(config, ChangeoverKind.FAILOVER, Pair("east", "west"), _CHOICES, {})
        record_plan(config, made, reason=WHY, ticket=None)
        plan_id = made.plan.plan_id
        step.outcome = f"plan {plan_id}, cut {made.cut}"
    put("\n" + plan_table(made.plan, made.recorded_blockers, made.forecast, (), width=terminal_width()))
    if made.blockers:
        raise UnsafeError(
            f"plan {plan_id} is blocked: {', '.join(made.plan.blockers)}; groups stay where they are"
        )
    say(f"mirror-ledger apply {plan_id} --reason '{WHY}' --yes")
    asked = Asked(WHY, None, lambda _what, _waits: "so it is in the demonstration")
    operation_id = apply_plan(config, plan_id, asked, Followed().told)
    receipt = read_applies(answers.snapshot(config, None)).the(operation_id)
    audits = receipt.done[StepName.AUDIT].read_back["audits"]
    return Failover(receipt.figures["records_lost"], audits, receipt.figures)


def resume_groups(servers: str, source: Source, written: Readings, shown: Progress) -> list[Resumption]:
    """Every group reads on at the target: what it had left unread, then what is `written` there now."""
    due = {at: [*records, *written.get(at, ())] for at, records in source.survivors.items()}
    resumptions = []
    with shown.step("resume the groups on west") as step:
        for plan in source.groups:
            step.update(plan.group_id)
            resumed = resume(servers, plan.group_id, list(plan.stops))
            resumptions += compare(plan.group_id, due, source.read[plan.group_id], resumed)
        step.outcome = f"{sum(one.read_on_target for one in resumptions):,} records"
    return resumptions
