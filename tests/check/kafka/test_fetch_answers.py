"""Answers to fetches of batches: an answer that a quota has emptied is not the end of a log."""

from types import SimpleNamespace

import pytest
from kafka import errors

from ledger.facts.syncs import TopicPartition
from ledger.kafka.topics import fetched_batches

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
