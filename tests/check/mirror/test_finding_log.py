"""Findings: each change is recorded once, also across drivers; about runs and about partitions that go on."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.facts.findings import EXPLAINED, Finding, FindingName, Findings
from ledger.facts.syncs import NOTHING_KNOWN
from ledger.kafka.cluster import SettingsAnswer, TopicSettings
from ledger.mirror.assignment import PartitionResult
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.watches import (
    PARTITION_FINDINGS,
    RUN_FINDINGS,
    PartitionWatch,
    RunWatch,
)
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copy_tasks import SOURCE, assignment, copied_up_to, copy
from tests.support.fakes import FakeClock
from tests.support.ledgers import claimed, operators
from tests.support.unasked_cluster import UnaskedCluster

# -- Recorded once ---------------------------------------------------------------------------------

ABOUT = (FindingName.RECOMPRESSED, FindingName.LOG_APPEND_TIME)
RECOMPRESSED = Finding(name=FindingName.RECOMPRESSED, topic="t", message="compression.type is gzip")
STAMPED = Finding(name=FindingName.LOG_APPEND_TIME, topic="t", message="stamped")


class Flow:
    """One ledger and the findings of one driver after another."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.operations = operators(self.ledger, Schedule())

    def driver(self, about: tuple[FindingName, ...] = ABOUT, flow: str = "f") -> Findings:
        return Findings(flow, about, self.operations, MemoryLedgerState(self.ledger))

    def recorded(self) -> list[tuple[str, str]]:
        rows = self.ledger.at(self.ledger.latest()).relation("operations").to_pylist()
        return [(row["kind"], json.loads(row["content"])["finding"]) for row in rows]


def test_each_change_is_recorded_once() -> None:
    flow = Flow()
    findings = flow.driver()
    for now in ([], [RECOMPRESSED], [RECOMPRESSED], [RECOMPRESSED, STAMPED], [STAMPED], [STAMPED], []):
        findings.report(now)
    assert flow.recorded() == [
        ("finding_raised", "recompressed"),
        ("finding_raised", "log_append_time"),
        ("finding_cleared", "recompressed"),
        ("finding_cleared", "log_append_time"),
    ]


def test_the_row_says_what_is_so_and_what_to_do() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    [row] = flow.ledger.at(flow.ledger.latest()).relation("operations").to_pylist()
    assert (row["flow"], row["reason"]) == ("f", "recompressed")
    assert json.loads(row["content"]) == {
        "finding": "recompressed",
        "topic": "t",
        "partition": None,
        "message": "compression.type is gzip",
        "next": EXPLAINED[FindingName.RECOMPRESSED].next,
    }


@pytest.mark.parametrize(
    ("name", "topic", "typed"),
    [
        (FindingName.TOMBSTONES_MAY_BE_MISSING, "a b", "mirror-ledger resync-keys f --topic 'a b'"),
        (FindingName.CONFIGURATION_FILE_CHANGED, None, "mirror-ledger reload f --reason WHY"),
    ],
)
def test_what_is_to_be_typed_has_its_names(name: FindingName, topic: str | None, typed: str) -> None:
    flow = Flow()
    flow.driver((name,)).report([Finding(name=name, topic=topic, message="m")])
    [row] = flow.ledger.at(flow.ledger.latest()).relation("operations").to_pylist()
    said = json.loads(row["content"])["next"]
    assert typed in said
    assert not re.search(r"FLOW|TOPIC|CLUSTER", said)


def test_a_later_driver_goes_on_from_the_ledger() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    later = flow.driver()
    later.report([RECOMPRESSED])
    assert flow.recorded() == [("finding_raised", "recompressed")]
    later.report([])
    assert flow.recorded()[1:] == [("finding_cleared", "recompressed")]
    flow.driver().report([])
    assert len(flow.recorded()) == 2


def test_topics_and_partitions_are_told_apart() -> None:
    flow = Flow()
    findings = flow.driver()
    at = [Finding(name=FindingName.RECOMPRESSED, topic="t", partition=p, message="m") for p in (0, 1)]
    findings.report(at)
    findings.report(at[1:])
    assert [kind for kind, _ in flow.recorded()] == ["finding_raised", "finding_raised", "finding_cleared"]


def test_a_subject_leaves_the_findings_of_others_and_of_other_flows_alone() -> None:
    flow = Flow()
    flow.driver().report([RECOMPRESSED])
    flow.driver(about=(FindingName.LOG_APPEND_TIME,)).report([])
    flow.driver(flow="g").report([])
    assert flow.recorded() == [("finding_raised", "recompressed")]


# -- Of a run --------------------------------------------------------------------------------------

FLOW = "f"
RECORDING_STOPPED = ("recording_stopped", None, None)


class WatchedRun:
    """A driver that begins now."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.state = MemoryLedgerState(ledger)
        self.troubles: dict[str, str] = {}
        operations = claimed(MemoryFactLog(ledger, FakeClock()), FLOW)
        findings = Findings(FLOW, RUN_FINDINGS, operations, self.state)
        self.watch = RunWatch(findings, {FindingName.RECORDING_STOPPED: lambda: self.troubles})

    def after(self, **troubles: str) -> frozenset[object]:
        self.troubles = troubles
        self.watch.check()
        return frozenset(self.state.open_findings(FLOW))


def test_raised_and_cleared_once() -> None:
    ledger = MemoryLedger()
    driver = WatchedRun(ledger)
    assert driver.after() == frozenset()
    assert driver.after(east="the store timed out") == {RECORDING_STOPPED}
    assert driver.after(east="the store timed out, again") == {RECORDING_STOPPED}
    assert driver.after() == frozenset()
    assert [row["kind"] for row in ledger.rows("operations")] == ["finding_raised", "finding_cleared"]
    assert "east: the store timed out" in ledger.rows("operations")[0]["content"]


def test_a_later_driver_clears_what_an_earlier_one_raised() -> None:
    ledger = MemoryLedger()
    assert WatchedRun(ledger).after(east="the store timed out") == {RECORDING_STOPPED}
    assert WatchedRun(ledger).after() == frozenset()


# -- Of partitions ---------------------------------------------------------------------------------

KEY = (SOURCE.topic, SOURCE.partition)
DAY_MS = 86_400_000


@dataclass
class Source(UnaskedCluster):
    """A cluster with one topic."""

    settings: dict[str, str]
    asked: list[str] = field(default_factory=list)

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        self.asked += topics
        return SettingsAnswer({topic: TopicSettings({}, self.settings) for topic in topics}, {})


@dataclass
class Watched:
    """A watch over a ledger in memory, in simulated time."""

    policy: str = "compact"
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    schedule: Schedule = field(default_factory=Schedule)
    stuck_after_s: float = 900

    def __post_init__(self) -> None:
        self.source = Source({"cleanup.policy": self.policy, "delete.retention.ms": str(DAY_MS)})
        self.state = MemoryLedgerState(self.ledger)
        self.restart()

    def restart(self) -> None:
        operations = operators(self.ledger, self.schedule)
        findings = Findings("flow", PARTITION_FINDINGS, operations, self.state)
        self.watch = PartitionWatch(findings, self.source, self.schedule, stuck_after_s=self.stuck_after_s)

    def check(self, *results: PartitionResult, begun: frozenset[tuple[str, int]] = frozenset()) -> set[str]:
        self.watch.check(results, begun=begun)
        return {name for name, _, _ in self.state.open_findings("flow")}

    def copied(self, *, age_ms: int) -> PartitionResult:
        builder = SyncBuilder(assignment())
        builder.copied(copy(0, 3, timestamp=self.schedule.now_ms() - age_ms), base_offset=0, recovered=False)
        return replace(seen(3, 3), syncs=builder.syncs())


def seen(last_stable: int, high_watermark: int) -> PartitionResult:
    return PartitionResult(
        assignment=assignment(),
        syncs=(),
        position=copied_up_to(0),
        tail=NOTHING_KNOWN,
        stop=None,
        trouble=None,
        source_ends=(last_stable, high_watermark),
    )


def test_a_transaction_that_hangs_is_found_and_over_when_it_ends() -> None:
    watched = Watched()
    assert watched.check(seen(10, 20)) == set()
    watched.schedule.wait(899)
    assert watched.check(seen(10, 30)) == set()
    watched.schedule.wait(2)
    assert watched.check(seen(10, 30)) == {"last_stable_offset_stuck"}
    assert watched.check(seen(11, 30)) == set()


@pytest.mark.parametrize(
    ("policy", "age_ms", "expected"),
    [
        ("compact", DAY_MS + 5_000, {"tombstones_may_be_missing"}),
        ("compact,delete", DAY_MS + 5_000, {"tombstones_may_be_missing"}),
        ("compact", DAY_MS - 5_000, set()),
        ("delete", DAY_MS + 5_000, set()),
    ],
)
def test_tombstones_may_be_missing_when_records_are_read_later_than_they_last(
    policy: str, age_ms: int, expected: set[str]
) -> None:
    watched = Watched(policy)
    assert watched.check(watched.copied(age_ms=age_ms)) == expected


def test_what_is_copied_for_the_first_time_misses_nothing() -> None:
    watched = Watched()
    assert watched.check(watched.copied(age_ms=2 * DAY_MS), begun=frozenset({KEY})) == set()


def test_missing_tombstones_stay_a_finding_after_the_mirror_has_caught_up_and_after_a_restart() -> None:
    watched = Watched()
    watched.check(watched.copied(age_ms=2 * DAY_MS))
    assert watched.check(watched.copied(age_ms=0)) == {"tombstones_may_be_missing"}
    watched.restart()
    assert watched.check(watched.copied(age_ms=0)) == {"tombstones_may_be_missing"}


def test_settings_are_not_asked_for_in_every_round() -> None:
    watched = Watched()
    for _ in range(3):
        watched.check(watched.copied(age_ms=0))
    assert watched.source.asked == [SOURCE.topic]
    watched.schedule.wait(61)
    watched.check(watched.copied(age_ms=0))
    assert watched.source.asked == [SOURCE.topic] * 2


# -- What the target refused ----------------------------------------------------------------------


def test_batches_cut_are_a_finding_until_one_is_taken_whole_or_none_was_for_a_day() -> None:
    watched = Watched()
    cut = replace(watched.copied(age_ms=0), cut="of 3 records")
    assert watched.check(replace(seen(3, 3), cut="of 3 records")) == set(), "no record of it was copied"
    assert watched.check(cut) == {"batches_cut"}
    assert watched.check(seen(3, 3)) == {"batches_cut"}, "nothing was copied"
    assert watched.check(watched.copied(age_ms=0)) == set()
    watched.check(cut)
    watched.schedule.wait(80_000)
    assert watched.check(cut) == {"batches_cut"}
    watched.schedule.wait(80_000)
    assert watched.check(seen(3, 3)) == {"batches_cut"}
    watched.schedule.wait(6_401)
    assert watched.check(seen(3, 3)) == set()


def test_records_that_were_put_aside_are_a_finding_for_a_day_and_over_a_restart() -> None:
    watched = Watched()
    watched.watch.put_aside(KEY, "a record")
    assert {name for name, _, _ in watched.state.open_findings("flow")} == {"records_put_aside"}
    watched.schedule.wait(80_000)
    watched.restart()
    assert watched.check(watched.copied(age_ms=0)) == {"records_put_aside"}
    watched.schedule.wait(80_000)
    assert watched.check() == {"records_put_aside"}, "nobody knows how old it was"
    watched.schedule.wait(6_401)
    assert watched.check() == set()


# -- Open transactions -----------------------------------------------------------------------------

Look = tuple[int, int, float]
"""Last stable offset, high watermark, seconds."""


@pytest.mark.parametrize(
    ("looks", "stands_s"),
    [
        ([(5, 9, 0.0)], 100.0),
        ([(5, 9, 0.0), (5, 12, 60.0)], 100.0),  # more records behind it change nothing
        ([(5, 9, 0.0), (7, 12, 60.0)], 40.0),  # it moved: another transaction holds it now
        ([(9, 9, 0.0), (9, 12, 60.0)], 40.0),  # nothing was held at the first look
        ([(5, 9, 0.0), (9, 9, 60.0)], 0.0),
        ([(5, 9, 0.0), (9, 9, 60.0), (9, 10, 70.0)], 30.0),
    ],
)
def test_21_a_transaction_hangs_once_the_same_offset_was_held_so_long(
    looks: list[Look], stands_s: float
) -> None:
    for stuck_after_s, expected in ((stands_s or 0.1, stands_s > 0), (stands_s + 0.1, False)):
        watched = Watched(stuck_after_s=stuck_after_s)
        for last_stable, high_watermark, at_s in [*looks, (*looks[-1][:2], 100.0)]:
            watched.schedule.wait(at_s - watched.schedule.monotonic())
            found = watched.check(seen(last_stable, high_watermark))
        assert found == ({"last_stable_offset_stuck"} if expected else set())
