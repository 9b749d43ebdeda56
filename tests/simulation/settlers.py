"""Settles flows between in-memory clusters: as the command does, with the source's side out of reach."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.changeover.settling import SettledFlow, SettlePorts, settle
from ledger.config.values import FlowConfig
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError, PreconditionError
from ledger.facts.operations import Why
from ledger.facts.state import WriterClaim
from ledger.facts.tables import Row
from ledger.store.session import ClaimedOperations
from tests.simulation.drivers import FlowDrivers
from tests.simulation.faults import Fault
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger

SETTLER = "settler"
"""The process that settles, as claims name it."""


class DyingLog(MemoryFactLog):
    """A fact log whose process dies with its append of this number; with `is_done` that one is in the ledger."""

    dies_at: int | None = None
    is_done: bool = False
    _appends: int = 0

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._appends += 1
        is_dead = self.dies_at is not None and self._appends >= self.dies_at
        if not is_dead or (self.is_done and self._appends == self.dies_at):
            super().append(claim, table, round_number, rows)
        if is_dead:
            raise LedgerUnavailableError("the process died")


def settled(
    flow: FlowConfig,
    target: MemoryCluster,
    ledger: MemoryLedger,
    schedule: Schedule,
    *,
    source_answers: bool = False,
    dies_at: int | None = None,
    is_done: bool = False,
    operation_id: str | None = None,
    after: int | None = None,
) -> SettledFlow:
    """`dies_at`: the number of the append with which the process dies."""
    fact_log = DyingLog(ledger, schedule)
    fact_log.dies_at, fact_log.is_done = dies_at, is_done
    lines: list[str] = []
    ports = SettlePorts(
        target=target,
        state=MemoryLedgerState(ledger),
        fact_log=fact_log,
        operations=ClaimedOperations(operator="memory"),
        network=MemoryNetwork(MemoryCluster("nowhere", schedule), target, schedule, CalmWeather()),
        clock=schedule,
        sleep=schedule.wait,
        source_answers=lambda: source_answers,
    )
    done = settle(
        flow,
        ports,
        Why("a fire", operation_id=operation_id),
        host=SETTLER,
        after=after,
        progress=lines.append,
    )
    assert len(lines) == len(done.partitions), "a line for each partition"
    return done


@dataclass(frozen=True, slots=True)
class Settlers:
    """People who believe that a driver's source has died with it, rightly or not, and settle its flow."""

    rng: random.Random
    schedule: Schedule
    ledger: MemoryLedger
    tally: Counter[str]

    def before(self, drivers: FlowDrivers) -> Callable[[], None]:
        """What happens between a driver's end and the next one's start: what else does, and now and then this."""
        otherwise = drivers.meanwhile

        def meanwhile() -> None:
            otherwise()
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                self._settle(drivers)

        return meanwhile

    def _settle(self, drivers: FlowDrivers) -> None:
        dies_at = self.rng.choice((None, None, 1, 2, 3))
        try:
            done = settled(
                drivers.flow,
                drivers.target,
                self.ledger,
                self.schedule,
                dies_at=dies_at,
                is_done=self.rng.random() < 0.5,
            )
        except (PreconditionError, ClusterUnavailableError, LedgerUnavailableError) as error:
            self.tally[f"settling ended by {type(error).__name__}"] += 1
            return
        self.tally[f"struck: {Fault.SETTLED_MEANWHILE}"] += bool(done.records)
        self.tally["partitions not settled"] += len(done.refused)
