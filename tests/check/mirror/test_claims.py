"""The claim of a flow: between which clusters, and with which producer id."""

from dataclasses import dataclass, field

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.kafka.cluster import live_cluster
from ledger.mirror.driver import claim_row
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.producer_ids import BLOCK
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.mirror_producers import memory_mirror_producers
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledgers import operators


@dataclass
class World:
    """Flows from east to west, and back, that claim."""

    schedule: Schedule = field(default_factory=Schedule)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        self.clusters = {alias: MemoryCluster(alias, self.schedule) for alias in ("east", "west")}
        self.state = MemoryLedgerState(self.ledger)

    def claim(self, name: str, source: str = "east", target: str = "west") -> int:
        """The producer id that the flow claims with."""
        flow = FlowConfig(name=name, source=source, target=target, topics=(".*",))
        at_source = live_cluster(self.clusters[source])
        row = claim_row(flow, source=at_source, target=self.clusters[target], state=self.state, host="h:1:1")
        MemoryFactLog(self.ledger, self.schedule).claim(f"flow:{name}", ["offset_syncs"], row)
        return int(str(row["producer_id"]))

    def accept(self, alias: str, *, rebuilt: bool) -> None:
        identities = self.state.identities()
        accepted = identities.accepting(alias, self.clusters[alias].cluster_id(), rebuilt=rebuilt)
        operators(self.ledger, self.schedule).record(accepted, flow=None, reason="moved")


def test_ids_of_any_brokers_block_are_accepted() -> None:
    world = World()
    ids = [world.claim(f"flow-{number}") for number in range(12)]
    assert len(set(ids)) == 12
    assert ids != sorted(ids)
    assert {allocated // BLOCK for allocated in ids} == {0, 1, 2}
    assert [world.claim(f"flow-{number}") for number in range(12)] == ids


def test_an_id_that_is_recorded_already_proves_a_reset() -> None:
    world = World()
    world.claim("f")
    world.clusters["west"].format()
    with pytest.raises(PreconditionError) as refused:
        world.claim("g")
    assert "the cluster was formatted again" in str(refused.value)
    assert "mirror-ledger accept-cluster west --cluster-id cluster-of-west --rebuilt" in str(refused.value)
    assert [row["flow"] for row in world.ledger.rows("writers")] == ["f"]


def test_after_a_declared_rebuild_ids_are_given_anew() -> None:
    world = World()
    first = world.claim("f")
    other = world.claim("g")
    world.clusters["west"].format()
    world.accept("west", rebuilt=True)
    assert memory_mirror_producers(world.ledger, "cluster-of-west").is_mirror(first) is False
    assert world.claim("g") == first
    directory = memory_mirror_producers(world.ledger, "cluster-of-west")
    assert directory.is_mirror(first)
    assert not directory.is_mirror(other), "an application may have it by now"


@pytest.mark.parametrize("side", ["east", "west"])
def test_another_cluster_behind_an_alias_is_refused_until_it_is_accepted(side: str) -> None:
    world = World()
    before = world.claim("f")
    world.clusters[side].format("another")
    with pytest.raises(PreconditionError, match=f"another cluster answers behind {side}"):
        world.claim("f")
    with pytest.raises(PreconditionError, match=f"another cluster answers behind {side}"):
        world.claim("never-ran", "west", "east")
    assert len(world.ledger.rows("writers")) == 1
    world.accept(side, rebuilt=False)
    world.claim("f")
    [_, after] = world.ledger.rows("writers")
    assert after[f"{'source' if side == 'east' else 'target'}_cluster_id"] == "another"
    assert before in world.state.identities().mirror_ids("cluster-of-west")
    assert world.state.identities().recorded_ids()[side] == "another"


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_cluster_formatted_again_under_its_id_is_refused_until_it_is_declared(side: str) -> None:
    world = World()
    world.schedule.wait(3600)
    world.claim("f")
    world.clusters[side].format()
    with pytest.raises(
        PreconditionError, match=f"{side} has the Kafka cluster id .* but its metadata went back"
    ):
        world.claim("f")
    world.accept(side, rebuilt=True)
    world.claim("f")
