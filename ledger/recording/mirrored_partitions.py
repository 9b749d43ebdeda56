"""Which partitions of a cluster a recorder reads."""

from collections.abc import Collection, Sequence

from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.ports.clusters import ClusterAdmin
from ledger.ports.ledger import LedgerState
from ledger.recording.observation import Partitions


class MirroredPartitions:
    """Topics and partitions of a cluster that flows read or write, as its topics are now."""

    def __init__(self, config: MirrorConfig, admin: ClusterAdmin, flows: Sequence[FlowConfig]) -> None:
        self._config = config
        self._admin = admin
        self._flows = flows

    def __call__(self) -> list[tuple[str, int]]:
        return [
            (topic.name, partition)
            for topic in self._admin.topics().values()
            if any(self._is_mirrored(flow, topic.name, internal=topic.internal) for flow in self._flows)
            for partition in range(topic.partitions)
        ]

    def _is_mirrored(self, flow: FlowConfig, topic: str, *, internal: bool) -> bool:
        selection = self._config.topic_selection(flow.name)
        if flow.source == self._admin.alias and selection.selects(topic, internal=internal):
            return True
        origin = flow.naming.source_name(topic) if flow.target == self._admin.alias else None
        return origin is not None and selection.selects(origin, internal=internal)


class WithFormer:
    """The partitions of `mirrored`, and those of topics that some flow has copied, as far as these are there still.

    What lies behind the map of a topic that no flow copies any more would stay behind in a change of direction: it is
    known of a cluster that is lost only if it was read before.
    """

    def __init__(self, mirrored: Partitions, admin: ClusterAdmin, copied: Collection[str]) -> None:
        self._mirrored = mirrored
        self._admin = admin
        self._copied = frozenset(copied)

    def __call__(self) -> list[tuple[str, int]]:
        found = list(self._mirrored())
        former = self._copied - {topic for topic, _ in found}
        if not former:
            return found
        there = self._admin.topics()
        return found + [
            (name, partition)
            for name in sorted(former & there.keys())
            for partition in range(there[name].partitions)
        ]


def copied_topics(state: LedgerState, cluster: str) -> frozenset[str]:
    """Topics of a cluster that flows of the ledger have copied, or copied to, whatever the configuration says now."""
    found: set[str] = set()
    for flow, (source, target) in state.identities().ways().items():
        if cluster in (source, target):
            found |= {
                at.source_topic if cluster == source else at.target_topic for at in state.positions(flow)
            }
    return frozenset(found)
