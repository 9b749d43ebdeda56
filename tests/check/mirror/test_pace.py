"""A flow that reads no more than it may, and what of it comes first."""

from dataclasses import replace

import pytest

from ledger.kafka.requests import FetchItem
from ledger.mirror.pace import Pace
from tests.support.copy_tasks import Bench

BATCHES = 40


def test_what_comes_is_paid_for_and_no_more_than_a_second_is_kept() -> None:
    pace = Pace(1_000.0, now=0.0)
    assert pace.room(0.0) == 0
    assert pace.room(0.04) == 0, "not worth a fetch yet"
    assert pace.room(0.5) == 500
    pace.took(2_500)
    assert pace.room(2.0) == 0, "a batch came whole"
    assert pace.room(2.6) == 100
    assert pace.room(60.0) == 1_000


def test_without_a_limit_there_is_none() -> None:
    pace = Pace(None, now=0.0)
    pace.took(1 << 40)
    assert pace.room(0.0) is None


@pytest.mark.parametrize("byte_rate", [2_000.0, 8_000.0])
def test_a_task_reads_so_many_bytes_a_second(byte_rate: float) -> None:
    bench = Bench()
    bench.write(*[3] * BATCHES)
    size = sum(header.size for header in bench.source_log().headers())
    began = bench.schedule.monotonic()
    bench.run(replace(bench.assignment(), byte_rate=byte_rate), seconds=60.0)
    assert bench.is_copied()
    took_s = bench.schedule.monotonic() - began
    assert size / took_s == pytest.approx(byte_rate, rel=0.25)


def order_of_fetches(bench: Bench, *, has_first: bool) -> list[list[int]]:
    """Of each fetch with both partitions in which order it asks for them."""
    asked: list[list[int]] = []
    fetch = type(bench.source).fetch

    def noted(cluster: object, node: int, items: list[FetchItem], **more: object) -> object:
        if cluster is bench.source and len(items) == 2:
            asked.append([item.partition.partition for item in items])
        return fetch(cluster, node, items, **more)  # type: ignore[arg-type]

    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(type(bench.source), "fetch", noted)
        assignments = [replace(bench.assignment(number), byte_rate=4_000.0) for number in (0, 1)]
        told = [replace(one, comes_first=has_first and one.source.partition == 1) for one in assignments]
        bench.run(*told, seconds=60.0)
    return asked


@pytest.mark.parametrize("has_first", [True, False])
def test_what_comes_first_is_asked_for_first_and_all_in_turn_now_and_then(has_first: bool) -> None:
    bench = Bench()
    for number in (0, 1):
        bench.write(*[3] * BATCHES, partition=number)
        bench.source.topic_by_name["orders"].leaders[number] = 1
    asked = order_of_fetches(bench, has_first=has_first)
    shares = sum(order == [1, 0] for order in asked) / len(asked)
    assert len(asked) > 8
    assert shares == pytest.approx(0.875 if has_first else 0.5, abs=0.15)
    assert bench.is_copied(0)
    assert bench.is_copied(1)
