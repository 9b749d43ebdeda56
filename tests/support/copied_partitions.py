"""One partition of a copy task, driven step by step without a network."""

from ledger.mirror.assignment import Assignment, RequestKind, StopCause
from ledger.mirror.partition import PartitionCopy
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.sources import fetched_from, writers

NOW_MS = 1_700_000_000_000
NODE = 1
FOREIGN = application_batch([content(b"not", b"ours")], [NOW_MS])


def source_log(*counts: int) -> PartitionLog:
    """One batch for each count."""
    log = PartitionLog()
    for number, count in enumerate(counts):
        contents = [content(b"%d-%d" % (number, n), b"v") for n in range(count)]
        log.append(application_batch(contents, [NOW_MS] * count), now_ms=NOW_MS)
    return log


class Target:
    """A target partition and a copy that writes to it, without a network between them."""

    def __init__(self, source: PartitionLog, told: Assignment, log: PartitionLog | None = None) -> None:
        self.source = source
        self.log = log or PartitionLog()
        self.copy = PartitionCopy(told, writers())

    def read_tail(self) -> None:
        read = self.log.read(
            self.copy.target.tail.position, committed=False, max_bytes=1 << 20, at_least_one=True
        )
        assert read.error == 0
        self.copy.target.take_tail(
            memoryview(bytearray(read.records)), high_watermark=self.log.high_watermark
        )

    def fetch(self) -> None:
        self.copy.take_fetched(fetched_from(self.source, self.copy.source.position))

    def send(self) -> tuple[int, int]:
        """Send the next batch and let the target take it: (error, base offset), not yet acknowledged."""
        appended = self.log.produce(bytes(self.copy.send_next(NODE)), now_ms=NOW_MS)
        return appended.error, appended.base_offset

    def acknowledge(self, base_offset: int) -> None:
        self.lose_answer()
        self.copy.acknowledged(base_offset)

    def lose_answer(self) -> None:
        """A batch that was sent is on its way no longer."""
        self.copy.requests.answered(RequestKind.WRITE, self.copy.requests.attempt)

    def copy_all(self) -> None:
        self.read_tail()
        self.fetch()
        while self.copy.target.wants_tail(0.0):
            self.read_tail()
            if not self.copy.target.tail.needs_read:
                self.fetch()
        while self.copy.next_copy is not None:
            error, base_offset = self.send()
            assert error == 0
            self.acknowledge(base_offset)

    def ranges(self) -> list[tuple[int, int, int, int, bool]]:
        return [
            (s.source_start, s.source_end, s.target_start, s.target_end, s.recovered)
            for s in self.copy.result().syncs
        ]

    @property
    def stop(self) -> StopCause | None:
        return None if self.copy.target.stop is None else self.copy.target.stop.cause
