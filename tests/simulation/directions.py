"""People who promote targets while flows write to them, and demote them again."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

from ledger.domain.operations.directions import Demoted, DirectionChange, Promoted
from ledger.ports.ledger import OperationLog
from tests.simulation.drivers import FlowDrivers
from tests.simulation.faults import Fault


class Direction:
    """Of one flow: the whole pair, or one of its target topics, at random, in any order."""

    def __init__(
        self,
        rng: random.Random,
        drivers: FlowDrivers,
        target_names: Callable[[], Sequence[str]],
        operations: OperationLog,
        tally: Counter[str],
    ) -> None:
        self._rng = rng
        self._flow = drivers.flow
        self._cluster_ids = drivers.target.cluster_id(), drivers.source.cluster_id()
        self._target_names = target_names
        self._operations = operations
        self._tally = tally

    def change(self) -> None:
        kind = self._rng.choice((Promoted, Promoted, Demoted))
        topics = None if self._rng.random() < 0.5 else (self._rng.choice(self._target_names()),)
        self._record(kind, topics)
        self._tally[f"struck: {Fault.DIRECTION_CHANGES}"] += 1

    def demote(self) -> None:
        """Whatever was promoted is so no longer."""
        self._record(Demoted, None)

    def _record(self, kind: type[DirectionChange], topics: tuple[str, ...] | None) -> None:
        cluster_id, former_id = self._cluster_ids
        change = kind(
            cluster=self._flow.target,
            cluster_id=cluster_id,
            former=self._flow.source,
            former_id=former_id,
            topics=topics,
        )
        self._operations.record(change, flow=None, reason="simulated")
