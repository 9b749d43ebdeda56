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
from dataclasses import dataclass
from typing import TypeAlias

import click

from ledger import jvm
from ledger.answers.maintenance import init_ledger
from ledger.changeover.applying import apply_plan
from ledger.changeover.plans import Apply, ChangeoverKind, Choices, FenceChoice, StepName
from ledger.changeover.receipts import StepReports
from ledger.changeover.seeing import make_plan, read_applies, record_plan
from ledger.changeover.text import ShownPlan, plan_table
from ledger.cli.printing import put, say, terminal_width
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
from ledger.terminal import StatusLine
from ledger.words import elapsed, listed

# Showing ------------------------------------------------------------------------------------------
# What the demonstration does and finds, shown as it goes: chapters, and steps with their time, on stderr; plans and
# the verdict on stdout.


@dataclass(slots=True)
class Step:
    """One step under way: `update` shows how far it is, `outcome` stays when it is done."""

    update: Callable[[str], None]
    outcome: str = ""


@contextmanager
def shown(title: str) -> Iterator[Step]:
    """A step, with its time when it is done."""
    started_s = time.monotonic()
    with StatusLine() as status:
        status.update(title)
        step = Step(lambda text: status.update(f"{title}: {text}"))
        yield step
    outcome = f": {step.outcome}" if step.outcome else ""
    say(f"{elapsed(time.monotonic() - started_s)}  {title}{outcome}")


def chapter(title: str) -> None:
    say("", title)


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


def prepare_source(servers: str, records: int) -> Source:
    """Topics of every kind, and groups that have read a part of each."""
    workload = Workload(
        records_per_topic=records, started_ms=time.time_ns() // 1_000_000 - RECORDS_ARE_OLDER_BY_MS
    )
    with shown("write and read at east") as step:
        made = produce(servers, workload, step.update)
        groups = plan_groups(workload, ends(servers, workload.topics))
        read = {plan.group_id: consume(servers, plan) for plan in groups}
        total = sum(len(records) for by_partition in read.values() for records in by_partition.values())
        step.outcome = (
            f"{made:,} records in {len(workload.topics)} topics; {len(groups)} groups have read {total:,}"
        )
    with shown("wait for the cleaner at east") as step:
        gaps = wait_until_cleaned(servers, workload.inventory)
        configure(servers, workload.inventory, KEPT_AS_IT_IS)
        step.outcome = f"{sum(gaps.values()):,} offsets of {workload.inventory} have no record any more"
        ended = ends(servers, workload.topics)
        survivors = read_topics(servers, workload.topics)
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
# The mirror of the demonstration.


FLOW = "east-to-west"


def mirror(config: MirrorConfig, leave_on_signals: Callable[[], None]) -> RunSummary:
    """Mirror all that is there; `leave_on_signals` is called once signals need not end a flow any more."""
    stop = threading.Event()
    with shown("mirror east to west until caught up") as step:
        init_ledger(config)
        spark = local_session(tasks=config.flow(FLOW).tasks)
        stop_on_signals(stop)
        summary = run_flow(
            config,
            FLOW,
            session=lambda: spark,
            until_caught_up=True,
            stop=stop,
            on_round=lambda so_far: step.update(counters(so_far.summary)),
        )
        step.outcome = f"{summary.records:,} records, {summary.bytes / 1e6:,.1f} MB"
    spark.stop()
    leave_on_signals()
    if stop.is_set():
        raise click.Abort
    refuse_unfinished(FLOW, summary)
    return summary


def fall_behind(config: MirrorConfig, servers: str, source: Source, records: int) -> None:
    """Applications write what the mirror does not copy any more; a recorder sees that it is there."""
    with shown("write at east what the mirror does not copy any more") as step:
        written = write_more(servers, source, records)
        record_clusters(config, ["east"], stop=threading.Event(), once=True)
        step.outcome = f"{sum(map(len, written.values())):,} records"


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
_PLAN_FAILOVER = f"""mirror-ledger plan failover --from east --to west --accept no_commit \\
    --accept unproven='{WHY}' --accept mirror_not_shut_out --watch 1"""
_APPLY_FAILOVER = f"mirror-ledger apply --reason '{WHY}' --yes"


def translate(config: MirrorConfig) -> None:
    """Where every group would continue, from the ledger alone."""
    with shown("translate all groups, from the ledger alone") as step:
        way = Direction(config.flow(FLOW).source, config.flow(FLOW).target)
        translated = between_clusters.translate_groups(answers.snapshot(config, None), way)
        by_status = Counter(translated["status"].to_pylist())
        step.outcome = ", ".join(f"{number} {status}" for status, number in by_status.most_common())


def plan_change(
    context: Context, kind: ChangeoverKind, way: Direction, choices: Choices, command: str
) -> str:
    """The id of a plan that is shown up to its steps; raises `UnsafeError` where something stands against it."""
    say(*command.splitlines())
    with shown(f"plan the {kind}"):
        made = make_plan(context, kind, way, choices, {})
        record_plan(context, made)
    of = ShownPlan(made.plan, made.forecast, made.recorded_blockers)
    put(plan_table(of, width=terminal_width()).partition("  steps\n")[0])
    if made.blockers:
        raise UnsafeError(
            f"plan {made.plan.plan_id} is blocked: {', '.join(made.plan.blockers)}; groups stay where they are"
        )
    return made.plan.plan_id


def apply_change(
    context: Context,
    plan_id: str,
    command: str,
    begins: Callable[[StepName], None] = lambda _name: None,
) -> Apply:
    """What came of it; `begins` is called before each step."""
    say(*command.splitlines())
    with shown("apply the plan") as step:

        def waits(name: StepName, words: str) -> None:
            step.update(f"{name.description}: {words}")

        def shows(name: StepName) -> None:
            begins(name)
            step.update(name.description)

        reports = StepReports(shows, waits, ends=lambda _name, _words, _is_done: None)
        operation_id = apply_plan(
            context, plan_id, lambda _what, _waits: "so it is in the demonstration", reports
        )
        applied = read_applies(context.snapshot()).the(operation_id)
        step.outcome = f"{len(applied.done)} steps, each read back and recorded"
    return applied


def resume_groups(servers: str, source: Source, written: Readings) -> list[Resumption]:
    """Every group reads on at the target: what it had left unread, then what is `written` there now."""
    due = {at: [*records, *written.get(at, ())] for at, records in source.survivors.items()}
    return _resumed(servers, "west", source, due, source.read)


def resume_at_home(servers: str, source: Source, written: Readings) -> list[Resumption]:
    """Every group reads what is `written` at the source now, and nothing else: all before it was read elsewhere."""
    due: Readings = {at: written.get(at, []) for at in source.survivors}
    read: dict[str, Readings] = {plan.group_id: {at: [] for at in plan.stops} for plan in source.groups}
    return _resumed(servers, "east", source, due, read)


def _resumed(
    servers: str,
    alias: str,
    source: Source,
    due: Readings,
    read: Mapping[str, Readings],
) -> list[Resumption]:
    resumptions = []
    with shown(f"let the groups read on at {alias}") as step:
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
_PLAN_FAILBACK = """mirror-ledger plan failback --from west --to east --extras keep --fence shut \\
    --accept producers_stopped --accept mirror_not_shut_out --accept no_commit \\
    --quiet-seconds 1 --most-quiet-seconds 3 --watch 1"""
_APPLY_FAILBACK = f"""mirror-ledger apply --reason '{_WHY_BACK}' --yes
mirror-ledger run {_BACK}"""


def go_home(
    config: MirrorConfig,
    leave_on_signals: Callable[[], None],
    at_home: Callable[[], Readings],
) -> tuple[Apply, Readings]:
    """The failback, and what `at_home` reads when all has come back; the driver of the way back runs beside it."""
    stop = threading.Event()
    with Context(config, Why(_WHY_BACK)) as context, ThreadPoolExecutor(max_workers=1) as pool:
        drivers: list[Future[RunSummary]] = []

        def begins(step: StepName) -> None:
            if step is StepName.CATCH_UP:
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

        way = Direction("west", "east")
        plan_id = plan_change(context, ChangeoverKind.FAILBACK, way, _HOME, _PLAN_FAILBACK)
        spark = local_session(tasks=config.flow(_BACK).tasks)
        try:
            failback = apply_change(context, plan_id, _APPLY_FAILBACK, begins)
            came = at_home()
        finally:
            stop.set()
            for driver in drivers:
                driver.result()
            spark.stop()
            leave_on_signals()
        return failback, came


# Comparing ----------------------------------------------------------------------------------------
# The verdict of the demonstration: both logs record for record, the groups, the loss that was reported.


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


def compare_logs(servers: str, source: Source, left: Readings, written: Readings) -> Difference:
    """Every record of both sides. `left`: what a client read of the source when it was back, behind what clients had
    read of it before; `written`: what applications wrote at the target."""
    with shown("compare both logs, record for record") as step:
        at_source, new = _records(source.survivors, left), _records(written)
        at_target = _records(read_topics(servers, source.workload.topics))
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
    at_target: Sequence[Resumption],
    found: Difference,
    home: tuple[Apply, Readings],
    at_home: Sequence[Resumption],
) -> None:
    """Print what came of it; raises `UnsafeError` when anything is not exact.

    `downtime_s`: from the kill until applications could write at the target; `at_target`: what groups read there.
    `home`: the failback, and what came to the source; `at_home`: what groups read there afterwards.
    """
    failback, came = home
    resumptions, reported = [*at_target, *at_home], failover.figures["records_lost"]
    lines = [
        f"copied    {summary.records:,} of {source.records:,} records to west; "
        f"back to east {_sum(map(len, came.values()))} of {_sum(map(len, written.values()))}",
        f"lost      {'unknown' if reported is None else f'{reported:,}'} records as the failover reported, "
        f"{found.lost:,} found on east",
        f"groups    {len(source.groups)} read on at west, then at east: "
        f"{_sum(one.read_on_target for one in resumptions)} of {_sum(one.expected for one in resumptions)} unread "
        f"records, {_sum(one.skipped for one in resumptions)} skipped",
        f"repeated  {_sum(one.repeated for one in resumptions)} records",
        f"downtime  {downtime_s:.0f} s without a cluster to write to after the kill, "
        f"{failback.figures['downtime_seconds']:.0f} s on the way home",
    ]
    put("\n" + "\n".join(lines) + "\n")
    returned = difference(_records(written), _records(came), Counter())
    if wrong := problems(reported, resumptions, found, returned):
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
    _leave_on_signals()
    logging.getLogger().setLevel(logging.WARNING)  # the steps tell enough
    sandbox.down()
    try:
        _play(sandbox, records)
    finally:
        if keep:
            say(f"kept: {sandbox.root}; configuration: {sandbox.configuration}")
        else:
            sandbox.down()


def _leave_on_signals() -> None:
    """End as an exception does, so that no broker is left behind. While Spark works, the flow ends first."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _play(sandbox: Sandbox, records: int) -> None:
    chapter("1 of 6: mirror. West gets all that east has.")
    with shown("start clusters east and west") as step:
        clusters = sandbox.up(["east", "west"], brokers=1)
        step.outcome = ", ".join(cluster.bootstrap_servers for cluster in clusters.values())
    east, west = (clusters[alias].bootstrap_servers for alias in ("east", "west"))
    config = load_config(sandbox.configuration)
    source = prepare_source(east, records)
    summary = mirror(config, _leave_on_signals)

    chapter("2 of 6: kill. East dies before all of it is copied.")
    fall_behind(config, east, source, records // _BEHIND_ONE_IN)
    with shown("kill east (SIGKILL)"):
        sandbox.kill("east")
    killed_s = time.monotonic()
    translate(config)

    with Context(config, Why(WHY)) as context:
        chapter("3 of 6: plan. The ledger says what a failover does, and what it costs.")
        way = Direction("east", "west")
        plan_id = plan_change(context, ChangeoverKind.FAILOVER, way, _CHOICES, _PLAN_FAILOVER)
        chapter("4 of 6: apply. Applications and groups continue at west.")
        failover = apply_change(context, plan_id, _APPLY_FAILOVER)
    downtime_s = time.monotonic() - killed_s
    with shown("write at west") as step:
        written = write_more(west, source, records // _BEHIND_ONE_IN)
        step.outcome = f"{sum(map(len, written.values())):,} records"
    at_target = resume_groups(west, source, written)

    chapter("5 of 6: home. East is back, gets what was written at west, and applications return.")
    with shown("start east again") as step:
        sandbox.start("east")
        left = read_partitions(east, source.ends)
        step.outcome = f"{sum(map(len, left.values())):,} records were left behind there"
    before = ends(east, list(source.workload.topics))
    home = go_home(config, _leave_on_signals, lambda: read_partitions(east, before))
    with shown("write at east") as step:
        new = write_more(east, source, records // _BEHIND_ONE_IN)
        step.outcome = f"{sum(map(len, new.values())):,} records"
    at_home = resume_at_home(east, source, new)

    chapter("6 of 6: compare. Everything is counted by clients that know of no mirror.")
    found = compare_logs(west, source, left, written)
    close(source, summary, failover, downtime_s, written, at_target, found, home, at_home)
