"""Headers of a stretch of a log, however few batches a request brings."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import headers_between
from tests.support.fenced_clusters import batch

AT = TopicPartition("orders", "T", 0)


@dataclass
class Log:
    """Batches of an offset each; of 3 and 4 nothing is left. `asked`: from where on, request for request."""

    at_once: int
    asked: list[int] = field(default_factory=list)

    def batches_at(self, partition: TopicPartition, offset: int) -> Sequence[BatchHeader]:
        assert partition == AT
        self.asked.append(offset)
        return [batch(at) for at in (0, 1, 2, 5, 6, 7) if at >= offset][: self.at_once]


@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_all_batches_with_an_offset_between_are_there_once(at_once: int) -> None:
    for start, end, found in (
        (0, 9, [0, 1, 2, 5, 6, 7]),
        (1, 6, [1, 2, 5]),
        (3, 5, []),
        (8, 9, []),
        (4, 4, []),
    ):
        headers = headers_between(Log(at_once), AT, start, end)
        assert [header.base_offset for header in headers] == found


def test_as_few_requests_as_answers_allow() -> None:
    log = Log(4)
    assert len(list(headers_between(log, AT, 0, 8))) == 6
    assert log.asked == [0, 6]
