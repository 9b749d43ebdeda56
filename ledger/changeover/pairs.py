"""A pair of clusters of which one takes over from the other, and the flows that copy between them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.errors import UsageError
from ledger.facts.direction import LATER, is_among
from ledger.facts.ways import Direction

Copies = Callable[[FlowConfig, str], bool]
"""Whether a flow copies to this topic of its target."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`cluster` is to be promoted over `former`, or demoted; `topics`: of `cluster`, None: all of the pair.

    `later`, `left_out`: as rows of a change of direction have them.
    """

    cluster: str
    former: str
    topics: tuple[str, ...] | None
    later: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"{self._what} of {self.cluster} over {self.former}"

    @property
    def _what(self) -> str:
        if not self.is_whole:
            return ", ".join(self.topics or ())
        return f"all topics but {', '.join(self.left_out)}" if self.left_out else "all topics"

    @property
    def is_whole(self) -> bool:
        """Whether topics that nobody has named are among its own."""
        return self.topics is None or self.later

    @property
    def asked(self) -> tuple[str, ...] | None:
        """Its topics, `LATER` among them where it is about those; None: whatever anybody has named."""
        return (*self.topics, LATER) if self.topics is not None and self.later else self.topics

    @property
    def ruled(self) -> tuple[str, ...] | None:
        """Topics whose rules are its own; None: all that there are of the pair."""
        return None if self.is_whole and not self.left_out else self.topics

    def names(self, topic: str) -> bool:
        """Whether it is about a topic of `cluster`, as far as names say."""
        return is_among(topic, self.topics, later=self.later, left_out=self.left_out)

    def flows_of(self, flows: Iterable[FlowConfig], copies: Copies) -> list[FlowConfig]:
        """The flows that it is about; raises `UsageError` where there is none, or a topic is of none.

        Where it is about topics that come later it is about all flows of the pair.
        """
        found = [flow for flow in flows if (flow.source, flow.target) == (self.former, self.cluster)]
        if not found:
            raise UsageError(
                f"no flow of the configuration copies from {self.former} to {self.cluster}; nothing was recorded"
            )
        if self.topics is None or self.later:
            return found
        for topic in self.topics:
            if not any(copies(flow, topic) for flow in found):
                raise UsageError(
                    f"no flow from {self.former} to {self.cluster} copies to topic {topic}; nothing was recorded"
                )
        return [flow for flow in found if any(copies(flow, topic) for topic in self.topics)]


def enabled_between(config: MirrorConfig, way: Direction) -> list[FlowConfig]:
    """Flows from one cluster to another that are enabled."""
    return [flow for flow in config.enabled_flows if (flow.source, flow.target) == (way.source, way.target)]


def require_opposites(flows: Iterable[FlowConfig]) -> list[str]:
    """The flows of the way back; raises `UsageError` where a flow names none: nobody knows what came back to it."""
    alone = [flow.name for flow in flows if flow.opposite is None]
    if alone:
        raise UsageError(
            f"{_named(alone)} names no opposite, so no cut says where it continues behind what was written meanwhile; "
            "nothing was recorded"
        )
    return sorted(flow.opposite for flow in flows if flow.opposite is not None)


def _named(flows: Sequence[str]) -> str:
    return f"flow {' and '.join(sorted(flows))}"


def way_home(source: str, target: str) -> str:
    """The command that plans to go back behind a failover, in the same words."""
    return f"mirror-ledger plan failback --from {source} --to {target} --reason WHY"


def planned_way(source: str, target: str) -> str:
    """The command that plans how applications leave one cluster for the other."""
    return f"mirror-ledger plan switchover --from {source} --to {target} --reason WHY"
