"""One partition of a flow: what is not read is unknown, an interrupted comparison continues, reading is held back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.comparing.flow import (
    Asked,
    Compared,
    Logs,
    MappedPartition,
    Progress,
    Throttle,
    Verdict,
    compare_partition,
)
from ledger.comparing.partition import OffsetPairs
from ledger.errors import ClusterUnavailableError, RefusedPartitionError, UsageError
from ledger.facts.history import Segment
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import PartitionEnds
from ledger.kafka.requests import Fetched
from tests.support.written_logs import Log, batch, content

_EACH, _BATCHES = 100, 60
_END = _EACH * _BATCHES


@dataclass
class Time:
    """A clock whose time passes by reading it, and by sleeping."""

    now_s: float = 0.0
    each_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        self.now_s += self.each_s
        return self.now_s

    def now_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@dataclass
class Failing:
    """A log that is there no more from an offset on; None: it is."""

    log: Log
    at: int | None
    error: Callable[[str], Exception] = ClusterUnavailableError

    def fetched(self, offset: int, *, min_bytes: int) -> Fetched:
        if self.at is not None and offset >= self.at:
            raise self.error("no leader")
        return self.log.fetched(offset, min_bytes=min_bytes)


def log(changed: int | None = None) -> Log:
    made = []
    for first in range(0, _END, _EACH):
        values = [
            content(b"value-%06d" % (offset if offset != changed else 0))
            for offset in range(first, first + _EACH)
        ]
        made.append(batch(range(first, first + _EACH), values))
    return Log(made)


ONE = MappedPartition(
    TopicPartition("orders", "s", 0), TopicPartition("orders", "t", 0), OffsetPairs([Segment(0, _END, 0)])
)


def ends(log_start: int = 0, end: int = _END) -> PartitionEnds:
    return PartitionEnds(log_start, end, end, 0)


def run(
    source: Log | Failing,
    target: Log | Failing,
    *,
    progress: Progress | None = None,
    asked: Asked | None = None,
    sides: tuple[PartitionEnds | None, PartitionEnds | None] | None = None,
) -> Compared:
    clock = Time(each_s=6.0)  # so that each batch is noted
    return compare_partition(
        ONE,
        sides or (ends(), ends()),
        Logs(source, target),
        asked or Asked(),
        progress or Progress("cut", "flow", None, None),
        Throttle(clock, clock.sleep, None),
        is_cleaned=False,
    )


def test_all_is_equal_and_one_record_is_not() -> None:
    found = run(log(), log())
    assert (found.verdict, found.found.records, found.why) == (Verdict.EQUAL, _END, None)
    found = run(log(), log(changed=4_321))
    assert (found.verdict, found.found.records) == (Verdict.DIFFERS, _END - 1)


@pytest.mark.parametrize("changed", [None, 100, 5_900])
def test_an_interrupted_comparison_continues_and_comes_to_the_same(
    tmp_path: Path, changed: int | None
) -> None:
    file = tmp_path / "progress.json"
    progress = Progress("cut", "flow", file, None)
    first = run(log(), Failing(log(changed), 3_000), progress=progress)
    assert first.verdict is (Verdict.DIFFERS if changed == 100 else Verdict.UNKNOWN)
    assert first.why is not None
    kept = Progress.of(file, "flow", None)
    assert kept is not None
    noted = kept.before(ONE)
    assert noted is not None
    assert noted.read_to is not None
    assert 2_000 < noted.read_to <= 3_000
    source = log()
    again = run(source, log(changed), progress=kept)
    assert min(source.asked) == noted.read_to, "nothing below is read again"
    whole = run(log(), log(changed))
    assert (again.verdict, again.found.records, again.found.first) == (
        *(whole.verdict, whole.found.records, whole.found.first),
    )


def test_what_is_done_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    found = run(log(), log(), progress=Progress("cut", "flow", file, None))
    kept = Progress.of(file, "flow", None)
    assert kept is not None
    source = log()
    assert run(source, log(), progress=kept) == found
    assert source.asked == []


def test_a_log_that_was_cleared_meanwhile_is_unknown_not_equal() -> None:
    found = run(Failing(log(), 3_000, RefusedPartitionError), log())
    assert (found.verdict, found.why) == (Verdict.UNKNOWN, "no leader")


def test_what_a_side_holds_no_more_is_counted_and_what_it_lost_differs() -> None:
    found = run(log(), log(), sides=(ends(250), ends(1_000)))
    assert (found.verdict, found.expired, found.found.records) == (Verdict.EQUAL, 1_000, _END - 1_000)
    found = run(log(), log(), sides=(ends(end=5_000), ends()))
    assert (found.verdict, found.why) == (Verdict.UNKNOWN, f"the source ends at 5000, and {_END} was copied")
    found = run(log(), log(), sides=(ends(), ends(end=5_000)))
    assert (found.verdict, found.found.differing) == (Verdict.DIFFERS, _END - 5_000)
    assert run(log(), log(), sides=(None, ends())).verdict is Verdict.UNKNOWN


def test_a_sample_is_of_both_ends_and_never_says_equal() -> None:
    found = run(log(), log(), asked=Asked(stretches=3))
    assert (found.verdict, found.found.records) == (Verdict.UNKNOWN, 3_000)
    assert run(log(), log(changed=_END - 1), asked=Asked(stretches=3)).verdict is Verdict.DIFFERS
    assert run(log(), log(changed=0), asked=Asked(stretches=3)).verdict is Verdict.UNKNOWN, (
        "value 0 is that of 0"
    )


def test_reading_is_held_back() -> None:
    clock = Time()
    throttle = Throttle(clock, clock.sleep, 100.0)
    for _ in range(10):
        throttle(50)
    assert clock.now_s == pytest.approx(5.0)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"cut": "c", "flow": "other", "stretches": null, "done": {}}']
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "progress.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="nothing was read"):
        Progress.of(file, "flow", None)
    file.write_text(json.dumps({"cut": "c", "flow": "flow", "stretches": 3, "done": {}}))
    with pytest.raises(UsageError, match="--sample 3"):
        Progress.of(file, "flow", None)
