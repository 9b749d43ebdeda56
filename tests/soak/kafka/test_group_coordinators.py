"""Groups whose coordinator is lost are unknown, and keep no other group and no end from being recorded."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig, FlowConfig
from ledger.errors import ClusterUnavailableError
from ledger.facts.groups import GroupEvent, NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder
from ledger.sandbox import Sandbox
from tests.support.fakes import FakeClock, FakeLedger, FakeProcesses
from tests.support.waiting import eventually

FLOW = FlowConfig(name="f", source="frail", target="other", topics=(".*",))
GROUPS = [f"group-{number}" for number in range(12)]


@pytest.fixture
def frail(tmp_path: Path) -> Iterator[Sandbox]:
    """Three brokers, each with offsets of groups that no other has."""
    made = Sandbox(tmp_path / "sandbox")
    try:
        made.up(["frail"], 3, overrides={"frail": {"offsets.topic.replication.factor": "1"}})
        yield made
    finally:
        made.down()


def events(ledger: FakeLedger) -> dict[str | None, tuple[GroupEvent, str | None]]:
    return {fact.group_id: (fact.event, fact.reason) for fact in ledger.last_groups("frail")}


def test_groups_of_a_lost_coordinator_are_unavailable_until_it_is_back(frail: Sandbox) -> None:
    config = ClusterConfig(name="frail", bootstrap_servers=frail.status()["frail"].bootstrap_servers)
    with closing(KafkaAdmin("frail", config, SystemClock())) as admin:
        admin.create_topic("t", partitions=1, replication_factor=3, configuration={})
        for group in GROUPS:
            assert admin.set_commits(group, [NewCommit("t", 0, 1, None)]) == {}
        ledger = FakeLedger(FakeClock())
        settings = RecorderSettings.of_flows([FLOW])
        recorder = ClusterRecorder(
            admin,
            ledger,
            ledger,
            ledger.clock,
            settings,
            partitions=lambda: [("t", 0)],
            processes=FakeProcesses(),
        )
        assert recorder.take_role().is_free
        recorder.record_once()
        assert {event for event, _ in events(ledger).values()} == {GroupEvent.PRESENT, GroupEvent.ALL_LISTED}
        committed = len(ledger.rows("checkpoints"))
        assert committed == len(GROUPS)

        lost = 3
        frail.kill("frail", lost)

        def is_recorded() -> bool:
            try:
                recorder.record_once()
            except ClusterUnavailableError:
                return False  # until the controller has noticed
            return GroupEvent.UNAVAILABLE in {event for event, _ in events(ledger).values()}

        eventually(is_recorded, "some groups are unavailable")
        unavailable = {
            group for group, (event, _) in events(ledger).items() if event is GroupEvent.UNAVAILABLE
        }
        assert 0 < len(unavailable) < len(GROUPS)
        assert {reason for event, reason in events(ledger).values() if event is GroupEvent.UNAVAILABLE} == {
            "COORDINATOR_NOT_AVAILABLE"
        }
        assert len(ledger.rows("checkpoints")) == committed, "nothing is said of their commits"
        known = next(group for group in GROUPS if group not in unavailable)
        assert admin.set_commits(known, [NewCommit("t", 0, 2, None)]) == {}
        recorder.record_once()
        assert [row["group_id"] for row in ledger.rows("checkpoints")[committed:]] == [known]
        lost_group = GroupListing(min(filter(None, unavailable)), "classic", "Empty")
        with pytest.raises(
            ClusterUnavailableError, match="no coordinator of cluster frail answers for group"
        ):
            admin.commits([lost_group], topic_ids={})
        with pytest.raises(ClusterUnavailableError, match="COORDINATOR_NOT_AVAILABLE; not done"):
            admin.dead_groups([lost_group.group_id])

        frail.start("frail", lost)
        eventually(lambda: is_back(recorder, ledger), "all groups are read again")
        assert len(ledger.rows("checkpoints")) == committed + 1


def is_back(recorder: ClusterRecorder, ledger: FakeLedger) -> bool:
    try:
        recorder.record_once()
    except ClusterUnavailableError:
        return False
    return {event for event, _ in events(ledger).values()} == {GroupEvent.PRESENT, GroupEvent.ALL_LISTED}
