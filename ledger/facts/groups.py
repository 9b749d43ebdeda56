"""Groups of a cluster: of which type they are, whether they have members, and what is unknown of them.

A cluster lists groups of every type, but to a principal only those that it may describe. So beside the groups stands
what the listing itself is worth: that there are no others is known only where all are listed.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.facts.syncs import Absence

SHARE = "share"
"""The type of groups that commit no offsets: brokers keep share-partition start offsets for them."""
MOVING = "NOT_COORDINATOR"
"""Why nothing is known of a group that exists and was not listed: no broker lists it while its coordinator moves."""
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
_UNKNOWN_STATES = frozenset({"", "Unknown"})


class GroupEvent(StrEnum):
    """What a row of `groups` says: the first four of one group, the others of the listing as a whole."""

    PRESENT = "present"  # listed, and its offsets were read
    GONE = "gone"  # it was deleted or has expired
    HIDDEN = "hidden"  # the mirror's principal may not describe it, or not any more
    UNAVAILABLE = "unavailable"  # its coordinator did not answer for it: what it has committed is unknown
    ALL_LISTED = "all_listed"  # the mirror's principal may describe every group of the cluster
    PERMITTED_LISTED = (
        "permitted_listed"  # only those that it may describe: nobody knows whether there are others
    )


@dataclass(frozen=True, slots=True)
class UnreadGroup:
    """Why nothing was read of a group: `gone`, `hidden` or `unavailable`; `reason` is the broker's error."""

    event: GroupEvent
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFact:
    """What was seen of a group, or with `group_id` None of the listing. What is unknown is None."""

    cluster: str
    group_id: str | None
    group_type: str | None
    protocol_type: str | None
    group_state: str | None
    has_members: bool | None
    event: GroupEvent
    reason: str | None
    read_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """Where a share group stands on a partition, as far as its coordinator has stored that.

    Records below `start_offset` are done; of those from there on `lag` are not. None: `absence` says why, else the
    group has not begun with the partition, or the broker does not tell.
    """

    cluster: str
    group_id: str
    topic: str
    topic_id: str | None
    partition: int
    start_offset: int | None
    leader_epoch: int | None
    lag: int | None
    read_at_ms: int
    absence: Absence | None = None


def has_members(state: str | None) -> bool | None:
    """Whether a group in a state has members; None when the broker did not say. `assign()` consumers are none."""
    if state is None or state in _UNKNOWN_STATES:
        return None
    return state not in _WITHOUT_MEMBERS


# Group syncs --------------------------------------------------------------------------------------
# Commits that a flow makes at its target for groups that read at the source: which it may make, and which
# it has made.
#
# A flow writes only over its own: where nothing is committed, where what it or an operator by this ledger
# committed stands still, or where a recorded move took the group away from. Whatever else is committed there
# is somebody's who reads there.


RECOMMIT_AFTER_MS = 24 * 3_600_000
"""Brokers forget commits of a group without members after `offsets.retention.minutes`, a week by default."""

RETRY_REFUSED_AFTER_MS = 600_000
"""What a cluster refuses it mostly refuses again: asked each time it would be recorded without end."""

Place = tuple[str, str, int]
"""A group, and a topic and partition of it at the target."""


class SyncEvent(StrEnum):
    """What a row of `group_syncs` says."""

    INTENDED = "intended"  # about to be committed: it may have been, or not
    SYNCED = "synced"  # committed, and read back


class Hindrance(StrEnum):
    """Why a commit is not made at the target. The first that applies, in this order, is reported."""

    NO_COMMIT = "no_commit"  # at the source there is none, or none any more
    NO_ANSWER = "no_answer"  # the translation has no offset
    OUTPUTS_NOT_COPIED = (
        "outputs_not_copied"  # of no commit it is known that all was copied that it stands for
    )
    PROMOTED = "promoted"  # applications write to the target topic
    GROUP_DENIED = "group_denied"
    OTHER_TYPE = "other_type"  # the group at the target is a share group
    HAS_MEMBERS = "has_members"  # it reads at the target, or the cluster does not say
    OTHER_TOPIC = "other_topic"  # the target topic is another one than the answer is about
    OWN_COMMIT = "own_commit"  # the group has committed there itself, or somebody for it
    REFUSED = "refused"  # the target refused this commit lately


@dataclass(frozen=True, slots=True)
class Synced:
    """What a flow has committed for a place last, and when; `begun`: what it was about to, and nobody read back."""

    offset: int | None = None
    at_ms: int | None = None
    begun: frozenset[int] = frozenset()

    def after(self, event: str, offset: int, at_ms: int) -> "Synced":
        """With a later row."""
        if event == SyncEvent.SYNCED:
            return Synced(offset, at_ms)
        return replace(self, begun=self.begun | {offset})

    def is_due(self, offset: int, now_ms: int) -> bool:
        """Whether this offset is to be committed: it is another one, or was committed a day ago."""
        return self.offset != offset or self.at_ms is None or now_ms - self.at_ms >= RECOMMIT_AFTER_MS

    def may_replace(self, former: int | None, known: Collection[int]) -> bool:
        """Whether a commit at the target is nobody's, this flow's own, or `known`: one that an operator has set, or
        that a move took the group from."""
        return former is None or former in known or former in self.own

    @property
    def own(self) -> Collection[int]:
        """What this flow has committed, or may have."""
        return self.begun if self.offset is None else {*self.begun, self.offset}


# Group commits ------------------------------------------------------------------------------------
# Commits that are to be made for a group at a cluster, and why the cluster does not take one.


@dataclass(frozen=True, slots=True)
class NewCommit:
    """An offset that a group is to have; its metadata verbatim.

    `replaces`: the commits that it may replace, None among them: no commit at all; without it, whatever is there.
    """

    topic: str
    partition: int
    offset: int
    metadata: str | None
    replaces: Collection[int | None] | None = None

    def may_replace(self, there: int | None) -> bool:
        """Whether it is to be made where the group has this commit."""
        return self.replaces is None or there in self.replaces


class CommitRefusal(StrEnum):
    """Why a cluster did not take a commit."""

    GROUP_DENIED = "group_denied"  # READ on the group is missing, or DESCRIBE
    TOPIC_DENIED = "topic_denied"  # READ on the topic is missing
    HAS_MEMBERS = "has_members"
    MOVED = "moved"  # what was to be replaced is not what is there, or a transaction is about to replace it
    NO_TOPIC = "no_topic"
    OTHER = "other"
