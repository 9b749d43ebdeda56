"""Steps that wait for something at a cluster or in the ledger: drained, and at work again."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ledger.changeover.groups import MovedCommit, read_groups
from ledger.changeover.plans import PlannedTopic, apply_command
from ledger.changeover.receipts import StepResult, Waits
from ledger.changeover.static_members import static_words
from ledger.clock import Clock
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import GroupEvent, Place, ShareOffset, has_members
from ledger.facts.syncs import Checkpoint, FlowPosition, TopicPartition
from ledger.kafka.cluster import ClusterAdmin, GroupListing, PartitionEnds, headers_between
from ledger.offsets.sheets import Watch
from ledger.recorders.observation import GroupsRead
from ledger.recorders.observation import read_groups as read_source_groups
from ledger.store.state import DeltaLedgerState
from ledger.words import by_topic, counted, some_of

_ASK_EVERY_S = 1.0

Ends = Mapping[tuple[str, int], PartitionEnds]
Positions = Callable[[str], Sequence[FlowPosition]]
"""Where a flow stands by now."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a step waits, by whose clock."""

    clock: Clock
    sleep: Callable[[float], None]
    seconds: float

    def until(self, left: Callable[[], str | None], waits: Waits, *, advice: str, then: str = "") -> None:
        """Until nothing is left; raises `PreconditionError` with what is left when the time is over.

        `advice`: who can end it, and how; `then`: what is to be typed behind that.
        """
        deadline = self.clock.monotonic() + self.seconds
        while (words := left()) is not None:
            remaining_s = deadline - self.clock.monotonic()
            if remaining_s <= 0:
                raise PreconditionError(f"not within {self.seconds:g} s: {words}. {advice}{then}")
            waits(f"{words}. {advice}" if advice else words)
            self.sleep(min(_ASK_EVERY_S, remaining_s))

    def watch(self, quiet_s: float, waits: Waits) -> Watch:
        """Commits are watched for as long as the step may wait, and not for less than they have to stand still."""
        said = ["commits are watched"]

        def sleep(seconds: float) -> None:
            waits(said[-1])
            self.sleep(seconds)

        limit_s = max(self.seconds, quiet_s)
        return Watch(self.clock, sleep, quiet_s, limit_s, min(_ASK_EVERY_S, quiet_s / 5), said.append)


def partitions_of(cluster: ClusterAdmin, topics: Iterable[str]) -> list[tuple[str, int]]:
    """All partitions that these topics have now; raises `PreconditionError` for one that is not there."""
    there = cluster.topics()
    names = sorted(set(topics))
    if missing := [name for name in names if name not in there]:
        raise PreconditionError(f"{cluster.alias} has no topic {', '.join(missing)}, or does not show it")
    return [(name, partition) for name in names for partition in range(there[name].partitions)]


def ends_of(cluster: ClusterAdmin, topics: Iterable[str]) -> Mapping[tuple[str, int], PartitionEnds]:
    """The ends of all their partitions; raises `PreconditionError` where one has no leader."""
    partitions = partitions_of(cluster, topics)
    ends = cluster.ends(partitions)
    if silent := [one for one in partitions if one not in ends]:
        raise PreconditionError(f"{cluster.alias}: {by_topic(silent)} has no leader")
    return ends


def drain(
    source: ClusterAdmin,
    topics: Sequence[PlannedTopic],
    positions: Positions,
    patience: Patience,
    waits: Waits,
    copied_by: Callable[[], str] = lambda: "",
) -> StepResult:
    """Wait until the maps reach the ends that the source has once it is fenced; `copied_by`: who copies, in words.

    A partition that a flow has not begun with is not drained, though it be empty: the target may not have it yet, and
    no group gets a place there.
    """
    names = {topic.source_topic for topic in topics}
    ends = ends_of(source, names)
    if open_ones := _open(ends, ends_of(source, names)):
        raise PreconditionError(
            f"{source.alias}: a transaction is open at {by_topic(open_ones)}: what lies behind it cannot be copied; "
            "end or abort it (kafka-transactions.sh find-hanging), then continue"
        )

    def left() -> str | None:
        behind = offsets_behind(ends, topics, positions)
        to_copy = _not_copied(ends, behind)
        if to_copy:
            return f"{counted(sum(to_copy.values()), 'offset')} to copy at {by_topic(to_copy)}{copied_by()}"
        not_begun = [at for at, lacking in behind.items() if lacking is None]
        return f"{by_topic(not_begun)} not begun with{copied_by()}" if not_begun else None

    patience.until(left, waits, advice="", then=f"Then continue: {apply_command('PLAN_ID')}")
    return _drained(ends)


def still_drained(
    source: ClusterAdmin, topics: Sequence[PlannedTopic], positions: Positions, *, operation_id: str
) -> StepResult:
    """The same once the target is promoted, when nothing is copied any more: nothing has come since.

    A partition that was added since is empty, and stays at the source. Raises `PreconditionError` where it is not, or
    records were written: nobody waits for a mirror that has stopped.
    """
    ends = ends_of(source, {topic.source_topic for topic in topics})
    if late := _not_copied(ends, offsets_behind(ends, topics, positions)):
        raise PreconditionError(
            f"{counted(sum(late.values()), 'offset')} of {source.alias} came after the target was promoted, at "
            f"{by_topic(late)}: nothing copies them now. Undo it, and keep producers away: mirror-ledger undo "
            f"{operation_id} --reason WHY"
        )
    return _drained(ends)


def _not_copied(ends: Ends, behind: Mapping[tuple[str, int], int | None]) -> dict[tuple[str, int], int]:
    """Partitions with offsets that are not copied; one that a flow has not begun with has all that it has."""
    lacking = {
        at: ends[at].high_watermark - ends[at].log_start if left is None else left
        for at, left in behind.items()
    }
    return {at: left for at, left in lacking.items() if left}


def _drained(ends: Mapping[tuple[str, int], PartitionEnds]) -> StepResult:
    copied = {f"{topic}-{partition}": end.high_watermark for (topic, partition), end in sorted(ends.items())}
    return StepResult(f"{counted(len(ends), 'partition')} copied to the end", {"high_watermarks": copied})


def _open(
    before: Mapping[tuple[str, int], PartitionEnds], after: Mapping[tuple[str, int], PartitionEnds]
) -> list[tuple[str, int]]:
    """Partitions with an open transaction. Two readings tell: between both ends of one, mirrors may have appended."""
    return [
        at
        for at, end in before.items()
        if max(end.last_stable, after.get(at, end).last_stable) < end.high_watermark
    ]


def offsets_behind(
    ends: Ends,
    topics: Iterable[PlannedTopic],
    positions: Positions,
    at_target: Mapping[str, str] | None = None,
) -> dict[tuple[str, int], int | None]:
    """By partition of the source how many offsets up to these ends are not copied; None: a flow has not begun with it.

    `at_target`: ids of the topics that the target has now; what an earlier topic of that name had does not count.
    """
    wanted = {(one.flow, one.source_topic, one.source_topic_id) for one in topics}
    reached = {
        (flow, at.source_topic, at.partition): at.position.source_offset
        for flow in {flow for flow, _, _ in wanted}
        for at in positions(flow)
        if (flow, at.source_topic, at.source_topic_id) in wanted
        if at_target is None or at_target.get(at.target_topic) == at.target_topic_id
    }
    behind: dict[tuple[str, int], int | None] = {}
    for at, end in ends.items():
        starts = [reached.get((flow, *at)) for flow, topic, _ in wanted if topic == at[0]]
        known = [start for start in starts if start is not None]
        behind[at] = max(end.high_watermark - min(known), 0) if known and None not in starts else None
    return behind


def first_progress(
    target: ClusterAdmin, moved: Sequence[MovedCommit], patience: Patience, waits: Waits
) -> StepResult:
    """When each group that was moved first committed behind what was set, in seconds since this began.

    Those that did not within the time are named: whether their consumers work nobody knows.
    """
    started = patience.clock.monotonic()
    after_s: dict[str, float] = {}
    at_ms: dict[str, int] = {}
    groups = {one.group for one in moved}
    while moved:
        for group in _committed_behind(target, moved) - after_s.keys():
            after_s[group] = round(patience.clock.monotonic() - started, 3)
            at_ms[group] = patience.clock.now_ms()
        remaining_s = patience.seconds - (patience.clock.monotonic() - started)
        if groups <= after_s.keys() or remaining_s <= 0:
            break
        waits(
            f"{some_of(sorted(groups - after_s.keys()), 'group')} not at work at {target.alias} yet: start them"
        )
        patience.sleep(min(_ASK_EVERY_S, remaining_s))
    still = sorted(groups - after_s.keys())
    words = f"{counted(len(after_s), 'group')} of {len(groups)} committed at {target.alias}"
    words += "".join(f"; {group} after {seconds:.1f} s" for group, seconds in sorted(after_s.items()))
    if still:
        words += f"; not seen at work within {patience.seconds:g} s: {', '.join(still)}"
    return StepResult(
        words, {"seconds_to_first_commit": after_s, "first_commit_at_ms": at_ms, "not_seen_at_work": still}
    )


def _committed_behind(target: ClusterAdmin, moved: Sequence[MovedCommit]) -> set[str]:
    there = read_groups(target, moved)
    return {
        one.group
        for one in moved
        if there.topic_ids.get(one.topic) == one.topic_id
        and there.committed.get(one.place, one.to[-1]) > one.to[-1]
    }


# Groups at rest -----------------------------------------------------------------------------------
# Groups of the former source at rest: none has members or commits any more, and the ledger has what they
# committed.
#
# The answer that sets them elsewhere comes from the ledger alone. Consumers that assign partitions to
# themselves (`assign()`) are no members, so brokers always call their group empty: that a commit moves
# while it has no members is all that tells of them. So commits are read from when an apply begins, between
# its steps. A group whose protocol type is set had members, and what members commit is over once they have
# left: it is not waited for. One without a protocol type never had any, and has to stand still for two of
# its intervals, as has one that was seen to commit without members; unless it stands where a proven fence
# has ended the logs of its topics: there is nothing left that it could commit.


GroupPlace = Checkpoint | ShareOffset
"""What is known of where a group stands on a partition."""

_CONTINUE = f"then continue: {apply_command('PLAN_ID')}"
_TELL = "Let the mirror's principal describe all groups there, and bring their coordinators back"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichGroups:
    """Groups that move. `are_recorded`: whether recorders record one of this name; `moving`: those that have a place to
    move to, whether anybody records them still; `named` None: all of these.

    `accepted`: of `UNREAD_ADVICE` what the plan accepts of groups that nobody can read.
    """

    are_recorded: Callable[[str], bool]
    moving: frozenset[str] = frozenset()
    named: frozenset[str] | None
    accepted: frozenset[str]

    def move(self, group: str) -> bool:
        """Whether this is one of them."""
        if self.named is not None:
            return group in self.named
        return group in self.moving or self.are_recorded(group)


@dataclass(slots=True)
class SeenCommits:
    """What was seen of groups since the first reading: since when each has stood still, and who commits alone.

    `period_s`: for so long a group has to stand still of which that is asked (0: nobody waits), where its own interval
    is not known (`intervals_s`, by group); two of a known one, if that is longer, and three times as long at most.
    `ends`: of the partitions of fences that are proven. `were_at_rest`: once all were, as their step has found.
    """

    clock: Clock
    period_s: float
    intervals_s: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    were_at_rest: bool = False
    _last: Mapping[str, "_Seen"] | None = None

    def see(self, there: GroupsRead, topics: Collection[str]) -> None:
        """One more reading."""
        now_s, commits = self.clock.monotonic(), _offsets(there, topics)
        by_group: dict[str, dict[Place, int]] = {group: {} for group in self._last or ()}
        for place, offset in commits.items():
            by_group.setdefault(place[0], {})[place] = offset
        self._last = {
            group: self._seen(there.listed.get(group), (self._last or {}).get(group), found, now_s)
            for group, found in by_group.items()
        }

    def _seen(
        self, listed: GroupListing | None, before: "_Seen | None", commits: Mapping[Place, int], now_s: float
    ) -> "_Seen":
        has_members_now = listed is not None and has_members(listed.group_state) is not False
        had_ever = listed is not None and listed.protocol_type is not None
        if before is None:
            before = _Seen({} if self._last is not None else commits, now_s, has_members=False)
        moved = commits != before.commits
        moved_alone = before.moved_alone or (moved and not has_members_now and not before.has_members)
        return _Seen(
            commits,
            now_s if moved else before.still_since_s,
            has_members_now,
            is_alone=moved_alone or not had_ever,
            moved_alone=moved_alone,
        )

    def left_s(self, group: str) -> float:
        """For how many seconds more it has to stand still; 0 of who is not waited for."""
        seen = (self._last or {}).get(group)
        if seen is None or not seen.is_alone or self._is_at_end(group, seen.commits):
            return 0.0
        return max(seen.still_since_s + self._period_of(group) - self.clock.monotonic(), 0.0)

    def _is_at_end(self, group: str, commits: Mapping[Place, int]) -> bool:
        """Of all partitions of the topics that it has commits of."""
        topics = {topic for _, topic, _ in commits}
        ends = {(group, *at): end for at, end in self.ends.items() if at[0] in topics}
        is_fenced = bool(commits) and commits.keys() <= ends.keys()
        return is_fenced and all(commits.get(at, 0) >= end for at, end in ends.items())

    def _period_of(self, group: str) -> float:
        known_s = 2 * self.intervals_s.get(group, 0.0)
        return min(max(self.period_s, known_s), _MOST_PERIODS * self.period_s)

    @property
    def are_all_still(self) -> bool:
        """Whether they were at rest, and nobody has to stand still for longer."""
        return self.were_at_rest and not self.waited_for

    @property
    def waited_for(self) -> dict[str, float]:
        """Groups that have not stood still for long enough, with the seconds that are left."""
        return {group: left for group in sorted(self._last or ()) if (left := self.left_s(group)) > 0}

    @property
    def at_work(self) -> frozenset[str]:
        """Of these the ones that were seen to commit without members."""
        return frozenset(group for group in self.waited_for if (self._last or {})[group].moved_alone)


_MOST_PERIODS = 3


@dataclass(frozen=True, slots=True)
class _Seen:
    """Of one group at the last reading. `is_alone`: nothing but its commits tells whether it is at work."""

    commits: Mapping[Place, int]
    still_since_s: float
    has_members: bool
    is_alone: bool = False
    moved_alone: bool = False


@dataclass(frozen=True, slots=True)
class GroupsAtRest:
    """`recorded`: what the ledger knows by now. `seen`: what was seen of commits so far.

    `fenced_ends`: of each partition behind a fence that is proven by now.
    """

    source: ClusterAdmin
    topics: frozenset[str]
    which: WhichGroups
    recorded: Callable[[], Iterable[GroupPlace]]
    seen: SeenCommits
    fenced_ends: Callable[[], Mapping[tuple[str, int], int]] = dict

    def read_again(self) -> None:
        """Read once more where groups stand, while that may tell of somebody at work; that the cluster does not answer
        is for the steps to say."""
        if not self.seen.are_all_still:
            with suppress(ClusterUnavailableError, PreconditionError):
                self._read()

    def wait(self, patience: Patience, waits: Waits) -> StepResult:
        """Until it is so. Members, commits and the record may each take as long as the step may wait.

        Who has not been seen to commit stands still beside the steps that follow, until `require_still_at_rest`. Raises
        `PreconditionError`, with the groups' names, where one is at work still, or the cluster does not tell.
        """
        record = f"A recorder has to be at work (mirror-ledger record {self.source.alias})"
        there = self._until(self._unreported, self._read(), patience, waits, advice=_TELL)
        there = self._until(self._busy, there, patience, waits, advice="Stop their consumers there")
        self.seen.ends = self.fenced_ends()
        there = self._wait_for_who_commits(there, patience, waits)
        there = self._until(self._left, there, patience, waits, advice=record)
        self._require_still()
        self.seen.were_at_rest = True
        commits = _offsets(there, self.topics)
        groups = sorted(_groups(commits))
        words = f"{counted(len(groups), 'group')} at rest, {counted(len(commits), 'commit')} recorded"
        if not (more := self.seen.waited_for):
            return StepResult(words, {"groups": groups})
        words += (
            f"; {counted(len(more), 'group')} without members watched for {max(more.values()):.0f} s more"
        )
        return StepResult(words, {"groups": groups, "watched_on": sorted(more)})

    def require_still_at_rest(self, patience: Patience, waits: Waits) -> None:
        """Wait until all have stood still for long enough; none may have come back to work since.

        Raises `PreconditionError` where one has, or has committed what nobody recorded. What could be read when the
        groups were stopped, and cannot be now, is no reason: then they stood still.
        """
        self.seen.ends = self.fenced_ends()
        there = self._read()
        while more := self.seen.waited_for:
            names, left_s = some_of(sorted(more), "group"), max(more.values())
            waits(f"commits of {names} without members are watched, {left_s:.0f} s more")
            patience.sleep(min(max(more.values()), 1.0))
            there = self._read()
            self._require_still()
        if (why := self._left(there)) is not None:
            raise PreconditionError(
                f"{why}: the groups of {self.source.alias} were at rest before, and are not any more. Stop their "
                f"consumers there, and let a recorder read them (mirror-ledger record {self.source.alias}); {_CONTINUE}"
            )

    def _until(
        self,
        why: Callable[[GroupsRead], str | None],
        there: GroupsRead,
        patience: Patience,
        waits: Waits,
        *,
        advice: str,
    ) -> GroupsRead:
        """Until there is no reason to wait; returns the last reading, `there` itself where there was none."""
        readings = [there]

        def left() -> str | None:
            readings.append(self._read())
            return why(readings[-1])

        if why(there) is not None:
            patience.until(left, waits, advice=advice, then=f"; {_CONTINUE}")
        return readings[-1]

    def _unreported(self, there: GroupsRead) -> str | None:
        """Of which groups the cluster does not say where they stand, and whether they are at work."""
        unread = dict(there.unread)
        if self.which.named is not None:
            lacking = sorted(self.which.named - there.listed.keys())
            unread |= self.source.unlisted_groups(lacking) if lacking else {}
        elif not there.all_listed and GroupEvent.PERMITTED_LISTED not in self.which.accepted:
            return f"{self.source.alias} shows only the groups that the mirror's principal may describe"
        open_ones = sorted(
            f"{group!r} {why.event}"
            for group, why in unread.items()
            if why.event is not GroupEvent.GONE and why.event not in self.which.accepted
        )
        if not open_ones:
            return None
        return f"{counted(len(open_ones), 'group')} of {self.source.alias} cannot be read: {', '.join(open_ones)}"

    def _wait_for_who_commits(self, there: GroupsRead, patience: Patience, waits: Waits) -> GroupsRead:
        """Whoever was seen to commit without members may have ended since. Returns the last reading."""
        deadline_s = patience.clock.monotonic() + patience.seconds
        while busy := self.seen.at_work:
            remaining_s = deadline_s - patience.clock.monotonic()
            if remaining_s <= 0:
                self._require_still()
            waits(f"commits of {', '.join(map(repr, sorted(busy)))} are watched")
            patience.sleep(min(remaining_s, 1.0))
            there = self._read()
        return there

    def _require_still(self) -> None:
        if busy := self.seen.at_work:
            raise PreconditionError(
                f"{counted(len(busy), 'group')} at work at {self.source.alias}: commits of "
                f"{', '.join(map(repr, sorted(busy)))} moved without members. Stop their consumers there, those that "
                f"assign themselves partitions (assign()) too; {_CONTINUE}"
            )

    def _left(self, there: GroupsRead) -> str | None:
        if (busy := self._busy(there)) is not None:
            return busy
        recorded = {_place(one): _offset(one) for one in self.recorded()}
        unrecorded = [
            place
            for place, offset in _offsets(there, self.topics).items()
            if self.which.are_recorded(place[0]) and recorded.get(place) != offset
        ]
        if unrecorded:
            return f"{counted(len(unrecorded), 'commit')} of {self.source.alias} not recorded yet"
        return None

    def _busy(self, there: GroupsRead) -> str | None:
        """Groups with members, or whose commit a transaction that is open is about to replace."""
        of_scope = _groups(_offsets(there, self.topics))
        busy = sorted(name for name in of_scope if has_members(there.listed[name].group_state) is not False)
        if busy:
            static = static_words(self.source, busy)
            return f"{counted(len(busy), 'group')} with members at {self.source.alias}: {', '.join(busy)}{static}"
        pending = sorted(
            {
                one.group_id
                for one in there.checkpoints
                if one.transaction_pending and one.topic in self.topics
            }
        )
        if not pending:
            return None
        return (
            f"{counted(len(pending), 'group')} of {self.source.alias} with a commit in a transaction that is open: "
            f"{', '.join(pending)} (it ends with its producer, or at its timeout)"
        )

    def _read(self) -> GroupsRead:
        there = read_source_groups(self.source, self.which.move, self.source.topics())
        self.seen.see(there, self.topics)
        return there


def _offsets(there: GroupsRead, topics: Collection[str]) -> Mapping[Place, int]:
    """Where groups stand in the scope, of those that have begun there."""
    places: list[GroupPlace] = [*there.checkpoints, *there.share_offsets]
    return {
        _place(one): offset for one in places if one.topic in topics and (offset := _offset(one)) is not None
    }


def _groups(places: Iterable[Place]) -> frozenset[str]:
    return frozenset(group for group, _, _ in places)


def _place(one: GroupPlace) -> Place:
    return one.group_id, one.topic, one.partition


def _offset(one: GroupPlace) -> int | None:
    return one.start_offset if isinstance(one, ShareOffset) else one.committed_offset


# Written behind -----------------------------------------------------------------------------------
# Whether applications have written at the target since it took over: by the headers of what lies behind the
# cut.


IsMirror = Callable[[int], bool]
"""Whether a producer id alone says that a flow wrote at the cluster. Asked only behind the fetch of a batch with it."""


@dataclass(frozen=True, slots=True, order=True)
class Behind:
    """A partition that took over, and the offset from which on applications write."""

    topic: str
    topic_id: str
    partition: int
    offset: int


def written_behind(target: ClusterAdmin, partitions: Sequence[Behind], is_mirror: IsMirror) -> list[str]:
    """Why applications have written, or may have, a line for each partition; markers and mirrors do not count.

    Raises `ClusterUnavailableError` where a partition cannot be read: unknown is not nothing.
    """
    return sorted({words for _, words in found_behind(target, partitions, is_mirror)})


def found_behind(
    target: ClusterAdmin, partitions: Sequence[Behind], is_mirror: IsMirror
) -> list[tuple[Behind, str]]:
    """The same beside the partition; all ends are asked for at once, and only what lies behind one is read."""
    topics = target.topics()
    ends = target.ends(sorted({(one.topic, one.partition) for one in partitions if one.topic in topics}))
    found = []
    for one in partitions:
        live = topics.get(one.topic)
        if live is None or live.topic_id != one.topic_id:
            found.append((one, f"{one.topic} of {target.alias} is another topic by now, or not shown"))
            continue
        why = _why(target, one, ends.get((one.topic, one.partition)), is_mirror)
        if why is not None:
            found.append((one, f"{one.topic} partition {one.partition}: {why}"))
    return found


def application_offsets(
    cluster: ClusterAdmin, at: TopicPartition, start: int, end: int, is_mirror: IsMirror
) -> int:
    """How many offsets between these hold what applications wrote: no marker of a transaction, nothing of a mirror."""
    return sum(
        min(header.end_offset, end) - max(header.base_offset, start)
        for header in headers_between(cluster, at, start, end)
        if not header.is_control and not is_mirror(header.producer_id)
    )


def _why(target: ClusterAdmin, at: Behind, ends: PartitionEnds | None, is_mirror: IsMirror) -> str | None:
    if ends is None:
        return "it has no leader, so nobody knows what was written"
    if ends.log_start > at.offset:
        return f"records from {at.offset} on were deleted: nobody knows who wrote them"
    place = TopicPartition(at.topic, at.topic_id, at.partition)
    for header in headers_between(target, place, at.offset, ends.high_watermark):
        if not header.is_control and not is_mirror(header.producer_id):
            return f"an application has written at offset {max(header.base_offset, at.offset)}"
    return None


# Written ------------------------------------------------------------------------------------------
# What of a cluster's records a mirror wrote, as the ledger knows.


def mirrors_at(state: DeltaLedgerState, cluster_id: str) -> Callable[[int], bool]:
    """Whether a producer id alone says that a flow wrote there. What is known stays so; else the ledger is asked."""
    known: set[int] = set()

    def is_mirror(producer_id: int) -> bool:
        if producer_id >= 0 and producer_id not in known:
            known.update(state.identities().certain_ids(cluster_id))
        return producer_id in known

    return is_mirror
