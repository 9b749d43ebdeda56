"""Real flows, rounds and copy tasks against in-memory clusters, in simulated time, under faults; chosen seeds."""

import random
from collections.abc import Sequence

import pytest

from ledger.kafka.copying import Completion
from ledger.mirror import progress
from tests.simulation.crash_points import CrashPoint
from tests.simulation.faults import Fault, Promise
from tests.simulation.kafka.cluster import Replica
from tests.simulation.kafka.schedule import Actor
from tests.simulation.processes import Process, TaskNetwork, Workers
from tests.simulation.seeds import plot_of, simulate
from tests.simulation.simulation import Plot, Simulation
from tests.simulation.topologies import Shape
from tests.support.histories import examples

MOVING_SEED = 4
"""Of a life with several tasks and partitions."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [7, 9], ids=["batches", "records sent alone"])
@pytest.mark.parametrize("point", list(CrashPoint))
def test_everything_holds_after_a_crash_at(point: CrashPoint, seed: int) -> None:
    """Nothing else goes wrong; whoever gets there the first two times dies exactly there."""
    faults = {
        CrashPoint.PARTITIONS_ADDED: frozenset({Fault.PARTITIONS_ADDED}),
        CrashPoint.OPERATION_RECORDED: frozenset({Fault.FOREIGN_WRITES, Fault.PERMISSIONS_DENIED}),
    }.get(point, frozenset())
    plot = Plot(Promise.ONCE, faults=faults, shape=Shape.SINGLE, crashes=frozenset({point}))
    simulation = simulate(seed, plot)
    assert simulation.plan.crashed[point] > 0
    assert simulation.tally["records"] > 0
    assert simulation.tally["merged batches"] > 0 or seed == 7


@pytest.mark.parametrize("faults", [frozenset(), frozenset({Fault.TASKS_DIE})], ids=["calm", "tasks die"])
def test_a_partition_that_moves_to_another_task_is_written_by_one_at_a_time(
    faults: frozenset[Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each difference in load moves partitions in these lives, in the middle of what is copied."""
    monkeypatch.setattr(progress, "_WORTH_SHARING", 0)
    returned: dict[int, Process] = {}
    wrote: dict[tuple[str | bytes, int], Process] = {}
    moved, wrong = set[tuple[str | bytes, int]](), list[str]()
    wait_for, execute = Workers._await, TaskNetwork.executed

    def note_return(workers: Workers, actor: Actor, process: Process) -> None:
        wait_for(workers, actor, process)
        returned[id(process)] = process  # kept, so that no other one gets its number

    def note_write(network: TaskNetwork, answer: Completion) -> None:
        process = network.process
        for part in answer.produced:
            if part is not None and not part.error:
                place = part.topic, part.partition
                before = wrote.setdefault(place, process)
                if id(process) in returned or not (before is process or id(before) in returned):
                    wrong.append(f"{place}: {process.name} after {before.name}")
                if before.name != process.name:
                    moved.add(place)
                wrote[place] = process
        execute(network, answer)

    monkeypatch.setattr(Workers, "_await", note_return)
    monkeypatch.setattr(TaskNetwork, "executed", note_write)
    simulation = simulate(MOVING_SEED, Plot(Promise.ONCE, faults=faults, shape=Shape.SINGLE))
    assert simulation.tally["records"] > 0
    assert moved
    assert wrong == []


class NearReplicas(dict[tuple[str, int], Replica]):
    """At each request another replica, which lacks nothing, some records, or all of them; now and then none."""

    def __init__(self, rng: random.Random, nodes: Sequence[int]) -> None:
        self._rng, self._nodes = rng, nodes

    def get(self, _place: object, _default: object = None) -> Replica | None:  # type: ignore[override]
        if self._rng.random() < 0.2:
            return None
        return Replica(self._rng.choice(self._nodes), self._rng.choice((0, 0, 0, 1, 7, 1_000)))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", examples(check=[29, 105], soak=range(1, 60)))
def test_whatever_replicas_a_source_is_read_from_the_ledger_says_what_its_leaders_have(seed: int) -> None:
    simulation = Simulation(seed, plot_of(seed))
    for alias, cluster in simulation.clusters.items():
        cluster.replicas = NearReplicas(random.Random(f"{seed}:{alias}"), cluster.nodes)
    simulation.run()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", [shape for shape in Shape if shape is not Shape.SINGLE])
def test_flows_that_meet_copy_what_applications_wrote_and_nothing_else(shape: Shape) -> None:
    simulation = simulate(11, Plot(Promise.ONCE, faults=frozenset(), shape=shape))
    assert simulation.tally["records"] > 0


@pytest.mark.parametrize("seed", [8, 27])
def test_the_query_sends_groups_where_they_skip_nothing(seed: int) -> None:
    """In every life the algebra is asked, which takes less time."""
    simulation = simulate(seed, plot_of(seed))
    before = simulation.tally["moves with an offset one-way"]
    simulation.check_queried_moves()
    assert simulation.tally["moves with an offset one-way"] > before


def test_a_target_that_lost_its_end_while_it_was_promoted_gets_it_again() -> None:
    """Markers had made up for the offsets that were lost, and the flow came back with another producer id."""
    seed = 1313
    simulation = simulate(seed, plot_of(seed))
    assert ("superseded", "target_truncated") in {
        (row["kind"], row["cause"]) for row in simulation.rows("offset_syncs")
    }


def test_a_seed_repeats_itself() -> None:
    first, second = simulate(3, plot_of(3)), simulate(3, plot_of(3))
    assert first.rows("offset_syncs") == second.rows("offset_syncs")
    assert first.rows("operations") == second.rows("operations")


RESTORED = {Fault.SOURCE_RESTORED}
BESIDE = {Fault.SOURCE_RETENTION, Fault.NODES_RESTART, Fault.TASKS_DIE}


@pytest.mark.parametrize(
    ("seed", "faults"),
    [*((seed, RESTORED) for seed in (4, 17, 19, 24)), *((seed, RESTORED | BESIDE) for seed in (33, 54))],
)
def test_lives_in_which_sources_are_brought_back_from_older_copies(seed: int, faults: set[Fault]) -> None:
    plot = Plot(Promise.ONCE, faults=frozenset(faults), shape=Shape.SINGLE)
    simulation = simulate(seed, plot)
    assert simulation.tally["sources put back"] > 0
    assert simulation.tally["superseded source_truncated"] > 0
