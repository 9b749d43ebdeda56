"""Records that the target refuses are put aside, each once, whenever a driver dies; their flow goes past them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ledger.config.values import FlowConfig
from ledger.facts.state import WriterClaim
from ledger.facts.tables import OFFSET_SYNCS, Row
from ledger.kafka.batches import Record
from ledger.kafka.record_fields import read_fields
from ledger.mirror.assignment import Assignment, CopyLimits
from ledger.mirror.continuing import Results
from ledger.mirror.driver import run_flow
from ledger.mirror.progress import RunSummary
from ledger.mirror.rounds import FlowRun
from ledger.mirror.task import CopyTask
from ledger.store.session import ClaimedOperations
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.support.copy_tasks import NOW_MS, writers
from tests.support.ledgers import numbered
from tests.support.memory_flows import Flow
from tests.support.stepped_drivers import AtOnce

LARGE = b"v" * 700
TOPIC = "aside.east.t"


class DiedError(Exception):
    """The process ended."""


class Dying(MemoryFactLog):
    """The ledger of a process that dies before, or behind, one of its appends."""

    def __init__(self, flow: Flow, dies_at: int, *, is_behind: bool) -> None:
        super().__init__(flow.ledger, flow.clock)
        self._left, self._is_behind = dies_at, is_behind

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self._left -= table == OFFSET_SYNCS.name
        is_it = self._left == 0 and table == OFFSET_SYNCS.name
        if is_it and not self._is_behind:
            raise DiedError
        super().append(claim, table, round_number, rows)
        if is_it:
            raise DiedError


@dataclass
class OneRound:
    """Implements `CopyJob`: its tasks end with their first round."""

    runner: "Runner"
    shares: list[list[Assignment]]
    seconds: float
    is_over: bool = False

    def next_round(self) -> Results:
        self.is_over = True
        return self.runner.run(self.shares, seconds=self.seconds)

    def recorded(self) -> None:
        raise AssertionError("no task is at work any more")

    end = abandon = recorded


@dataclass
class Runner:
    flow: Flow
    is_killed_behind: int | None = None
    rounds: int = 0

    def begin(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> OneRound:
        return OneRound(self, [list(share) for share in tasks], seconds)

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> Results:
        self.rounds += 1
        results = []
        for share in tasks:
            network = MemoryNetwork(self.flow.east, self.flow.west, self.flow.clock, CalmWeather())
            limits = CopyLimits(max_wait_ms=50, request_timeout_ms=1_000, drain_ms=100)
            results += CopyTask(share, network, writers(), self.flow.clock, limits).run(seconds=seconds)
        if self.rounds == self.is_killed_behind:
            raise DiedError
        return results


@dataclass
class Life:
    flow: Flow = field(default_factory=Flow)

    def __post_init__(self) -> None:
        self.flow.source("t", partitions=2)
        self.flow.west.create_topic(
            "east.t", partitions=2, replication_factor=1, configuration={"max.message.bytes": "400"}
        )

    def write(self, *values: bytes, partition: int = 0) -> None:
        batch = application_batch([content(b"k", value) for value in values], [NOW_MS] * len(values))
        self.flow.east.log("t", partition).append(batch, now_ms=NOW_MS)

    def run(self, fact_log: MemoryFactLog | None = None, *, killed_behind: int | None = None) -> RunSummary:
        operations = ClaimedOperations(operator="driver", new_id=numbered())
        flow = FlowConfig(name="f", source="east", target="west", topics=("t",), dead_letters="aside.{topic}")
        return run_flow(
            FlowRun(
                flow=flow,
                topics=self.flow.topics(operations=operations, patterns=("t",)),
                source=self.flow.east,
                target=self.flow.west,
                fact_log=fact_log or MemoryFactLog(self.flow.ledger, self.flow.clock),
                state=MemoryLedgerState(self.flow.ledger),
                operations=operations,
                runner=Runner(self.flow, killed_behind),
                clock=self.flow.clock,
                executor=AtOnce,
                host="host:1:1",
                until_caught_up=True,
                stop=_Never(),
                on_round=lambda _progress: None,
            )
        )

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        return [_value(record) for record in self.flow.west.log(topic, partition).readable()]

    def syncs(self, flow: str) -> list[Row]:
        return [row for row in self.flow.ledger.rows("offset_syncs") if row["flow"] == flow]


class _Never:
    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError(f"there was something to do, not to wait for {timeout} s")


def _value(record: Record) -> bytes:
    size = record.content[0] >> 1
    return b"large" if LARGE in record.content else record.content[1 + size + 1 : 1 + size + 3]


def test_a_record_that_is_refused_is_put_aside_and_the_others_are_copied() -> None:
    life = Life()
    life.write(b"v0", b"v1", LARGE, b"v3", LARGE, LARGE, b"v6")
    life.write(b"w0", partition=1)
    summary = life.run()
    assert (summary.stopped, str(summary.end)) == ([], "caught_up")
    assert life.values("east.t") == [b"v0", b"v1", b"v3", b"v6"]
    assert life.values("east.t", 1) == [b"w0"]
    assert life.values(TOPIC) == [b"large"] * 3
    assert life.flow.west.topics()[TOPIC].partitions == 2
    first = life.flow.west.log(TOPIC, 0).readable()[0]
    headers = {name.decode(): value for name, value in read_fields(first.content).headers}
    assert headers["mirror-ledger.topic"] == b"t"
    assert headers["mirror-ledger.offset"] == b"2"
    assert headers["mirror-ledger.timestamp"] == str(NOW_MS).encode()
    assert headers["mirror-ledger.cause"] == b"10 (MESSAGE_TOO_LARGE)"
    assert first.timestamp == NOW_MS
    gaps = [gap for row in life.syncs("f") for gap in row["gaps"] or ()]
    assert {gap["cause"] for gap in gaps} == {"dead_letter"}
    assert sum(gap["source_end"] - gap["source_start"] for gap in gaps) == 3
    copied = [row for row in life.syncs("f.dead-letters") if row["records"]]
    assert [(row["source_start"], row["target_start"]) for row in copied] == [(2, 0), (4, 1), (5, 2)]
    assert [finding[:2] for finding in life.flow.findings()] == [("records_put_aside", "t")]
    assert life.run().stopped == []
    assert len(life.values(TOPIC)) == 3


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("dies_at", range(1, 10))
def test_a_crash_at_any_append_doubles_nothing(dies_at: int, is_behind: bool) -> None:
    life = Life()
    life.write(b"v0", LARGE, b"v2", LARGE)
    with pytest.raises(DiedError):
        life.run(Dying(life.flow, dies_at, is_behind=is_behind))
    assert life.run().stopped == []
    assert life.values("east.t") == [b"v0", b"v2"]
    assert life.values(TOPIC) == [b"large"] * 2
    offsets = [row["source_start"] for row in life.syncs("f.dead-letters") if row["records"]]
    assert offsets == [1, 3]
    found = {finding[0] for finding in life.flow.findings()}
    assert "records_put_aside" in found, "in whichever life it was"


@pytest.mark.parametrize("killed_behind", [1, 2, 3, 4])
def test_nor_does_one_behind_a_task(killed_behind: int) -> None:
    life = Life()
    life.write(b"v0", LARGE, b"v2", LARGE)
    with pytest.raises(DiedError):
        life.run(killed_behind=killed_behind)
    assert life.run().stopped == []
    assert life.values("east.t") == [b"v0", b"v2"]
    assert life.values(TOPIC) == [b"large"] * 2


def test_behind_a_fence_nothing_is_put_aside() -> None:
    life = Life()
    life.flow.west.change_settings("east.t", to_set={"max.message.bytes": "78"}, to_remove=[])
    life.write(b"v0" * 20)
    [stopped] = life.run().stopped
    assert "a fence: nothing is put aside" in stopped.message
    assert TOPIC not in life.flow.west.topics()


def test_what_the_dead_letter_topic_refuses_stops_the_partition() -> None:
    life = Life()
    life.flow.west.create_topic(
        TOPIC, partitions=1, replication_factor=1, configuration={"max.message.bytes": "300"}
    )
    life.write(b"v0", LARGE)
    [stopped] = life.run().stopped
    assert stopped.cause == "refused"
    assert f"{TOPIC} does not take it either" in stopped.message
    assert life.flow.west.topics()[TOPIC].partitions == 2
    assert life.values("east.t") == [b"v0"]
