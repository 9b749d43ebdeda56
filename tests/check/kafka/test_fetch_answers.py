"""Fetched batches and headers of a stretch of a log, however little an answer brings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from kafka import errors

from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import headers_between
from ledger.kafka.topics import fetched_batches
from tests.support.fenced_clusters import batch

# -- Batches ---------------------------------------------------------------------------------------

AT = TopicPartition("orders", "T", 0)


def answer(*partitions: SimpleNamespace, throttle_ms: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        error_code=0,
        throttle_time_ms=throttle_ms,
        responses=[SimpleNamespace(partitions=partitions)] if partitions else [],
    )


def empty(high_watermark: int, error_code: int = 0) -> SimpleNamespace:
    return SimpleNamespace(error_code=error_code, high_watermark=high_watermark, records=None)


@pytest.mark.parametrize(
    "throttled",
    [answer(throttle_ms=50), answer(), answer(empty(9), throttle_ms=50)],
    ids=["none", "no", "empty"],
)
def test_what_a_quota_has_emptied_is_asked_for_again(throttled: SimpleNamespace) -> None:
    with pytest.raises(errors.ThrottlingQuotaExceededError) as asked:
        fetched_batches(throttled, AT, 5)
    assert asked.value.retriable


@pytest.mark.parametrize(
    "at_end",
    [answer(empty(5)), answer(empty(5), throttle_ms=50), answer(empty(9)), answer(empty(9, error_code=1))],
)
def test_the_end_of_a_log_and_what_was_cleaned_is_empty(at_end: SimpleNamespace) -> None:
    assert fetched_batches(at_end, AT, 5) == []


# -- Headers ---------------------------------------------------------------------------------------


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
