"""Commits that are to be made for a group at a cluster, and why the cluster does not take one."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class NewCommit:
    """An offset that a group is to have; its metadata verbatim."""

    topic: str
    partition: int
    offset: int
    metadata: str | None


class CommitRefusal(StrEnum):
    """Why a cluster did not take a commit."""

    GROUP_DENIED = "group_denied"  # READ on the group is missing, or DESCRIBE
    TOPIC_DENIED = "topic_denied"  # READ on the topic is missing
    HAS_MEMBERS = "has_members"
    NO_TOPIC = "no_topic"
    OTHER = "other"
