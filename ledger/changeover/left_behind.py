"""Groups that are at work at a cluster which applications have left: read there, nothing is changed.

Where no rule keeps them from reading they read what the cluster took alone, and all that comes back to it, beside
their members at the other cluster. Members are asked of the cluster; consumers that assign themselves partitions have
none, so commits that moved lately count as well, as the ledger has them.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ledger.context import Context
from ledger.facts.direction import Promoted
from ledger.facts.fences import Fence
from ledger.facts.groups import has_members
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS
from ledger.kafka.cluster import ClusterAdmin
from ledger.offsets.moving import LATELY_MS, moving_groups
from ledger.recorders.observation import read_groups
from ledger.words import some_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLeft:
    """By name: `members`, groups that have some now; `moving`, those whose commits moved lately; `unread`, of which
    nobody knows. `all_listed`: there are no others than the cluster shows."""

    members: tuple[str, ...]
    moving: tuple[str, ...]
    unread: tuple[str, ...]
    all_listed: bool

    @property
    def words(self) -> str | None:
        """What stands against records coming back there, None: nothing as far as can be known."""
        names = sorted({*self.members, *self.moving})
        parts = [f"{some_of([repr(one) for one in names], 'group')} at work"] if names else []
        if self.unread:
            parts.append(f"{some_of([repr(one) for one in self.unread], 'group')} cannot be read")
        if not self.all_listed:
            parts.append("there may be groups that the mirror's principal may not describe")
        return "; ".join(parts) or None


def left_groups(context: Context, cluster: str, fences: Collection[Fence]) -> Iterator[str]:
    """What is to be said of groups that a fence lets read, at a cluster that applications have left."""
    directions = context.state.directions()
    others = {*context.config.clusters} - {cluster}
    topics = [
        one.topic
        for one in fences
        if not one.is_for_reading
        and any(directions.promotion(cluster, other, one.topic) is not None for other in others)
    ]
    if topics and (words := groups_left(context, cluster, topics).words):
        yield f"{cluster}: {words}; they read what it has alone, and what comes back to it: stop them there"


def groups_left(context: Context, cluster: str, topics: Collection[str]) -> GroupsLeft:
    """Of a cluster that answers, with a commit on one of these topics; raises `ClusterUnavailableError`.

    What moved before another cluster was promoted over it moved while it had the applications.
    """
    at = context.snapshot()
    promoted = at.rows(OPERATIONS.name, [("kind", "=", OperationKind.PROMOTED)])
    left_ms = [row["recorded_at_ms"] for row in promoted if Promoted.of_row(row).former == cluster]
    since_ms = max([context.clock.now_ms() - LATELY_MS, *left_ms])
    return groups_at(context.cluster(cluster), topics, moving_groups(at, cluster, topics, since_ms))


def groups_at(admin: ClusterAdmin, topics: Collection[str], moving: Iterable[str]) -> GroupsLeft:
    """The same with those whose commits moved, as the ledger has them."""
    there = read_groups(admin, lambda _group: True, admin.topics())
    begun = {one.group_id for one in there.checkpoints if one.topic in topics}
    begun |= {one.group_id for one in there.share_offsets if one.topic in topics}
    members = {name: has_members(there.listed[name].group_state) for name in begun if name in there.listed}
    return GroupsLeft(
        members=tuple(sorted(name for name, found in members.items() if found)),
        moving=tuple(sorted(moving)),
        unread=tuple(sorted({*there.unread, *(name for name, found in members.items() if found is None)})),
        all_listed=there.all_listed,
    )
