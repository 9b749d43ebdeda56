"""Commits that are to be made for a group at a cluster, and why the cluster does not take one."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


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
