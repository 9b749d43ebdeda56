"""The mirror of the demonstration, and what its ledger says."""

import threading
from collections.abc import Callable

import click

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.spark.session import local_session
from ledger.app import answers
from ledger.app.mirroring import run_flow
from ledger.app.recording import record_clusters
from ledger.app.tables import init_ledger
from ledger.cli.processes.demo.producing import Source, write_more
from ledger.cli.processes.demo.showing import Progress, show
from ledger.cli.processes.running import refuse_unfinished
from ledger.cli.processes.signals import stop_on_signals
from ledger.config.mirror import MirrorConfig
from ledger.mirror.driver.run_summary import RunSummary
from ledger.reports.run_text import counters

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
