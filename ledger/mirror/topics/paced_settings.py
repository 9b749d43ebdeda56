"""Settings of many topics, as one refresh after the other needs them.

A broker takes seconds to describe thousands of topics, and rounds wait for a refresh. What was read is used
again for twenty times as long as reading took: with a few topics every refresh reads again, with thousands one
refresh in many. A topic that was not read yet is read at once, and so is one that was changed.
"""

from collections.abc import Iterable

from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, SettingsAnswer, TopicDescription

_TIMES_AS_LONG = 20


class PacedSettings:
    """Settings of one cluster's topics by topic id: another incarnation of a topic is another topic."""

    def __init__(self, admin: ClusterAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._read: dict[str, SettingsAnswer] = {}
        self._read_again_at = float("-inf")

    def of(self, topics: Iterable[TopicDescription]) -> SettingsAnswer:
        wanted = list(topics)
        if self._clock.monotonic() >= self._read_again_at:
            self._read.clear()
        is_due = not self._read
        started = self._clock.monotonic()
        self._read_missing([topic for topic in wanted if topic.topic_id not in self._read])
        if is_due:
            ended = self._clock.monotonic()
            self._read_again_at = ended + _TIMES_AS_LONG * (ended - started)
        found = [self._read[topic.topic_id] for topic in wanted if topic.topic_id in self._read]
        return SettingsAnswer(
            {name: settings for part in found for name, settings in part.read.items()},
            {name: reason for part in found for name, reason in part.refused.items()},
        )

    def forget(self, topic_id: str) -> None:
        """The topic was changed."""
        self._read.pop(topic_id, None)

    def _read_missing(self, topics: list[TopicDescription]) -> None:
        if not topics:
            return
        found = self._admin.topic_settings([topic.name for topic in topics])
        for topic in topics:
            if topic.name in found.read:
                self._read[topic.topic_id] = SettingsAnswer({topic.name: found.read[topic.name]}, {})
            elif topic.name in found.refused:
                self._read[topic.topic_id] = SettingsAnswer({}, {topic.name: found.refused[topic.name]})
