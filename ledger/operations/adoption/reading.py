"""Reads a partition as records through the copy's own connections: one request at a time, in order."""

from collections.abc import Iterator
from dataclasses import replace

from ledger.domain.facts import Gap, GapCause, TopicPartition
from ledger.domain.filters import KEEP_ALL, RecordFilter
from ledger.errors import ClusterUnavailableError
from ledger.mirror.task.batch_plan import Copy, Skip, plan_batches
from ledger.mirror.task.record_rules import RecordRules, filtered
from ledger.operations.adoption.pairing_result import RefusedPartitionError
from ledger.operations.adoption.records import LogRecord
from ledger.ports.clock import Clock
from ledger.ports.network import ClusterLink, FetchItem, Network, answer_to
from ledger.wire.error_codes import TOPIC_GONE, ErrorCode, describe
from ledger.wire.record_batch import BatchHeader, batches
from ledger.wire.records import decode
from ledger.wire.requests import Fetched

_FETCH_BYTES = 4 * 1024 * 1024
_GIVE_UP_AFTER_S = 30.0
_PAUSE_S = 0.2
_KEPT_CAUSES = frozenset({GapCause.ABORTED, GapCause.MIRROR_WRITE})


class PartitionLog:
    """One partition from `start` to `end`, as a read_committed reader sees it, and what was left out beside it.

    Records of aborted transactions and of `mirror_producer_ids`, and those that the filter leaves out, are
    yielded with their cause: something else may have copied them.
    """

    def __init__(
        self,
        network: Network,
        link: ClusterLink,
        clock: Clock,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        mirror_producer_ids: frozenset[int],
        record_filter: RecordFilter = KEEP_ALL,
    ) -> None:
        self.start = start
        self.end = end
        self._network = network
        self._link = link
        self._clock = clock
        self._partition = partition
        self._mirror_producer_ids = mirror_producer_ids
        self._filter = record_filter

    def read(self, offset: int) -> Iterator[LogRecord]:
        gaps: list[Gap] = []
        while offset < self.end:
            fetched = self._fetched(offset)
            for piece in self._pieces(fetched, offset):
                if isinstance(piece, Gap):
                    gaps.append(piece)
                    offset = piece.source_end
                else:
                    cause = piece.cause or filtered(self._filter, piece.content, timestamp_ms=piece.timestamp)
                    is_plain = not gaps and cause is piece.cause
                    yield piece if is_plain else replace(piece, gaps=tuple(gaps), cause=cause)
                    gaps = []
                    offset = piece.offset + 1

    def _pieces(self, fetched: Fetched, position: int) -> Iterator[LogRecord | Gap]:
        """Records and gaps that tile the log from `position` on, as far as the response goes."""
        found = {header.end_offset: (header, batch) for header, batch in batches(fetched.records)}
        steps = plan_batches(
            fetched,
            position=position,
            end_offset=self.end,
            rules=RecordRules(self._mirror_producer_ids.__contains__),
        )
        for step in steps:
            if isinstance(step, Skip) and step.gap.cause not in _KEPT_CAUSES:
                yield step.gap
            else:
                start = step.source_start if isinstance(step, Copy) else step.gap.source_start
                cause = None if isinstance(step, Copy) else step.gap.cause
                yield from _records(*found[step.source_end], start, cause)

    def _fetched(self, offset: int) -> Fetched:
        """The next response that brings a batch. Raises `ClusterUnavailableError` after a while without one."""
        give_up = self._clock.monotonic() + _GIVE_UP_AFTER_S
        trouble = "no batch in the response"
        while self._clock.monotonic() < give_up:
            fetched, failure = self._ask(offset)
            if fetched is not None and not fetched.error and len(fetched.records):
                return fetched
            if fetched is not None and fetched.error:
                trouble = self._trouble(fetched, offset)
            trouble = failure or trouble
            self._network.poll(_PAUSE_S)
            self._link.refresh([self._partition.topic])
        raise ClusterUnavailableError(
            f"{self._partition.topic} partition {self._partition.partition} cannot be read from offset {offset} "
            f"on: {trouble}; nothing of it was recorded"
        )

    def _ask(self, offset: int) -> tuple[Fetched | None, str | None]:
        node = self._link.leader(self._partition)
        if node is None:
            return None, "it has no leader"
        item = FetchItem(self._partition, offset, _FETCH_BYTES)
        ticket = self._link.fetch(node, [item], committed=True, max_wait_ms=500, max_bytes=_FETCH_BYTES)
        completion = answer_to(ticket, self._network)
        return (completion.fetched[0] if completion.fetched else None), completion.failure

    def _trouble(self, fetched: Fetched, offset: int) -> str:
        where = f"{self._partition.topic} partition {self._partition.partition}"
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise RefusedPartitionError(
                f"{where} lost offset {offset} while it was compared; nothing of the partition was recorded"
            )
        if fetched.error in TOPIC_GONE and self._link.is_gone(self._partition):
            raise RefusedPartitionError(
                f"{where} was deleted while it was compared; nothing of the partition was recorded"
            )
        return f"error {describe(fetched.error)}"


class TargetLog:
    """The target's partition: what readers see of it, as long as no flow of this ledger has written to it."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.start = log.start
        self.end = log.end

    def read(self, offset: int) -> Iterator[LogRecord]:
        for record in self._log.read(offset):
            if record.cause is GapCause.MIRROR_WRITE:
                raise RefusedPartitionError(
                    f"target offset {record.offset} was written by a flow of this ledger; nothing of the partition "
                    "was recorded"
                )
            if record.cause is None:
                yield record


def _records(
    header: BatchHeader, batch: memoryview, position: int, cause: GapCause | None
) -> Iterator[LogRecord | Gap]:
    for record in decode(header, batch):
        if record.offset < position:
            continue
        if record.offset > position:
            yield Gap(position, record.offset, GapCause.COMPACTED)
        yield LogRecord(
            record.offset,
            record.timestamp,
            record.content,
            cause,
            header.leader_epoch,
            stamped=header.has_log_append_time,
        )
        position = record.offset + 1
    if position < header.end_offset:
        yield Gap(position, header.end_offset, GapCause.COMPACTED)
