"""What the demonstration does and finds, shown as it goes: steps with their time on stderr, tables on stdout."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from ledger.cli.printing import put, rendered, say
from ledger.domain.words.time_words import elapsed
from ledger.reports.terminal import StatusLine


@dataclass(slots=True)
class Progress:
    """What is being done, how long it took, and what came out, on stderr."""

    started_s: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, title: str) -> Iterator["Step"]:
        started_s = time.monotonic()
        with StatusLine() as status:
            status.update(title)
            step = Step(lambda text: status.update(f"{title}: {text}"))
            yield step
        outcome = f": {step.outcome}" if step.outcome else ""
        say(f"{elapsed(time.monotonic() - started_s)}  {title}{outcome}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


@dataclass(slots=True)
class Step:
    """One step under way: `update` shows how far it is, `outcome` stays when it is done."""

    update: Callable[[str], None]
    outcome: str = ""


def show(title: str, answer: pa.Table) -> None:
    put(f"\n{title}\n" + rendered(answer, "table"))
