"""Groups of a cluster: of which type they are, whether they have members, and what is unknown of them.

A cluster lists groups of every type, but to a principal only those that it may describe. So beside the groups stands
what the listing itself is worth: that there are no others is known only where all are listed.
"""

from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.facts import Absence

SHARE = "share"
"""The type of groups that commit no offsets: brokers keep share-partition start offsets for them."""
MOVING = "NOT_COORDINATOR"
"""Why nothing is known of a group that exists and was not listed: no broker lists it while its coordinator moves."""
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
_NOT_TOLD = frozenset({"", "Unknown"})


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
    if state is None or state in _NOT_TOLD:
        return None
    return state not in _WITHOUT_MEMBERS
