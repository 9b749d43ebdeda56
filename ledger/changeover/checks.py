"""Reading back what a change of direction has made: each check says what is so, what is not, and what nobody knows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.changeover.hand_over import hand_over_rows
from ledger.changeover.measures import LEAST_MESSAGE_BYTES, SETTING
from ledger.changeover.plans import (
    Apply,
    ApplyState,
    Plan,
    PlannedTopic,
    StepName,
    apply_command,
    undo_command,
)
from ledger.changeover.step_context import changed_topics
from ledger.changeover.waiting import Behind, IsMirror, found_behind
from ledger.errors import MirrorLedgerError
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.direction import Directions
from ledger.facts.fences import EpochMarker, Fence, FenceHow, MirrorLetIn, MirrorShutOut, ShutOuts
from ledger.facts.group_offsets import IntendedCommit, OffsetsSet
from ledger.facts.groups import SHARE
from ledger.facts.hand_overs import HandedOver
from ledger.facts.permissions import Permission
from ledger.kafka.cluster import ClusterAdmin, FenceControl, PartitionEnds
from ledger.offsets.setting import TargetGroups
from ledger.words import counted

_DENY = "deny"


class CheckStatus(StrEnum):
    """Of several checks the last one in this order counts."""

    OK = "ok"
    ACCEPTED = "accepted"  # nobody knows, and the plan was told to be carried out all the same
    UNKNOWN = "unknown"  # it could not be read: that is not fine
    NOT_OK = "not_ok"


@dataclass(frozen=True, slots=True)
class Check:
    """A line of what was read back."""

    check: str
    subject: str
    status: CheckStatus
    words: str


def said(check: str, subject: str, is_ok: bool | None, words: str) -> Check:
    """`is_ok` None: nobody knows."""
    known = {True: CheckStatus.OK, False: CheckStatus.NOT_OK, None: CheckStatus.UNKNOWN}
    return Check(check, subject, known[is_ok], words)


def asked(check: str, subject: str, ask: Callable[[], Iterable[Check]]) -> list[Check]:
    """What a check says; where it cannot be made, that it is unknown, and why."""
    try:
        return list(ask())
    except MirrorLedgerError as error:
        return [said(check, subject, None, str(error))]


# The operation, and what the ledger says --------------------------------------------------------


def operation_checks(found: Apply, plan: Plan) -> list[Check]:
    """Steps that are not done, each; one line where all are."""
    match found.state:
        case ApplyState.UNDONE:
            return [said("steps", found.operation_id, False, "it was undone")]
        case ApplyState.UNDOING:
            words = f"it is being undone; continue: {undo_command(found.operation_id)}"
            return [said("steps", found.operation_id, False, words)]
    left = [step for step in plan.steps if step not in found.done]
    if not left:
        return [said("steps", found.operation_id, True, f"{counted(len(plan.steps), 'step')} done")]
    return [
        said(
            "steps",
            str(step),
            False,
            found.failed[step].words if step in found.failed else f"not done; {apply_command(plan.plan_id)}",
        )
        for step in left
    ]


def direction_checks(directions: Directions, plan: Plan) -> list[Check]:
    """Every topic of the plan is promoted, where that is a step of it."""
    if StepName.PROMOTE not in plan.steps:
        return []
    checks = []
    for topic in plan.target_names:
        made_by = directions.promotion(plan.from_cluster, plan.to_cluster, topic)
        words = made_by or f"not promoted: the mirror may write to it at {plan.to_cluster}"
        checks.append(said("promoted", topic, made_by is not None, words))
    return checks


def topic_checks(cluster: ClusterAdmin, topic_ids: Mapping[str, str]) -> list[Check]:
    """None of a cluster's topics was deleted, or created again."""
    changed = changed_topics(cluster, topic_ids)
    bad = [said("topics", name, False, words) for name, words in changed.items()]
    return bad or [said("topics", cluster.alias, True, f"{counted(len(topic_ids), 'topic')} as planned")]


def shut_out_checks(
    shut_outs: ShutOuts,
    cluster_id: str,
    former: str,
    topics: Collection[str],
    rules: Collection[Permission],
    remembers: Callable[[EpochMarker], bool],
) -> list[Check]:
    """Topic by topic, what was recorded last of flows from `former`, compared with what the cluster has: rules, and
    whether a marker's leader remembers it."""
    changes = [
        one for one in shut_outs.changes if one.cluster_id == cluster_id and one.former in (None, former)
    ]
    return [
        _shut_out_check(
            [one for one in changes if topic in one.topics],
            topic,
            shut_outs.rules(cluster_id, (topic,), former) - set(rules),
            remembers,
        )
        for topic in sorted(topics)
    ]


def _shut_out_check(
    about: Sequence[MirrorShutOut | MirrorLetIn],
    topic: str,
    missing: Collection[Permission],
    remembers: Callable[[EpochMarker], bool],
) -> Check:
    last = about[-1] if about else None
    if not isinstance(last, MirrorShutOut) or last.proof is None:
        words = "the mirror was let in again" if isinstance(last, MirrorLetIn) else "it was not proved"
        return said("shut_out", topic, False, words)
    if missing:
        denied = ", ".join(sorted(one.entity for one in missing))
        return said("shut_out", topic, False, f"rules were removed that denied {denied}")
    of_topic = [one for one in last.proof if one.topic == topic]
    if reasons := sorted({one.reason for one in of_topic if one.reason is not None}):
        return said("shut_out", topic, None, "; ".join(reasons))
    fences = sorted({fence for one in of_topic for fence in one.fences})
    forgotten = [one for one in last.markers if one.topic == topic and not remembers(one)]
    if forgotten and _DENY not in fences:
        words = (
            f"leaders have forgotten {counted(len(forgotten), 'marker')}: nothing but the ledger keeps it out"
        )
        return said("shut_out", topic, None, words)
    return said("shut_out", topic, True, f"its drivers have stopped; {', '.join(fences) or 'nothing else'}")


def cut_checks(cut: Cut, plan: Plan) -> list[Check]:
    """The ends of both sides are there; of a failover those of the source are what was recorded of it."""
    if not cut.offsets:
        return [said("cut", cut.operation_id, False, "no cut is recorded")]
    target = [one for one in cut.offsets if one.side is CutSide.TARGET]
    unread = [one.name for one in target if not one.is_live]
    topics = {*plan.target_names} - {one.topic for one in target}
    if unread or topics:
        names = ", ".join(sorted({*unread, *topics}))
        return [said("cut", cut.operation_id, False, f"the target was not read at {names}")]
    return [said("cut", cut.operation_id, True, f"{counted(len(target), 'partition')}")]


def audit_checks(audits: Collection[str], broken: Mapping[str, int]) -> list[Check]:
    """`broken`: how many rows break an invariant."""
    bad = [said("audit", name, False, counted(rows, "row")) for name, rows in sorted(broken.items())]
    return bad or [said("audit", "ledger", True, f"{counted(len(audits), 'audit')} passed")]


# Groups -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedCommit:
    """How a group stands on a partition, compared with its sheet; `now` None: it has no commit there.

    `ends`: of the partition there, None: it has no leader. `has_members`: of the group there. `cut_at`: where the
    partition ended when applications came, None: nobody knows.
    """

    commit: IntendedCommit
    now: int | None
    is_same_topic: bool
    ends: PartitionEnds | None
    has_members: bool
    cut_at: int | None

    @property
    def is_exact(self) -> bool:
        return self.is_same_topic and self.now == self.commit.to

    @property
    def trouble(self) -> str | None:
        at = f"{self.commit.topic} partition {self.commit.partition}"
        if not self.is_same_topic:
            return f"{at} is another topic"
        if self.now is None:
            return f"{at}: no commit, {self.commit.to} was to be there"
        if self.ends is not None and self.now < self.ends.log_start:
            return (
                f"{at}: {self.now}, and what lies below {self.ends.log_start} was deleted: expired_on_target"
            )
        return f"{at}: {self.now}, below {self.commit.to}" if self.now < self.commit.to else None

    def doubt(self, *, are_started: bool) -> str | None:
        """Why nobody knows whether the group has read what lies between its sheet and where it stands.

        A commit that was set there, or a consumer that fell to the end, is the same to see; who has members is at work.
        """
        if self.now is None or self.now <= self.commit.to:
            return None
        at = f"{self.commit.topic} partition {self.commit.partition}: {self.now}, set to {self.commit.to}"
        if self.ends is None or self.now > self.ends.high_watermark:
            return f"{at}, and the end is {'unknown' if self.ends is None else self.ends.high_watermark}"
        if self.has_members:
            return None
        if not are_started:
            return f"{at}, before applications were started"
        written = None if self.cut_at is None else self.ends.high_watermark - self.cut_at
        if written is not None and self.now - self.commit.to > written:
            return f"{at}, and {written} were written since"
        return None


def group_places(
    target: ClusterAdmin, sheets: Sequence[OffsetsSet], cut: Cut | None = None
) -> dict[str, list[ComparedCommit] | None]:
    """By group how it stands; None: it is not shown to the principal that asks. `cut`: of the operation."""
    cut_at = {
        (one.topic, one.partition): one.high_watermark
        for one in (() if cut is None else cut.offsets)
        if one.side is CutSide.TARGET
    }
    shared = {one.group for one in sheets if one.group_type == SHARE}
    there = TargetGroups.read(target, {one.group for one in sheets} - shared, shared)
    ends = target.ends(sorted({(one.topic, one.partition) for sheet in sheets for one in sheet.commits}))
    return {
        sheet.group: None
        if sheet.group in there.denied
        else [
            ComparedCommit(
                one,
                there.committed.get((sheet.group, one.topic, one.partition)),
                there.topic_ids.get(one.topic) == one.topic_id,
                ends.get((one.topic, one.partition)),
                there.has_members(sheet.group),
                cut_at.get((one.topic, one.partition)),
            )
            for one in sheet.commits
        ]
        for sheet in sheets
    }


def group_checks(places: Mapping[str, list[ComparedCommit] | None], *, are_started: bool) -> list[Check]:
    """A line for each group: at its sheet, or beyond it once applications are started, or not."""
    return [_group_check(group, found, are_started=are_started) for group, found in sorted(places.items())]


def _group_check(group: str, places: list[ComparedCommit] | None, *, are_started: bool) -> Check:
    if places is None:
        return said("group", group, None, "it is not shown to the principal that asks")
    troubles = [one.trouble for one in places if one.trouble is not None]
    if troubles:
        return said("group", group, False, "; ".join(troubles))
    doubts = [words for one in places if (words := one.doubt(are_started=are_started)) is not None]
    if doubts:
        return said("group", group, None, f"somebody has set it, or it has read: {'; '.join(doubts)}")
    moved = sum(not one.is_exact for one in places)
    words = f"{counted(len(places), 'partition')} where it was set"
    return said("group", group, True, words if not moved else f"{words}, {moved} of them read on")


def left_checks(source: ClusterAdmin, sheets: Sequence[OffsetsSet], *, are_started: bool) -> list[Check]:
    """Groups that are at work where they leave, or have read on there since their places were answered; once
    applications may have been started nothing is to be done about what was read there: it is read once more."""
    shared = {one.group for one in sheets if one.group_type == SHARE}
    there = TargetGroups.read(source, {one.group for one in sheets} - shared, shared)
    checks = []
    for sheet in sheets:
        if there.has_members(sheet.group):
            words = f"it has members at {source.alias}"
            checks.append(said("left", sheet.group, False, words))
        elif moved := [one for one in sheet.commits if _has_read_on(sheet.group, one, there)]:
            at = ", ".join(f"{one.source_topic} partition {one.source_partition}" for one in moved)
            words = f"it has committed at {source.alias} since it was set: {at}"
            checks.append(said("left", sheet.group, None if are_started else False, words))
    return checks or [said("left", source.alias, True, f"{counted(len(sheets), 'group')} at rest")]


def _has_read_on(group: str, one: IntendedCommit, there: TargetGroups) -> bool:
    now = there.committed.get((group, one.source_topic, one.source_partition))
    return now is not None and now != one.source_offset


# Settings, permissions, fences ------------------------------------------------------------------


def hand_over_checks(lacking: HandedOver) -> list[Check]:
    """Nothing is lacking that applications had; what is left to people is named, as before."""
    checks = [
        said("hand_over", lacking.cluster, False, f"lacks: {row['name']}: {row['change']}")
        for row in hand_over_rows(lacking)
        if row["part"] in ("setting", "permission")
    ]
    checks += [said("hand_over", lacking.cluster, None, words) for words in lacking.unknown]
    if checks:
        return checks
    words = "lacks nothing that is known"
    if lacking.manual:
        words += f"; left to people: {'; '.join(lacking.manual)}"
    return [said("hand_over", lacking.cluster, True, words)]


def fences_of_topics(active: Iterable[Fence], topics: Iterable[PlannedTopic]) -> dict[str, Fence | None]:
    """By topic of the former source the fence of that incarnation; one that does not name any is of each."""
    by_topic = {one.topic: one for one in active}
    return {
        one.source_topic: fence
        if (fence := by_topic.get(one.source_topic)) is not None
        and fence.topic_id in (None, one.source_topic_id)
        else None
        for one in topics
    }


def fence_checks(fences: Mapping[str, Fence | None], control: FenceControl) -> list[Check]:
    """By topic of the former source what its last row says (None: no fence stands), compared with the cluster."""
    rules = (
        control.topic_acls() if any(one is not None and one.rules for one in fences.values()) else frozenset()
    )
    shut = [topic for topic, one in fences.items() if one is not None and one.how == FenceHow.SHUT]
    own = control.configurations(shut) if shut else {}
    checks = []
    for topic, fence in sorted(fences.items()):
        if fence is None:
            checks.append(said("fence", topic, False, "it is not fenced any more"))
        elif missing := sorted(one.entity for one in fence.rules - rules):
            checks.append(said("fence", topic, False, f"rules were removed that denied {', '.join(missing)}"))
        elif topic in shut and own.get(topic, {}).get(SETTING) != LEAST_MESSAGE_BYTES:
            checks.append(said("fence", topic, False, f"{SETTING} is no longer {LEAST_MESSAGE_BYTES}"))
        elif fence.is_open:
            why = f": {fence.override}" if fence.override else ""
            checks.append(said("fence", topic, None, f"{fence.proof}{why}"))
        else:
            checks.append(said("fence", topic, True, f"{fence.how}, {fence.proof}"))
    return checks


def late_write_checks(source: ClusterAdmin, ends: Sequence[Behind], is_mirror: IsMirror) -> list[Check]:
    """Nobody but a mirror that copies back has written at the former source behind these ends.

    Partitions that a topic got since begin at 0.
    """
    ends = [*ends, *_added(source, ends)]
    lines = found_behind(source, ends, is_mirror)
    written: dict[str, list[str]] = {topic: [] for topic in sorted({one.topic for one in ends})}
    for one, words in lines:
        written[one.topic].append(words)
    return [
        said("late_write", topic, not found, "; ".join(found) or "nothing was written since")
        for topic, found in written.items()
    ]


def _added(source: ClusterAdmin, ends: Sequence[Behind]) -> list[Behind]:
    there = source.topics()
    known = {(one.topic, one.partition) for one in ends}
    ids = {one.topic: one.topic_id for one in ends}
    return [
        Behind(topic, topic_id, partition, 0)
        for topic, topic_id in sorted(ids.items())
        if topic in there and there[topic].topic_id == topic_id
        for partition in range(there[topic].partitions)
        if (topic, partition) not in known
    ]
