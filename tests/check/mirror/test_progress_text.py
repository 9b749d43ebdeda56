"""The line of a running flow: nothing that is not known is told as a number."""

import pytest

from ledger.mirror.progress import Lag, RunProgress, RunSummary
from ledger.mirror.text import Rate, progress_line

COPIED = "f: 1,200 records, 3.4 MB copied"


def line(lag: Lag, *, stopped: int = 0, paused: int = 0, rate: Rate | None = None) -> str:
    summary = RunSummary(records=1_200, bytes=3_400_000)
    return progress_line("f", RunProgress(summary, lag, stopped, paused, stale_after_s=15), rate)


@pytest.mark.parametrize(
    ("lag", "told"),
    [
        (Lag(1_500, 3, 12.4, 1.2), "lag 1,500 records, for 12 s or longer, as of 1 s ago"),
        (Lag(0, 3, None, 1.2), "lag 0 records, as of 1 s ago"),
        (Lag(90, 3, None, None), "lag 90 records"),
        (
            Lag(9, 3, 1.0, 2.0, unknown=1),
            "lag 9 records, for 1 s or longer, as of 2 s ago, and unknown for 1 partition",
        ),
        (Lag(0, 3, None, 15.0), "lag 0 records, as of 15 s ago"),
        (Lag(0, 3, None, 15.1), "lag unknown; it was 0 records 15 s ago"),
        (Lag(unknown=2), "lag unknown: the source has not answered yet for 2 partitions"),
        (Lag(), "no partition is being copied"),
    ],
)
def test_the_lag_is_told_with_its_age_or_as_unknown(lag: Lag, told: str) -> None:
    assert line(lag) == f"{COPIED}; {told}"


def test_the_rate_is_of_a_stretch_of_time() -> None:
    rate = Rate(records=6_000, bytes=15_000_000, seconds=30)
    assert line(Lag(), rate=rate) == (
        f"{COPIED}; 200 records/s, 0.5 MB/s in the last 30 s; no partition is being copied"
    )


def test_what_stands_still_is_counted() -> None:
    assert line(Lag(), stopped=1, paused=2).endswith("; 1 partition stopped; 2 partitions paused")
