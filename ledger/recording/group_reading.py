"""One read of a cluster's groups: which are listed, what they have committed, where share groups stand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import Checkpoint
from ledger.domain.groups import SHARE, ShareOffset, UnreadGroup
from ledger.ports.clusters import ClusterAdmin, GroupListing, TopicDescription


@dataclass(frozen=True, slots=True)
class GroupsRead:
    """What was read. `unread`: listed groups whose offsets could not be read. `all_listed`: there are no others."""

    listed: Mapping[str, GroupListing]
    all_listed: bool
    checkpoints: tuple[Checkpoint, ...]
    share_offsets: tuple[ShareOffset, ...]
    unread: Mapping[str, UnreadGroup]

    def without(self, topics: frozenset[str]) -> "GroupsRead":
        """Less what is about these topics."""
        return GroupsRead(
            self.listed,
            self.all_listed,
            tuple(row for row in self.checkpoints if row.topic not in topics),
            tuple(row for row in self.share_offsets if row.topic not in topics),
            self.unread,
        )


def read_groups(
    admin: ClusterAdmin, wanted: Callable[[str], bool], topics: Mapping[str, TopicDescription]
) -> GroupsRead:
    """Those whose name is `wanted`, of every type; `topics` exist."""
    # Before the listing: who was shown all groups before it may have lost the right since, and not the other way round.
    all_listed = admin.lists_all_groups()
    listed = [group for group in admin.groups() if wanted(group.group_id)]
    topic_ids = {name: topic.topic_id for name, topic in topics.items()}
    commits = admin.group_commits(_committing(listed), topic_ids=topic_ids)
    sharing = [group.group_id for group in listed if group.group_type == SHARE]
    shares = admin.share_offsets(sharing) if sharing else None
    return GroupsRead(
        {group.group_id: group for group in listed},
        all_listed,
        tuple(commits.read),
        () if shares is None else tuple(shares.read),
        commits.refused if shares is None else {**commits.refused, **shares.refused},
    )


def _committing(groups: Sequence[GroupListing]) -> list[GroupListing]:
    """Share groups commit nothing: what they have is never taken for commits."""
    return [group for group in groups if group.group_type != SHARE]
