"""Reads a target partition behind a flow's recorded end, without its source: what of it the flow wrote."""

from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, TopicPartition
from ledger.errors import ClusterUnavailableError, ProtocolError
from ledger.mirror.task.assignments import Assignment
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.mirror.task.tail import partition_stops
from ledger.mirror.task.tail.foreign_records import ForeignRecords
from ledger.mirror.task.tail.last_record import LastRecord
from ledger.mirror.task.tail.target_tail import TargetTail
from ledger.operations.adoption.pairing_result import RefusedPartitionError
from ledger.ports.clock import Clock
from ledger.ports.clusters import PartitionEnds
from ledger.ports.network import FetchItem, Network, answer_to
from ledger.wire.error_codes import TOPIC_GONE, ErrorCode, describe
from ledger.wire.requests import Fetched

_FETCH_BYTES = 4 * 1024 * 1024
_GIVE_UP_AFTER_S = 30.0
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """`syncs`: the flow's own records, none of them paired; `end`: up to where the target was read.

    `others`: what other writers left between, None: nothing.
    """

    syncs: tuple[OffsetSync, ...]
    end: int
    others: ForeignRecords | None

    @property
    def records(self) -> int:
        return sum(sync.records for sync in self.syncs)


class TargetReading:
    """One partition, from the flow's last recorded record to the target's high watermark.

    The last record is read first: where another one lies there the target has lost its end, and what came since
    is not behind what was recorded.
    """

    def __init__(self, assignment: Assignment, ends: PartitionEnds, network: Network, clock: Clock) -> None:
        self._assignment = assignment
        self._ends = ends
        self._network = network
        self._clock = clock
        self._builder = SyncBuilder(assignment)
        self._others: ForeignRecords | None = None

    def read(self) -> Unrecorded:
        """Raises `RefusedPartitionError` where the target does not hold what was recorded, and
        `ClusterUnavailableError` where it cannot be read for half a minute."""
        at = self._assignment.position
        if self._ends.high_watermark < at.target_offset:
            raise RefusedPartitionError(
                f"the target ends at offset {self._ends.high_watermark}, the flow's record of it at "
                f"{at.target_offset}: it lost its end; nothing of the partition was settled. The flow itself finds "
                "what is left of it when its source is back"
            )
        tail = TargetTail(start=self._start())
        while not tail.complete:
            self._add(tail)
            self._take(tail)
        return Unrecorded(self._builder.syncs(), tail.position, self._others)

    def _start(self) -> int:
        at = self._assignment.position
        has_last = at.next_sequence > 0 and at.target_offset > self._ends.log_start
        return max(at.target_offset - 1 if has_last else at.target_offset, self._ends.log_start)

    def _add(self, tail: TargetTail) -> None:
        fetched = self._fetched(tail.position)
        try:
            tail.add(fetched.records, high_watermark=fetched.high_watermark)
        except ProtocolError as error:
            raise RefusedPartitionError(partition_stops.unreadable(tail, error).message) from error

    def _take(self, tail: TargetTail) -> None:
        producer, at = self._assignment.producer, self._assignment.position
        while (found := tail.head) is not None:
            tail.pop()
            header = found.header
            if header.base_offset < at.target_offset:
                if (stop := LastRecord(self._assignment).another(header, at)) is not None:
                    raise RefusedPartitionError(f"{stop.message}; nothing of the partition was settled")
            elif producer.wrote(header.producer_id):
                self._builder.unpaired(
                    first_sequence=header.base_sequence,
                    target_start=header.base_offset,
                    count=found.written,
                    cause=SyncCause.LOST_SOURCE,
                    producer_id=header.producer_id,
                )
            elif header.count:
                before = self._others
                self._others = (
                    ForeignRecords.beginning(header) if before is None else before.followed_by(header)
                )

    def _fetched(self, offset: int) -> Fetched:
        partition, link = self._assignment.target, self._network.target
        give_up = self._clock.monotonic() + _GIVE_UP_AFTER_S
        trouble = "no answer"
        while self._clock.monotonic() < give_up:
            fetched, failure = self._ask(partition, offset)
            if fetched is not None and not fetched.error:
                return fetched
            trouble = failure or (
                "no answer" if fetched is None else self._trouble(fetched.error, partition, offset)
            )
            self._network.poll(_PAUSE_S)
            link.refresh([partition.topic])
        raise ClusterUnavailableError(
            f"{partition.topic} partition {partition.partition} of the target cannot be read from offset {offset} on: "
            f"{trouble}; nothing of it was settled. Settle again when it answers"
        )

    def _ask(self, partition: TopicPartition, offset: int) -> tuple[Fetched | None, str | None]:
        link = self._network.target
        node = link.leader(partition)
        if node is None:
            return None, "it has no leader"
        item = FetchItem(partition, offset, _FETCH_BYTES)
        ticket = link.fetch(node, [item], committed=False, max_wait_ms=0, max_bytes=_FETCH_BYTES)
        completion = answer_to(ticket, self._network)
        return (completion.fetched[0] if completion.fetched else None), completion.failure

    def _trouble(self, error: int, partition: TopicPartition, offset: int) -> str:
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise RefusedPartitionError(
                f"the target does not hold offset {offset} any more: its log was truncated or cleared meanwhile; "
                "nothing of the partition was settled. Settle again"
            )
        if error in TOPIC_GONE and self._network.target.is_gone(partition):
            raise RefusedPartitionError(
                f"{partition.topic} was deleted at the target, or created again; nothing of the partition was settled"
            )
        return f"error {describe(error)}"
