"""What a change of direction loses, and how long it takes: estimated before, and as it was."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ledger.changeover.plans import (
    BY_PEOPLE,
    Apply,
    ChangeoverKind,
    FenceChoice,
    StepName,
    apply_command,
    undo_command,
)
from ledger.config.values import Figure, Objective
from ledger.errors import PreconditionError
from ledger.facts.cut_offsets import Cut
from ledger.facts.tables import Row
from ledger.words import by_topic, counted, duration, instant

# Failover loss ------------------------------------------------------------------------------------
# What of a source is not at the target, or would not be if it were lost now: the one estimate that there is
# of it.
#
# Plans, applies, reports and `status` all have it from the answer of the query `failover_loss`, partition
# by partition. It is a range. At least: what is known to be at the source, less what the target may hold of
# it that nobody recorded. At most: all that is known to be there, and what the highest rate seen just
# before brings in the time that nobody saw the source. Where no rate is known there is no upper end; what
# is unknown of one partition is unknown of all together; unknown is not 0. What lies in between is never
# added to what is known.


UnrecordedCopies = Mapping[tuple[str, str, int], int]
"""By flow, source topic and partition: how much the target holds now behind what was recorded as copied, or may yet."""
ALL_OF_IT = 2**63 - 1
NOTHING_READ: UnrecordedCopies = MappingProxyType({})


class LossStatus(StrEnum):
    """Statuses of the query `failover_loss`, in its order."""

    UNKNOWN = "unknown"  # the ends were never read, or nothing is recorded of the partition
    COMPLETE = "complete"  # all that is known of the source is at the target
    LAGGING = "lagging"


def losses(
    rows: Iterable[Row], cut: Cut | None = None, unrecorded: UnrecordedCopies = NOTHING_READ
) -> list[dict[str, Any]]:
    """A row per partition, from the answer of `failover_loss`.

    `cut`: what it has read of a source that answered counts as well. `unrecorded`: what was read of the target now.
    """
    return [_loss(row, cut, unrecorded) for row in rows]


def _loss(row: Row, cut: Cut | None, unrecorded: UnrecordedCopies) -> dict[str, Any]:
    is_known = row["status"] != LossStatus.UNKNOWN
    known_end, behind_reading = row["known_end"], 0
    live_end = None if cut is None else _live_end(cut, row)
    if is_known and live_end is not None:
        behind_reading = max(live_end - known_end, 0)
        known_end += behind_reading
    copied_to = None if row["map_end"] is None else row["map_end"] + (row["settled_records"] or 0)
    at_risk_ms, level, since = row["at_risk_ms"], row["level_at_ms"], row["lost_since_ms"]
    records = row["records_at_risk"] + behind_reading if is_known else None
    estimate = 0 if live_end is not None else row["extra_estimate"]
    return {
        "flow": row["flow"],
        "source_topic": row["source_topic"],
        "source_topic_id": row["source_topic_id"],
        "partition": row["source_partition"],
        "copied_to": copied_to,
        "known_end": known_end,
        "settled": row["settled_records"],
        "records": records,
        "estimate": estimate,
        "at_least": None if records is None else _at_least(row, records, behind_reading, unrecorded),
        "at_most": None if records is None or estimate is None else records + estimate,
        "seconds": 0.0 if records == 0 else None if at_risk_ms is None else at_risk_ms / 1000,
        "seconds_bound": None if records in (0, None) else "at_most" if level is not None else "at_least",
        "precision_seconds": None if level is None or since is None else (since - level) / 1000,
        "read_at_ms": row["ends_read_at_ms"],
        "age_seconds": _seconds(row["age_ms"]),
        "unseen_seconds": 0.0 if live_end is not None else _seconds(row["unseen_ms"]),
        "rate_per_second": row["rate_per_second"],
    }


def _at_least(row: Row, records: int, behind_reading: int, unrecorded: UnrecordedCopies) -> int:
    """What the target holds now says more than what was read of it at some time."""
    place = (row["flow"], row["source_topic"], row["source_partition"])
    if row["has_gaps"]:
        return 0
    if place in unrecorded:
        return max(records - max(unrecorded[place] - (row["settled_records"] or 0), 0), 0)
    return int(row["loss_at_least"]) + behind_reading


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _live_end(cut: Cut, row: Row) -> int | None:
    """Up to where the cut has read this partition itself; None: it has not, or another incarnation."""
    pair = cut.pairs(row["flow"]).get((row["source_topic"], row["source_partition"]))
    side = None if pair is None else pair.source
    if side is None or not side.is_live or side.topic_id != row["source_topic_id"]:
        return None
    return side.high_watermark


def of_applications(row: Row, records: int) -> dict[str, Any]:
    """A row of which applications wrote so many records, as the source itself says; the others are nobody's loss."""
    exact = {"records": records, "at_least": records, "at_most": records}
    if records:
        return {**row, **exact}
    return {**row, **exact, "seconds": 0.0, "seconds_bound": None}


def loss_figures(found: Sequence[Row]) -> dict[str, Any]:
    """Of all together, and of each partition that is not known to be complete; None: unknown."""
    seconds = [row["seconds"] for row in found if row["records"] != 0]
    precisions = [row["precision_seconds"] for row in found if row["records"] != 0]
    read = [row["read_at_ms"] for row in found]
    rates = [row["rate_per_second"] for row in found]
    unseen = [row["unseen_seconds"] for row in found]
    return {
        "partitions": len(found),
        "records_lost": _sum(row["records"] for row in found),
        "records_estimated": _sum(row["estimate"] for row in found),
        "records_at_least": _sum(row["at_least"] for row in found),
        "records_at_most": _sum(row["at_most"] for row in found),
        "seconds_lost": None if None in seconds else max(seconds, default=0),
        "precision_seconds": None if None in precisions else max(precisions, default=0),
        "source_read_at_ms": None if None in read else min(read, default=None),
        "source_answered_at_ms": max((at_ms for at_ms in read if at_ms is not None), default=None),
        "unseen_seconds": None if None in unseen else max(unseen, default=None),
        "records_per_second": _sum(rates),
        "partitions_without_rate": sum(rate is None for rate in rates),
        "losses": [dict(row) for row in found if row["records"] != 0],
    }


def _sum(numbers: Iterable[Any]) -> Any:
    found = list(numbers)
    return None if None in found else sum(found)


def loss_words(figures: Row) -> str:
    """What is lost, in a line: how much at least and at most, since when, and on what basis."""
    lost, more = figures["records_lost"], figures["records_estimated"]
    if lost is None:
        unknown = sum(row["records"] is None for row in figures["losses"])
        return f"what is not copied is unknown of {counted(unknown, 'partition')}"
    if lost == 0:
        words = f"all that is known of {counted(figures['partitions'], 'partition')} is copied"
        return f"{words}{_more_words(figures, more)}"
    least = figures["records_at_least"]
    words = f"{'' if least == lost else f'{least:,} to '}{counted(lost, 'record')} not copied"
    words += (
        ", for an unknown time" if figures["seconds_lost"] is None else f", the oldest for {_span(figures)}"
    )
    return f"{words}{_more_words(figures, more)}"


def _more_words(figures: Row, more: int | None) -> str:
    """What of it came since the source was read last, and how that is known."""
    if more is None:
        without = figures["partitions_without_rate"]
        basis = f", no rate is known of {counted(without, 'partition')}" if without else ""
        return f"; what was written after the last reading{_reading(figures)} is unknown{basis}"
    if not more:
        return f"; last reading{_reading(figures)}" if figures["unseen_seconds"] else ""
    rate = figures["records_per_second"]
    basis = "" if rate is None else f", at up to {_rate(rate)} a second as before"
    return f"; at most {counted(more, 'more record')} came since the last reading{_reading(figures)}{basis}"


def _reading(figures: Row) -> str:
    at_ms, unseen = figures["source_read_at_ms"], figures["unseen_seconds"]
    if at_ms is None:
        return ""
    return f" ({instant(at_ms)}{'' if unseen is None else f', {duration(unseen)} unseen'})"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def loss_objectives(found: Sequence[Row], *, of: str, fresh_seconds: float) -> Iterator[Figure]:
    """What `[objectives]` allows of a loss: its upper end, and its time up to now.

    Where nobody saw the source for longer than `fresh_seconds` before it was lost, a rate of before says nothing: only
    the lower end counts, and the objective is not known to be met.
    """
    figures = loss_figures(found)
    unseen, most = figures["unseen_seconds"], figures["records_at_most"]
    is_open = most is None or unseen is None or unseen > fresh_seconds
    least = figures["records_at_least"] or None
    yield Figure(Objective.MAX_LOSS_RECORDS, least if is_open else most, of, is_at_least=is_open)
    lost = [row for row in found if row["records"] != 0]
    spans = [_until_now(row) for row in lost]
    seconds = None if None in spans else max((span for span in spans if span is not None), default=0.0)
    is_bounded = not is_open and bool(found)
    is_at_least = not is_bounded or any(row["seconds_bound"] == "at_least" for row in lost)
    yield Figure(
        Objective.MAX_LOSS_SECONDS, seconds if is_bounded else seconds or None, of, is_at_least=is_at_least
    )


def _until_now(row: Row) -> float | None:
    """Of a plan as of an earlier cut up to when the ends were read: no later instant was asked about."""
    return None if row["seconds"] is None else row["seconds"] + (row["age_seconds"] or 0.0)


def _span(figures: Row) -> str:
    bounds = {row["seconds_bound"] for row in figures["losses"]}
    bound = "at least" if "at_least" in bounds else "at most"
    precision = figures["precision_seconds"]
    exact = "" if not precision else f" (to {duration(precision)})"
    return f"{bound} {duration(figures['seconds_lost'])}{exact}"


# Losses -------------------------------------------------------------------------------------------
# What a switchover may not leave behind, and how long a change of direction took.


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
        else f"Have {source} recorded (mirror-ledger record {source}), then continue: "
        f"{apply_command('PLAN_ID')}; or undo it"
    )
    where = by_topic([(row["source_topic"], row["partition"]) for row in figures["losses"]])
    raise PreconditionError(
        f"{loss_words(figures)}: of {source}, {where}. A switchover leaves nothing behind, and nothing copies it now; "
        f"groups were not moved. {advice}: {undo_command(operation_id)}"
    )


# How long it took ---------------------------------------------------------------------------------


_TAKEN = "taken for done (--yes)"
TAKEN_FOR_DONE = f"{_TAKEN}, not proved"
"""What a receipt says of a step of people that nobody was asked about."""


def downtime_since(kind: ChangeoverKind, now: Apply) -> tuple[int, str]:
    """From when on applications have nowhere to write, and what happened then: the decision, or a step."""
    if kind.is_planned:
        return now.begun.get(StepName.STOP_PRODUCERS, now.begun_at_ms), str(StepName.STOP_PRODUCERS)
    return now.begun_at_ms, "decision"


@dataclass(frozen=True, slots=True)
class Took:
    """Of an apply that has come to its report.

    `silent_s`: from when a source that was given up had answered last, None: unknown, or it answered.
    `is_at_least`: nobody saw when producers were stopped, or applications started. `to_first_commit`: seconds by group,
    `idle`: groups without a commit while that was measured; None: it was not.
    """

    downtime_s: float
    silent_s: float | None
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
        began_ms, since = downtime_since(kind, now)
        ended_ms = now.done_at_ms.get(StepName.START_APPLICATIONS, began_ms)
        seen, loss = now.read_back(StepName.FIRST_PROGRESS), now.read_back(StepName.CUT).get("loss", {})
        to_first_commit, idle = _first_commits(seen, decided_ms), seen.get("not_seen_at_work")
        people = [StepName.START_APPLICATIONS]
        if kind.is_planned:
            people.append(StepName.STOP_PRODUCERS)
        unseen = any(now.read_back(step).get("by", "").startswith(_TAKEN) for step in people)
        answered_ms, check = loss.get("source_answered_at_ms"), now.read_back(StepName.CHECK)
        is_unknown = kind.is_planned or check.get("is_source_reached") or answered_ms is None
        silent_s = None if is_unknown else (ended_ms - answered_ms) / 1000
        return cls((ended_ms - began_ms) / 1000, silent_s, since, unseen, to_first_commit, idle)

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "downtime_seconds": self.downtime_s,
            "silent_seconds": self.silent_s,
            "downtime_bound": "at_least" if self.is_at_least else None,
            "downtime_since": self.since,
            "seconds_to_first_commit": None if self.to_first_commit is None else dict(self.to_first_commit),
            "groups_without_commit": None if self.idle is None else list(self.idle),
        }

    @property
    def words(self) -> str:
        words = f"applications had no cluster to write to for {downtime_span(self.figures)}"
        if self.to_first_commit is None:
            return f"{words}; when groups were at work again was not measured (--wait-progress)"
        if self.to_first_commit:
            last, seconds = max(self.to_first_commit.items(), key=lambda found: found[1])
            words += (
                f"; {counted(len(self.to_first_commit), 'group')} at work again, the last one, {last}, "
                f"{duration(seconds)} after the decision"
            )
        return f"{words}; not seen at work: {', '.join(self.idle)}" if self.idle else words


def downtime_span(figures: Row) -> str | None:
    """For how long applications had no cluster to write to, the longest measure first; None: it was not measured."""
    if figures.get("downtime_seconds") is None:
        return None
    bound = "at least " if figures.get("downtime_bound") == "at_least" else ""
    is_planned = figures.get("downtime_since") == StepName.STOP_PRODUCERS
    since = "producers were to be stopped" if is_planned else "the decision"
    own, silent = duration(figures["downtime_seconds"]), figures.get("silent_seconds")
    if silent is None:
        return f"{bound}{own} since {since}"
    return f"{bound}{duration(silent)} since the source last answered, {own} of it since {since}"


def _first_commits(seen: Row, decided_ms: int) -> dict[str, float] | None:
    at_ms: Mapping[str, int] | None = seen.get("first_commit_at_ms")
    if at_ms is None:
        return None
    return {group: (at - decided_ms) / 1000 for group, at in sorted(at_ms.items())}


# Downtimes ----------------------------------------------------------------------------------------
# For how long applications have no cluster to write to: forecast step by step, and compared with what it
# was.
#
# A step that an earlier apply between the same clusters has carried out takes as long as it took then. Else
# it is estimated by the number of partitions and groups, for brokers that answer within a few milliseconds.
# What hooks and people take is in neither.


_ORDER = tuple(StepName)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds: at least, more for a thousand partitions, more for a hundred groups."""

    least: float
    partitions: float = 0.0
    groups: float = 0.0

    def of(self, partitions: int, groups: int) -> float:
        return self.least + self.partitions * partitions / 1_000 + self.groups * groups / 100


_FENCES = {
    FenceChoice.CLOSED: _Cost(2.0, 0.5),
    FenceChoice.SHUT: _Cost(3.0, 0.5),
    FenceChoice.HOOK: _Cost(0.5, 0.5),
    FenceChoice.NONE: _Cost(0.1),
}
_COSTS = {
    StepName.CHECK: _Cost(2.0, 2.0),
    StepName.RECORD: _Cost(1.0, 0.5),
    StepName.DRAIN: _Cost(1.2, 0.5),
    StepName.STOP_GROUPS: _Cost(0.3, 0.0, 0.4),
    StepName.PROMOTE: _Cost(0.3, 0.3),
    StepName.SHUT_OUT: _Cost(1.5, 0.6),
    StepName.SETTLE: _Cost(1.0, 1.0),
    StepName.CUT: _Cost(0.4, 0.8),
    StepName.HAND_OVER: _Cost(0.5, 0.3),
    StepName.MOVE_GROUPS: _Cost(0.7, 0.5, 1.0),
    StepName.AUDIT: _Cost(0.5, 0.4),
}


def steps_without_a_cluster(kind: ChangeoverKind, steps: Sequence[StepName]) -> tuple[StepName, ...]:
    """Steps that applications wait for: behind the stop of producers, of a failover all until they are started."""
    begins = -1 if kind is ChangeoverKind.FAILOVER else _ORDER.index(StepName.STOP_PRODUCERS)
    ends = _ORDER.index(StepName.START_APPLICATIONS)
    return tuple(step for step in steps if begins < _ORDER.index(step) < ends)


def forecast_downtime(
    kind: ChangeoverKind,
    steps: Sequence[StepName],
    fence: FenceChoice,
    *,
    partitions: int,
    groups: int,
    measured: Mapping[str, float],
    waits: Mapping[StepName, float],
) -> dict[str, Any]:
    """Seconds of all steps together and of each; `measured`: what they took last between the same clusters.

    `waits`: for how many seconds a step watches, whatever it does, because the plan says so.
    """
    found: dict[str, float] = {}
    known = []
    for step in steps_without_a_cluster(kind, steps):
        if step is StepName.STOP_PRODUCERS:
            continue
        wait_s = waits.get(step, 0.0)
        if step in measured and step not in BY_PEOPLE:
            found[str(step)] = round(max(measured[step], wait_s), 1)
            known.append(str(step))
        else:
            cost = _FENCES[fence] if step is StepName.FENCE else _COSTS[step]
            found[str(step)] = round(cost.of(partitions, groups) + wait_s, 1)
    return {
        "seconds": round(sum(found.values()), 1),
        "steps": found,
        "measured": known,
        "partitions": partitions,
        "groups": groups,
    }


def downtime_words(forecast: Mapping[str, Any]) -> str:
    """In a line, with the longest steps and what it rests on."""
    longest = sorted(forecast["steps"].items(), key=lambda found: -found[1])[:4]
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in longest)
    measured = len(forecast["measured"])
    basis = "by what it took last" if measured else "an estimate: nothing was measured between these clusters"
    if 0 < measured < len(forecast["steps"]) - 1:
        basis += f" ({measured} of {len(forecast['steps'])} steps)"
    seconds = f"about {forecast['seconds']:.0f} s"
    return f"{seconds} without a cluster to write to, hooks and people aside: {steps}, ...; {basis}"


def compared(forecast: Mapping[str, Any], took: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """By step what was forecast and what it took, as far as both are known."""
    return {
        step: {"forecast": seconds, "took": round(took[step], 1)}
        for step, seconds in forecast["steps"].items()
        if step in took and step not in BY_PEOPLE
    }


def compared_words(found: Mapping[str, Mapping[str, float]]) -> str:
    """In a line: both sums, and the steps that took longer than forecast by a second at least."""
    sums = {name: sum(one[name] for one in found.values()) for name in ("forecast", "took")}
    words = f"the steps between took {sums['took']:.1f} s, {sums['forecast']:.1f} s were forecast"
    longer = ", ".join(_longer(found))
    return f"{words}: {longer}" if longer else words


def _longer(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for step, one in found.items():
        if one["took"] - one["forecast"] >= 1.0:
            yield f"{step} {one['took']:.1f} s instead of {one['forecast']:.1f} s"
