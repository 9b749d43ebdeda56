"""The real driver, rounds and copy tasks against in-memory clusters, in simulated time, under faults.

Each seed is one life of a flow. `pytest tests/simulation --simulation-seed N` repeats one.
"""

from collections import Counter

import pytest

from ledger.mirror import appender
from tests.simulation.processes import SimulatedExecutor
from tests.simulation.simulation import Simulation

TALLY: Counter[str] = Counter()
ENOUGH_SEEDS = 30


@pytest.fixture(autouse=True)
def _simulated_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender, "ThreadPoolExecutor", SimulatedExecutor)


@pytest.mark.timeout(120)
def test_every_record_arrives_exactly_once_and_is_accounted_for(simulation_seed: int) -> None:
    simulation = Simulation(simulation_seed)
    SimulatedExecutor.schedule = simulation.schedule
    print(f"seed {simulation_seed}: {simulation.story}")
    simulation.run()
    TALLY.update(simulation.tally)
    TALLY["seeds"] += 1


def test_the_simulations_were_worth_it() -> None:
    """Runs last: what the seeds together must have met, or the checks above prove little."""
    if TALLY["seeds"] < ENOUGH_SEEDS:
        pytest.skip(f"{TALLY['seeds']} seeds ran, {ENOUGH_SEEDS} are needed to judge")
    met = (
        *(
            "records",
            "recovered",
            "raw batches",
            "record path batches",
            "stopped by foreign_write",
            "zombies",
        ),
        *("gaps control", "gaps aborted", "gaps compacted", "gaps mirror_write"),
        *("tasks killed", "drivers killed", "drivers ended by ShutOutError"),
    )
    assert {name: TALLY[name] for name in met if not TALLY[name]} == {}
