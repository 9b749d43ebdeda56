"""The recorder of one cluster, on a ledger in memory."""

import json
import logging
from collections import Counter

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import ClusterUnavailableError, PreconditionError, ShutOutError
from ledger.facts.roles import ProcessMark, RoleVerdict
from ledger.kafka.cluster import PartitionEnds, TopicDescription
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder
from tests.support.fakes import (
    FakeClock,
    FakeCluster,
    FakeLedger,
    FakeProcesses,
    mirrored,
    recorder_of,
)


def test_the_first_look_records_everything(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    recorded = recorder.record_once()
    assert recorded.round_number == 1
    assert recorded.rows == {"checkpoints": 2, "groups": 2, "high_watermarks": 2, "topics": 2}
    assert {(row["group_id"], row["topic"], row["topic_id"]) for row in ledger.rows("checkpoints")} == {
        ("app", "orders", "id-1"),
        ("app", "unmirrored", "id-9"),
    }
    assert [row["topic"] for row in ledger.rows("topics")] == ["orders", "unmirrored"]
    assert [json.loads(str(row["configuration"])) for row in ledger.rows("topics")] == [{}, {}]


def test_a_claim_says_where_the_brokers_are(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    assert recorder.holds_role
    assert ledger.brokers("east") == ("cluster-id", [["PLAINTEXT://east-1:9092"]])


def test_nothing_changed_appends_nothing(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    recorder.record_once()
    appended = len(ledger.appends)
    assert recorder.record_once().round_number is None
    assert len(ledger.appends) == appended


def test_a_change_is_one_round(recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger) -> None:
    recorder.record_once()
    cluster.committed["app", "orders", 0] = 4
    del cluster.committed["app", "unmirrored", 0]
    cluster.ends_now["orders", 1] = PartitionEnds(0, 6, 6, 0)
    recorded = recorder.record_once()
    assert (recorded.round_number, recorded.rows) == (2, {"checkpoints": 2, "high_watermarks": 1})
    assert [row["committed_offset"] for row in ledger.rows("checkpoints")[-2:]] == [4, None]


def test_a_topic_recreated_during_a_look_waits(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    cluster.during_look = [TopicDescription("orders", "id-2", 2, 1, False)]
    cluster.committed["app", "orders", 0] = 0
    assert recorder.record_once().round_number is None
    recorder.record_once()
    assert [row["topic_id"] for row in ledger.rows("high_watermarks")[-2:]] == ["id-2", "id-2"]
    assert [(row["event"], row["topic_id"]) for row in ledger.rows("topics")[-1:]] == [("recreated", "id-2")]


def events(ledger: FakeLedger) -> list[tuple[str, str]]:
    return [(str(row["topic"]), str(row["event"])) for row in ledger.rows("topics")]


def test_a_topic_that_may_not_be_described_hides_no_other(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.denied = {"unmirrored"}
    recorder.record_once()
    assert events(ledger) == [("orders", "observed")]
    cluster.settings["orders"] = {"retention.ms": "1"}
    recorder.record_once()
    assert events(ledger)[1:] == [("orders", "configuration_changed")]
    told = "topic unmirrored is not recorded until it may be described: not authorized"
    assert caplog.text.count(told) == 1
    cluster.denied = set()
    recorder.record_once()
    assert events(ledger)[2:] == [("unmirrored", "observed")]


def test_a_topic_that_may_not_be_described_any_more_is_not_deleted(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither when only its settings are denied, nor when it is not listed any more."""
    recorder.record_once()
    cluster.denied, cluster.hidden = {"unmirrored"}, {"orders"}
    cluster.settings["unmirrored"] = {"retention.ms": "1"}
    recorder.record_once()
    assert len(events(ledger)) == 2
    assert (
        "topic orders is not recorded until it may be described: orders may not be described" in caplog.text
    )
    cluster.denied, cluster.hidden = set(), set()
    recorder.record_once()
    assert events(ledger)[2:] == [("unmirrored", "configuration_changed")]
    del cluster.described["orders"]
    recorder.record_once()
    assert events(ledger)[3:] == [("orders", "deleted")]


def test_a_topic_without_settings_for_a_moment_is_not_deleted(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    """A broker that has not heard of the topic yet answers for its settings."""
    recorder.record_once()
    settings = cluster.settings.pop("orders")
    recorder.record_once()
    cluster.settings["orders"] = settings
    recorder.record_once()
    assert len(events(ledger)) == 2


def test_each_subject_has_its_pace(recorder: ClusterRecorder, cluster: FakeCluster, clock: FakeClock) -> None:
    assert recorder.record_due().rows == {"checkpoints": 2, "groups": 2, "high_watermarks": 2, "topics": 2}
    cluster.committed["app", "orders", 0] = 4
    cluster.ends_now["orders", 1] = PartitionEnds(0, 6, 6, 0)
    cluster.settings["orders"] = {"retention.ms": "1"}
    found = []
    for _ in range(5):
        found.append(dict(recorder.record_due().rows))
        clock.now_s += 5
    assert found == [{}, {"checkpoints": 1}, {"high_watermarks": 1}, {}, {"topics": 1}]


def test_what_is_not_due_is_not_read(recorder: ClusterRecorder, cluster: FakeCluster) -> None:
    recorder.record_due()
    looks = cluster.looks
    recorder.record_due()
    assert cluster.looks == looks


def test_a_full_sweep_appends_what_did_not_change(recorder: ClusterRecorder, clock: FakeClock) -> None:
    recorder.record_once()
    clock.now_s += 59.9
    assert recorder.record_due().rows == {}
    clock.now_s += 0.1
    assert recorder.record_due().rows == {"checkpoints": 2}


def test_a_failed_append_is_repeated_in_a_later_round(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    ledger.fail_next_append = ClusterUnavailableError("no answer; nothing was appended")
    with pytest.raises(ClusterUnavailableError):
        recorder.record_once()
    recorded = recorder.record_once()
    assert (recorded.round_number, recorded.rows["checkpoints"]) == (2, 2)


def test_a_change_whose_append_failed_is_not_taken_for_recorded(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    """Without a full sweep nothing else would bring it up again."""
    recorder.record_once()
    cluster.committed["app", "orders", 0] = 4
    cluster.ends_now["orders", 1] = PartitionEnds(0, 6, 6, 0)
    cluster.settings["orders"] = {"retention.ms": "1"}
    ledger.fail_next_append = ClusterUnavailableError("no answer; nothing was appended")
    with pytest.raises(ClusterUnavailableError):
        recorder.record_once()
    assert recorder.record_once().rows == {"checkpoints": 1, "high_watermarks": 1, "topics": 1}


def test_the_next_epoch_knows_what_the_last_recorded(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    recorder.release()
    del cluster.committed["app", "orders", 0]
    second = recorder_of(cluster, ledger)
    assert second.take_role() is RoleVerdict.RELEASED
    second.record_once()
    last = ledger.rows("checkpoints")[-2:]
    assert {(row["topic"], row["committed_offset"]) for row in last} == {("orders", None), ("unmirrored", 7)}


def absences(ledger: FakeLedger) -> list[tuple[object, ...]]:
    rows = [row for row in ledger.rows("checkpoints") if row["committed_offset"] is None]
    return [(row["group_id"], row["topic"], row["absence"]) for row in rows]


def test_a_group_that_is_not_listed_is_asked_for_by_name(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.committed["other", "orders", 1] = 4
    recorder.record_once()
    del cluster.committed["other", "orders", 1]
    cluster.hidden_groups, cluster.all_listed = {"app"}, False
    recorder.record_once()
    assert absences(ledger) == [
        ("app", "orders", "hidden"),
        ("app", "unmirrored", "hidden"),
        ("other", "orders", "gone"),
    ]
    assert cluster.asked_for == ["app", "other"]
    assert "commits of group app for topic orders are not shown to this principal any more" in caplog.text
    assert "other" not in caplog.text
    recorder.record_once()
    assert cluster.asked_for == ["app", "other", "app"], "what is gone is asked for once"
    assert len(absences(ledger)) == 3


def test_a_hidden_group_is_recorded_as_usual_when_it_is_shown_again_and_as_gone_when_it_is(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    cluster.hidden_groups, cluster.all_listed = {"app"}, False
    recorder.record_once()
    cluster.hidden_groups, cluster.all_listed = set(), True
    del cluster.committed["app", "unmirrored", 0]
    recorder.record_once()
    last = ledger.rows("checkpoints")[-2:]
    assert [(row["topic"], row["committed_offset"], row["absence"]) for row in last] == [
        ("orders", 3, None),
        ("unmirrored", None, "gone"),
    ]


def test_a_commit_of_a_topic_that_is_not_shown_any_more_is_hidden(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    cluster.hidden = {"orders"}
    recorder.record_once()
    assert absences(ledger) == [("app", "orders", "hidden")]


def test_one_recorder_at_a_time(recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger) -> None:
    other = FakeProcesses(ProcessMark("host-a", 20, 200), alive={FakeProcesses().mark})
    second = recorder_of(cluster, ledger, other)
    assert recorder.take_role() is RoleVerdict.HELD
    assert second.take_role() is RoleVerdict.IN_USE
    assert not second.holds_role
    with pytest.raises(PreconditionError, match="does not hold its role; nothing was recorded"):
        second.record_once()
    other.alive.clear()
    assert second.take_role() is RoleVerdict.HOLDER_DEAD


def test_who_records_a_cluster_is_told_once(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert recorder.holds_role
    other = FakeProcesses(ProcessMark("host-a", 20, 200), alive={FakeProcesses().mark})
    second = recorder_of(cluster, ledger, other)
    for _ in range(3):
        second.take_role()
    assert caplog.messages == [
        "cluster east is recorded by process 10 on host host-a already; this one takes over when it ends"
    ]
    other.alive.clear()
    second.take_role()
    assert caplog.messages[1:] == [
        "groups, offsets and topics of cluster east are recorded by this process from now on "
        "(the one that did has died)"
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_shut_out_recorder_loses_its_role(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    assert recorder_of(cluster, ledger, FakeProcesses(ProcessMark("host-a", 20, 200))).take_role().is_free
    with pytest.raises(ShutOutError):
        recorder.record_once()
    assert not recorder.holds_role


def test_claim_and_release_are_rows(recorder: ClusterRecorder, ledger: FakeLedger) -> None:
    recorder.record_once()
    recorder.release()
    recorder.release()
    writers = ledger.rows("writers")
    assert [row["event"] for row in writers] == ["claimed", "released"]
    assert all(row["host"] == "host-a:10:100:" for row in writers)
    assert all((row["source_cluster"], row["source_cluster_id"]) == ("east", "cluster-id") for row in writers)


def test_flows_that_share_a_cluster_are_recorded_together() -> None:
    first = FlowConfig(name="a", source="x", target="y", topics=("t",), groups=("a.*",), checkpoint_seconds=2)
    second = FlowConfig(
        name="b", source="x", target="y", topics=("t",), groups=("b.*",), full_sweep_seconds=9
    )
    settings = RecorderSettings.of_flows([first, second])
    assert [settings.records_group(name) for name in ("a1", "b1", "c1")] == [True, True, False]
    assert (settings.checkpoint_seconds, settings.full_sweep_seconds) == (2, 9)


def test_nothing_is_recorded_of_another_cluster_that_answers(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    recorder.record_once()
    recorded = len(ledger.appends)
    cluster.kafka_id = "another"
    cluster.committed.clear()
    cluster.described.clear()
    clock.now_s += 100
    with pytest.raises(
        PreconditionError, match="its Kafka cluster id is another, recorder:east claimed with"
    ):
        recorder.record_once()
    assert len(ledger.appends) == recorded


def test_a_role_is_not_taken_with_another_cluster(cluster: FakeCluster, ledger: FakeLedger) -> None:
    first = recorder_of(cluster, ledger)
    first.take_role()
    first.release()
    cluster.kafka_id = "another"
    with pytest.raises(PreconditionError, match="another cluster answers behind east"):
        recorder_of(cluster, ledger).take_role()
    assert len(ledger.rows("writers")) == 2


def test_partitions_that_do_not_move_have_no_rows(
    cluster: FakeCluster, ledger: FakeLedger, clock: FakeClock
) -> None:
    """Of a thousand one moves; heartbeats confirm all others, full sweeps too."""
    cluster.add_topic("idle", "id-2", partitions=1_000)
    cluster.ends_now |= {("idle", partition): PartitionEnds(0, 9, 9, 0) for partition in range(1_000)}
    every = [*mirrored(), *(("idle", partition) for partition in range(1_000))]
    recorder = recorder_of(cluster, ledger, partitions=lambda: every)
    assert recorder.take_role() is RoleVerdict.UNCLAIMED
    assert recorder.record_due().rows["high_watermarks"] == 1_002
    rows: Counter[str] = Counter()
    for number in range(720):
        clock.now_s += 5
        cluster.ends_now["orders", 1] = PartitionEnds(0, 6 + number, 6 + number, 0)
        rows.update(recorder.record_due().rows)
    assert rows.keys() == {"high_watermarks", "checkpoints"}
    assert 0 < rows["high_watermarks"] <= 720
    assert {row["topic"] for row in ledger.rows("high_watermarks")[1_002:]} == {"orders"}
    assert 50 <= len([row for row in ledger.rows("writers") if row["event"] == "alive"]) <= 120


def recreated(cluster: FakeCluster, *, end: int) -> None:
    """Another topic of the name, with so many records in its first partition."""
    cluster.add_topic("orders", "id-2", partitions=2)
    cluster.ends_now["orders", 0] = PartitionEnds(0, end, end, 0)


def commits_of_app(ledger: FakeLedger) -> list[tuple[object, object]]:
    rows = [row for row in ledger.rows("checkpoints") if row["topic"] == "orders"]
    return [(row["committed_offset"], row["topic_id"]) for row in rows]


@pytest.mark.parametrize("is_seen_gone", [False, True])
def test_a_commit_beyond_the_end_of_another_topic_of_the_name_is_of_the_former_one(
    recorder: ClusterRecorder,
    cluster: FakeCluster,
    ledger: FakeLedger,
    caplog: pytest.LogCaptureFixture,
    is_seen_gone: bool,
) -> None:
    """Also when the topic has grown past it, and to a recorder that begins then, until the group has read on."""
    recorder.record_once()
    if is_seen_gone:
        del cluster.committed["app", "orders", 0]
        recorder.record_once()
        cluster.committed["app", "orders", 0] = 3
    recreated(cluster, end=2)
    recorder.record_once()
    assert (
        "group app has committed for partition 0 of topic orders was made on the topic of that name"
        in caplog.text
    )
    recreated(cluster, end=9)
    recorder.record_once()
    recorder.release()
    again = recorder_of(cluster, ledger)
    again.take_role()
    again.record_once()
    assert {commit for commit in commits_of_app(ledger) if commit[0] is not None} == {(3, "id-1")}
    cluster.committed["app", "orders", 0] = 4
    again.record_once()
    assert commits_of_app(ledger)[-1] == (4, "id-2")


@pytest.mark.parametrize(("offset", "end"), [(3, 3), (3, 8), (2, 2), (0, 0)])
def test_a_commit_that_does_not_lie_beyond_the_end_is_of_the_topic_that_is_there(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger, offset: int, end: int
) -> None:
    recorder.record_once()
    recreated(cluster, end=end)
    cluster.committed["app", "orders", 0] = offset
    recorder.record_once()
    assert commits_of_app(ledger)[-1] == (offset, "id-2")
