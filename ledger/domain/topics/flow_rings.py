"""Flows that lead back to where they start; two in opposite directions are the smallest ring."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.domain.topics.naming import plain_name


@dataclass(frozen=True, slots=True)
class FlowEdge:
    """A flow as an edge between clusters, with the patterns of its topics."""

    name: str
    source: str
    target: str
    topics: tuple[str, ...]
    keeps_names: bool = False
    shares_target: bool = False
    relays: bool = False


def ring_problems(flows: Sequence[FlowEdge]) -> Iterator[str]:
    """What rings may not be: of relaying flows, or of names that are kept without sharing the targets."""
    relays = [replace(flow, topics=(".*",)) for flow in flows if flow.relays]
    for flow in relays:
        if is_in_ring(flow, relays):
            yield f"flows.{flow.name}.relay: relaying flows form a ring through {flow.source!r}; records would circle"
    same_names = [flow for flow in flows if flow.keeps_names and flow.source != flow.target]
    for flow in same_names:
        if is_in_ring(flow, same_names):
            yield from _same_name_problems(flow)


def _same_name_problems(flow: FlowEdge) -> Iterator[str]:
    if flow.relays:
        yield f"flows.{flow.name}.relay: would bring records back to where they were written"
    if not flow.shares_target:
        yield (
            f"flows.{flow.name}.target_mode: flows that keep names lead from {flow.target!r} back to "
            f'{flow.source!r}, so others write to the same topics too: each of them needs "shared"'
        )


def is_in_ring(flow: FlowEdge, flows: Sequence[FlowEdge]) -> bool:
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
            return any(re.fullmatch(pattern, name) for pattern in patterns for name in plain)
    return True
