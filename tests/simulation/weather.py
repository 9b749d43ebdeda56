"""How requests fare on their way to clusters and back during a simulation, drawn from its seed."""

import random
from collections import Counter

from tests.simulation.faults import Fault
from tests.simulation.kafka.network import Fate


class StormyWeather:
    """Implements `network.Weather`; calm once `is_over`."""

    def __init__(
        self,
        rng: random.Random,
        tally: Counter[str],
        *,
        loses: bool,
        losses: tuple[float, ...] = (0.01, 0.05, 0.15),
    ) -> None:
        self._rng = rng
        self._tally = tally
        self._loss = rng.choice(losses) if loses else 0.0
        self._slowest_s = rng.choice((0.002, 0.01, 0.05))
        self.is_over = False

    def delay_s(self) -> float:
        return 0.001 if self.is_over else self._rng.uniform(0.0005, self._slowest_s)

    def fate(self, *, is_fetch: bool) -> Fate:
        chance = self._loss / 4 if is_fetch else self._loss
        if self.is_over or self._rng.random() >= chance:
            return Fate.ANSWERED
        self._tally[f"struck: {Fault.LOST_CONNECTIONS}"] += 1
        return self._rng.choice((Fate.LOST_BEFORE, Fate.LOST_AFTER))

    def survivors(self, waiting: int) -> int:
        return self._rng.randint(0, waiting)

    def lateness_s(self) -> float:
        return self._rng.choice((0.0, 0.005, 0.1, 0.3))

    def hears_of_leaders(self) -> bool:
        return self.is_over or self._rng.random() < 0.7
