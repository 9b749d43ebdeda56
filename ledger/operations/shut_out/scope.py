"""What a shut-out is about, and what it is made with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.config.flow import FlowConfig
from ledger.domain.facts import TopicPartition
from ledger.domain.writer_roles import ProcessTable
from ledger.errors import PreconditionError
from ledger.operations.directions import Copies, Pair
from ledger.ports.clock import Clock
from ledger.ports.clusters import ShutOutCluster, WriteProbe
from ledger.ports.ledger import ChangeoverState, FactLog, OperationLog


@dataclass(frozen=True, slots=True)
class ShutOutPorts:
    """`cluster`: the promoted one as who may change rules reaches it, `mirror`: as the mirror does.

    `progress` gets a line for people whenever something changes.
    """

    cluster: ShutOutCluster
    mirror: WriteProbe
    state: ChangeoverState
    operations: OperationLog
    fact_log: FactLog
    processes: ProcessTable
    clock: Clock
    sleep: Callable[[float], None]
    progress: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutOutScope:
    """`flows`: those of the pair that copy to its topics, `others`: all others into the cluster.

    `principal`: the mirror's at the cluster, None: not configured. `with_markers`: abort markers are wanted as well.
    `limit_s`: how long to wait for drivers, and for brokers to know of the rules.
    """

    pair: Pair
    flows: Sequence[FlowConfig]
    others: Sequence[FlowConfig]
    copies: Copies
    principal: str | None
    with_markers: bool
    limit_s: float


@dataclass(frozen=True, slots=True)
class PromotedPartitions:
    """Partitions of the promoted cluster that flows of the pair copy to, as they are there now.

    `topics`: those of all of them, and those that were promoted by name and are not there.
    """

    by_flow: dict[str, tuple[TopicPartition, ...]]
    topics: tuple[str, ...]


def promoted_partitions(scope: ShutOutScope, ports: ShutOutPorts) -> PromotedPartitions:
    """What is promoted now; raises `PreconditionError` where the ledger does not say so of a topic that is named."""
    pair, directions = scope.pair, ports.state.directions()
    named = set(pair.topics or ())
    if not all(directions.standing(pair.former, pair.cluster, topic) for topic in named):
        raise PreconditionError(
            f"not all of {pair.words} is promoted now: the mirror is to write to the rest; nothing more was denied. "
            "Promote it first"
        )
    there = [
        topic
        for _, topic in sorted(ports.cluster.topics().items())
        if pair.names(topic.name)
        and not topic.internal
        and directions.standing(pair.former, pair.cluster, topic.name)
    ]
    by_flow = {
        flow.name: tuple(
            TopicPartition(topic.name, topic.topic_id, number)
            for topic in there
            if scope.copies(flow, topic.name)
            for number in range(topic.partitions)
        )
        for flow in scope.flows
    }
    topics = named | {at.topic for partitions in by_flow.values() for at in partitions}
    return PromotedPartitions(by_flow, tuple(sorted(topics)))
