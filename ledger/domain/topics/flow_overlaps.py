"""Flows of one pair of clusters that would copy a topic to the same target topic: every record would be there twice.

Patterns cannot be compared: plain names and equal patterns tell it of a configuration, a topic by its name at
run time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ledger.domain.topics.flow_rings import plain_names
from ledger.domain.topics.naming import TopicSelection


@dataclass(frozen=True, slots=True)
class FlowCopies:
    """What a flow copies from where to where."""

    name: str
    source: str
    target: str
    selection: TopicSelection

    def target_name(self, topic: str) -> str | None:
        """What it calls a source topic at the target; None when it does not copy it."""
        return self.selection.naming.target_name(topic) if self.selection.selects(topic) else None

    def is_beside(self, other: "FlowCopies") -> bool:
        """Whether another flow goes the same way."""
        return other.name != self.name and (other.source, other.target) == (self.source, self.target)


def overlap_problems(flows: Sequence[FlowCopies]) -> Iterator[str]:
    """One for each two flows that surely copy a topic to the same name."""
    for flow, other in combinations(flows, 2):
        common = next(_surely_common(flow, other), None) if flow.is_beside(other) else None
        if common is not None:
            yield (
                f"flows.{other.name}.topics: flow {flow.name} copies {common!r} from {flow.source} to {flow.target} "
                "under the same name, so every record would be there twice; leave it out of one of them"
            )


def _surely_common(flow: FlowCopies, other: FlowCopies) -> Iterator[str]:
    """Topics, or a pattern, that both select and name alike."""
    left, right = flow.selection, other.selection
    for topic in plain_names([*left.patterns, *right.patterns]):
        name = flow.target_name(topic)
        if name is not None and name == other.target_name(topic):
            yield topic
    if left.naming == right.naming and not (left.exclude or right.exclude or left.naming.rules):
        yield from sorted(set(left.patterns) & set(right.patterns))


def also_copied_by(flow_name: str, flows: Sequence[FlowCopies], topic: str) -> frozenset[str]:
    """Names of other flows of the same pair that copy a topic of a flow to the same target topic."""
    [flow] = [each for each in flows if each.name == flow_name]
    name = flow.target_name(topic)
    beside = [other for other in flows if flow.is_beside(other)]
    return frozenset(other.name for other in beside if name is not None and other.target_name(topic) == name)
