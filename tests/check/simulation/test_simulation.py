"""Real flows, rounds and copy tasks against in-memory clusters, in simulated time, under faults.

Each seed is one life of some flows. `pytest tests/simulation --simulation-seed N` repeats one; `make soak`
goes on for as long as it is let.
"""

import pytest

from tests.simulation.crash_points import CrashPoint
from tests.simulation.faults import Fault, Promise
from tests.simulation.seeds import command, plot_of, run_side_by_side, simulate
from tests.simulation.simulation import Plot
from tests.simulation.topologies import Shape

FIRST_SEED = 1
PROCESSES = 2
ENOUGH_SEEDS = 25
SEEDS_TO_JUDGE_BY = 300
WORTH_IT = (
    *("records", "recovered", "raw batches", "record path batches", "requests answered"),
    *("gaps control", "gaps aborted", "gaps compacted", "gaps mirror_write"),
    *("started earliest", "started recreated", "lost retention", "unpaired lost_source"),
    *("superseded source_truncated", "superseded target_truncated", "superseded target_recreated"),
    *("stopped by foreign_write", "stopped by denied", "stopped by refused", "stopped by lost"),
    *("tasks killed", "drivers killed", "zombies", "drivers ended by ShutOutError"),
)


@pytest.mark.fault(1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 20, 21, 23, 25, 26, 27, 28)
@pytest.mark.fault(29, 30, 31, 32, 33, 35, 40, 73, 78)
@pytest.mark.timeout(600)
def test_every_record_arrives_exactly_once_and_is_accounted_for(request: pytest.FixtureRequest) -> None:
    """As many seeds as the time allows; too few prove little."""
    seed = request.config.getoption("--simulation-seed")
    if seed is not None:
        simulate(seed, plot_of(seed))
        return
    seconds = request.config.getoption("--simulation-seconds")
    findings = run_side_by_side(FIRST_SEED, seconds, processes=PROCESSES)
    print(f"{findings.seeds} seeds in {seconds:.0f} s; first that failed: {findings.first_failed}")
    if findings.first_failed is not None:
        pytest.fail(f"{command(findings.first_failed)}\n{findings.failure}", pytrace=False)
    assert findings.seeds >= ENOUGH_SEEDS
    if findings.seeds >= SEEDS_TO_JUDGE_BY:
        assert {name: findings.tally[name] for name in WORTH_IT if not findings.tally[name]} == {}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("point", list(CrashPoint))
def test_everything_holds_after_a_crash_at(point: CrashPoint) -> None:
    """Nothing else goes wrong; whoever gets there the first two times dies exactly there."""
    faults = {
        CrashPoint.PARTITIONS_ADDED: frozenset({Fault.PARTITIONS_ADDED}),
        CrashPoint.OPERATION_RECORDED: frozenset({Fault.FOREIGN_WRITES, Fault.PERMISSIONS_DENIED}),
    }.get(point, frozenset())
    plot = Plot(Promise.ONCE, faults=faults, shape=Shape.SINGLE, crashes=frozenset({point}))
    simulation = simulate(7, plot)
    assert simulation.plan.crashed[point] > 0
    assert simulation.tally["records"] > 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", [shape for shape in Shape if shape is not Shape.SINGLE])
def test_flows_that_meet_copy_what_applications_wrote_and_nothing_else(shape: Shape) -> None:
    simulation = simulate(11, Plot(Promise.ONCE, faults=frozenset(), shape=shape))
    assert simulation.tally["records"] > 0


def test_a_seed_repeats_itself() -> None:
    first, second = simulate(3, plot_of(3)), simulate(3, plot_of(3))
    assert first.rows("offset_syncs") == second.rows("offset_syncs")
    assert first.rows("operations") == second.rows("operations")
