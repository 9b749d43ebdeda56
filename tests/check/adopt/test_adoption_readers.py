"""Adopting: what it leaves out, which readers and other mirrors keep it from being done."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.adopt.adopting import (
    Consent,
    PartitionAdoption,
    adopt,
    require_at_rest,
)
from ledger.adopt.reading import BothSides, PartitionLog
from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.roles import LastClaim, ProcessMark
from ledger.facts.syncs import GapCause, PartitionPair, TopicPartition
from ledger.kafka.cluster import GroupListing
from ledger.mirror.other_mirrors import signs_of_mirror_maker
from ledger.topics.naming import KEEP_ALL, RecordFilter
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copy_tasks import SOURCE, TARGET, Bench
from tests.support.fakes import FakeProcesses

# -- Readers at work -------------------------------------------------------------------------------

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
            BothSides(
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


# -- What is left out ------------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000
KEYS = [b"1", b"22", b"no", b"2", b"", b"12"]
FILTERS = [
    KEEP_ALL,
    RecordFilter(exclude_keys=("[0-9]*[02468]",)),
    RecordFilter(exclude_keys=(".*",)),
    RecordFilter(exclude_keys=("no", "1.*")),
]


@pytest.mark.parametrize("record_filter", FILTERS, ids=lambda each: ",".join(each.exclude_keys) or "all")
def test_what_a_flow_would_leave_out_is_left_out_when_it_is_adopted(record_filter: RecordFilter) -> None:
    bench = Bench()
    for keys in (KEYS[:4], KEYS[4:]):
        batch = application_batch([content(key, b"v") for key in keys], [NOW_MS] * len(keys))
        bench.source_log().append(batch, now_ms=NOW_MS)
    told = replace(bench.assignment(), record_filter=record_filter)
    [result] = bench.run(told)
    network = MemoryNetwork(bench.source, bench.target, bench.schedule, CalmWeather())
    network.source.refresh(["orders"])
    log = PartitionLog(
        network,
        network.source,
        bench.schedule,
        told.source,
        start=0,
        end=len(KEYS),
        mirror_producer_ids=frozenset(),
        record_filter=record_filter,
    )
    read = [(record.content, record.cause) for record in log.read(0)]
    copied = [record.content for record in bench.target_log().readable()]
    assert result.position.source_offset == len(read) == len(KEYS)
    assert [found for found, cause in read if cause is None] == copied
    assert {cause for _, cause in read} <= {None, GapCause.FILTERED}


# -- Other mirrors ---------------------------------------------------------------------------------


class Target(MemoryCluster):
    """A cluster with groups, and with the time of the last record of each topic."""

    def __init__(self, *listed: GroupListing) -> None:
        super().__init__("west", Schedule())
        self.listed = list(listed)
        self.last_written_ms: dict[str, int] = {}
        self.is_denied = False

    def groups(self) -> list[GroupListing]:
        if self.is_denied:
            raise PreconditionError("groups may not be listed")
        return self.listed

    def topic(self, name: str, *, age_s: float) -> None:
        self.create_topic(name, partitions=1, replication_factor=1, configuration={})
        self.last_written_ms[name] = self.clock.now_ms() - int(age_s * 1000)

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        return {at: 0 for at in partitions if self.last_written_ms[at[0]] >= timestamp_ms}


def signs(target: Target) -> list[str]:
    return signs_of_mirror_maker(target, target.clock)


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", None])
def test_workers_of_connect_are_told(state: str | None) -> None:
    [sign] = signs(Target(GroupListing("east-mm2", "classic", state, "connect")))
    assert sign.startswith("Kafka Connect is at work at west (group east-mm2): ")


@pytest.mark.parametrize(
    "group",
    [
        GroupListing("east-mm2", "classic", "Empty", "connect"),
        GroupListing("east-mm2", "classic", "Dead", "connect"),
        GroupListing("application", "classic", "Stable", "consumer"),
        GroupListing("application", "consumer", "Stable", None),
    ],
)
def test_groups_of_others_and_groups_at_rest_are_not(group: GroupListing) -> None:
    assert signs(Target(group)) == []


@pytest.mark.parametrize(
    "name", ["heartbeats", "east.heartbeats", "east.checkpoints.internal", "mm2-offset-syncs.east.internal"]
)
def test_topics_that_mirror_maker_writes_to_itself_tell_when_they_are_fresh(name: str) -> None:
    target = Target()
    target.topic(name, age_s=149)
    [sign] = signs(target)
    assert sign.startswith(f"{name} at west was written to within 150 s")
    old = Target()
    old.topic(name, age_s=151)
    assert signs(old) == []


def test_other_topics_do_not_tell() -> None:
    target = Target()
    for name in ("orders", "east.orders", "heartbeats-of-machines", "checkpoints.internal"):
        target.topic(name, age_s=1)
    assert signs(target) == []


def test_what_may_not_be_read_is_not_taken_for_fine() -> None:
    target = Target()
    target.is_denied = True
    assert signs(target) == ["whether MirrorMaker still runs is unknown: groups may not be listed"]


def test_signs_are_remarks_of_all_that_is_not_refused() -> None:
    pair = PartitionPair(SOURCE, TARGET)
    assert PartitionAdoption.empty(pair).remarked(["a sign"]).remarks[-1] == "a sign"
    assert PartitionAdoption.refused(pair, "why").remarked(["a sign"]).remarks == ("why",)
