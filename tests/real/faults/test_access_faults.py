"""TLS, SCRAM and an authorizer: the copy's own connections and the admin's, and what a denial stops."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import ACLOperation, ResourceType

from ledger.clock import SystemClock
from ledger.config.values import FlowConfig
from ledger.errors import MirrorLedgerError, PreconditionError
from ledger.kafka.admin import KafkaAdmin
from ledger.mirror.task import CopyTask
from ledger.recorders.observation import Observer, RecorderSettings, Subject
from ledger.recorders.recorder import ClusterRecorder
from tests.support.copies import LIMITS, Pair, config_of
from tests.support.copy_tasks import writers
from tests.support.fakes import FakeClock, FakeLedger, FakeProcesses
from tests.support.guarded import SECRET, Guarded, make_keys
from tests.support.waiting import eventually

FLOW = FlowConfig(name="f", source="solo", target="other", topics=(".*",))


@pytest.fixture
def user(guarded: Guarded) -> str:
    """Of this test alone."""
    return guarded.new_user()


@contextmanager
def pair_of(guarded: Guarded, user: str) -> Iterator[Pair]:
    """Two topics on the guarded cluster, of which the user may do everything."""
    open_, tls = ({side: at for side in ("source", "target")} for at in (guarded.open, guarded.over_tls))
    with Pair(open_, tls, login=guarded.scram_login(user)) as pair:
        for topic in pair.topics.values():
            guarded.allow(user, topic, ACLOperation.ALL)
        yield pair


def test_records_are_copied_over_tls_with_scram(guarded: Guarded, user: str) -> None:
    with pair_of(guarded, user) as pair:
        pair.produce(300)
        pair.run()
        assert pair.assert_same() == 300
        with closing(KafkaAdmin("solo", pair.configs()[0], SystemClock())) as admin:
            assert pair.topics["source"] in admin.topics()


def test_a_wrong_password_is_told_within_seconds(
    guarded: Guarded, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "wrong")
    config = config_of("solo", guarded.over_tls, guarded.scram_login(user))
    began = time.monotonic()
    with (
        closing(KafkaAdmin("solo", config, SystemClock())) as admin,
        pytest.raises(PreconditionError, match=r"refused the login.*invalid credentials"),
    ):
        admin.topics()
    assert time.monotonic() - began < 15


def test_a_certificate_that_is_not_trusted_is_told(guarded: Guarded, user: str, tmp_path: Path) -> None:
    _, other = make_keys(tmp_path, guarded.password)
    config = config_of("solo", guarded.over_tls, {**guarded.scram_login(user), "ssl.ca.location": str(other)})
    with (
        closing(KafkaAdmin("solo", config, SystemClock())) as admin,
        pytest.raises(MirrorLedgerError, match=r"TLS handshake.*verify failed"),
    ):
        admin.topics()


DENIALS = [
    pytest.param("source", (ACLOperation.DESCRIBE,), "READ", id="source-read"),
    pytest.param("target", (ACLOperation.READ,), "WRITE", id="target-write"),
    pytest.param("target", (ACLOperation.WRITE,), "READ", id="target-read"),
    pytest.param("source", (ACLOperation.ALTER_CONFIGS,), "DESCRIBE", id="source-describe"),
    pytest.param("target", (ACLOperation.ALTER_CONFIGS,), "DESCRIBE", id="target-describe"),
]


@pytest.mark.fault(78)
@pytest.mark.parametrize(("side", "rights", "missing"), DENIALS)
def test_a_denial_stops_the_partitions_of_its_topic_and_no_others(
    guarded: Guarded, user: str, side: str, rights: tuple[ACLOperation, ...], missing: str
) -> None:
    with (
        pair_of(guarded, user) as denied,
        pair_of(guarded, user) as allowed,
        closing(denied.network()) as network,
    ):
        for pair in (denied, allowed):
            pair.produce(50)
        guarded.allow_only(user, denied.topics[side], *rights)
        assignments = [pair.assignments(end_offset=pair.ends())[0] for pair in (denied, allowed)]
        results = CopyTask(assignments, network, writers(), SystemClock(), LIMITS).run(seconds=15)
        by_topic = {result.assignment.source.topic: result for result in results}
        stopped = by_topic[denied.topics["source"]]
        assert stopped.stop is not None
        assert str(stopped.stop.cause) == "denied"
        assert f"the {side} denies {missing}" in stopped.stop.message
        assert stopped.position.source_offset == 0
        allowed.take([by_topic[allowed.topics["source"]]])
        assert allowed.assert_same() == 50


@pytest.mark.fault(78)
def test_a_recorder_tells_what_it_may_not_describe_and_records_the_rest(guarded: Guarded, user: str) -> None:
    """Neither denied settings nor a topic that is not listed any more hide the others or pass for a deletion."""
    with pair_of(guarded, user) as denied, pair_of(guarded, user) as allowed:
        guarded.allow_only(user, denied.topics["source"], ACLOperation.DESCRIBE)
        guarded.allow_only(user, denied.topics["target"], ACLOperation.ALTER_CONFIGS)
        guarded.allow(user, "no-such-topic", ACLOperation.DESCRIBE)  # else nobody tells that it is not there
        with closing(KafkaAdmin("solo", denied.configs()[0], SystemClock())) as admin:
            settings = RecorderSettings.of_flows([FLOW])
            observer = Observer(admin, SystemClock(), settings, partitions=list)
            seen = observer.observe(frozenset({Subject.TOPICS}))
            assert seen.topics is not None
            assert allowed.topics["source"] in seen.topics
            assert denied.topics["target"] not in {**seen.topics, **seen.unread}
            assert denied.topics["source"] in seen.unread
            assert allowed.topics["source"] not in seen.unread
            assert list(observer.hidden([denied.topics["target"], "no-such-topic"])) == [
                denied.topics["target"]
            ]


def test_a_group_that_may_not_be_described_any_more_is_told_from_one_that_is_gone(
    guarded: Guarded, user: str
) -> None:
    """The cluster lists neither, and says nothing about it."""
    with (
        pair_of(guarded, user) as pair,
        closing(KafkaAdmin("solo", pair.configs()[0], SystemClock())) as admin,
    ):
        topic = pair.topics["source"]
        groups = {kind: f"{topic}-{kind}" for kind in ("kept", "denied", "deleted")}
        at = ClientPartition(topic, 0, 7)
        for group in groups.values():
            guarded.allow(user, group, ACLOperation.DESCRIBE, kind=ResourceType.GROUP)
            client = Consumer({"bootstrap.servers": guarded.open, "group.id": group, "log_level": 0})
            client.commit(offsets=[at], asynchronous=False)
            client.close()
        clock = FakeClock()
        ledger = FakeLedger(clock)
        settings = RecorderSettings.of_flows([FLOW])
        recorder = ClusterRecorder(
            admin, ledger, ledger, clock, settings, partitions=list, processes=FakeProcesses()
        )
        assert recorder.take_role().is_free
        recorder.record_once()
        assert told_of(ledger, groups) == {(group, 7, None) for group in groups.values()}

        guarded.allow_only(user, groups["denied"], kind=ResourceType.GROUP)
        deletes = AdminClient({"bootstrap.servers": guarded.open})
        deletes.delete_consumer_groups([groups["deleted"]])[groups["deleted"]].result(30)
        eventually(lambda: len(admin.groups()) == 1, "the cluster lists one group")
        recorder.record_once()
        assert told_of(ledger, groups) == {
            (groups["kept"], 7, None),
            (groups["denied"], None, "hidden"),
            (groups["deleted"], None, "gone"),
        }

        guarded.allow(user, groups["denied"], ACLOperation.DESCRIBE, kind=ResourceType.GROUP)
        eventually(lambda: len(admin.groups()) == 2, "the cluster lists both")
        recorder.record_once()
        assert (groups["denied"], 7, None) in told_of(ledger, groups)


def told_of(ledger: FakeLedger, groups: Mapping[str, str]) -> set[tuple[str, int | None, str | None]]:
    """What the ledger says last of the groups."""
    return {
        (row.group_id, row.committed_offset, row.absence)
        for row in ledger.last_checkpoints("solo")
        if row.group_id in groups.values()
    }
