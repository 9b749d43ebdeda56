"""Groups of the former source at rest: none has members or commits any more, and the ledger has what they committed.

The answer that sets them elsewhere comes from the ledger alone. Consumers that assign partitions to themselves
(`assign()`) are no members, so brokers always call their group empty: that a commit moves while it has no members is
all that tells of them. So commits are read from when an apply begins, between its steps. A group whose protocol type is
set had members, and what members commit is over once they have left: it is not waited for. One without a protocol type
never had any, and has to stand still for two of its intervals, as has one that was seen to commit without members;
unless it stands where a proven fence has ended the logs of its topics: there is nothing left that it could commit.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ledger.domain.facts import Checkpoint
from ledger.domain.groups import GroupEvent, ShareOffset, has_members
from ledger.domain.words.count_words import counted
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.waiting import Patience
from ledger.operations.groups.outcomes import Place
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, GroupListing
from ledger.recording.group_reading import GroupsRead, read_groups

Standing = Checkpoint | ShareOffset
"""What is known of where a group stands on a partition."""

_CONTINUE = "then continue: mirror-ledger apply PLAN_ID --reason WHY"
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

    `period_s`: for so long a group has to stand still of which that is asked, where its own interval is not known
    (`intervals_s`, by group); two of a known one, if that is longer, and three times as long at most. `ends`:
    of the partitions of fences that are proven. `were_at_rest`: once all were, as their step has found.
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
    """`recorded`: what the ledger knows by now. `seen`: what was seen of commits so far, None: nobody watches.

    `fenced_ends`: of each partition behind a fence that is proven by now.
    """

    source: ClusterAdmin
    topics: frozenset[str]
    which: WhichGroups
    recorded: Callable[[], Iterable[Standing]]
    seen: SeenCommits | None
    fenced_ends: Callable[[], Mapping[tuple[str, int], int]] = dict

    def look(self) -> None:
        """Read once more where groups stand, while that may tell of somebody at work; that the cluster does not answer
        is for the steps to say."""
        if self.seen is not None and not self.seen.are_all_still:
            with suppress(ClusterUnavailableError, PreconditionError):
                self._read()

    def wait(self, patience: Patience, waits: Waits) -> StepResult:
        """Until it is so. Members, commits and the record may each take as long as the step may wait.

        Who has not been seen to commit stands still beside the steps that follow, until `require_still_at_rest`. Raises
        `PreconditionError`, with the groups' names, where one is at work still, or the cluster does not tell.
        """
        record = f"A recorder has to be at work (mirror-ledger record {self.source.alias})"
        there = self._until(self._untold, self._read(), patience, waits, advice=_TELL)
        there = self._until(self._busy, there, patience, waits, advice="Stop their consumers there")
        self._know_ends()
        there = self._wait_for_who_commits(there, patience, waits)
        there = self._until(self._left, there, patience, waits, advice=record)
        self._require_still()
        if self.seen is not None:
            self.seen.were_at_rest = True
        commits = _offsets(there, self.topics)
        groups = sorted(_groups(commits))
        words = f"{counted(len(groups), 'group')} at rest, {counted(len(commits), 'commit')} recorded"
        if self.seen is None or not (more := self.seen.waited_for):
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
        self._know_ends()
        there = self._read()
        while self.seen is not None and (more := self.seen.waited_for):
            waits(f"commits of {counted(len(more), 'group')} without members are watched")
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
            patience.until(left, waits, advice=f"{advice}; {_CONTINUE}")
        return readings[-1]

    def _know_ends(self) -> None:
        if self.seen is not None:
            self.seen.ends = self.fenced_ends()

    def _untold(self, there: GroupsRead) -> str | None:
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
        while self.seen is not None and (busy := self.seen.at_work):
            remaining_s = deadline_s - patience.clock.monotonic()
            if remaining_s <= 0:
                self._require_still()
            waits(f"commits of {', '.join(map(repr, sorted(busy)))} are watched")
            patience.sleep(min(remaining_s, 1.0))
            there = self._read()
        return there

    def _require_still(self) -> None:
        busy = frozenset() if self.seen is None else self.seen.at_work
        if busy:
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
        if (members := self._members(there)) is not None:
            return members
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

    def _members(self, there: GroupsRead) -> str | None:
        of_scope = _groups(_offsets(there, self.topics))
        busy = sorted(name for name in of_scope if has_members(there.listed[name].group_state) is not False)
        if not busy:
            return None
        return f"{counted(len(busy), 'group')} with members at {self.source.alias}: {', '.join(busy)}"

    def _read(self) -> GroupsRead:
        there = read_groups(self.source, self.which.move, self.source.topics())
        if self.seen is not None:
            self.seen.see(there, self.topics)
        return there


def _offsets(there: GroupsRead, topics: Collection[str]) -> Mapping[Place, int]:
    """Where groups stand in the scope, of those that have begun there."""
    standing: list[Standing] = [*there.checkpoints, *there.share_offsets]
    return {
        _place(one): offset
        for one in standing
        if one.topic in topics and (offset := _offset(one)) is not None
    }


def _groups(places: Iterable[Place]) -> frozenset[str]:
    return frozenset(group for group, _, _ in places)


def _place(one: Standing) -> Place:
    return one.group_id, one.topic, one.partition


def _offset(one: Standing) -> int | None:
    return one.start_offset if isinstance(one, ShareOffset) else one.committed_offset
