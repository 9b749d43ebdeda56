"""Groups of the former source at rest: none has members or commits any more, and the ledger has what they committed.

The answer that sets them elsewhere comes from the ledger alone. Consumers that assign partitions to themselves
(`assign()`) are no members, so brokers always call their group empty: that a commit moves while all are watched is all
that tells of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ledger.domain.facts import Checkpoint
from ledger.domain.groups import GroupEvent, ShareOffset, has_members
from ledger.domain.words.count_words import counted
from ledger.errors import PreconditionError
from ledger.operations.changeover.applying import StepResult, Waits
from ledger.operations.changeover.waiting import Patience
from ledger.operations.groups.commit_watch import Stillness, watch_stillness
from ledger.operations.groups.outcomes import Place
from ledger.ports.clusters import ClusterAdmin
from ledger.recording.group_reading import GroupsRead, read_groups

Standing = Checkpoint | ShareOffset
"""What is known of where a group stands on a partition."""

_CONTINUE = "then continue: mirror-ledger apply"
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


@dataclass(frozen=True, slots=True)
class GroupsAtRest:
    """`recorded`: what the ledger knows by now. `quiet_s`: for so long commits have to stand still, 0: nobody
    watches."""

    source: ClusterAdmin
    topics: frozenset[str]
    which: WhichGroups
    recorded: Callable[[], Iterable[Standing]]
    quiet_s: float

    def wait(self, patience: Patience, waits: Waits) -> StepResult:
        """Until it is so. Members, commits and the record may each take as long as the step may wait.

        Raises `PreconditionError`, with the groups' names, where one is at work still, or the cluster does not tell.
        """
        patience.until(self._untold, waits, advice=f"{_TELL}; {_CONTINUE}")
        patience.until(
            lambda: self._members(self._read()),
            waits,
            advice=f"Stop their consumers there; {_CONTINUE}",
        )
        watched = self._watch(patience, waits) if self.quiet_s else None
        stood = self._commits()
        patience.until(
            self._left, waits, advice=f"A recorder has to be at work (mirror-ledger record); {_CONTINUE}"
        )
        commits = self._commits()
        if self.quiet_s:
            self._require_still(_groups(place for place in commits if commits[place] != stood.get(place)))
        groups = sorted(_groups(commits))
        words = f"{counted(len(groups), 'group')} at rest, {counted(len(commits), 'commit')} recorded"
        if watched is None:
            return StepResult(words, {"groups": groups})
        return StepResult(f"{words}; {watched.words}", {"groups": groups, "watched": watched.facts})

    def require_still_at_rest(self) -> None:
        """Raise `PreconditionError` where a group has come back to work since, or has committed what nobody recorded.

        What could be read when the groups were stopped, and cannot be now, is no reason: then they stood still.
        """
        if (why := self._left()) is not None:
            raise PreconditionError(
                f"{why}: the groups of {self.source.alias} were at rest before, and are not any more. Stop their "
                f"consumers there, and let a recorder read them (mirror-ledger record {self.source.alias}); {_CONTINUE}"
            )

    def _untold(self) -> str | None:
        """Of which groups the cluster does not say where they stand, and whether they are at work."""
        there = self._read()
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

    def _watch(self, patience: Patience, waits: Waits) -> Stillness:
        there = self._read()
        shared = frozenset(one.group_id for one in there.share_offsets)
        groups = _groups(_offsets(there, self.topics))
        found = watch_stillness(
            self.source,
            patience.watch(self.quiet_s, waits),
            groups - shared,
            groups & shared,
            topics=self.topics,
        )
        began = _groups(self._commits()) - groups
        self._require_still(found.busy | began)
        return found

    def _commits(self) -> Mapping[Place, int]:
        return _offsets(self._read(), self.topics)

    def _require_still(self, busy: Collection[str]) -> None:
        if busy:
            raise PreconditionError(
                f"{counted(len(busy), 'group')} at work at {self.source.alias}: commits of "
                f"{', '.join(map(repr, sorted(busy)))} moved, or members came. Stop their consumers there, those that "
                f"assign themselves partitions (assign()) too; {_CONTINUE}"
            )

    def _left(self) -> str | None:
        there = self._read()
        if (busy := self._members(there)) is not None:
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

    def _members(self, there: GroupsRead) -> str | None:
        of_scope = _groups(_offsets(there, self.topics))
        busy = sorted(name for name in of_scope if has_members(there.listed[name].group_state) is not False)
        if not busy:
            return None
        return f"{counted(len(busy), 'group')} with members at {self.source.alias}: {', '.join(busy)}"

    def _read(self) -> GroupsRead:
        return read_groups(self.source, self.which.move, self.source.topics())


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
