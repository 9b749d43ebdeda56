"""Which clusters there are in a simulation, who mirrors what to where, and where applications write."""

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.config.values import FlowConfig, Policy, TargetMode
from ledger.topics.naming import NamingKind, TailPolicy
from tests.simulation.faults import BY_WHOLE_LOGS, PLOTTED, Fault


class Shape(StrEnum):
    """How flows join clusters."""

    SINGLE = "single"  # one flow, east to west
    ACTIVE_ACTIVE = "active-active"  # the same names both ways, applications at both ends
    MESH = "mesh"  # the same names between three clusters, applications at all of them
    MERGED = "merged"  # two sources into one topic
    CHAIN = "chain"  # east to west, and from there on to north
    RING = "ring"  # the same names around three clusters, each of which copies what applications write to the next


@dataclass(frozen=True, slots=True)
class Topology:
    """Flows, the clusters that they join, and the clusters that applications write at.

    `is_relayed_on`: a flow's target is another one's source, so that what happens to the one happens to the other.
    """

    shape: Shape
    clusters: tuple[str, ...]
    written_at: tuple[str, ...]
    flows: tuple[FlowConfig, ...]
    allowed: frozenset[Fault]

    def with_policies(self, rng: random.Random) -> "Topology":
        """What flows do about tails of which nothing can be proved; drawn apart from all else."""
        told = (None, None, *TailPolicy)
        flows = (flow.model_copy(update={"on_tail_lost": rng.choice(told)}) for flow in self.flows)
        return replace(self, flows=tuple(flows))

    @property
    def is_relayed_on(self) -> bool:
        return bool({flow.source for flow in self.flows} & {flow.target for flow in self.flows})

    def felt(self, faults: frozenset[Fault]) -> frozenset[Fault]:
        """The faults as flows meet them: at a cluster in the middle a target that is recreated is a source, too."""
        is_felt_twice = self.is_relayed_on and Fault.TARGET_RECREATED in faults
        return faults | {Fault.SOURCE_RECREATED} if is_felt_twice else faults


RECREATED_NOW_AND_THEN = frozenset({Shape.ACTIVE_ACTIVE, Shape.MERGED, Shape.CHAIN})
"""Where targets are recreated beside the faults that are drawn: now and then, by a draw of its own."""
_EVERYDAY = frozenset(Fault) - BY_WHOLE_LOGS - {Fault.FOREIGN_WRITES} - PLOTTED
_LINKS = {
    Shape.SINGLE: (("east", "west"),),
    Shape.ACTIVE_ACTIVE: (("east", "west"), ("west", "east")),
    Shape.MESH: tuple((a, b) for a in ("east", "west", "north") for b in ("east", "west", "north") if a != b),
    Shape.MERGED: (("east", "west"), ("north", "west")),
    Shape.CHAIN: (("east", "west"), ("west", "north")),
    Shape.RING: (("east", "west"), ("west", "north"), ("north", "east")),
}
_WRITTEN_AT = {
    Shape.SINGLE: ("east",),
    Shape.ACTIVE_ACTIVE: ("east", "west"),
    Shape.MESH: ("east", "west", "north"),
    Shape.MERGED: ("east", "north"),
    Shape.CHAIN: ("east",),
    Shape.RING: ("east", "west", "north"),
}


def draw_topology(rng: random.Random, shape: Shape) -> Topology:
    links = _LINKS[shape]
    is_single = shape is Shape.SINGLE
    flows = tuple(
        FlowConfig(
            name="flow" if is_single else f"{source}-to-{target}",
            source=source,
            target=target,
            topics=(".*",),
            topic_naming=NamingKind.PREFIX if is_single else NamingKind.IDENTITY,
            target_mode=rng.choice(list(TargetMode)) if is_single else TargetMode.SHARED,
            relay=shape is Shape.CHAIN and source == "west",
            tasks=rng.randint(1, 3 if is_single else 2),
            round_seconds=rng.choice((0.25, 0.5, 1.5)),
            topic_refresh_seconds=0.5,
            on_loss=rng.choice(list(Policy)),
            on_source_truncated=rng.choice(list(Policy)),
            on_source_recreated=rng.choice(list(Policy)),
            on_target_truncated=rng.choice(list(Policy)),
            on_target_recreated=rng.choice(list(Policy)),
        )
        for source, target in links
    )
    clusters = tuple(dict.fromkeys(name for link in links for name in link))
    allowed = frozenset(Fault) - PLOTTED if is_single else _EVERYDAY
    if shape is Shape.MERGED:
        allowed |= {Fault.TARGET_UNCLEAN}  # each flow's records are followed by the other's
    return Topology(shape, clusters, _WRITTEN_AT[shape], flows, allowed)
