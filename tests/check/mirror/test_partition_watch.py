"""Findings about partitions that go on: transactions that hang, tombstones read too late."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.facts.findings import Findings
from ledger.facts.syncs import NOTHING_KNOWN
from ledger.kafka.cluster import SettingsAnswer, TopicSettings
from ledger.mirror.assignment import PartitionResult
from ledger.mirror.syncs import SyncBuilder
from ledger.mirror.watches import PARTITION_FINDINGS, PartitionWatch
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.operation_logs import operators
from tests.support.sources import SOURCE, assignment, copied_up_to, copy
from tests.support.unasked_cluster import UnaskedCluster

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

    def __post_init__(self) -> None:
        self.source = Source({"cleanup.policy": self.policy, "delete.retention.ms": str(DAY_MS)})
        self.state = MemoryLedgerState(self.ledger)
        self.restart()

    def restart(self) -> None:
        operations = operators(self.ledger, self.schedule)
        findings = Findings("flow", PARTITION_FINDINGS, operations, self.state)
        self.watch = PartitionWatch(findings, self.source, self.schedule, stuck_after_s=900)

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
