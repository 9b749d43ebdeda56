"""`demo`: mirror a busy cluster, lose it, fail over to the other one, mirror back, and compare every record."""

import logging
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import click
import pyarrow as pa

from ledger import jvm
from ledger.answers.maintenance import init_ledger
from ledger.changeover.applying import apply_plan
from ledger.changeover.plans import Apply, ChangeoverKind, Choices, FenceChoice, StepName
from ledger.changeover.seeing import make_plan, read_applies, record_plan
from ledger.changeover.text import ShownPlan, plan_table
from ledger.cli.changeover.followed import Followed
from ledger.cli.printing import put, rendered, say, terminal_width
from ledger.cli.processes.running import refuse_unfinished
from ledger.cli.processes.signals import stop_on_signals
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import UnsafeError
from ledger.facts.operations import Why
from ledger.facts.ways import Direction
from ledger.mirror.progress import RunSummary
from ledger.mirror.run import run_flow
from ledger.mirror.spark import local_session
from ledger.mirror.text import counters
from ledger.offsets import between_clusters
from ledger.offsets.statuses import TranslationStatus
from ledger.recorders.run import record_clusters
from ledger.sandbox import Sandbox
from ledger.sandbox.groups import GroupPlan, consume, plan_groups, resume
from ledger.sandbox.log_gaps import (
    KEPT_AS_IT_IS,
    RECORDS_ARE_OLDER_BY_MS,
    configure,
    produce,
    wait_until_cleaned,
)
from ledger.sandbox.reading import (
    Partition,
    Readings,
    Record,
    ends,
    read_partitions,
    read_topics,
)
from ledger.sandbox.resumption import Resumption, compare
from ledger.sandbox.workload import Delivery, RecordSource, Workload
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from ledger.terminal import StatusLine
from ledger.words import duration, elapsed, listed

# Showing ------------------------------------------------------------------------------------------
# What the demonstration does and finds, shown as it goes: steps with their time on stderr, tables on
# stdout.


@dataclass(slots=True)
class Progress:
    """What is being done, how long it took, and what came out, on stderr."""

    started_s: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, title: str) -> Iterator["Step"]:
        started_s = time.monotonic()
        with StatusLine() as status:
            status.update(title)
            step = Step(lambda text: status.update(f"{title}: {text}"))
            yield step
        outcome = f": {step.outcome}" if step.outcome else ""
        say(f"{elapsed(time.monotonic() - started_s)}  {title}{outcome}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


@dataclass(slots=True)
class Step:
    """One step under way: `update` shows how far it is, `outcome` stays when it is done."""

    update: Callable[[str], None]
    outcome: str = ""


def show(title: str, answer: pa.Table) -> None:
    put(f"\n{title}\n" + rendered(answer, "table"))


# Producing ----------------------------------------------------------------------------------------
# Applications of the demonstration: what they wrote and read at the source, and what they write after it.


@dataclass(frozen=True, slots=True)
class Source:
    """What was known of the source before it was lost: its records, and what its groups had read.

    `ends`: where each partition ended then; `more`: records that were written nowhere yet.
    """

    workload: Workload
    survivors: Readings
    ends: dict[Partition, int]
    groups: Sequence[GroupPlan]
    read: dict[str, Readings]
    more: RecordSource

    @property
    def records(self) -> int:
        return sum(map(len, self.survivors.values()))


def prepare_source(servers: str, shown: Progress, records: int) -> Source:
    """Topics of every kind, and groups that have read a part of each."""
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
        ended = ends(servers, workload.topics)
        survivors = read_topics(servers, workload.topics)
        step.outcome = f"{sum(map(len, survivors.values())):,} committed records"
    more = RecordSource(workload)
    more.taken = made
    return Source(workload, survivors, ended, groups, read, more)


def write_more(servers: str, source: Source, records: int) -> Readings:
    """New records to each topic of events; returns what a client that knows of no mirror reads of them."""
    topics = source.workload.event_topics
    before = ends(servers, list(topics))
    for topic, codec in topics.items():
        delivery = Delivery(servers, {"compression.type": codec})
        for record in source.more.take(topic, records):
            delivery.send(topic, source.more.partition(), record)
        delivery.finish()
    return read_partitions(servers, before)


# Mirroring ----------------------------------------------------------------------------------------
# The mirror of the demonstration, and what its ledger says.


FLOW = "east-to-west"
_STATUS_COLUMNS = (
    *("source_topic", "source_partition", "source_end", "target_end", "records"),
    *("raw_batches", "record_path_batches", "gap_offsets", "status"),
)
_LAG_COLUMNS = ("source_topic", "source_partition", "last_stable", "mirrored_end", "lag_records", "status")


def mirror(config: MirrorConfig, shown: Progress, leave_on_signals: Callable[[], None]) -> RunSummary:
    """Mirror all that is there; `leave_on_signals` is called once signals need not end a flow any more."""
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
    leave_on_signals()
    if stop.is_set():
        raise click.Abort
    refuse_unfinished(FLOW, summary)
    return summary


def fall_behind(config: MirrorConfig, servers: str, source: Source, shown: Progress, records: int) -> None:
    """Applications write what the mirror does not copy any more; a recorder sees that it is there."""
    with shown.step("write on east behind the mirror") as step:
        written = write_more(servers, source, records)
        record_clusters(config, ["east"], stop=threading.Event(), once=True)
        step.outcome = f"{sum(map(len, written.values())):,} records, seen by a recorder"


def show_ledger(at: DeltaSnapshot) -> None:
    """How far the flow is."""
    status = answers.run_query(at, "flow_status", {"flow": FLOW})
    lag = answers.run_query(at, "replication_lag", {"flow": FLOW})
    show("What the flow has mirrored", status.select(_STATUS_COLUMNS))
    show("Replication lag", lag.select(_LAG_COLUMNS))


# Failing over -------------------------------------------------------------------------------------
# The failover of the demonstration: planned from the ledger, carried out, and applications at work at the
# target.


WHY = "east was killed"
_CHOICES = Choices(
    accepted=(TranslationStatus.NO_COMMIT,),  # the groups begin at the log start where they have no commit
    unproven=WHY,  # nobody can fence what does not answer
    accept_unproven_shut_out=True,  # these brokers have no authorizer
    watch_seconds=1.0,  # nobody else is here who would commit
)
_COMMAND = (
    "mirror-ledger plan failover --from east --to west --accept no_commit "
    f"--accept unproven='{WHY}' --accept mirror_not_shut_out --watch 1"
)
_TRANSLATION_COLUMNS = (
    *("group_id", "source_topic", "source_partition", "committed_offset"),
    *("target_topic", "target_offset", "status"),
)


def translate(config: MirrorConfig, shown: Progress) -> None:
    """Where every group would continue, from the ledger alone."""
    with shown.step("translate every group from the ledger alone") as step:
        at = answers.snapshot(config, None)
        way = Direction(config.flow(FLOW).source, config.flow(FLOW).target)
        translated = between_clusters.translate_groups(at, way)
        step.outcome = f"{translated.num_rows} partitions of groups, cut {at.cut.token}"
    show("Where committed offsets land", translated.select(_TRANSLATION_COLUMNS))


def fail_over(context: Context, shown: Progress) -> Apply:
    """Plan it and carry it out; raises `UnsafeError` where something stands against it."""
    say(_COMMAND)
    with shown.step("plan the failover") as step:
        plan_id = _planned(context, ChangeoverKind.FAILOVER, Direction("east", "west"), _CHOICES)
        step.outcome = f"plan {plan_id}"
    say(f"mirror-ledger apply {plan_id} --reason '{WHY}' --yes")
    operation_id = apply_plan(
        context, plan_id, lambda _what, _waits: "so it is in the demonstration", Followed().reports
    )
    return read_applies(context.snapshot()).the(operation_id)


def _planned(context: Context, kind: ChangeoverKind, way: Direction, choices: Choices) -> str:
    """The id of a plan that is shown; raises `UnsafeError` where something stands against it."""
    made = make_plan(context, kind, way, choices, {})
    record_plan(context, made)
    of = ShownPlan(made.plan, made.forecast, made.recorded_blockers)
    put("\n" + plan_table(of, width=terminal_width()))
    if made.blockers:
        raise UnsafeError(
            f"plan {made.plan.plan_id} is blocked: {', '.join(made.plan.blockers)}; groups stay where they are"
        )
    return made.plan.plan_id


def resume_groups(servers: str, source: Source, written: Readings, shown: Progress) -> list[Resumption]:
    """Every group reads on at the target: what it had left unread, then what is `written` there now."""
    due = {at: [*records, *written.get(at, ())] for at, records in source.survivors.items()}
    return _resumed(servers, "west", source, due, source.read, shown)


def resume_at_home(servers: str, source: Source, written: Readings, shown: Progress) -> list[Resumption]:
    """Every group reads what is `written` at the source now, and nothing else: all before it was read elsewhere."""
    due: Readings = {at: written.get(at, []) for at in source.survivors}
    read: dict[str, Readings] = {plan.group_id: {at: [] for at in plan.stops} for plan in source.groups}
    return _resumed(servers, "east", source, due, read, shown)


def _resumed(
    servers: str,
    alias: str,
    source: Source,
    due: Readings,
    read: Mapping[str, Readings],
    shown: Progress,
) -> list[Resumption]:
    resumptions = []
    with shown.step(f"resume the groups on {alias}") as step:
        for plan in source.groups:
            step.update(plan.group_id)
            resumed = resume(servers, plan.group_id, list(plan.stops))
            resumptions += compare(plan.group_id, due, read[plan.group_id], resumed)
        step.outcome = f"{sum(one.read_on_target for one in resumptions):,} records"
    return resumptions


# Going home ---------------------------------------------------------------------------------------
# The source is there again: what applications wrote at the target comes to it, behind what it alone had, which stays.
# Then applications move back.


_BACK = "west-to-east"
_WHY_BACK = "east is back"
_HOME = Choices(
    accepted=(TranslationStatus.NO_COMMIT,),
    fence=FenceChoice.SHUT,
    producers_stopped=True,
    accept_unproven_shut_out=True,
    quiet_seconds=1.0,  # nobody else is here who would write
    most_quiet_seconds=3.0,
    watch_seconds=1.0,
    extras=("keep",),
)
_HOME_COMMAND = (
    "mirror-ledger plan failback --from west --to east --extras keep --fence shut --accept producers_stopped "
    "--accept mirror_not_shut_out --accept no_commit --quiet-seconds 1 --most-quiet-seconds 3 --watch 1"
)


def go_home(
    config: MirrorConfig,
    shown: Progress,
    leave_on_signals: Callable[[], None],
    at_home: Callable[[], Readings],
) -> tuple[Apply, Readings]:
    """The failback, and what `at_home` reads when all has come back; the driver of the way back runs beside it."""
    stop = threading.Event()
    with Context(config, Why(_WHY_BACK)) as context, ThreadPoolExecutor(max_workers=1) as pool:
        drivers: list[Future[RunSummary]] = []

        def begins(step: StepName) -> None:
            if step is StepName.CATCH_UP:
                say(f"mirror-ledger run {_BACK}")
                drivers.append(
                    pool.submit(
                        run_flow,
                        config,
                        _BACK,
                        session=lambda: spark,
                        until_caught_up=False,
                        stop=stop,
                        on_round=lambda _so_far: None,
                    )
                )
            followed.begins(step)

        say(_HOME_COMMAND)
        with shown.step("plan the failback") as step:
            plan_id = _planned(context, ChangeoverKind.FAILBACK, Direction("west", "east"), _HOME)
            step.outcome = f"plan {plan_id}"
        with shown.step("start Spark"):
            spark = local_session(tasks=config.flow(_BACK).tasks)
        followed = Followed().reports
        say(f"mirror-ledger apply {plan_id} --reason '{_WHY_BACK}' --yes")
        try:
            operation_id = apply_plan(
                context,
                plan_id,
                lambda _what, _waits: "so it is in the demonstration",
                replace(followed, begins=begins),
            )
            came = at_home()
        finally:
            stop.set()
            for driver in drivers:
                driver.result()
            spark.stop()
            leave_on_signals()
        return read_applies(context.snapshot()).the(operation_id), came


# Comparing ----------------------------------------------------------------------------------------
# The verdict of the demonstration: both logs record for record, the groups, the loss that was reported, the
# audits.


Records: TypeAlias = Counter[tuple[str, Record]]
"""How often each record of a topic is there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the logs, once the source is back: `lost` is at the source alone, `surplus` nobody wrote at the target.

    `missing`: of the records that applications wrote at the target; each record is there once.
    """

    lost: int
    surplus: int
    missing: int


def compare_logs(
    source_servers: str, target_servers: str, source: Source, written: Readings, shown: Progress
) -> Difference:
    """Every record of both sides; the source's first ones are those that a client had read of it before."""
    with shown.step("read what was left behind on east") as step:
        left = read_partitions(source_servers, source.ends)
        step.outcome = f"{sum(map(len, left.values())):,} records"
    with shown.step("compare both logs, record for record") as step:
        at_source, new = _records(source.survivors, left), _records(written)
        at_target = _records(read_topics(target_servers, source.workload.topics))
        step.outcome = f"{at_source.total():,} records of east, {at_target.total():,} of west"
        return difference(at_source, at_target, new)


def difference(at_source: Records, at_target: Records, new: Records) -> Difference:
    """`new`: what applications wrote at the target."""
    apart = at_target.copy()
    apart.subtract(at_source)
    alone = +apart
    return Difference(lost=(-apart).total(), surplus=(alone - new).total(), missing=(new - alone).total())


def _records(*readings: Readings) -> Records:
    return Counter(
        (topic, placed.record)
        for reading in readings
        for (topic, _partition), records in reading.items()
        for placed in records
    )


def problems(
    reported: int | None, resumptions: Sequence[Resumption], found: Difference, returned: Difference
) -> list[str]:
    """What was not as promised; `reported`: how many records are lost as `apply` says, None: unknown. `returned`: what
    came to the source, compared with what applications had written at the target."""
    words = [str(one) for one in resumptions if not one.is_exact]
    if returned.lost:
        words.append(f"{returned.lost} records that were written on west did not come back")
    if returned.surplus:
        words.append(f"{returned.surplus} records came back that applications had not written on west")
    if reported != found.lost:
        words.append(f"{reported} records were reported lost, {found.lost} are")
    if found.surplus:
        words.append(f"{found.surplus} records of west were written by nobody, or twice")
    if found.missing:
        words.append(f"{found.missing} records that were written on west are not there")
    return words


def close(
    source: Source,
    summary: RunSummary,
    failover: Apply,
    downtime_s: float,
    written: Readings,
    resumptions: Sequence[Resumption],
    found: Difference,
    home: tuple[Apply, Readings],
    at_home: Sequence[Resumption],
    shown: Progress,
) -> None:
    """Print what came of it; raises `UnsafeError` when anything is not exact.

    `downtime_s`: from the kill until applications could write at the target. `home`: the failback, and what came to the
    source; `at_home`: what groups read there afterwards.
    """
    failback, came = home
    decided = failback.done[StepName.MIRROR_BACK].words.split(";")[0]
    figures, reported = failover.figures, failover.figures["records_lost"]
    audits = failover.done[StepName.AUDIT].read_back["audits"]
    lines = [
        f"mirrored   {summary.records:,} of {source.records:,} committed records, {summary.bytes / 1e6:,.1f} MB; "
        f"batches: {summary.raw_batches:,} raw, {summary.record_path_batches:,} record path",
        f"downtime   {duration(downtime_s)} from the kill to applications on west; "
        f"{duration(float(figures['downtime_seconds']))} of that within apply",
        f"lost       {'unknown' if reported is None else f'{reported:,}'} records reported, "
        f"{found.lost:,} found on east",
        f"written    {_sum(map(len, written.values()))} records on west after the failover",
        f"groups     {len(source.groups)} resumed on west, on {len(resumptions)} partitions",
        f"records    {_sum(one.read_at_source for one in resumptions)} read on east, "
        f"{_sum(one.read_on_target for one in resumptions)} on west, "
        f"{_sum(one.expected for one in resumptions)} were due there",
        f"skipped    {_sum(one.skipped for one in resumptions)}",
        f"repeated   {_sum(one.repeated for one in resumptions)}",
        f"audits     {len(audits)} passed within apply",
        f"came back  {_sum(map(len, came.values()))} records to east; {decided}",
        f"home       {len(source.groups)} groups resumed on east, {_sum(one.read_on_target for one in at_home)} "
        f"records read of {_sum(one.expected for one in at_home)} that were due, "
        f"{_sum(one.skipped for one in at_home)} skipped, {_sum(one.repeated for one in at_home)} repeated; "
        f"{duration(float(failback.figures['downtime_seconds']))} without a cluster to write to",
        f"took       {shown.elapsed_s:.0f} s",
    ]
    put("\n".join(lines) + "\n")
    returned = difference(_records(written), _records(came), Counter())
    if wrong := problems(reported, [*resumptions, *at_home], found, returned):
        raise UnsafeError("it was not exact:", *listed(wrong))


def _sum(numbers: Iterable[int]) -> str:
    return f"{sum(numbers):,}"


# Command ------------------------------------------------------------------------------------------


_FOLDER = "demo"
_BEHIND_ONE_IN = 100
"""How many of a topic's records there are for one that the mirror has not copied when the source is killed."""


@click.command()
@click.option(
    "--records", type=click.IntRange(min=1_000), default=50_000, show_default=True, help="Records per topic."
)
@click.option("--keep", is_flag=True, help="Leave the clusters and the ledger as they are at the end.")
def demo(records: int, keep: bool) -> None:
    """Mirror between two local clusters, kill one, fail over, go home, and compare every record."""
    sandbox = Sandbox(jvm.home() / _FOLDER)
    shown = Progress()
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


def _play(sandbox: Sandbox, shown: Progress, records: int) -> None:
    with shown.step("start clusters east and west") as step:
        clusters = sandbox.up(["east", "west"], brokers=1)
        step.outcome = ", ".join(cluster.bootstrap_servers for cluster in clusters.values())
    east, west = (clusters[alias].bootstrap_servers for alias in ("east", "west"))
    config = load_config(sandbox.configuration)
    source = prepare_source(east, shown, records)
    summary = mirror(config, shown, _leave_on_signals)
    fall_behind(config, east, source, shown, records // _BEHIND_ONE_IN)
    show_ledger(answers.snapshot(config, None))
    with shown.step("kill cluster east (SIGKILL)"):
        sandbox.kill("east")
    killed_s = time.monotonic()
    translate(config, shown)
    with Context(config, Why(WHY)) as context:
        failover = fail_over(context, shown)
    downtime_s = time.monotonic() - killed_s
    with shown.step("write on west") as step:
        written = write_more(west, source, records // _BEHIND_ONE_IN)
        step.outcome = f"{sum(map(len, written.values())):,} records"
    resumptions = resume_groups(west, source, written, shown)
    with shown.step("start cluster east again"):
        sandbox.start("east")
    found = compare_logs(east, west, source, written, shown)
    before = ends(east, list(source.workload.topics))
    home = go_home(config, shown, _leave_on_signals, lambda: read_partitions(east, before))
    with shown.step("write on east") as step:
        new = write_more(east, source, records // _BEHIND_ONE_IN)
        step.outcome = f"{sum(map(len, new.values())):,} records"
    at_home = resume_at_home(east, source, new, shown)
    close(source, summary, failover, downtime_s, written, resumptions, found, home, at_home, shown)
