"""Nothing is adopted while a flow that reads it is at work."""

from collections.abc import Sequence

import pytest

from ledger.adopt.adopting import AdoptionPorts, Consent, adopt, require_at_rest
from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.roles import LastClaim, ProcessMark
from ledger.facts.syncs import PartitionPair, TopicPartition
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeProcesses

FLOW = FlowConfig(name="f", source="east", target="west", topics=("orders",))
BACK = FlowConfig(name="back", source="west", target="east", topics=("orders",))
HERE = ProcessMark("host-a", 11, 5)


def require(readers: Sequence[FlowConfig], claim: LastClaim | None, *, alive: bool = True) -> None:
    processes = FakeProcesses(alive={HERE} if alive else set())
    require_at_rest(FLOW, readers, {"flow:back": claim}.get, processes, Schedule())


def claim(*, released: bool) -> LastClaim:
    return LastClaim(3, str(HERE), released, 0, 0)


def test_a_reader_that_is_at_work_is_told_with_the_way_out() -> None:
    with pytest.raises(PreconditionError, match=r"flow back is .*what f adopts.*mirror-ledger stop back"):
        require([BACK], claim(released=False))


def test_readers_that_ended_died_or_never_ran_are_at_rest() -> None:
    require([BACK], claim(released=True))
    require([BACK], claim(released=False), alive=False)
    require([BACK], None)
    require([], claim(released=False))


def test_nothing_is_claimed_while_a_reader_is_at_work() -> None:
    schedule, ledger = Schedule(), MemoryLedger()
    east, west = MemoryCluster("east", schedule), MemoryCluster("west", schedule)
    for cluster in (east, west):
        cluster.create_topic("orders", partitions=1, replication_factor=1, configuration={})
    ids = [cluster.topic_by_name["orders"].topic_id for cluster in (east, west)]
    pair = PartitionPair(*(TopicPartition("orders", topic_id, 0) for topic_id in ids))

    def refuse() -> None:
        raise PreconditionError("back is at work")

    with pytest.raises(PreconditionError, match="back is at work"):
        adopt(
            FLOW,
            [pair],
            AdoptionPorts(
                east,
                west,
                MemoryLedgerState(ledger),
                MemoryNetwork(east, west, schedule, CalmWeather()),
                schedule,
            ),
            Consent(missing=False, foreign=False),
            fact_log=MemoryFactLog(ledger, schedule),
            host="h",
            wait=lambda _seconds: None,
            require_readers_at_rest=refuse,
        )
    assert ledger.rows("writers") == []
