"""Source topics that were deleted: the target topic is kept, or deleted if the flow says so.

What a deletion takes may be the last copy there is, so it rests on facts of the ledger: a cluster that lost its
topics, or another one at its address, says of all of them that they were deleted.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ledger.domain.facts import TopicPartition
from ledger.errors import PreconditionError
from ledger.mirror.findings.finding_log import Finding, FindingName
from ledger.mirror.topics.following_record import FollowingRecord, MirroredTopic
from ledger.ports.clusters import ClusterAdmin, TopicDescription, headers_between

log = logging.getLogger(__name__)

REFRESHES_BEFORE_DELETION = 2
"""A topic that is listed again at the next refresh was not deleted."""


class SourceDeletions:
    """Compares what the flow has mirrored with what the source still has.

    A target topic is deleted only if all of this holds:
        D1  the ledger says that this very incarnation of it holds records of the flow
        D2  the source has said at two refreshes in a row that it has no topic of the name, and has other topics
        D3  a recorder of the source has recorded that this very incarnation of the source topic was deleted
        D4  of two or more topics with such records not more than half were deleted at one refresh
        D5  both clusters are the ones that the ledger knows
        D6  of what lies there now, behind the flow's map and within it, all was written by the flow: what its rows do
            not claim is read, batch by batch
        D7  it was never promoted: applications have not written there
    Else it is kept, and a finding says why.
    """

    def __init__(
        self, source: ClusterAdmin, target: ClusterAdmin, record: FollowingRecord, *, delete_topics: bool
    ) -> None:
        self._source = source
        self._target = target
        self._record = record
        self._delete_topics = delete_topics
        self._refreshes_without: dict[str, int] = {}

    def refresh(
        self,
        mirrored: Iterable[MirroredTopic],
        sources: Mapping[str, TopicDescription],
        targets: Mapping[str, TopicDescription],
    ) -> list[Finding]:
        """Findings about the mirrored topics whose source was deleted; deletes what is to be deleted."""
        remaining = [topic for topic in set(mirrored) if _has_target(topic, targets)]
        deleted = [
            topic for topic in remaining if topic.source not in sources and self._is_deleted(topic.source)
        ]
        names = {topic.source for topic in deleted}
        self._refreshes_without = {name: self._refreshes_without.get(name, 0) + 1 for name in names}
        findings = [
            self._judge(topic, remaining, deleted, sources, targets) for topic in sorted(deleted, key=_source)
        ]
        return [finding for finding in findings if finding is not None]

    def _is_deleted(self, topic: str) -> bool:
        """Asked for by name: a topic that this principal may not see any more was not deleted."""
        try:
            return self._source.is_gone(topic)
        except PreconditionError as error:
            log.warning("%s is not listed at the source any more: %s", topic, error)
            return False

    def _judge(
        self,
        topic: MirroredTopic,
        remaining: Sequence[MirroredTopic],
        deleted: Sequence[MirroredTopic],
        sources: Mapping[str, TopicDescription],
        targets: Mapping[str, TopicDescription],
    ) -> Finding | None:
        written = self._record.written_target_ids() if self._delete_topics else frozenset()
        if topic.target_id not in written:
            return _kept(topic)
        doubt = _doubt(_written(deleted, written), _written(remaining, written), sources)
        if doubt is not None:
            return _kept(topic, doubt)
        if topic.source_id not in self._record.deleted_source_ids(self._source.alias):
            return _kept(topic, f"no recorder of {self._source.alias} has recorded its deletion")
        if self._record.was_ever_promoted(self._target.alias, topic.target):
            return _kept(topic, f"{topic.target} was promoted once, so applications may have written there")
        others = self._of_others(topic, targets[topic.target].partitions)
        is_due = self._refreshes_without[topic.source] >= REFRESHES_BEFORE_DELETION
        return self._delete(topic) if others is None and is_due else _kept(topic, others)

    def _of_others(self, topic: MirroredTopic, partitions: int) -> str | None:
        """Why it may hold what the flow has not written, by its logs as they are now; None: it holds nothing else."""
        places = [(topic.target, number) for number in range(partitions)]
        ends, cluster_id = self._target.ends(places), self._target.cluster_id()
        for name, number in places:
            end = ends.get((name, number))
            if end is None:
                return f"partition {number} of {name} has no leader, so nobody knows what it holds"
            at = TopicPartition(name, topic.target_id, number)
            claimed = self._record.written_ranges(topic, number)
            for start, stop in _between(claimed, end.log_start, end.high_watermark):
                for header in headers_between(self._target, at, start, stop):
                    if not self._record.wrote(cluster_id, header.producer_id):
                        offset = max(header.base_offset, start)
                        return f"partition {number} of {name} holds what this flow did not write, at offset {offset}"
        return None

    def _delete(self, topic: MirroredTopic) -> Finding | None:
        try:
            self._record.require_recorded(self._source, self._target)
            self._target.delete_topic(topic.target, topic_id=topic.target_id)
        except PreconditionError as error:
            name = FindingName.TARGET_TOPIC_NOT_DELETED
            return Finding(name=name, topic=topic.target, message=str(error))
        log.warning("deleted topic %s: its source %s was deleted", topic.target, topic.source)
        self._record.deleted(topic.target, topic.target_id)
        return None


def _between(claimed: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches of `[start, end)` that no range holds; the ranges are in order."""
    for held_from, held_to in claimed:
        if start < min(held_from, end):
            yield start, min(held_from, end)
        start = max(start, held_to)
    if start < end:
        yield start, end


def _source(topic: MirroredTopic) -> str:
    return topic.source


def _written(topics: Iterable[MirroredTopic], written: Collection[str]) -> frozenset[str]:
    """Sources of topics that hold records of the flow: a new one outweighs none that was deleted."""
    return frozenset(topic.source for topic in topics if topic.target_id in written)


def _has_target(topic: MirroredTopic, targets: Mapping[str, TopicDescription]) -> bool:
    found = targets.get(topic.target)
    return found is not None and found.topic_id == topic.target_id


def _doubt(
    deleted: Collection[str], mirrored: Collection[str], sources: Mapping[str, TopicDescription]
) -> str | None:
    """Why what is missing at this refresh does not count as deleted on purpose (D2, D4); None: it does."""
    if all(topic.internal for topic in sources.values()):
        return "the source has no topics at all"
    if len(mirrored) >= 2 and 2 * len(deleted) > len(mirrored):
        return f"{len(deleted)} of the {len(mirrored)} topics that this flow mirrored were deleted at once"
    return None


def _kept(topic: MirroredTopic, reason: str | None = None) -> Finding:
    why = "" if reason is None else f": {reason}"
    message = f"{topic.source} was deleted at the source; {topic.target} is kept{why}"
    return Finding(name=FindingName.SOURCE_TOPIC_DELETED, topic=topic.source, message=message)
