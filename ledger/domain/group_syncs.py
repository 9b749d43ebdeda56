"""Commits that a flow makes at its target for groups that read at the source: which it may make, and which it has made.

A flow writes only over its own: where nothing is committed, where what it committed last stands still, or where a
recorded move took the group away from. Whatever else is committed there is somebody's who reads there.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

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

    def may_replace(self, former: int | None, left: int | None) -> bool:
        """Whether a commit at the target is nobody's, this flow's own, or the one that a move took the group from."""
        return former is None or former == left or former in self.own

    @property
    def own(self) -> Collection[int]:
        """What this flow has committed, or may have."""
        return self.begun if self.offset is None else {*self.begun, self.offset}
