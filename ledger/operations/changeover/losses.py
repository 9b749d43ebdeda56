"""What a switchover may not leave behind, and how long a change of direction took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.domain.changeover.applies import Apply, undo_command
from ledger.domain.changeover.steps import ChangeoverKind, StepName
from ledger.domain.words.count_words import counted
from ledger.domain.words.partition_names import by_topic
from ledger.domain.words.time_words import duration
from ledger.errors import PreconditionError
from ledger.operations.figures.failover_loss import loss_words

Row = Mapping[str, Any]


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
        else f"Have {source} recorded (mirror-ledger record {source}), then continue: mirror-ledger apply "
        "PLAN_ID --reason WHY; or undo it"
    )
    where = by_topic([(row["source_topic"], row["partition"]) for row in figures["losses"]])
    raise PreconditionError(
        f"{loss_words(figures)}: of {source}, {where}. A switchover leaves nothing behind, and nothing copies it now; "
        f"groups were not moved. {advice}: {undo_command(operation_id)}"
    )


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
