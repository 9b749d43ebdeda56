"""Which groups are worth a row: those that were not recorded so, and the listing when it is worth more or less."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ledger.domain.groups import GroupEvent, GroupFact, UnreadGroup, has_members
from ledger.ports.clusters import GroupListing

GroupFacts = Mapping[str | None, GroupFact]
"""By group; that of None is about the listing."""


def group_row(fact: GroupFact) -> dict[str, object]:
    """A row of `groups` without its stamp."""
    return {**asdict(fact), "event": fact.event.value}


def recorded_group(row: Mapping[str, Any]) -> GroupFact:
    """What a row of `groups` without its stamp says."""
    return GroupFact(**{**row, "event": GroupEvent(row["event"])})


def groups_by_id(facts: Iterable[GroupFact]) -> dict[str | None, GroupFact]:
    return {fact.group_id: fact for fact in facts}


def listing_fact(cluster: str, *, all_listed: bool, read_at_ms: int) -> GroupFact:
    """What the listing of a cluster is worth."""
    event = GroupEvent.ALL_LISTED if all_listed else GroupEvent.PERMITTED_LISTED
    return _fact(cluster, None, None, UnreadGroup(event), read_at_ms)


def listed_fact(cluster: str, group: GroupListing, unread: UnreadGroup | None, read_at_ms: int) -> GroupFact:
    """A group that was listed; `unread` says why its offsets were not read."""
    return _fact(cluster, group.group_id, group, unread or UnreadGroup(GroupEvent.PRESENT), read_at_ms)


def unlisted_fact(
    cluster: str, group_id: str, last: GroupFact | None, why: UnreadGroup, read_at_ms: int
) -> GroupFact:
    """A group that was not listed, with the types that are known of it."""
    known = None if last is None else GroupListing(group_id, last.group_type, None, last.protocol_type)
    return _fact(cluster, group_id, known, why, read_at_ms)


def _fact(
    cluster: str, group_id: str | None, group: GroupListing | None, why: UnreadGroup, read_at_ms: int
) -> GroupFact:
    state = None if group is None else group.group_state
    return GroupFact(
        cluster=cluster,
        group_id=group_id,
        group_type=None if group is None else group.group_type,
        protocol_type=None if group is None else group.protocol_type,
        group_state=state,
        has_members=has_members(state),
        event=why.event,
        reason=why.reason,
        read_at_ms=read_at_ms,
    )


def changed_groups(last: GroupFacts, read: Sequence[GroupFact]) -> list[GroupFact]:
    """Rows to append: the listing first, then by group."""
    changed = [fact for fact in read if fact.group_id not in last or not _same(last[fact.group_id], fact)]
    return sorted(changed, key=lambda fact: (fact.group_id is not None, fact.group_id or ""))


def _same(last: GroupFact, now: GroupFact) -> bool:
    """States are not compared: they change with each rebalance. That the last member left, or the first came, is."""
    return replace(now, group_state=last.group_state, read_at_ms=last.read_at_ms) == last
