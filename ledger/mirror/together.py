"""Several flows in one process: each in a thread of its own, with its own claim, rounds, stops and failure.

They share Spark, its workers and the maintenance of the ledger. One that ends or fails leaves the others alone. A
service manager starts a process again that failed; it does not see a flow that failed while others run, so what passes
by itself (a cluster or the ledger that does not answer) is tried again here.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.clock import StopSignal
from ledger.errors import MirrorLedgerError, PreconditionError, UnsafeError, UsageError
from ledger.facts.roles import writer_of
from ledger.facts.state import LedgerState
from ledger.machine import LocalProcesses
from ledger.mirror.progress import RunSummary
from ledger.mirror.text import unfinished
from ledger.threads import FLOW, beside

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
_ERRORS: dict[int, type[MirrorLedgerError]] = {
    error.exit_code: error for error in (MirrorLedgerError, UsageError, UnsafeError, PreconditionError)
}


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """How one of them ended: by what it did (None: it waited as standby), or by an error."""

    flow: str
    summary: RunSummary | None = None
    error: MirrorLedgerError | None = None

    @property
    def refusal(self) -> MirrorLedgerError | None:
        """What would end a process with this flow alone; None: it ended as it was asked."""
        left = None if self.summary is None else unfinished(self.flow, self.summary)
        return self.error if left is None else UnsafeError(*left.splitlines())


Run = Callable[[str, bool], RunSummary | None]
"""A flow until its end; whether this process ran it before, and it failed."""


def run_together(
    flows: Sequence[str],
    run: Run,
    *,
    stop: StopSignal,
    are_tried_again: bool,
    on_end: Callable[[FlowEnd], None],
    again_s: float = _AGAIN_S,
) -> list[FlowEnd]:
    """Run flows side by side until each has ended; `on_end` is called in the thread of the one that did.

    `are_tried_again`: those that end by an error that passes, `again_s` later, until they are asked to stop.
    """
    ends: dict[str, FlowEnd] = {}

    def work(flow: str) -> None:
        FLOW.set(flow)
        ends[flow] = _run(flow, run, stop, again_s if are_tried_again else None)
        on_end(ends[flow])

    threads = [beside(work, flow, name=flow) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [ends[flow] for flow in flows]


def _run(flow: str, run: Run, stop: StopSignal, again_s: float | None) -> FlowEnd:
    is_again = False
    while True:
        try:
            return FlowEnd(flow, run(flow, is_again))
        except MirrorLedgerError as error:
            if again_s is None or not error.retriable or stop.wait(0.0):
                return FlowEnd(flow, error=error)
            what = {"flow": flow, "cause": "; ".join(error.lines), "again": again_s}
            log.warning("%(flow)s: ended: %(cause)s; it begins again in %(again).0f s", what)
        except (
            Exception
        ) as error:  # the end of a thread: what nobody foresaw is reported by whoever waits for it
            log.exception("%(flow)s: ended by what nobody foresaw", {"flow": flow})
            return FlowEnd(flow, error=MirrorLedgerError(f"{flow}: {error!r}"))
        stop.wait(again_s)
        is_again = True


def is_held_here(flow: str, state: LedgerState) -> bool:
    """Whether this process claimed the flow last, and did not give it back: nobody else is at work on it then."""
    last = state.last_claim(writer_of(flow))
    return last is not None and not last.released and last.host == str(LocalProcesses().own())


def require_all_ended_well(ends: Sequence[FlowEnd]) -> None:
    """Raise what says which flows did not, and why, in one line; with their exit code if it is one, else 1."""
    refused = {end.flow: refusal for end in ends if (refusal := end.refusal) is not None}
    if not refused:
        return
    [code, *others] = {error.exit_code for error in refused.values()}
    why = "; ".join(
        f"{error.lines[0] if error.lines[0].startswith(flow) else f'{flow}: {error.lines[0]}'} (exit {error.exit_code})"
        for flow, error in refused.items()
    )
    kind = MirrorLedgerError if others else _ERRORS.get(code, MirrorLedgerError)
    raise kind(f"{len(refused)} of {len(ends)} flows: {why}")
