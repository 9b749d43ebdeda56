"""What a commit says beside its offset, where it may be kept: applications put offsets there that count from it.

What is relative to an offset is right at the target only where both logs run in step from there on, to the end of what
is copied: no marker, no gap, nothing of others between. Elsewhere it would name other records, so it is left out.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from ledger.facts.syncs import OffsetSync, RecordedSync, TopicPartition, holding
from ledger.offsets.setting import Answer

log = logging.getLogger(__name__)

RecordedOf = Callable[[str, int], Iterable[RecordedSync]]
"""By topic and partition of the source all rows of a flow's map, superseded ones included."""


def metadata_in_step(answers: Sequence[Answer], flows: Collection[RecordedOf]) -> list[Answer]:
    """The answers; metadata that may be wrong at the target left out, and said. `flows`: those that copy there."""
    return [answer if _may_keep(answer, flows) else _without_metadata(answer) for answer in answers]


def _may_keep(answer: Answer, flows: Collection[RecordedOf]) -> bool:
    if _says_nothing(answer) or answer["target_offset"] is None or answer["committed_offset"] is None:
        return True
    return any(_is_in_step(answer, recorded) for recorded in flows)


def _is_in_step(answer: Answer, recorded: RecordedOf) -> bool:
    rows = recorded(answer["source_topic"], answer["source_partition"])
    of_target = [
        sync
        for sync in holding(rows)
        if _is_at(sync.target, answer["target_topic"], answer["target_topic_id"])
    ]
    return is_in_step(of_target, answer["committed_offset"], answer["target_offset"])


def _says_nothing(answer: Answer) -> bool:
    """Some clients end what they commit by NUL, an empty text too."""
    return not (answer["metadata"] or "").strip("\0 ")


def _is_at(at: TopicPartition, topic: str, topic_id: str) -> bool:
    return (at.topic, at.topic_id) == (topic, topic_id)


def is_in_step(syncs: Iterable[OffsetSync], source_offset: int, target_offset: int) -> bool:
    """Whether each source offset from there on, as far as a map goes, is as far behind the target offset there."""
    apart, known = target_offset - source_offset, list(syncs)
    if not any(sync.source_end >= source_offset for sync in known):
        return False  # it goes where the map ends, which is before its own place
    return all(
        not any(gap.source_end > source_offset for gap in sync.gaps)
        and sync.target_end - sync.source_end == apart
        and (sync.source_start < source_offset or sync.target_start - sync.source_start == apart)
        for sync in known
        if sync.source_end > source_offset or (sync.source_end == source_offset and sync is known[-1])
    )


def _without_metadata(answer: Answer) -> Answer:
    log.info(
        "the commit of group %(group)s on %(topic)s partition %(partition)d is made without its metadata: offsets in "
        "it would be others at %(target_topic)s",
        {
            "group": answer["group_id"],
            "topic": answer["source_topic"],
            "partition": answer["source_partition"],
            "target_topic": answer["target_topic"],
        },
    )
    return {**answer, "metadata": None}
