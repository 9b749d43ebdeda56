"""What a change of direction leaves behind at the former source, partition by partition, and how long it took.

A partition's loss is what the former source is known to have had and the target has not: its offsets from `copied_to`
up to `known_end`. What came there after its ends were read last nobody has seen: that is estimated, and never added.
What is unknown of one partition is unknown of all together; unknown is not 0.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.domain.changeover.applies import Apply
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.objectives import Figure, Objective
from ledger.domain.offsets.cut_offsets import Cut
from ledger.domain.words.count_words import counted
from ledger.domain.words.partition_names import by_topic
from ledger.domain.words.time_words import duration
from ledger.errors import PreconditionError
from ledger.operations.figures.failover_loss import LossStatus

Row = Mapping[str, Any]


def losses(rows: Iterable[Row], cut: Cut | None = None) -> list[dict[str, Any]]:
    """A row per partition, from the answer of `failover_loss`.

    `cut`: what it has read of a source that answered counts as well.
    """
    return [_loss(row, cut) for row in rows]


def _loss(row: Row, cut: Cut | None) -> dict[str, Any]:
    is_known = row["status"] != LossStatus.UNKNOWN
    known_end, behind_reading = row["known_end"], 0
    live_end = None if cut is None else _live_end(cut, row)
    if is_known and live_end is not None:
        behind_reading = max(live_end - known_end, 0)
        known_end += behind_reading
    copied_to = None if row["map_end"] is None else row["map_end"] + (row["settled_records"] or 0)
    at_risk_ms, level, since = row["at_risk_ms"], row["level_at_ms"], row["lost_since_ms"]
    records = row["records_at_risk"] + behind_reading if is_known else None
    return {
        "flow": row["flow"],
        "source_topic": row["source_topic"],
        "source_topic_id": row["source_topic_id"],
        "partition": row["source_partition"],
        "copied_to": copied_to,
        "known_end": known_end,
        "settled": row["settled_records"],
        "records": records,
        "estimate": 0 if live_end is not None else row["extra_estimate"],
        "seconds": 0.0 if records == 0 else None if at_risk_ms is None else at_risk_ms / 1000,
        "seconds_bound": None if records in (0, None) else "at_most" if level is not None else "at_least",
        "precision_seconds": None if level is None or since is None else (since - level) / 1000,
        "read_at_ms": row["ends_read_at_ms"],
        "age_seconds": None if row["age_ms"] is None else row["age_ms"] / 1000,
    }


def _live_end(cut: Cut, row: Row) -> int | None:
    """Up to where the cut has read this partition itself; None: it has not, or another incarnation."""
    pair = cut.pairs(row["flow"]).get((row["source_topic"], row["source_partition"]))
    side = None if pair is None else pair.source
    if side is None or not side.is_live or side.topic_id != row["source_topic_id"]:
        return None
    return side.high_watermark


def of_applications(row: Row, records: int) -> dict[str, Any]:
    """A row of which applications wrote so many records, as the source itself says; the others are nobody's loss."""
    if records:
        return {**row, "records": records}
    return {**row, "records": 0, "seconds": 0.0, "seconds_bound": None}


def loss_figures(found: Sequence[Row]) -> dict[str, Any]:
    """Of all together, and of each partition that is not known to be complete; None: unknown."""
    records = [row["records"] for row in found]
    seconds = [row["seconds"] for row in found if row["records"] != 0]
    estimates = [row["estimate"] for row in found]
    precisions = [row["precision_seconds"] for row in found if row["records"] != 0]
    read = [row["read_at_ms"] for row in found]
    return {
        "partitions": len(found),
        "records_lost": None if None in records else sum(records),
        "records_estimated": None if None in estimates else sum(estimates),
        "seconds_lost": None if None in seconds else max(seconds, default=0),
        "precision_seconds": None if None in precisions else max(precisions, default=0),
        "source_read_at_ms": None if None in read else min(read, default=None),
        "losses": [dict(row) for row in found if row["records"] != 0],
    }


def loss_words(figures: Row) -> str:
    """What is lost, in a line."""
    lost, seconds, more = figures["records_lost"], figures["seconds_lost"], figures["records_estimated"]
    if lost is None:
        unknown = sum(row["records"] is None for row in figures["losses"])
        return f"what is not copied is unknown of {counted(unknown, 'partition')}"
    if lost == 0:
        words = f"all that is known of {counted(figures['partitions'], 'partition')} is copied"
    else:
        words = f"{counted(lost, 'record')} not copied"
        words += ", for an unknown time" if seconds is None else f", the oldest for {_span(figures)}"
    if more is None:
        return f"{words}; what was written after the last reading is unknown"
    return f"{words}; about {counted(more, 'record')} more since the last reading" if more else words


def loss_objectives(found: Sequence[Row], *, of: str) -> Iterator[Figure]:
    """What `[objectives]` allows of a loss, as `status` judges it: with the estimate of what came since the ends were
    read last, and up to now."""
    figures = loss_figures(found)
    records, estimate = figures["records_lost"], figures["records_estimated"]
    known = records if records is None or estimate is None else records + estimate
    yield Figure(Objective.MAX_LOSS_RECORDS, known, of, is_at_least=estimate is None)
    lost = [row for row in found if row["records"] != 0]
    spans = [_until_now(row) for row in lost]
    seconds = None if None in spans else max((span for span in spans if span is not None), default=0.0)
    is_at_least = any(row["seconds_bound"] == "at_least" for row in lost)
    yield Figure(Objective.MAX_LOSS_SECONDS, seconds, of, is_at_least=is_at_least)


def _until_now(row: Row) -> float | None:
    """Of a plan as of an earlier cut up to when the ends were read: no later instant was asked about."""
    return None if row["seconds"] is None else row["seconds"] + (row["age_seconds"] or 0.0)


def require_all_copied(figures: Row, *, source: str, operation_id: str) -> None:
    """Raise `PreconditionError` where a switchover would leave records behind, or nobody knows whether it would.

    It was drained, so they came since: the source was not closed to who wrote them.
    """
    if figures["records_lost"] == 0:
        return
    is_known = figures["records_lost"] is not None
    advice = (
        "Undo it, and keep producers away"
        if is_known
        else f"Have {source} recorded (mirror-ledger record {source}), then continue: mirror-ledger apply; or undo it"
    )
    where = by_topic([(row["source_topic"], row["partition"]) for row in figures["losses"]])
    raise PreconditionError(
        f"{loss_words(figures)}: of {source}, {where}. A switchover leaves nothing behind, and nothing copies it now; "
        f"groups were not moved. {advice}: mirror-ledger undo {operation_id}"
    )


def _span(figures: Row) -> str:
    bounds = {row["seconds_bound"] for row in figures["losses"]}
    bound = "at least" if "at_least" in bounds else "at most"
    precision = figures["precision_seconds"]
    exact = "" if not precision else f" (to {duration(precision)})"
    return f"{bound} {duration(figures['seconds_lost'])}{exact}"


# How long it took ---------------------------------------------------------------------------------


TAKEN_FOR_DONE = "taken for done (--yes), proved by what follows"
"""What a receipt says of a step of people that nobody was asked about."""


@dataclass(frozen=True, slots=True)
class Took:
    """Of an apply that has come to its report.

    `is_at_least`: nobody saw when producers were stopped, or applications started. `to_first_commit`: seconds by group,
    `idle`: groups without a commit while that was measured; None: it was not.
    """

    downtime_s: float
    since: str
    is_at_least: bool
    to_first_commit: Mapping[str, float] | None
    idle: Sequence[str] | None

    @classmethod
    def of(cls, kind: ChangeoverKind, now: Apply) -> "Took":
        """Downtime is from when producers were to be stopped, of a failover from the decision: when it was begun.

        Where people had stopped them before, without a hook, it was longer than that.
        """
        decided_ms = now.begun_at_ms
        began_ms, since = decided_ms, "decision"
        if kind is ChangeoverKind.SWITCHOVER:
            began_ms, since = now.begun.get(StepName.STOP_PRODUCERS, decided_ms), str(StepName.STOP_PRODUCERS)
        ended_ms = now.done_at_ms.get(StepName.START_APPLICATIONS, began_ms)
        measured = now.done.get(StepName.FIRST_PROGRESS)
        seen = {} if measured is None else measured.read_back
        to_first_commit, idle = _first_commits(seen, decided_ms), seen.get("not_seen_at_work")
        people = [StepName.START_APPLICATIONS]
        if kind is ChangeoverKind.SWITCHOVER:
            people.append(StepName.STOP_PRODUCERS)
        unseen = any(
            step in now.done and now.done[step].read_back.get("by") == TAKEN_FOR_DONE for step in people
        )
        return cls((ended_ms - began_ms) / 1000, since, unseen, to_first_commit, idle)

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "downtime_seconds": self.downtime_s,
            "downtime_bound": "at_least" if self.is_at_least else None,
            "downtime_since": self.since,
            "seconds_to_first_commit": None if self.to_first_commit is None else dict(self.to_first_commit),
            "groups_without_commit": None if self.idle is None else list(self.idle),
        }

    @property
    def words(self) -> str:
        bound = "at least " if self.is_at_least else ""
        words = f"applications had no cluster to write to for {bound}{duration(self.downtime_s)} since the "
        words += "decision" if self.since == "decision" else "producers were to be stopped"
        if self.to_first_commit is None:
            return f"{words}; when groups were at work again was not measured (--wait-progress)"
        if self.to_first_commit:
            last, seconds = max(self.to_first_commit.items(), key=lambda found: found[1])
            words += (
                f"; {counted(len(self.to_first_commit), 'group')} at work again, the last one, {last}, "
                f"{duration(seconds)} after the decision"
            )
        return f"{words}; not seen at work: {', '.join(self.idle)}" if self.idle else words


def _first_commits(seen: Row, decided_ms: int) -> dict[str, float] | None:
    at_ms: Mapping[str, int] | None = seen.get("first_commit_at_ms")
    if at_ms is None:
        return None
    return {group: (at - decided_ms) / 1000 for group, at in sorted(at_ms.items())}
