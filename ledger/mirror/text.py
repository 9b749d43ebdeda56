"""What a run of a flow says of itself: one line at its end, and why it is not finished, with what to type."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.facts.requests import OperatorRequest, RequestKind, command_line
from ledger.mirror.progress import Lag, RunEnd, RunProgress, RunSummary
from ledger.mirror.states import Unreached
from ledger.mirror.stops import stopped_entries
from ledger.words import counted, shown, some_of

_ENDS = {
    RunEnd.CAUGHT_UP: "caught up",
    RunEnd.NOT_CAUGHT_UP: "not caught up",
    RunEnd.SIGNALLED: "ended by a signal, after its round",
    RunEnd.RELOADED: "continues by another configuration",
}


def end_line(flow: str, summary: RunSummary) -> str:
    """How a run ended, and what it did."""
    return f"{flow}: {_end(summary)}: {counters(summary)}"


def counters(summary: RunSummary) -> str:
    """What a run has done so far."""
    merged = f" made of {summary.merged_batches:,}" if summary.merged_batches else ""
    return (
        f"{counted(summary.records, 'record')}, {summary.bytes / 1e6:,.1f} MB in "
        f"{counted(summary.rounds, 'round')}; batches: {summary.raw_batches:,} raw, "
        f"{summary.record_path_batches:,} record path{merged}; "
        f"{counted(summary.recovered_records, 'recovered record')}, {counted(summary.lost_offsets, 'lost offset')}"
    )


def _end(summary: RunSummary) -> str:
    if summary.end is RunEnd.ASKED_TO_STOP:
        end = f"ended as asked {summary.asked_by}"
    else:
        end = "under way" if summary.end is None else _ENDS[summary.end]
    if summary.end in (RunEnd.ASKED_TO_STOP, RunEnd.SIGNALLED) and summary.unreached:
        end += ", before it had caught up"
    if summary.paused:
        end += f"; paused: {', '.join(request.subject for request in summary.paused)}"
    return end


def unfinished(flow: str, summary: RunSummary) -> str | None:
    """What is left and why, the first line in short; None when nothing is."""
    if not summary.is_unfinished:
        return None
    reasons = []
    if summary.stopped:
        reasons.append(f"{counted(len(summary.stopped), 'partition')} stopped and need a decision")
    if summary.blocked:
        reasons.append(f"{counted(len(summary.blocked), 'topic')} cannot be copied")
    if summary.end is RunEnd.NOT_CAUGHT_UP and summary.paused:
        reasons.append(f"paused: {', '.join(request.subject for request in summary.paused)}")
    if summary.end in (RunEnd.ASKED_TO_STOP, RunEnd.SIGNALLED) and summary.unreached:
        reasons.append(f"ended before it had caught up; {_left(summary.unreached)}")
    details = [*_stopped(flow, summary), *_blocked(summary)]
    if summary.end is RunEnd.NOT_CAUGHT_UP:
        details += [line for request in summary.paused for line in _paused(flow, summary, request)]
    return "\n  ".join([f"{flow}: {'; '.join(reasons)}", *details])


def _stopped(flow: str, summary: RunSummary) -> Iterator[str]:
    for entry in stopped_entries(flow, summary.stopped):
        yield f"stopped   {shown(f'{entry.where}: {entry.cause}: {entry.seen}')}"
        if entry.next is not None:
            yield f"          next: {shown(entry.next)}"
        for command in entry.commands:
            yield f"          {shown(command)}"


def _blocked(summary: RunSummary) -> Iterator[str]:
    for topic, reason in sorted(summary.blocked.items()):
        yield f"blocked   topic {shown(f'{topic}: {reason}')}"


def _paused(flow: str, summary: RunSummary, request: OperatorRequest) -> Iterator[str]:
    held = [left for left in summary.unreached if request.topic in (None, left.topic)]
    yield f"paused    {shown(f'{request.subject}, {request.asked_in_words}')}: {_left(held)}"
    yield f"          {command_line(RequestKind.RESUME, flow, topic=request.topic)}"


def _left(unreached: Sequence[Unreached]) -> str:
    """How far it came where it did not come to the end."""
    if not unreached:
        return "nothing of what the source had when the run began is left to copy, and nothing was read"
    offsets = sum(left.end - left.position for left in unreached)
    of_partitions = f"of {counted(len(unreached), 'partition')} left to copy"
    return f"{counted(offsets, 'source offset')} {of_partitions}: {some_of(list(map(str, unreached)), 'partition')}"


# Progress text ------------------------------------------------------------------------------------
# A running flow in one line: what it copied, how fast, and how far it is behind as far as its driver knows.


@dataclass(frozen=True, slots=True)
class Rate:
    """What was copied in a stretch of time."""

    records: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        per_second = (
            f"{self.records / self.seconds:,.0f} records/s, {self.bytes / 1e6 / self.seconds:,.1f} MB/s"
        )
        return f"{per_second} in the last {self.seconds:,.0f} s"


def progress_line(flow: str, progress: RunProgress, rate: Rate | None) -> str:
    """`rate` None: there is no stretch of time yet to tell it of."""
    summary = progress.summary
    parts = [f"{counted(summary.records, 'record')}, {summary.bytes / 1e6:,.1f} MB copied"]
    if rate is not None:
        parts.append(str(rate))
    parts += [_lag(progress), *_still(progress)]
    return f"{flow}: {'; '.join(parts)}"


def _lag(progress: RunProgress) -> str:
    lag = progress.lag
    if not lag.partitions and not lag.unknown:
        return "no partition is being copied"
    if not lag.partitions:
        return f"lag unknown: the source has not answered yet for {counted(lag.unknown, 'partition')}"
    if not progress.is_lag_known and not lag.unknown:
        return f"lag unknown; it was {counted(lag.offsets, 'record')} {lag.age_seconds:,.0f} s ago"
    unknown = f", and unknown for {counted(lag.unknown, 'partition')}" if lag.unknown else ""
    return f"lag {_measured(lag)}{unknown}"


def _measured(lag: Lag) -> str:
    waits = "" if lag.behind_seconds is None else f", for {lag.behind_seconds:,.0f} s or longer"
    age = "" if lag.age_seconds is None else f", as of {lag.age_seconds:,.0f} s ago"
    return f"{counted(lag.offsets, 'record')}{waits}{age}"


def _still(progress: RunProgress) -> Iterator[str]:
    if progress.stopped:
        yield f"{counted(progress.stopped, 'partition')} stopped"
    if progress.paused:
        yield f"{counted(progress.paused, 'partition')} paused"
