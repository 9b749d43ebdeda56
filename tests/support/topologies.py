"""Topologies that the README names: which flows there are, what they are to bring where, and who moves between what.

What flows bring is written down by hand: it is what a group that moves may expect, whatever the flows did.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple


class Topic(NamedTuple):
    """A topic of a cluster; `{}` stands for the name that all topics of one run have in theirs."""

    cluster: str
    name: str = "{}"


Trip = tuple[tuple[Topic, Topic], ...]
"""What a group reads at one cluster, each topic with the one that it reads instead at another cluster."""


@dataclass(frozen=True, slots=True)
class Topology:
    """`flows`: lines of their configuration by name. `written`: where applications write.

    `brought`: by topic the topics whose own records flows bring there, besides those that are written there.
    `has_doubts`: others' records may be taken for copies that are not recorded yet: they lie where several flows write
    and none reads, or where the second flow of a chain has come further than the first.
    """

    flows: Mapping[str, str]
    written: tuple[Topic, ...]
    brought: Mapping[Topic, tuple[Topic, ...]]
    trips: tuple[Trip, ...]
    has_doubts: bool = False

    @property
    def clusters(self) -> list[str]:
        return sorted({topic.cluster for topic in self.topics})

    @property
    def topics(self) -> list[Topic]:
        """All topics: those that applications write to, and those that flows do."""
        return sorted({*self.written, *self.brought})

    def arrives(self, written: Topic, at: Topic) -> bool:
        """Whether what was written to a topic is there, or is to come there."""
        return written == at or written in self.brought.get(at, ())


def _flow(source: str, target: str, *lines: str) -> str:
    return "\n".join((f'source = "{source}"', f'target = "{target}"', "round_seconds = 0.5", *lines))


_KEPT = ('topics = ["{}"]', 'topic_naming = "identity"', 'target_mode = "shared"')
_RENAMED = (
    'topics = ["{}_REPLICA"]',
    'topic_naming = "rename"',
    r"""rename = [{{ match = '(.*)_REPLICA', to = '\1' }}]""",
    'target_mode = "shared"',
)
_EAST, _WEST, _NORTH = Topic("east"), Topic("west"), Topic("north")
_EAST_REPLICA, _WEST_REPLICA = Topic("east", "{}_REPLICA"), Topic("west", "{}_REPLICA")
_EAST_AT_WEST, _WEST_AT_EAST = Topic("west", "east.{}"), Topic("east", "west.{}")

SHARED = Topology(
    flows={
        "east-to-west": _flow("east", "west", *_KEPT),
        "west-to-east": _flow("west", "east", *_KEPT),
    },
    written=(_EAST, _WEST),
    brought={_EAST: (_WEST,), _WEST: (_EAST,)},
    trips=(((_EAST, _WEST),),),
)
"""One name, both ways."""

PREFIXED = Topology(
    flows={
        "east-to-west": _flow("east", "west", 'topics = ["{}"]'),
        "west-to-east": _flow("west", "east", 'topics = ["{}"]'),
    },
    written=(_EAST, _WEST),
    brought={_EAST_AT_WEST: (_EAST,), _WEST_AT_EAST: (_WEST,)},
    trips=(((_EAST, _EAST_AT_WEST), (_WEST_AT_EAST, _WEST)),),
)
"""Names with the source's alias before them, both ways."""

REPLICA = Topology(
    flows={
        "across": _flow("east", "west", *_RENAMED),
        "back": _flow("west", "east", *_RENAMED),
        "within-east": _flow("east", "east", *_RENAMED),
        "within-west": _flow("west", "west", *_RENAMED),
    },
    written=(_EAST_REPLICA, _WEST_REPLICA, _WEST),
    brought={_EAST: (_EAST_REPLICA, _WEST_REPLICA), _WEST: (_EAST_REPLICA, _WEST_REPLICA)},
    trips=(((_EAST, _WEST),), ((_EAST_REPLICA, _WEST),)),
    has_doubts=True,
)
"""What is published to `T_REPLICA` is copied to `T` in both clusters; somebody writes to one `T` directly as well."""

FAN_IN = Topology(
    flows={
        "east-to-west": _flow("east", "west", *_KEPT),
        "north-to-west": _flow("north", "west", *_KEPT),
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),), ((_NORTH, _WEST),)),
)
"""Two sources to one target topic, to which applications write as well."""

CHAIN = Topology(
    flows={
        "east-to-north": _flow("east", "north", *_KEPT),
        "north-to-west": _flow("north", "west", *_KEPT, "relay = true"),
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_NORTH: (_EAST,), _WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),), ((_EAST, _NORTH),), ((_NORTH, _WEST),)),
    has_doubts=True,
)
"""From east by north to west; applications write everywhere."""

MESH = Topology(
    flows={
        f"{source}-to-{target}": _flow(source, target, *_KEPT)
        for source, target in permutations(("east", "north", "west"), 2)
    },
    written=(_EAST, _NORTH, _WEST),
    brought={_EAST: (_NORTH, _WEST), _NORTH: (_EAST, _WEST), _WEST: (_EAST, _NORTH)},
    trips=(((_EAST, _WEST),),),
)
"""One name at three clusters, each of which mirrors to both others."""

TOPOLOGIES: Mapping[str, Topology] = {
    "shared_names_both_ways": SHARED,
    "prefixed_both_ways": PREFIXED,
    "replica_topics": REPLICA,
    "fan_in": FAN_IN,
    "chain_of_three": CHAIN,
    "mesh_of_three": MESH,
}
