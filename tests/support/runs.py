"""Drivers that run in this process, on the session's Spark.

Nothing is recorded of the clusters unless a test asks for it: recorders claim and append for themselves,
which most tests of a copy would only wait for.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ledger.config.mirror import MirrorConfig
from ledger.mirror.progress import RunSummary
from ledger.mirror.run import run_flow
from ledger.recorders.observation import Subject

FLOW = "flow"
"""The name of a flow that is alone in its configuration."""
NOTHING: frozenset[Subject] = frozenset()
_ENDED_WITHIN_S = 120.0


def run(
    config: MirrorConfig,
    spark: SparkSession,
    flow: str = FLOW,
    *,
    until_caught_up: bool = True,
    take_over: bool = False,
    allow_scope_reduction: bool = False,
    from_cut: str | None = None,
    recorded: frozenset[Subject] = NOTHING,
    stop: threading.Event | None = None,
) -> RunSummary:
    """One run of a flow, to its end."""
    return run_flow(
        config,
        flow,
        session=lambda: spark,
        until_caught_up=until_caught_up,
        take_over=take_over,
        allow_scope_reduction=allow_scope_reduction,
        from_cut=from_cut,
        recorded=recorded,
        stop=stop or threading.Event(),
        on_round=lambda _so_far: None,
    )


@contextmanager
def running(
    config: MirrorConfig,
    spark: SparkSession,
    flow: str = FLOW,
    *,
    take_over: bool = False,
    from_cut: str | None = None,
    recorded: frozenset[Subject] = NOTHING,
) -> Iterator[Future[RunSummary]]:
    """A driver beside the body, asked to stop when the body ends; the future then holds its summary."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        driver = pool.submit(
            run,
            config,
            spark,
            flow,
            until_caught_up=False,
            take_over=take_over,
            from_cut=from_cut,
            recorded=recorded,
            stop=stop,
        )
        try:
            yield driver
        finally:
            stop.set()
        driver.result(_ENDED_WITHIN_S)
