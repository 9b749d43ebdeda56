"""Records that are written behind fences of a cluster: a finding of its recorder for each partition."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import HighWatermark, TopicPartition
from ledger.domain.fences.receipts import Fences
from ledger.domain.operations.finding_events import FindingCleared, FindingKey
from ledger.errors import PreconditionError
from ledger.mirror.findings.finding_log import EXPLAINED, Finding, FindingName, raised
from ledger.ports.clusters import LogReader
from ledger.ports.fencing import first_data
from ledger.ports.ledger import OperationEntry, OperationLog

log = logging.getLogger(__name__)
_NAME = FindingName.LATE_WRITE
_Place = tuple[str, int]


@dataclass(slots=True)
class LateWrites:
    """Of one cluster in one epoch; `open_keys`: what earlier epochs have raised and not cleared."""

    cluster: str
    cluster_id: str
    reader: LogReader
    operations: OperationLog
    open_keys: set[FindingKey]
    _checked: dict[_Place, tuple[int, int]] = field(default_factory=dict)
    """By partition the end of its fence, and up to where nothing but markers lies behind that."""

    def seen(self, fences: Fences, identities: ClusterIdentities, ends: Iterable[HighWatermark]) -> None:
        """Raise what is late now, and clear what is late no longer."""
        by_place = {(end.topic, end.partition): end for end in ends}
        mirrors = identities.mirror_ids(self.cluster_id)
        late: dict[FindingKey, str] = {}
        known: set[FindingKey] = set()
        for place, fence_end in self._fenced(fences, by_place).items():
            key: FindingKey = (_NAME, *place)
            end = by_place[place]
            message = self._late(end, fence_end, mirrors)
            if message is not None:
                late[key] = message
            elif end.log_start > fence_end:
                known.add(key)  # what was appended behind the fence is deleted: what was said of it holds
        unread = {key for key in self.open_keys if self._is_unread(key, fences, by_place)}
        self._record(late, self.open_keys & (known | unread))

    def _fenced(self, fences: Fences, ends: Mapping[_Place, HighWatermark]) -> dict[_Place, int]:
        """Ends of fences, of partitions that were read and are of the topic that was fenced."""
        return {
            (fence.topic, one.partition): one.end
            for fence in (standing.fence for standing in fences.at(self.cluster))
            for one in fence.partitions
            if (end := ends.get((fence.topic, one.partition))) is not None and end.topic_id == fence.topic_id
        }

    def _is_unread(self, key: FindingKey, fences: Fences, ends: Mapping[_Place, HighWatermark]) -> bool:
        """Whether the fence is there still, and the partition could not be read this time."""
        _, topic, partition = key
        if topic is None or partition is None:
            return False
        return (topic, partition) not in ends and fences.of(self.cluster, topic) is not None

    def _late(self, end: HighWatermark, fence_end: int, mirrors: frozenset[int]) -> str | None:
        """What an application wrote behind the fence, in words; None: nothing."""
        place = end.topic, end.partition
        known_end, checked = self._checked.get(place, (fence_end, fence_end))
        start = max(checked if known_end == fence_end else fence_end, end.log_start)
        where = f"{end.topic} partition {end.partition} of {self.cluster}"
        at = TopicPartition(end.topic, end.topic_id, end.partition)
        try:
            found = first_data(self.reader, at, start, end.high_watermark, mirrors=mirrors)
        except PreconditionError as error:
            return f"{where}: something was appended behind its fence at {fence_end}, and cannot be read: {error}"
        if found is None:
            self._checked[place] = fence_end, max(start, end.high_watermark)
            return None
        who = f" by producer {found.producer_id}" if found.producer_id >= 0 else ""
        return f"{where}: a record was written{who} at offset {found.base_offset}, behind its fence at {fence_end}"

    def _record(self, late: Mapping[FindingKey, str], kept: set[FindingKey]) -> None:
        holding = late.keys() | kept
        entries: list[OperationEntry] = [
            self._raised(key, message) for key, message in sorted(late.items()) if key not in self.open_keys
        ]
        entries += [
            (str(_NAME), FindingCleared.of_key(key)) for key in sorted(self.open_keys - holding, key=str)
        ]
        if entries:
            self.operations.record_all(entries, flow=None)
        self.open_keys = set(holding)

    def _raised(self, key: FindingKey, message: str) -> OperationEntry:
        _, topic, partition = key
        log.warning("%s: %s; %s", _NAME, message, EXPLAINED[_NAME].next)
        finding = Finding(name=_NAME, topic=topic, partition=partition, message=message, cluster=self.cluster)
        return str(_NAME), raised(finding)
