"""What a group has read at both sides, as far as the ledger knows how it moved.

A commit says that all below it was read on its log. So what was read is the union of both sides: below its commit
here; and there below the commit that it left with, when a recorded move brought it here and it has only read on
since. Who was put back here on purpose (rewound) wants to read again: then the commit here counts alone. That is
seen when the commit lies below the place where the move had brought the group, or below one that the group was seen
with since. A group may be rewound there as well, so of the commit that it left with and the last one there the lower
counts.

What lies there alone, extras and records that are on their way, no rewinding here can be about: below its last
commit there it is read. Of what others brought there the group has read what lies below the commit that it left there,
its last one or that of its move, and what a recorded move there has set counts like one: it passed what lay before.
Who has none of these there and has read other partitions of the topic, or an ended incarnation, has read nothing of it;
who has read none of the topic there does not wait for it.

No commit reaches beyond what its log still held when others had been written behind it: a later leader epoch begins
there, or a flow found that the end was lost, and the commit may be older (`translation`).
"""

from dataclasses import dataclass

from tests.support.algebra.maps import EpochStart
from tests.support.algebra.translation import Commit, Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """One partition of the current topic at one side.

    `log_start` and `high_watermark` None: never recorded. `epoch_starts`: of the map that reads this log. `reported`:
    truncations that this map has recorded, so that leader epochs tell of them as well. `heard`: truncations that
    only other flows have found. `claims`: what rows of any flow claim here, ascending. `mirror_writes`: what flows that
    read this log, wherever they go, have found that mirrors wrote here.
    """

    topic_id: str
    log_start: int | None = None
    high_watermark: int | None = None
    epoch_starts: tuple[EpochStart, ...] = ()
    reported: tuple[Truncation, ...] = ()
    heard: tuple[Truncation, ...] = ()
    claims: tuple[tuple[int, int], ...] = ()
    mirror_writes: tuple[tuple[int, int], ...] = ()

    def valid_to(self, commit: Commit) -> int:
        """The commit's offset, or the lower one from which on the log lost what it was made on."""
        later = [
            start.source_start
            for start in self.epoch_starts
            if commit.leader_epoch is not None and start.leader_epoch > commit.leader_epoch
        ]
        reported = [cut for cut in self.reported if not self._is_of_epoch_behind(commit, cut)]
        lost = [
            cut.source_start for cut in (*reported, *self.heard) if cut.may_be_after(commit.made_after_ms)
        ]
        return min([commit.offset, *later, *lost])

    def _is_of_epoch_behind(self, commit: Commit, cut: Truncation) -> bool:
        """Whether a commit was made in a leader epoch that began where the log had lost its end, or later."""
        return commit.leader_epoch is not None and any(
            start.leader_epoch <= commit.leader_epoch and start.source_start >= cut.source_start
            for start in self.epoch_starts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A recorded move: from a commit there to an offset here (view `group_moves`).

    `left` None: the group had no commit there: it had read nothing.
    """

    left: Commit | None
    arrived_at: int
    here_topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroup:
    """What is known of a group and a partition.

    `here` None: it has no commit here, though it has some on the topic. `there` None: none was ever seen there.
    `move`: the last one from there to here. `highest_seen`: the highest commit here that was seen since, or ever when
    there is no move; None: none was seen since, and the group stands where the move has brought it. `set_there`: the
    lowest that a recorded move has set there, from wherever; None: no move to there is recorded. `has_been_there`: by
    commits or moves on any partition of the topic there, in whatever incarnation; any of those here tells so as well.
    """

    here: Commit | None
    there: Commit | None = None
    move: Move | None = None
    highest_seen: int | None = None
    set_there: Commit | None = None
    has_been_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsets:
    """Up to where a group has read.

    `here_to`: all below it here. `there_to`: all below it there, though it be here, too. `alone_to`: all below it
    there that is not here. `others_to`: all below it there that is of others; None: it never read that topic.
    """

    here_to: int
    there_to: int
    alone_to: int
    others_to: int | None
    is_rewound: bool
    is_capped: bool


def read_offsets_of(group: KnownGroup, here: KnownLog, there: KnownLog) -> ReadOffsets:
    """What a group has read; its commits are of these incarnations of both topics, or do not count."""
    move = group.move if group.move is not None and group.move.here_topic_id == here.topic_id else None
    committed = _committed(group, move)
    here_to = 0 if committed is None else here.valid_to(committed)
    last_there = _valid(group.there, there)
    left = None if move is None else _valid(move.left, there)
    reached = max(0 if move is None else move.arrived_at, group.highest_seen or 0)
    is_rewound = committed is not None and committed.offset < reached
    return ReadOffsets(
        here_to=here_to,
        there_to=0 if left is None or is_rewound else _lower(left, last_there),
        alone_to=0 if is_rewound else (left if last_there is None else last_there) or 0,
        others_to=_others_to(group, None if move is None else move.left, there),
        is_rewound=is_rewound,
        is_capped=committed is not None and here_to < committed.offset,
    )


def _committed(group: KnownGroup, move: Move | None) -> Commit | None:
    """The commit here, or the one that a move has made since it was seen."""
    if move is None or group.highest_seen is not None:
        return group.here
    return Commit(offset=move.arrived_at, topic_id=move.here_topic_id)


def _others_to(group: KnownGroup, left: Commit | None, there: KnownLog) -> int | None:
    known = [commit for commit in (group.there, left, group.set_there) if commit is not None]
    valid = (_valid(commit, there) for commit in known)
    return (
        next((offset for offset in valid if offset is not None), 0) if known or group.has_been_there else None
    )


def _lower(offset: int, other: int | None) -> int:
    return offset if other is None else min(offset, other)


def _valid(commit: Commit | None, log: KnownLog) -> int | None:
    """Up to where a commit of this incarnation of the topic counts; None: it is of another, or unknown."""
    return log.valid_to(commit) if commit is not None and commit.topic_id == log.topic_id else None
