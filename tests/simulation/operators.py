"""People who ask things of a flow: at random while trouble lasts, the right thing afterwards."""

import random
from dataclasses import dataclass

from ledger.facts.requests import REQUEST_CLASSES, RequestKind
from ledger.facts.state import OperationLog
from ledger.mirror.assignment import StopCause
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.stops import REQUESTS


@dataclass(frozen=True, slots=True, order=True)
class StoppedPartition:
    """What an operator sees of it."""

    topic: str
    cause: StopCause


class Operator:
    """Looks at the stopped partitions of a flow, as far as their topics live, and records requests."""

    def __init__(
        self,
        rng: random.Random,
        flow: str,
        source: MemoryCluster,
        state: MemoryLedgerState,
        operations: OperationLog,
    ) -> None:
        self._rng = rng
        self._flow = flow
        self._source = source
        self._state = state
        self._operations = operations

    def stopped(self) -> dict[tuple[str, int], StoppedPartition]:
        """By (source topic id, partition), from the ledger."""
        told = {
            (content["topic_id"], content["partition"]): content["topic"]
            for content in self._state.events(self._flow, "partition_stopped")
        }
        living = {topic.topic_id for topic in self._source.topic_by_name.values()}
        return {
            key: StoppedPartition(told[key], StopCause(stop.cause))
            for key, stop in self._state.stopped_partitions(self._flow).items()
            if key[0] in living
        }

    def meddle(self) -> None:
        """Ask for something about a stopped partition, sensible or not; now and then pause all and go on."""
        stopped = self.stopped()
        if not stopped or self._rng.random() < 0.1:
            self._ask(RequestKind.PAUSE, None, None)
            self._ask(RequestKind.RESUME, None, None)
            return
        key = self._rng.choice(sorted(stopped))
        kind = self._rng.choice(
            (RequestKind.RESUME, RequestKind.RESUME, RequestKind.ACCEPT_FOREIGN, RequestKind.RESYNC)
        )
        self._ask(kind, stopped[key].topic, key[1])

    def resolve(self) -> int:
        """Ask what gets every stopped partition going again; returns how many there are."""
        stopped = self.stopped()
        for key, stop in sorted(stopped.items()):
            kind = REQUESTS.get(stop.cause, RequestKind.RESUME)
            self._ask(kind, stop.topic, key[1])
        return len(stopped)

    def _ask(self, kind: RequestKind, topic: str | None, partition: int | None) -> None:
        asked = REQUEST_CLASSES[kind](topic=topic, partition=partition)
        self._operations.record(asked, flow=self._flow, reason="simulated")
