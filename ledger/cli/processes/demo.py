"""`demo`: mirror a busy cluster, lose it, and resume every group on the other one, checked record by record."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import click
import pyarrow as pa
from rich.console import Console

from ledger import catalog
from ledger.adapters import jvm
from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.spark.session import local_session
from ledger.app import answers, group_offsets
from ledger.app.mirroring import run_flow
from ledger.app.tables import init_ledger
from ledger.cli.printing import put, rendered, say
from ledger.cli.processes.running import refuse_unfinished
from ledger.cli.processes.signals import stop_on_signals
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.errors import UnsafeError
from ledger.mirror.driver.run_summary import RunSummary
from ledger.operations.groups.outcomes import Choice, result_row
from ledger.reports.run_text import counters
from ledger.sandbox import Sandbox
from ledger.sandbox.filling import RECORDS_ARE_OLDER_BY_MS, produce
from ledger.sandbox.groups import GroupPlan, consume, plan_groups, resume
from ledger.sandbox.log_gaps import KEPT_AS_IT_IS, configure, wait_until_cleaned
from ledger.sandbox.reading import Readings, ends, read_topics
from ledger.sandbox.resumption import Resumption, compare
from ledger.sandbox.workload import Workload

FLOW = "east-to-west"
FOLDER = "demo"
STATUS_COLUMNS = (
    *("source_topic", "source_partition", "source_end", "target_end", "records"),
    *("raw_batches", "record_path_batches", "gap_offsets", "status"),
)
ACCEPTED = (UncommittedStatus.NO_COMMIT,)  # the groups begin at the log start where they have no commit
LAG_COLUMNS = ("source_topic", "source_partition", "last_stable", "mirrored_end", "lag_records", "status")
TRANSLATION_COLUMNS = (
    *("group_id", "source_topic", "source_partition", "committed_offset"),
    *("target_topic", "target_offset", "status"),
)


@click.command()
@click.option(
    "--records", type=click.IntRange(min=1_000), default=50_000, show_default=True, help="Records per topic."
)
@click.option("--keep", is_flag=True, help="Leave the clusters and the ledger as they are at the end.")
def demo(records: int, keep: bool) -> None:
    """Mirror between two local clusters, kill one, and resume its groups on the other."""
    sandbox = Sandbox(jvm.home() / FOLDER)
    shown = Progress(Console(stderr=True))
    _leave_on_signals()
    logging.getLogger().setLevel(logging.WARNING)  # the steps tell enough
    sandbox.down()
    try:
        _play(sandbox, shown, records)
    finally:
        if keep:
            say(f"kept: {sandbox.root}; configuration: {sandbox.configuration}")
        else:
            sandbox.down()


def _leave_on_signals() -> None:
    """End as an exception does, so that no broker is left behind. While Spark works, the flow ends first."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(slots=True)
class Progress:
    """What is being done, how long it took, and what came out, on stderr."""

    console: Console
    started_s: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, title: str) -> Iterator["Step"]:
        started_s = time.monotonic()
        with self.console.status(title) as status:
            step = Step(lambda text: status.update(f"{title}: {text}"))
            yield step
        elapsed_s = time.monotonic() - started_s
        outcome = f": {step.outcome}" if step.outcome else ""
        self.console.print(f"{elapsed_s:6.1f} s  {title}{outcome}", highlight=False, soft_wrap=True)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


@dataclass(slots=True)
class Step:
    """One step under way: `update` shows how far it is, `outcome` stays when it is done."""

    update: Callable[[str], None]
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What was known of the source before it was lost: its records, and what its groups had read."""

    topics: Sequence[str]
    survivors: Readings
    groups: Sequence[GroupPlan]
    read: dict[str, Readings]

    @property
    def records(self) -> int:
        return sum(map(len, self.survivors.values()))


# Scenes ----------------------------------------------------------------------------------------


def _play(sandbox: Sandbox, shown: Progress, records: int) -> None:
    with shown.step("start clusters east and west") as step:
        clusters = sandbox.up(["east", "west"], brokers=1)
        step.outcome = ", ".join(cluster.bootstrap_servers for cluster in clusters.values())
    config = load_config(sandbox.configuration)
    source = _prepare_source(clusters["east"].bootstrap_servers, shown, records)
    summary = _mirror(config, shown)
    at = answers.snapshot(config, None)
    _show_ledger(at)
    with shown.step("kill cluster east (SIGKILL)"):
        sandbox.kill("east")
    with shown.step("translate every group from the ledger alone") as step:
        at = answers.snapshot(config, None)
        translated = group_offsets.translate_groups(at, FLOW)
        step.outcome = f"{translated.num_rows} partitions of groups, cut {at.cut.token}"
    _show("Where committed offsets land", translated.select(TRANSLATION_COLUMNS))
    broken = _audit(at, shown)
    target = clusters["west"].bootstrap_servers
    _set_offsets(config, at, translated, shown)
    resumptions = _resume_groups(config, target, source, shown)
    _close(shown, source, summary, resumptions, broken)


def _prepare_source(servers: str, shown: Progress, records: int) -> Source:
    workload = Workload(
        records_per_topic=records, started_ms=time.time_ns() // 1_000_000 - RECORDS_ARE_OLDER_BY_MS
    )
    with shown.step("produce on east") as step:
        made = produce(servers, workload, step.update)
        step.outcome = f"{made:,} records in {len(workload.topics)} topics"
    with shown.step("read and commit a part on east") as step:
        groups = plan_groups(workload, ends(servers, workload.topics))
        read = {plan.group_id: consume(servers, plan) for plan in groups}
        total = sum(len(records) for by_partition in read.values() for records in by_partition.values())
        step.outcome = f"{total:,} records in {len(groups)} groups"
    with shown.step("wait for the cleaner on east") as step:
        gaps = wait_until_cleaned(servers, workload.inventory)
        configure(servers, workload.inventory, KEPT_AS_IT_IS)
        step.outcome = f"{sum(gaps.values()):,} offsets of {workload.inventory} have no record any more"
    with shown.step("remember what a client reads on east") as step:
        survivors = read_topics(servers, workload.topics)
        step.outcome = f"{sum(map(len, survivors.values())):,} committed records"
    return Source(workload.topics, survivors, groups, read)


def _mirror(config: MirrorConfig, shown: Progress) -> RunSummary:
    with shown.step("create the ledger") as step:
        step.outcome = ", ".join(init_ledger(config))
    with shown.step("start Spark"):
        spark = local_session(tasks=config.flow(FLOW).tasks)
    stop = threading.Event()
    stop_on_signals(stop)
    with shown.step("mirror east to west until caught up") as step:
        summary = run_flow(
            config,
            FLOW,
            session=lambda: spark,
            until_caught_up=True,
            stop=stop,
            on_round=lambda so_far: step.update(counters(so_far.summary)),
        )
        step.outcome = counters(summary)
    spark.stop()
    _leave_on_signals()
    if stop.is_set():
        raise click.Abort
    refuse_unfinished(FLOW, summary)
    return summary


def _show_ledger(at: DeltaSnapshot) -> None:
    status = answers.run_query(at, "flow_status", {"flow": FLOW})
    lag = answers.run_query(at, "replication_lag", {"flow": FLOW})
    _show("What the flow has mirrored", status.select(STATUS_COLUMNS))
    _show("Replication lag", lag.select(LAG_COLUMNS))


def _show(title: str, answer: pa.Table) -> None:
    put(f"\n{title}\n" + rendered(answer, "table"))


def _audit(at: DeltaSnapshot, shown: Progress) -> dict[str, int]:
    """Rows that break an invariant, by audit."""
    with shown.step("audit the ledger") as step:
        audits = [name for name, query in catalog.queries().items() if query.is_audit]
        broken = {name: answers.run_query(at, name, {}).num_rows for name in audits}
        step.outcome = ", ".join(f"{name} {rows} rows" for name, rows in broken.items())
    return broken


def _set_offsets(config: MirrorConfig, at: DeltaSnapshot, translated: pa.Table, shown: Progress) -> None:
    with shown.step("set the groups' offsets on west") as step:
        operation_id, settings = group_offsets.set_offsets(
            config, at, FLOW, translated, Choice(ACCEPTED), dry_run=False, reason="demo", ticket=None
        )
        left_out = [result_row(one) for one in settings if not one.outcome.is_as_wanted]
        if left_out:
            raise UnsafeError(
                f"{len(left_out)} offsets were not set:\n" + rendered(pa.Table.from_pylist(left_out), "table")
            )
        groups = {one.group_id for one in settings}
        step.outcome = f"{len(settings)} offsets of {len(groups)} groups, operation {operation_id}"


def _resume_groups(config: MirrorConfig, target: str, source: Source, shown: Progress) -> list[Resumption]:
    naming = config.flow(FLOW).naming
    resumptions = []
    with shown.step("resume the groups on west") as step:
        for plan in source.groups:
            step.update(plan.group_id)
            at_target = {(naming.target_name(topic), part): (topic, part) for topic, part in plan.stops}
            resumed = resume(target, plan.group_id, list(at_target))
            back = {at_target[partition]: records for partition, records in resumed.items()}
            resumptions += compare(plan.group_id, source.survivors, source.read[plan.group_id], back)
        step.outcome = f"{sum(one.read_on_target for one in resumptions):,} records"
    return resumptions


# Verdict ---------------------------------------------------------------------------------------


def _close(
    shown: Progress,
    source: Source,
    summary: RunSummary,
    resumptions: Sequence[Resumption],
    broken: dict[str, int],
) -> None:
    inexact = [one for one in resumptions if not one.is_exact]
    lines = [
        f"mirrored   {summary.records:,} of {source.records:,} committed records, {summary.bytes / 1e6:,.1f} MB; "
        f"batches: {summary.raw_batches:,} raw, {summary.record_path_batches:,} record path",
        f"groups     {len(source.groups)} resumed on west, on {len(resumptions)} partitions",
        f"records    {sum(one.read_at_source for one in resumptions):,} read on east, "
        f"{sum(one.read_on_target for one in resumptions):,} on west, "
        f"{sum(one.expected for one in resumptions):,} had been left unread",
        f"skipped    {sum(one.skipped for one in resumptions):,}",
        f"repeated   {sum(one.repeated for one in resumptions):,}",
        f"audits     {len(broken)} run, {sum(broken.values())} rows against the invariants",
        f"took       {shown.elapsed_s:.0f} s",
    ]
    click.echo("\n".join(lines))
    problems = [str(one) for one in inexact]
    problems += [f"{name}: {rows} rows break the invariant" for name, rows in broken.items() if rows]
    if problems:
        raise UnsafeError("the failover was not exact:\n  " + "\n  ".join(problems))
