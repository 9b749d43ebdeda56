"""Which partitions are acknowledged so late that the others are written to by another connection.

A request is answered when all its partitions are acknowledged, and a connection's next request is taken up behind that.
So the partitions of a request that took long are set aside: each of their requests has one of them, and those that are
quick again come back with the next answer. What is left aside waits for its own kind alone.
"""

from collections.abc import Iterable

from ledger.facts.syncs import TopicPartition


class SlowPartitions:
    """Of one task, over its rounds."""

    def __init__(self) -> None:
        self._aside: set[tuple[str, int]] = set()
        self._quickest_s = float("inf")
        self._answered_at: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._aside)

    def holds(self, partition: TopicPartition) -> bool:
        """Whether it is set aside."""
        return partition.key in self._aside

    def answered(
        self, line: int, partitions: Iterable[TopicPartition], *, sent_at: float, now: float, slow_s: float
    ) -> None:
        """A request of these was answered by a connection, which had been answering another one until then."""
        took_s = now - max(sent_at, self._answered_at.get(line, sent_at))
        self._answered_at[line] = now
        self._quickest_s = min(self._quickest_s, now - sent_at)
        keys = {partition.key for partition in partitions}
        if took_s > self._quickest_s + slow_s:
            self._aside |= keys
        else:
            self._aside -= keys
