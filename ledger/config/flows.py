"""What flows may not be to each other: rings, opposites, overlaps."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from ledger.config.values import FlowConfig, TargetMode
from ledger.topics.naming import NamingKind, matches_any, plain_name

# Flow rings ---------------------------------------------------------------------------------------
# Flows that lead back to where they start; two in opposite directions are the smallest ring.


def ring_problems(flows: Sequence[FlowConfig]) -> Iterator[str]:
    """What rings may not be: of relaying flows, or of names that are kept without sharing the targets."""
    relays = [flow.model_copy(update={"topics": (".*",)}) for flow in flows if flow.relay]
    for flow in relays:
        if is_in_ring(flow, relays):
            yield f"flows.{flow.name}.relay: relaying flows form a ring through {flow.source!r}; records would circle"
    same_names = [flow for flow in flows if _keeps_names(flow) and flow.source != flow.target]
    for flow in same_names:
        # Of two opposite flows one holds at a time: only the others can lead back.
        if is_in_ring(flow, [other for other in same_names if other.name != flow.opposite]):
            yield from _same_name_problems(flow)


def _keeps_names(flow: FlowConfig) -> bool:
    return flow.topic_naming is NamingKind.IDENTITY


def _same_name_problems(flow: FlowConfig) -> Iterator[str]:
    if flow.relay:
        yield f"flows.{flow.name}.relay: would bring records back to where they were written"
    if flow.target_mode is not TargetMode.SHARED:
        yield (
            f"flows.{flow.name}.target_mode: flows that keep names lead from {flow.target!r} back to "
            f'{flow.source!r}, so others write to the same topics too: each of them needs "shared"'
        )


def opposite_problems(flows: Sequence[FlowConfig]) -> Iterator[str]:
    """What opposite flows have to be: each other's, the way back of each other, with targets that are their own."""
    by_name = {flow.name: flow for flow in flows}
    for flow in flows:
        if flow.opposite is not None:
            yield from (
                f"flows.{flow.name}.opposite: {problem}"
                for problem in _problems_of_opposite(flow, flow.opposite, by_name.get(flow.opposite))
            )


def _problems_of_opposite(flow: FlowConfig, name: str, other: FlowConfig | None) -> Iterator[str]:
    if other is None:
        yield f"there is no flow {name!r}, or it has problems of its own"
        return
    if other.opposite != flow.name:
        yield f"flows.{name} does not say opposite = {flow.name!r}: both say it, or neither does"
    if (other.source, other.target) != (flow.target, flow.source):
        yield (
            f"flows.{name} goes from {other.source!r} to {other.target!r}, which is not the way back of "
            f"{flow.source!r} to {flow.target!r}"
        )
    if not _keeps_names(flow):
        yield 'one direction takes over from the other where topics keep their names: topic_naming = "identity"'
    if flow.target_mode is TargetMode.SHARED:
        yield 'both directions hold at any time where target_mode is "shared": leave one of the two keys out'
    if flow.relay:
        yield "a relaying flow would bring records back to where they were written"


def is_in_ring(flow: FlowConfig, flows: Sequence[FlowConfig]) -> bool:
    """Whether flows that may carry a topic of `flow` lead from its target back to its source."""
    reached = {flow.target}
    edges = [other for other in flows if may_overlap(flow.topics, other.topics)]
    while grown := {edge.target for edge in edges if edge.source in reached} - reached:
        reached |= grown
    return flow.source in reached


def plain_names(patterns: Sequence[str]) -> list[str]:
    """The names that patterns without anything else spell out."""
    return [name for pattern in patterns if (name := plain_name(pattern)) is not None]


def may_overlap(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether a topic may match patterns of both. Patterns cannot be compared; plain names can be tried."""
    for names, patterns in ((left, right), (right, left)):
        plain = plain_names(names)
        if len(plain) == len(names):
            return any(matches_any(patterns, name) for name in plain)
    return True


# Flow overlaps ------------------------------------------------------------------------------------
# Flows of one pair of clusters that would copy a topic to the same target topic: every record would be
# there twice.
#
# Patterns cannot be compared: plain names and equal patterns tell it of a configuration, a topic by its
# name at run time (`MirrorConfig.also_copied_by`).


def overlap_problems(flows: Sequence[FlowConfig]) -> Iterator[str]:
    """One for each two flows that surely copy a topic to the same name."""
    for flow, other in combinations(flows, 2):
        common = next(_surely_common(flow, other), None) if flow.is_beside(other) else None
        if common is not None:
            yield (
                f"flows.{other.name}.topics: flow {flow.name} copies {common!r} from {flow.source} to {flow.target} "
                "under the same name, so every record would be there twice; leave it out of one of them"
            )


def _surely_common(flow: FlowConfig, other: FlowConfig) -> Iterator[str]:
    """Topics, or a pattern, that both select and name alike."""
    left, right = flow.selection, other.selection
    for topic in plain_names([*left.patterns, *right.patterns]):
        name = left.target_name(topic)
        if name is not None and name == right.target_name(topic):
            yield topic
    if left.naming == right.naming and not (left.exclude or right.exclude or left.naming.rules):
        yield from sorted(set(left.patterns) & set(right.patterns))
