"""Progress of a running flow: a line on stderr now and then, or the status line of a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ledger.cli.logs import writes_json
from ledger.cli.printing import say
from ledger.clock import Clock, SystemClock
from ledger.mirror.progress import RunProgress
from ledger.mirror.text import Rate, progress_line
from ledger.terminal import StatusLine

EVERY_S = 30.0
QUIET_EVERY_S = 300.0
"""When nothing was copied since the last line."""
_SHOWN_RATE_S = 10.0

Tell = Callable[[RunProgress], None]


@dataclass(slots=True)
class _Stretch:
    """What has been copied since `at`."""

    at: float
    records: int = 0
    bytes: int = 0

    def ended(self, progress: RunProgress, now: float) -> "tuple[Rate | None, _Stretch]":
        """The rate over it, and the next one; None: no time has passed."""
        summary = progress.summary
        rate = Rate(summary.records - self.records, summary.bytes - self.bytes, now - self.at)
        return rate if now > self.at else None, _Stretch(now, summary.records, summary.bytes)


@dataclass(slots=True)
class ProgressLines:
    """Writes a line after the first round with records, then every `EVERY_S`; rarer while nothing is copied."""

    flow: str
    clock: Clock
    write: Callable[[str], None]
    _since: _Stretch = field(init=False)
    _is_first: bool = True

    def __post_init__(self) -> None:
        self._since = _Stretch(self.clock.monotonic())

    def __call__(self, progress: RunProgress) -> None:
        now = self.clock.monotonic()
        has_copied = progress.summary.records > self._since.records
        every_s = EVERY_S if has_copied or self._is_first else QUIET_EVERY_S
        if not (self._is_first and has_copied) and now - self._since.at < every_s:
            return
        rate, self._since = self._since.ended(progress, now)
        self.write(progress_line(self.flow, progress, None if self._is_first else rate))
        self._is_first = False


def lines_on_stderr(flow: str) -> ProgressLines:
    """For a run that nobody watches at a terminal."""
    return ProgressLines(flow, SystemClock(), partial(say, flow=flow))


@contextmanager
def shown_progress(flow: str, shown: StatusLine) -> Iterator[Tell]:
    """For a run at a terminal, whose last line is `shown`, or at none."""
    if not shown.is_terminal or writes_json():
        yield lines_on_stderr(flow)
        return
    clock = SystemClock()
    since: _Stretch | None = None
    rate: Rate | None = None
    shown.update(f"{flow}: starting")
    with shown:

        def show(progress: RunProgress) -> None:
            nonlocal since, rate
            now = clock.monotonic()
            if since is None:
                _, since = _Stretch(now).ended(progress, now)
            elif rate is None or now - since.at >= _SHOWN_RATE_S:
                rate, since = since.ended(progress, now)
            shown.update(progress_line(flow, progress, rate))

        yield show
