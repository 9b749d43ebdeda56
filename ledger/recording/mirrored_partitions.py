"""Which partitions of a cluster a recorder reads."""

from collections.abc import Sequence

from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.ports.clusters import ClusterAdmin


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
