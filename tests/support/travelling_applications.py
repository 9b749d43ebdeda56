"""Applications that hooks of a plan stop at one cluster and start at the other, while they are at work."""

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tests.support.hooked_steps import HookedStep
from tests.support.shops import Desk, Shop
from tests.support.waiting import eventually

_STEPS = ("stop_producers", "stop_groups", "start_applications")


@dataclass
class TravellingApplications:
    """A producer and a group at `source` until hooks of an apply stop them; at `target` from when its hook starts them.

    `nowhere_to_write_s`: at least so long they could write to neither.
    """

    folder: Path
    shop: Shop
    desk: Desk
    source: str
    target: str
    written_at_source: int = 0
    nowhere_to_write_s: float = 0.0

    @property
    def hooks(self) -> list[str]:
        """Options of a plan."""
        return [word for step in _STEPS for word in HookedStep(self.folder, step).option]

    def work(self, ended: Event) -> None:
        """To be run beside the apply; returns when the group has processed all at `target`, or the test has ended."""
        stop_producers, stop_groups, start = (HookedStep(self.folder, step) for step in _STEPS)
        with self.desk.open(self.source, [self.shop.topic]):
            with self.shop.selling(self.source):
                if not stop_producers.wait(ended):
                    return
            stopped_s, self.written_at_source = time.monotonic(), len(self.shop.written)
            stop_producers.done()
            if not stop_groups.wait(ended):
                return
        stop_groups.done()
        if not start.wait(ended):
            return
        with self.desk.open(self.target, [self.shop.topic]):
            self.shop.sell(self.target, 100)
            self.nowhere_to_write_s = time.monotonic() - stopped_s
            start.done()
            eventually(lambda: set(self.desk.processed) >= set(self.shop.written), "all is processed")
