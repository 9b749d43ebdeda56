"""What an answer says of a commit beside its offset: why the group continues there, or why nobody knows where."""

from enum import StrEnum


class TranslationStatus(StrEnum):
    """Why a translation is what it is. The first that applies, in this order, is reported.

    The first three come without an offset.
    """

    NO_MAP = "no_map"
    """Nothing is recorded of a copy of the partition there. Target offset: none."""
    OTHER_INCARNATION = "other_incarnation"
    """The commit was made on another topic id: the topic was recreated. Target offset: none."""
    OTHER_TARGET_INCARNATION = "other_target_incarnation"
    """The topic there was deleted, or has another topic id. Target offset: none."""
    NO_COMMIT_EMPTY = "no_commit_empty"
    """Commits on the topic, none for this partition, which is empty there. Target offset: the log start."""
    NO_COMMIT = "no_commit"
    """The same, and the partition may hold records. Target offset: the first unread, or the log start."""
    BEFORE_FIRST = "before_first"
    """Below all offsets that the maps know of. Target offset: the first unread."""
    LOST = "lost"
    """The next record was deleted before it could be copied, or skipped. Target offset: the first unread."""
    EXPIRED_ON_TARGET = "expired_on_target"
    """Unread records have expired there. Target offset: the first unread, or the log start."""
    UNPLACED = "unplaced"
    """It begins with records that the group may have read or not: nobody can tell. Target offset: the first one."""
    EXTRAS = "extras"
    """It begins with records that are at the target alone, and that are to come. Target offset: the first one."""
    OTHERS = "others"
    """It begins with records of others, since its last commit there. Target offset: the first one."""
    AHEAD = "ahead"
    """The group has read what is not there, as far as is known. Target offset: the first unread, or the end."""
    GONE = "gone"
    """The commit no longer exists: deleted, or expired. Target offset: as of the last known commit."""
    HIDDEN = "hidden"
    """The mirror's principal is no longer shown group or topic. Target offset: as of the last known commit."""
    TRUNCATED = "truncated"
    """The commit was made on records that its log has lost. Target offset: the first unread since."""
    REWOUND = "rewound"
    """Somebody put the group back below where a move had brought it. Target offset: the first unread."""
    EXACT = "exact"
    """The next unread record is known. Target offset: it, or an earlier copy that `resync` has yet to repeat."""
    AT_END = "at_end"
    """Nothing is unread. Target offset: the end."""
