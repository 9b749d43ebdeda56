"""What an answer says of a commit beside its offset: why the group continues there, or why nobody knows where."""

from enum import StrEnum


class TranslationStatus(StrEnum):
    """Why a translation is what it is. The first that applies, in this order, is reported.

    The first four come without an offset.
    """

    NO_MAP = "no_map"
    """Nothing is recorded for this flow and partition. Target offset: none."""
    OTHER_INCARNATION = "other_incarnation"
    """The commit belongs to another topic id: the topic was recreated. Target offset: none."""
    OTHER_TARGET_INCARNATION = "other_target_incarnation"
    """The target topic was deleted, or has another topic id now. Target offset: none."""
    MIRRORED = "mirrored"
    """Other flows' records lie where one flow cannot know whether the group has read them. Target offset: none."""
    BEFORE_FIRST = "before_first"
    """Below the first mirrored offset. Target offset: the first one."""
    LOST = "lost"
    """The record was deleted before it could be copied. Target offset: the next copied record."""
    EXPIRED_ON_TARGET = "expired_on_target"
    """The answer lies below the target's log start. Target offset: the log start."""
    NOT_YET_COPIED = "not_yet_copied"
    """The group has read further, and a driver at work may have copied it since. Target offset: the end."""
    AHEAD = "ahead"
    """The group has read what is not at the target, as far as the ledger knows. Target offset: the end."""
    GONE = "gone"
    """The commit no longer exists: deleted, or expired. Target offset: as of the last known commit."""
    HIDDEN = "hidden"
    """The mirror's principal is no longer shown the group or topic. Target offset: as of the last known commit."""
    TRUNCATED = "truncated"
    """The commit was made on records that the source truncated. Target offset: where these began."""
    EXACT = "exact"
    """The record was copied. Target offset: the same record, or an earlier copy that a `resync` has yet to make
    again."""
    GAP = "gap"
    """The offset held no record to copy. Target offset: the next copied record, or the end."""
    AT_END = "at_end"
    """The group has read everything that was copied. Target offset: the end."""


class UncommittedStatus(StrEnum):
    """What a partition without a commit holds, of a topic on which the group has one: no commit, no translation."""

    NO_COMMIT = "no_commit"
    """Commits on the topic, none for this partition, which may hold records. Target offset: the log start."""
    NO_COMMIT_EMPTY = "no_commit_empty"
    """The same, and the target holds nothing there. Target offset: the log start."""


class PlaceStatus(StrEnum):
    """Why a place is what it is. The first that applies, in this order, is reported; the first three have no offset."""

    NO_MAP = "no_map"
    """Nothing is recorded between the two topics. Target offset: none."""
    OTHER_INCARNATION = "other_incarnation"
    """The commit belongs to another topic id: the topic was recreated. Target offset: none."""
    OTHER_TARGET_INCARNATION = "other_target_incarnation"
    """All maps are about former incarnations of the topics. Target offset: none."""
    NO_COMMIT = "no_commit"
    """The group has commits on the topic, none for this partition: nothing is read. Target offset: the first unread."""
    BEFORE_FIRST = "before_first"
    """Below all offsets that the maps know of. Target offset: the first unread."""
    EXPIRED_ON_TARGET = "expired_on_target"
    """Unread records lie below the target's log start. Target offset: the first unread that is left."""
    UNPLACED = "unplaced"
    """It begins with records of which nobody can tell whether the group has read them. Target offset: the first one."""
    EXTRAS = "extras"
    """It begins with records that are at the target cluster alone, and that are to come. Target offset: the first
    one."""
    OTHERS = "others"
    """It begins with records that no flow of the two carries, since its last commit there. Target offset: the first
    one."""
    AHEAD = "ahead"
    """The group has read what is not there, as far as the ledger knows. Target offset: the first unread."""
    GONE = "gone"
    """The commit no longer exists: deleted, or expired. Target offset: as of the last known commit."""
    HIDDEN = "hidden"
    """The mirror's principal is no longer shown the group or topic. Target offset: as of the last known commit."""
    TRUNCATED = "truncated"
    """The commit was made on records that its log has lost. Target offset: where these began."""
    REWOUND = "rewound"
    """Somebody put the group back behind the place where a move had brought it. Target offset: the first unread."""
    EXACT = "exact"
    """It begins with a record that is known and unread. Target offset: this record."""
    AT_END = "at_end"
    """Nothing is unread. Target offset: the end."""
