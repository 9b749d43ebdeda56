"""Source topics that are gone: the target topic is kept, or deleted if the flow says so."""

import logging
from collections.abc import Iterable, Mapping

from ledger.errors import PreconditionError
from ledger.mirror.findings import Finding, FindingName
from ledger.mirror.following_record import FollowingRecord, MirroredTopic
from ledger.ports import ClusterAdmin, TopicDescription

log = logging.getLogger(__name__)

LOOKS_BEFORE_DELETION = 2
"""A topic that is listed again at the next look was not deleted."""


class SourceDeletions:
    """Compares what the flow has mirrored with what the source still has.

    A target topic is deleted only if the ledger says that this very life of it holds records of the flow,
    and only when the source has said at two looks in a row that it has no topic of the name.
    """

    def __init__(
        self, source: ClusterAdmin, target: ClusterAdmin, record: FollowingRecord, *, delete_topics: bool
    ) -> None:
        self._source = source
        self._target = target
        self._record = record
        self._delete_topics = delete_topics
        self._looks_without: dict[str, int] = {}

    def look(
        self,
        mirrored: Iterable[MirroredTopic],
        sources: Mapping[str, TopicDescription],
        targets: Mapping[str, TopicDescription],
    ) -> list[Finding]:
        """Findings about the mirrored topics whose source is gone; deletes what is to be deleted."""
        standing = [topic for topic in set(mirrored) if _lives_on(topic, targets)]
        gone = [topic for topic in standing if topic.source not in sources and self._is_gone(topic.source)]
        names = {topic.source for topic in gone}
        self._looks_without = {name: self._looks_without.get(name, 0) + 1 for name in names}
        findings = [self._judge(topic) for topic in sorted(gone, key=lambda topic: topic.source)]
        return [finding for finding in findings if finding is not None]

    def _is_gone(self, topic: str) -> bool:
        """Asked for by name: a topic that this principal may not see any more is not gone."""
        try:
            return self._source.is_gone(topic)
        except PreconditionError as error:
            log.warning("%s is not listed at the source any more: %s", topic, error)
            return False

    def _is_to_be_deleted(self, topic: MirroredTopic) -> bool:
        if not self._delete_topics or self._looks_without[topic.source] < LOOKS_BEFORE_DELETION:
            return False
        return topic.target_id in self._record.written_target_ids()

    def _judge(self, topic: MirroredTopic) -> Finding | None:
        if not self._is_to_be_deleted(topic):
            message = f"{topic.source} is gone at the source; {topic.target} is kept"
            return Finding(name=FindingName.SOURCE_TOPIC_DELETED, topic=topic.source, message=message)
        try:
            self._target.delete_topic(topic.target, topic_id=topic.target_id)
        except PreconditionError as error:
            name = FindingName.TARGET_TOPIC_NOT_DELETED
            return Finding(name=name, topic=topic.target, message=str(error))
        log.warning("deleted topic %s: its source %s is gone", topic.target, topic.source)
        self._record.deleted(topic.target, topic.target_id)
        return None


def _lives_on(topic: MirroredTopic, targets: Mapping[str, TopicDescription]) -> bool:
    found = targets.get(topic.target)
    return found is not None and found.topic_id == topic.target_id
