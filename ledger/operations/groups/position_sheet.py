"""The position sheet: where every group of a cluster continues at another, compared with what that one has now.

It is computed from answers of `group_translation` and from the target itself, and set as it is: nothing that is in it
depends on who asks. Computed again it says what is lacking still, so whoever sets it again, after a crash too, comes
to the same end.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.domain.groups import SHARE
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.domain.words.count_words import counted
from ledger.operations.groups.offset_setting import (
    Rules,
    TargetGroups,
    not_below_log_start,
    nothing_taken_over,
    reading_on,
    set_and_record,
)
from ledger.operations.groups.outcomes import (
    ADVICE,
    Row,
    Setting,
    repeated_of,
    result_row,
)
from ledger.operations.groups.receipts import EarlierAttempts, Why
from ledger.ports.clusters import ClusterAdmin
from ledger.ports.ledger import OperationLog


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSheet:
    """Of each partition of each group where it lands at `to_cluster`, and what became of it, or would.

    `unread_groups`: by group why nobody knows where it stands (`UNREAD_ADVICE`), where that was not accepted; of groups
    that nobody may know of under `OTHER_GROUPS`. `cut`: of the answers.
    """

    from_cluster: str
    to_cluster: str
    cut: str
    settings: tuple[Setting, ...]
    unread_groups: Mapping[str, str]

    @property
    def groups(self) -> tuple[frozenset[str], frozenset[str]]:
        """Groups that commit, and share groups."""
        shared = frozenset(one.group_id for one in self.settings if one.is_of_share_group)
        return frozenset(one.group_id for one in self.settings) - shared, shared

    @property
    def answers(self) -> list[Row]:
        """What the settings are made from, in their order."""
        return [one.answer for one in self.settings]

    @property
    def left_out(self) -> list[Setting]:
        """What is not as answered, and keeps its group from continuing where it should."""
        return [one for one in self.settings if not one.outcome.is_as_wanted]

    @property
    def is_complete(self) -> bool:
        """Whether every group continues where it should."""
        return not self.left_out and not self.unread_groups

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions have each outcome."""
        return dict(sorted(Counter(str(one.outcome) for one in self.settings).items()))

    @property
    def blockers(self) -> list[str]:
        """Why groups do not continue where they should, a line each with what to do."""
        found = sorted(Counter(one.outcome for one in self.left_out).items())
        lines = [f"{count} {outcome}: {ADVICE[outcome]}" for outcome, count in found]
        unread = sorted(Counter(self.unread_groups.values()).items())
        return [*lines, *(f"{count} groups {status}: {UNREAD_ADVICE[status]}" for status, count in unread)]

    def left_lines(self, most: int = 20) -> list[str]:
        """What is not as answered, a line for each partition, at most so many."""
        lines = [f"{one.words}: {one.outcome}" for one in self.left_out]
        lines += unread_words(self.unread_groups)
        more = len(lines) - most
        return lines if more <= 0 else [*lines[:most], f"and {more} more"]

    @property
    def words(self) -> str:
        groups = counted(len({one.group_id for one in self.settings}), "group")
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "none"
        unread = (
            f"; {counted(len(self.unread_groups), 'group')} that nobody can read"
            if self.unread_groups
            else ""
        )
        return f"{groups} from {self.from_cluster} to {self.to_cluster}: partitions: {outcomes}{unread}"

    @property
    def lines(self) -> list[dict[str, object]]:
        """A line for each partition of each group, for tables and receipts."""
        return [sheet_line(one) for one in self.settings]

    @property
    def facts(self) -> dict[str, object]:
        """What a receipt says of it, beside its lines."""
        return {
            "from_cluster": self.from_cluster,
            "to_cluster": self.to_cluster,
            "cut": self.cut,
            "groups": len({one.group_id for one in self.settings}),
            "partitions": self.counts,
            "repeated": repeated_of(one.answer for one in self.settings),
            "unread_groups": dict(self.unread_groups),
        }


NOT_RECORDED = "not_recorded"
UNREAD_ADVICE: Mapping[str, str] = {
    "hidden": "grant DESCRIBE on them to the mirror's principal where they come from",
    "unavailable": "bring their coordinator back, or move them by hand",
    "permitted_listed": "grant DESCRIBE on the cluster and all groups to the mirror's principal where they come from",
    NOT_RECORDED: "let a recorder read the groups where they come from (mirror-ledger record)",
}
"""Why it is not known where groups stand: of one group, or which groups there are (the last two). `NOT_RECORDED` is
also said of a group that was recorded once: the ledger has a commit of it, which may be an old one."""
OTHER_GROUPS = ""
"""Stands for the groups that were not listed, and has no name that a group can have."""


def unread_words(unread: Mapping[str, str]) -> list[str]:
    """A line for each group that nobody knows of, and for those that were not listed."""
    return [
        f"{'other groups' if group == OTHER_GROUPS else repr(group)}: {status}"
        for group, status in sorted(unread.items())
    ]


def compute_sheet(
    target: ClusterAdmin,
    answers: Iterable[Row],
    rules: Rules,
    *,
    from_cluster: str,
    cut: str,
    unread_groups: Mapping[str, str],
) -> PositionSheet:
    """What would become of each answer; reads the target and changes nothing.

    Raises `ClusterUnavailableError` or `PreconditionError` where the target does not tell what it has.
    """
    rows = not_below_log_start(with_empty_partitions(list(answers), target), target)
    share_groups = {str(row["group_id"]) for row in rows if row.get("group_type") == SHARE}
    groups = TargetGroups.read(target, {str(row["group_id"]) for row in rows} - share_groups, share_groups)
    return PositionSheet(
        from_cluster=from_cluster,
        to_cluster=target.alias,
        cut=cut,
        settings=tuple(rules.judged(rows, groups)),
        unread_groups={
            group: status for group, status in unread_groups.items() if status not in rules.choice.accepted
        },
    )


def set_sheet(
    target: ClusterAdmin,
    sheet: PositionSheet,
    operations: OperationLog,
    why: Why,
    rules: Rules,
    *,
    operation_id: str | None = None,
    attempts: EarlierAttempts,
    require_own: Callable[[], None] = nothing_taken_over,
) -> tuple[str | None, PositionSheet]:
    """Set what a sheet says is to be set, and read it back; returns the operation id, None: nothing was lacking.

    A group that an earlier attempt had set, and that was started since, reads on and is left alone. What cannot be set
    is said in the sheet that is returned, and is not an error here. Raises
    `ClusterUnavailableError` when the target dies in between: what it has then is found by doing it again.
    """
    settings = [reading_on(one, attempts.done) for one in sheet.settings]
    operation_id, done = set_and_record(
        target,
        settings,
        operations,
        why,
        rules,
        operation_id=operation_id,
        attempts=attempts,
        require_own=require_own,
    )
    return operation_id, replace(sheet, settings=tuple(done))


def with_empty_partitions(answers: Sequence[Row], target: ClusterAdmin) -> list[Row]:
    """Partitions without a commit that are empty at the target: there is nothing that the group could skip."""
    asked = [
        (row["target_topic"], row["target_partition"])
        for row in answers
        if row["status"] == UncommittedStatus.NO_COMMIT and row["target_offset"] is not None
    ]
    ends = target.ends(sorted(set(asked))) if asked else {}

    def is_empty(row: Row) -> bool:
        found = ends.get((row["target_topic"], row["target_partition"]))
        return found is not None and found.log_start == found.high_watermark == row["target_offset"]

    return [
        {**row, "status": str(UncommittedStatus.NO_COMMIT_EMPTY)}
        if row["status"] == UncommittedStatus.NO_COMMIT and is_empty(row)
        else row
        for row in answers
    ]


def sheet_line(one: Setting) -> dict[str, object]:
    """A line of a sheet."""
    group_type = SHARE if one.is_of_share_group else None
    more = {name: one.answer.get(name) for name in ("repeated", "outputs")}
    return {**result_row(one), **more, "group_type": group_type}
