"""What an answer for a partition of a group comes to at the target: set, left as it is, or why not."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.group_commits import NewCommit
from ledger.domain.groups import SHARE
from ledger.domain.offsets.offset_map import TranslationStatus

Row = Mapping[str, Any]
"""An answer of `offset_translation`, `uncommitted_partitions` or `group_translation`; of a share group it has the
`group_type`, and says what its share-partition start offset comes to."""
Place = tuple[str, str, int]
"""A group, and a topic and partition of it at the target."""


WITHOUT_OFFSET = (
    TranslationStatus.NO_MAP,
    TranslationStatus.OTHER_INCARNATION,
    TranslationStatus.OTHER_TARGET_INCARNATION,
    TranslationStatus.MIRRORED,
)
"""Statuses that have no offset: accepted by name they leave the partition to `auto.offset.reset`, or to what the group
has committed at the target."""


class Outcome(StrEnum):
    """What became of a partition of a group. The first that applies, in this order, is reported."""

    NO_ANSWER = "no_answer"  # the translation has no target offset
    LEFT = "left"  # the same, and its status was accepted by name: the partition is left as it is
    SEVERAL_ANSWERS = "several_answers"  # the answer of another topic for the same place has another offset
    NOT_ACCEPTED = "not_accepted"  # its status is to be accepted by name
    GROUP_DENIED = "group_denied"  # a permission on the group is missing
    OTHER_TYPE = "other_type"  # of both groups of that name one is a share group
    HAS_MEMBERS = "has_members"  # consumers of the group are at work at the target
    OTHER_TOPIC = "other_topic"  # the target topic was deleted, is another one, or is not shown
    ALREADY_SET = "already_set"
    READS_ON = "reads_on"  # this operation had set it, and the group has read on at the target since
    NEWER = "newer"  # the group has a commit at the target beyond the answer
    STILL_READING = (
        "still_reading"  # it has members, or commits, where it leaves: seen while that was watched
    )
    TO_BE_SET = "to_be_set"
    TOPIC_DENIED = "topic_denied"  # a permission on the topic is missing
    REFUSED = "refused"  # by the target, for another reason
    NOT_KEPT = "not_kept"  # another offset was read back
    MOVED_BY_OTHERS = (
        "moved_by_others"  # without members (`assign()`) a commit came in between, or left what was set
    )
    SET = "set"

    @property
    def is_as_wanted(self) -> bool:
        return self in (
            Outcome.SET,
            Outcome.ALREADY_SET,
            Outcome.READS_ON,
            Outcome.TO_BE_SET,
            Outcome.LEFT,
        )


ADVICE: Mapping[Outcome, str] = {
    Outcome.NO_ANSWER: "choose the place by hand, or --accept its status to leave it to auto.offset.reset",
    Outcome.SEVERAL_ANSWERS: "choose one by --topic",
    Outcome.NOT_ACCEPTED: "--accept its status, that of its absence, outputs_not_copied where outputs lack, and "
    "not_recorded where nobody records the group any more",
    Outcome.GROUP_DENIED: "grant READ on the group to the mirror's principal at the target",
    Outcome.OTHER_TYPE: "delete the group of that name at the target, which is of another type",
    Outcome.HAS_MEMBERS: "stop the group's consumers at the target",
    Outcome.OTHER_TOPIC: "the topic of that id is not at the target, or not shown to the mirror's principal",
    Outcome.NEWER: "the group has read on at the target: --overwrite-newer takes it back",
    Outcome.TOPIC_DENIED: "grant READ on the topic to the mirror's principal at the target",
    Outcome.REFUSED: "the target's log says why",
    Outcome.STILL_READING: "stop its consumers where it leaves, those that assign themselves partitions too",
    Outcome.MOVED_BY_OTHERS: "stop the consumer at the target that assigns itself partitions, and set it again",
    Outcome.NOT_KEPT: "somebody else commits for the group: ask again",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A partition of a group: the answer, the commit that the target had, and what became of it."""

    answer: Row
    former: int | None
    outcome: Outcome

    @property
    def group_id(self) -> str:
        return str(self.answer["group_id"])

    @property
    def is_of_share_group(self) -> bool:
        return self.answer.get("group_type") == SHARE

    @property
    def target(self) -> tuple[str, int]:
        return self.answer["target_topic"], self.answer["target_partition"]

    @property
    def place(self) -> Place:
        return self.group_id, *self.target

    @property
    def words(self) -> str:
        topic, partition = self.target
        if topic is None:
            topic, partition = self.answer["source_topic"], self.answer["source_partition"]
        return f"{self.group_id!r} at {topic} partition {partition}"

    @property
    def commit(self) -> NewCommit:
        topic, partition = self.target
        offset, metadata = self.answer["target_offset"], self.answer["metadata"]
        return NewCommit(topic, partition, offset, metadata, replaces=(self.former,))


@dataclass(frozen=True, slots=True)
class Choice:
    """What the operator allows: statuses by name, and to overwrite commits that lie beyond the answer."""

    accepted: Collection[str] = ()
    overwrite_newer: bool = False


def repeated_of(answers: Iterable[Row]) -> int | None:
    """How many records are read again at all places that there are; None: of one of them nobody knows."""
    found = [row.get("repeated") for row in answers if row["target_offset"] is not None]
    return None if None in found else sum(number for number in found if number is not None)


def place_of(answer: Row) -> Place:
    return str(answer["group_id"]), answer["target_topic"], answer["target_partition"]


def by_group(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for one in settings:
        found.setdefault(one.group_id, []).append(one)
    return found


def result_row(one: Setting) -> dict[str, object]:
    """A row of the command's answer."""
    return {
        "group_id": one.group_id,
        "source_topic": one.answer["source_topic"],
        "source_partition": one.answer["source_partition"],
        "target_topic": one.answer["target_topic"],
        "target_partition": one.answer["target_partition"],
        "former_offset": one.former,
        "target_offset": one.answer["target_offset"],
        "status": one.answer["status"],
        "result": one.outcome.value,
    }
