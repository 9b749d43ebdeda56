"""Patterns of a flow that do nothing: no topic matches them, or only such topics as the flow leaves out all the same.

A misspelt name beside a right one is one of these. Pure: takes the names of topics with what became of each.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.topics.naming import SelectionRefusal, TopicSelection, plain_name

Refusals = Mapping[str, SelectionRefusal | None]
"""By topic that there is: why the flow does not select it; None: it does."""

_WHY = {
    SelectionRefusal.INTERNAL: "{} is internal",
    SelectionRefusal.MIRRORED_BACK: "{} has the name of a copy from the target",
    SelectionRefusal.NOT_INCLUDED: "topics does not have {}",
    SelectionRefusal.EXCLUDED: "{} is excluded",
    SelectionRefusal.NOT_NAMED: "no rename rule matches {}",
}


class PatternKey(StrEnum):
    """Which key of a flow's configuration a pattern stands in."""

    TOPICS = "topics"
    EXCLUDE = "exclude"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class IdlePattern:
    """A pattern that does nothing. `passed_over`: by reason the first topic that matches and is left out for it."""

    key: PatternKey
    pattern: str
    passed_over: tuple[tuple[SelectionRefusal, str], ...] = ()

    @property
    def is_guard(self) -> bool:
        """Whether it may be meant for what is to come: an expression that excludes."""
        return self.key is PatternKey.EXCLUDE and plain_name(self.pattern) is None

    def described(self, cluster: str) -> str:
        """A sentence about the pattern and the cluster that it was compared with."""
        if not self.passed_over:
            return f"{self.key} has '{self.pattern}': no topic of {cluster} that this principal is shown matches it"
        reasons = ", ".join(_WHY[reason].format(topic) for reason, topic in self.passed_over)
        return (
            f"{self.key} has '{self.pattern}': nothing of {cluster} is mirrored because of it, for {reasons}"
        )


def idle_patterns(selection: TopicSelection, refusals: Refusals) -> Iterator[IdlePattern]:
    """Each once, in the order of the configuration.

    A pattern of `topics` or a rename rule is at work when it matches a selected topic, a pattern of `exclude` when it
    matches any. While nothing is selected rename rules have nothing to name, and nothing is said of them.
    """
    selected = [topic for topic, refusal in refusals.items() if refusal is None]
    for pattern in dict.fromkeys(selection.patterns):
        if not _matches(pattern, selected):
            yield IdlePattern(PatternKey.TOPICS, pattern, _passed_over(pattern, refusals))
    for pattern in dict.fromkeys(selection.exclude):
        if not _matches(pattern, refusals):
            yield IdlePattern(PatternKey.EXCLUDE, pattern)
    for rule in selection.naming.rules if selected else ():
        if not _matches(rule.match, selected):
            yield IdlePattern(PatternKey.RENAME, rule.match, _passed_over(rule.match, refusals))


def _matches(pattern: str, topics: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, topic) for topic in topics)


def _passed_over(pattern: str, refusals: Refusals) -> tuple[tuple[SelectionRefusal, str], ...]:
    first: dict[SelectionRefusal, str] = {}
    for topic, refusal in sorted(refusals.items()):
        if refusal is not None and re.fullmatch(pattern, topic):
            first.setdefault(refusal, topic)
    return tuple(sorted(first.items(), key=lambda reason: list(SelectionRefusal).index(reason[0])))
