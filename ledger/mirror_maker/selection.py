"""Which topics and groups MirrorMaker 2 selects, and what it calls topics at the target.

As in Kafka 3.9 and 4.3. A topic is mirrored where the lists select it or it is one of heartbeats, where it is no
internal topic, and where its name does not say that it comes from the target.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.topics.naming import matches_any

TOPICS = (".*",)
TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
TOPICS_EXCLUDE_BEFORE_4 = (r".*[\-\.]internal", r".*\.replica", "__.*")
GROUPS = (".*",)
GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
"""Its defaults."""
_HEARTBEATS = "heartbeats"


class PolicyKind(StrEnum):
    """Which names a replication policy gives."""

    DEFAULT = "default"  # the alias of the source and a separator in front of the name
    IDENTITY = "identity"  # the same name
    OTHER = "other"  # a class of somebody's own: unknown


@dataclass(frozen=True, slots=True)
class MakerPolicy:
    """Names of topics at the target."""

    kind: PolicyKind
    alias: str
    target_alias: str
    separator: str = "."
    internal_separator: str = "."
    is_before_4: bool = False

    @property
    def keeps_names(self) -> bool:
        """Whether topics are called as at the source: by an identity policy, or without an alias and a separator."""
        return self.kind is PolicyKind.IDENTITY or (
            self.kind is PolicyKind.DEFAULT and not self.alias and not self.separator
        )

    def target_name(self, topic: str) -> str:
        if self.kind is PolicyKind.IDENTITY and not topic.endswith(_HEARTBEATS):
            return topic
        return f"{self.alias}{self.separator}{topic}"

    def is_heartbeats(self, topic: str) -> bool:
        while (upstream := self._upstream(topic)) is not None and upstream != topic:
            topic = upstream
        return topic == _HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        suffix = f"{self.internal_separator}internal"
        if self.is_before_4 and topic.endswith((suffix, "-internal", ".internal")):
            return True
        is_makers = topic.startswith("mm2") and topic.endswith(suffix)
        is_checkpoints = topic.endswith(f"{self.internal_separator}checkpoints{suffix}")
        return is_makers or is_checkpoints or topic.startswith(("__", "."))

    @property
    def never_mirrored(self) -> tuple[str, ...]:
        """Expressions for internal topics, as far as their names are not left out here in any case."""
        separator = re.escape(self.internal_separator)
        if self.is_before_4:
            ends = TOPICS_EXCLUDE_BEFORE_4[:1]
            return ends if self.internal_separator in (".", "-") else (*ends, f".*{separator}internal")
        makers = f"mm2.*{separator}internal"
        if self.internal_separator == ".":
            return (makers,)
        return (makers, f".*{separator}checkpoints{separator}internal")

    def is_from_target(self, topic: str) -> bool:
        """Whether one of the prefixes of its name is the target's alias."""
        while (source := self._source(topic)) is not None:
            if source == self.target_alias:
                return True
            upstream = self._upstream(topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        return False

    def _source(self, topic: str) -> str | None:
        if self.kind is PolicyKind.IDENTITY and not topic.endswith(_HEARTBEATS):
            return self.alias
        parts = topic.split(self.separator) if self.separator else list(topic)
        while parts and not parts[-1]:  # as Java splits
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def _upstream(self, topic: str) -> str | None:
        source = self._source(topic)
        if source is None:
            return None
        if self.kind is PolicyKind.IDENTITY and not topic.endswith(_HEARTBEATS):
            return topic
        return topic[len(source) + len(self.separator) :]


@dataclass(frozen=True, slots=True)
class MakerSelection:
    """What one flow of MirrorMaker takes; patterns are Python's."""

    policy: MakerPolicy
    topics: Sequence[str] = TOPICS
    topics_exclude: Sequence[str] = TOPICS_EXCLUDE
    groups: Sequence[str] = GROUPS
    groups_exclude: Sequence[str] = GROUPS_EXCLUDE
    copies_heartbeats: bool = True

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic of the source is mirrored; the brokers' own never are."""
        is_listed = matches_any(self.topics, topic) and not matches_any(self.topics_exclude, topic)
        is_taken = is_listed or (self.copies_heartbeats and self.policy.is_heartbeats(topic))
        return is_taken and not self.policy.is_internal(topic) and not self.policy.is_from_target(topic)

    def takes_group(self, group: str) -> bool:
        """Whether the name of a group is selected; MirrorMaker also wants a commit in a topic that it mirrors."""
        return matches_any(self.groups, group) and not matches_any(self.groups_exclude, group)


def separator_pattern(alias: str, separator: str) -> str:
    """An expression for names that carry the alias as their first prefix."""
    return f"{re.escape(alias)}{re.escape(separator)}.*"
