"""People who promote targets while flows write to them, and demote them again."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import ShutOut, shut_mirror_out
from ledger.errors import ClusterUnavailableError, InvalidValueError, PreconditionError
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.operations import Why
from ledger.facts.state import FactLog, OperationLog
from tests.simulation.drivers import FlowDrivers
from tests.simulation.faults import Fault
from tests.simulation.kafka.fenced_cluster import FencedCluster
from tests.support.fakes import FakeProcesses

SHUT_OUT = "mirrors shut out by markers"


def _nobody_waits(_seconds: float) -> None:
    raise AssertionError("a shut-out without a time limit waits for nobody")


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
        self._all = ShutOut(
            pair=Pair(self._flow.target, self._flow.source, None),
            flows=[self._flow],
            copies=lambda _flow, _topic: True,
            with_markers=True,
            cluster=cast(FencedCluster, drivers.target),
            mirror=cast(FencedCluster, drivers.target),
            state=drivers.state,
            operations=operations,
            fact_log=cast(FactLog, None),
            processes=FakeProcesses(),
            clock=drivers.target.clock,
            sleep=_nobody_waits,
            progress=lambda _line: None,
        )

    def change(self) -> None:
        self._shut_out()
        kind = self._rng.choice((Promoted, Promoted, Demoted))
        topics = None if self._rng.random() < 0.5 else (self._rng.choice(self._target_names()),)
        self._record(kind, topics)
        self._tally[f"struck: {Fault.DIRECTION_CHANGES}"] += 1

    def demote(self) -> None:
        """Whatever was promoted is so no longer."""
        self._shut_out()
        self._record(Demoted, None)

    def _shut_out(self) -> None:
        """By markers, of each topic where the flow is known to have stopped by now."""
        for topic in self._target_names():
            pair = Pair(self._flow.target, self._flow.source, (topic,))
            with suppress(PreconditionError, ClusterUnavailableError, InvalidValueError):
                shut_mirror_out(replace(self._all, pair=pair), Why("simulated"))
                self._tally[SHUT_OUT] += 1

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
