"""Applications are kept from writing at a cluster, and it is proved: with an authorizer and without one."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka.admin import ACLOperation, ResourceType

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.acls import denial
from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import CoordinatedTransaction, Refusal
from ledger.kafka.leaders import KafkaFencing
from ledger.recorders.run import record_clusters
from ledger.sandbox.ports import free_ports
from ledger.sandbox.workload import create_topics
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.following import Pair, admin_of, config_of, copying, name_of, produce
from tests.support.guarded import Guarded, lines_of
from tests.support.recorded import operations
from tests.support.runs import FLOW
from tests.support.shops import KafkaApplications
from tests.support.waiting import eventually

MIRROR, WRITER, OTHER_WRITER = "mirror", "ada", "guest"
BRIEFLY = ("--quiet-seconds", "0.5", "--most-quiet-seconds", "1")
"""For what stillness alone shows: records so small that they pass, hooks."""


@dataclass(frozen=True)
class Fenced:
    """A topic of a cluster `east` that is fenced."""

    config: MirrorConfig
    topic: str
    capture: pytest.CaptureFixture[str]

    def fence(self, *options: str) -> Done:
        told = ("--topic", self.topic, "--reason", "a fire", "--wait", "60", *options)
        return command(self.capture, self.config, "fence", "east", *told)

    def unfence(self) -> Done:
        return command(self.capture, self.config, "unfence", "east", "--reason", "it is out")


@dataclass(frozen=True)
class Site(Fenced):
    """A guarded cluster, whose topic two applications may write to."""

    guarded: Guarded

    def rules(self) -> set[Permission]:
        with admin_of(self.config, "west") as admin:
            return {one for one in admin.topic_acls() if one.resource_name.startswith(self.topic[:-2])}

    def settings(self) -> dict[str, str]:
        """The topic's own."""
        with admin_of(self.config, "west") as admin:
            return admin.configurations([self.topic])[self.topic]

    def producer(self, user: str) -> Producer:
        return Producer(self.login(user))

    @contextmanager
    def consumer(self, user: str) -> Iterator[Consumer]:
        """A member of the group of that name, from the beginning of the topic."""
        client = Consumer({**self.login(user), "group.id": user, "auto.offset.reset": "earliest"})
        client.subscribe([self.topic])
        try:
            yield client
        finally:
            client.close()

    def login(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.guarded.without_tls,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.guarded.password,
        }


@pytest.fixture
def site(guarded: Guarded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    topic = name_of("fenced")
    login = lines_of(guarded.plain_login(MIRROR))
    login += f'mirror_principal = "User:{MIRROR}"\nadmin.sasl.username = "root"\n'
    servers = {"east": guarded.without_tls, "west": guarded.open}
    flow = {FLOW: copying(topic)}
    config = write_config(tmp_path, servers, flow, properties={"east": login})
    init_ledger(config)
    with admin_of(config, "west") as admin:
        admin.create_topic(topic, partitions=1, replication_factor=1, configuration={})
    guarded.allow(MIRROR, topic, ACLOperation.READ, ACLOperation.DESCRIBE)
    guarded.allow(WRITER, topic, ACLOperation.WRITE)
    guarded.allow(OTHER_WRITER, topic[:-2], ACLOperation.ALL, is_prefix=True)
    return Site(config, topic, capsys, guarded)


def delivered(producer: Producer, topic: str, value: str = "v") -> KafkaError | None:
    """Why a record was refused; None: it was written."""
    answers: list[KafkaError | None] = []
    producer.produce(topic, value.encode(), partition=0, on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(30) == 0
    return answers[0]


def test_writers_at_work_are_refused_and_the_mirror_reads(site: Site) -> None:
    writers = {user: site.producer(user) for user in (WRITER, OTHER_WRITER)}
    for user, producer in writers.items():
        record(site.config)
        assert delivered(producer, site.topic) is None, user
    record(site.config)
    before = site.rules()

    site.guarded.allow("*", site.topic, ACLOperation.WRITE)
    refused = site.fence()
    assert (refused.code, "a rule allows User:* to write to" in refused.err) == (5, True), refused.err
    site.guarded.forbid("*", site.topic)
    assert (site.rules(), operations(site.config, "fence")) == (before, [])

    done = site.fence()
    assert (done.code, len(done.out.split())) == (0, 1), done.err
    assert "the brokers do not say who is a super user" in done.err
    for user, producer in writers.items():
        error = delivered(producer, site.topic)
        assert error is not None, user
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    created = {denial(site.topic, f"User:{user}") for user in writers}
    assert site.rules() == before | created
    begun, proved = operations(site.config, "fence")
    assert (begun["proof"], proved["proof"]) == ("begun", "proven")
    assert begun["denied"] == proved["denied"] == ["User:ada", "User:guest"]
    assert [(one["partition"], one["end"]) for one in proved["partitions"]] == [(0, 2)]
    assert (proved["partitions"][0]["quiet_ms"], proved["partitions"][0]["evidence"]) == (1_000, "rules")
    with admin_of(site.config, "east") as mirror:
        at = TopicPartition(site.topic, mirror.topics()[site.topic].topic_id, 0)
        [last] = mirror.batches_at(at, 1)
    assert last is not None, "the mirror reads"
    assert (last.base_offset, last.count) == (1, 1)

    again = site.fence()
    assert (again.code, again.out) == (0, ""), again.err
    assert "proved already" in again.err

    with admin_of(site.config, "west") as admin:
        own = denial(site.topic, "User:somebody")
        admin.create_acls([own])
    assert site.unfence().code == 0
    assert site.rules() == before | {own}, "exactly what was created is removed"
    for user in writers:
        assert delivered(site.producer(user), site.topic) is None, user
    nothing = site.unfence()
    assert (nothing.code, nothing.out) == (0, "")
    assert [one["denied"] for one in operations(site.config, "unfenced")] == [["User:ada", "User:guest"]]


def test_groups_at_work_are_refused_and_the_mirror_reads_on(site: Site) -> None:
    """Groups that read neither what their cluster took alone, nor what comes back to it."""
    readers = (WRITER, OTHER_WRITER)
    site.guarded.allow(WRITER, site.topic, ACLOperation.READ)
    for user in readers:
        site.guarded.allow(user, user, ACLOperation.READ, kind=ResourceType.GROUP)
    before = site.rules()
    super_user = site.producer("root")
    assert delivered(super_user, site.topic, "first") is None
    with site.consumer(WRITER) as at_work:
        assert next_of(at_work) == b"first"
        own = site.settings()
        done = site.fence("--reading", "--hold-retention")
        assert site.settings() == {**own, "retention.ms": "-1"}
        assert (done.code, f"{site.topic} is fenced, for reading too: proven" in done.err) == (0, True), (
            done.err
        )
        assert delivered(super_user, site.topic, "second") is None
        assert next_of(at_work) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with site.consumer(OTHER_WRITER) as later:
        assert next_of(later) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    rules = {denial(site.topic, f"User:{user}", of) for user in readers for of in ("write", "read")}
    assert site.rules() == before | rules
    with admin_of(site.config, "east") as mirror:
        at = TopicPartition(site.topic, mirror.topics()[site.topic].topic_id, 0)
        assert [one.base_offset for one in mirror.batches_at(at, 1)] == [1], "the mirror reads"

    begun, proved = operations(site.config, "fence")
    assert begun["denied_reading"] == proved["denied_reading"] == ["User:ada", "User:guest"]
    assert site.unfence().code == 0
    assert (site.rules(), site.settings()) == (before, own), "exactly what was made is removed"
    with site.consumer(OTHER_WRITER) as again:
        assert [next_of(again), next_of(again)] == [b"first", b"second"]


def next_of(consumer: Consumer) -> bytes | int | None:
    """The value of the next record, or the code of the error that came instead; None: nothing within 30 s."""
    message = consumer.poll(30)
    if message is None:
        return None
    error = message.error()
    return message.value() if error is None else error.code()


def test_where_retention_may_not_be_changed_the_topic_is_fenced_all_the_same(site: Site) -> None:
    """Who makes rules need not be allowed to change settings."""
    file, cluster = Path(site.config.file), "kafka-cluster"
    file.write_text(file.read_text().replace('"root"', f'"{WRITER}"'))
    rights = (ACLOperation.ALTER, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    site.guarded.allow(WRITER, cluster, *rights, kind=ResourceType.CLUSTER)
    site.guarded.allow(WRITER, site.topic, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
    own = site.settings()
    try:
        done = site.fence("--hold-retention")
    finally:
        site.guarded.forbid(WRITER, cluster, kind=ResourceType.CLUSTER)
    assert done.code == 4, done.err
    assert f"{site.topic} is fenced: proven" in done.err
    assert "may be deleted: " in done.err
    assert operations(site.config, "fence")[-1]["proof"] == "proven"
    assert operations(site.config, "hand_over_result")[-1]["failed"] != []
    assert site.settings() == own


def test_without_an_administrators_credentials_nothing_is_changed(site: Site) -> None:
    file = Path(site.config.file)
    file.write_text(file.read_text().replace('admin.sasl.username = "root"\n', ""))
    before = site.rules()
    refused = site.fence()
    assert (refused.code, "does not allow this principal to" in refused.err) == (5, True), refused.err
    assert (site.rules(), operations(site.config, "fence")) == (before, [])


# Without an authorizer --------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenSite(Fenced):
    """Where everybody may write."""

    servers: str


@pytest.fixture
def open_site(broker_pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> OpenSite:
    topic, servers = name_of("shut"), broker_pair["east"].bootstrap_servers
    config = config_of(tmp_path, broker_pair, {FLOW: copying(topic)})
    init_ledger(config)
    create_topics(servers, [topic], partitions=1)
    return OpenSite(config, topic, capsys, servers)


def test_a_topic_is_shut_and_opened_as_it_was(open_site: OpenSite) -> None:
    record(open_site.config)
    shut = ("--how", "shut", "--accept=producers_stopped", *BRIEFLY)
    for options, code in (((), 5), (("--how", "shut"), 2)):
        refused = open_site.fence(*options)
        assert (refused.code, "nothing was changed or recorded" in refused.err) == (code, True), refused.err
    with admin_of(open_site.config, "east") as admin:
        admin.change_settings(open_site.topic, to_set={"max.message.bytes": "5000"}, to_remove=[])
    produce(open_site.servers, open_site.topic, "0", "1")
    record(open_site.config)
    done = open_site.fence(*shut)
    assert (done.code, "bytes lies there, and records as small" in done.err) == (0, True), done.err
    assert operations(open_site.config, "fence")[-1]["proof"] == "observed"
    producer = Producer({"bootstrap.servers": open_site.servers})
    error = delivered(producer, open_site.topic, "more than ten bytes")
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE

    assert fences_to_act_on(open_site) == ""
    assert delivered(producer, open_site.topic, "tiny") is None
    record(open_site.config)
    late = fences_to_act_on(open_site)
    assert f"{open_site.topic} partition 0 of east: a record was written" in late
    again = open_site.fence(*shut)
    assert (again.code, "proved already" in again.err) == (0, False), again.err
    record(open_site.config)
    assert fences_to_act_on(open_site) == ""

    assert open_site.unfence().code == 0
    assert delivered(producer, open_site.topic, "more than ten bytes") is None
    with admin_of(open_site.config, "east") as admin:
        assert admin.configurations([open_site.topic]) == {open_site.topic: {"max.message.bytes": "5000"}}


def test_what_a_cluster_that_is_back_has_is_not_deleted_while_retention_is_held(open_site: OpenSite) -> None:
    """Brokers look every five seconds; a topic of the same age that nobody holds says when they have."""
    beside, own = name_of("beside"), {"retention.ms": "9000"}
    create_topics(open_site.servers, [beside], partitions=1)
    with admin_of(open_site.config, "east") as admin:
        for topic in (open_site.topic, beside):
            admin.change_settings(topic, to_set=own, to_remove=[])
            produce(open_site.servers, topic, "a record of more than ten bytes")
        shut = ("--how", "shut", "--accept=producers_stopped", "--hold-retention")
        done = open_site.fence(*shut)
        assert (done.code, f"retention of {open_site.topic} of east is held" in done.err) == (0, True), (
            done.err
        )
        held = {**own, "retention.ms": "-1", "max.message.bytes": "78"}
        assert admin.configurations([open_site.topic]) == {open_site.topic: held}

        def starts() -> list[int]:
            ends = admin.ends([(open_site.topic, 0), (beside, 0)])
            return [ends[topic, 0].log_start for topic in (open_site.topic, beside)]

        eventually(lambda: starts()[1] == 1, "the one beside is deleted", within_s=60)
        time.sleep(6)
        assert starts() == [0, 1]
        again = open_site.fence(*shut)
        assert (again.code, again.out) == (0, ""), again.err
        assert [one["purpose"] for one in operations(open_site.config, "handed_over")] == ["retention"]

        lifted = open_site.unfence()
        assert (lifted.code, "1 setting of 1 topic" in lifted.err) == (0, True), lifted.err
        assert admin.configurations([open_site.topic]) == {open_site.topic: own}, "its own comes back"
        eventually(lambda: starts() == [1, 1], "it is deleted as before", within_s=60)


def test_fifty_partitions_are_shut_and_proved_within_seconds(open_site: OpenSite) -> None:
    with admin_of(open_site.config, "east") as admin:
        admin.add_partitions(open_site.topic, total=50)
    produce(open_site.servers, open_site.topic, *("a record of more than ten bytes",) * 50)
    ends = read_ends(open_site)
    began_s = time.monotonic()
    done = open_site.fence("--how", "shut", "--accept=producers_stopped")
    seconds = time.monotonic() - began_s
    print(f"fence of 50 partitions, shut: {seconds:.1f} s")
    assert done.code == 0, done.err
    assert seconds < 5.0
    proved = operations(open_site.config, "fence")[-1]
    assert {(one["proof"], one["evidence"]) for one in proved["partitions"]} == {("proven", "refusal")}
    assert {one["partition"]: one["end"] for one in proved["partitions"]} == ends
    assert read_ends(open_site) == ends, "what leaders were asked to refuse is appended nowhere"


def read_ends(site: OpenSite) -> dict[int, int]:
    with admin_of(site.config, "east") as admin:
        found = admin.ends([(site.topic, number) for number in range(50)])
    return {number: end.high_watermark for (_, number), end in found.items()}


def test_a_damaged_batch_is_refused_for_its_size_or_for_its_damage_and_never_appended(
    open_site: OpenSite,
) -> None:
    with closing(KafkaFencing("east", open_site.config.cluster("east"), SystemClock())) as cluster:
        place = (open_site.topic, 0)
        assert cluster.keeps_metadata()
        assert cluster.refusals([place]) == {place: (1, Refusal.NOT_YET)}
        cluster.change_setting("max.message.bytes", {open_site.topic: "78"})
        eventually(lambda: cluster.refusals([place]) == {place: (1, Refusal.BY_SIZE)}, "it is shut")
        assert cluster.readings([place])[place].log_end == 0


def test_an_open_transaction_is_waited_for_or_aborted(open_site: OpenSite) -> None:
    commit = KafkaApplications(open_site.servers).begin_transaction(open_site.topic, 0, 2)
    shut = ("--how", "shut", "--accept=producers_stopped", *BRIEFLY)
    waiting = open_site.fence(*shut, "--wait", "1.5")
    assert (waiting.code, "a transaction is open from offset 0" in waiting.err) == (4, True), waiting.err
    assert f"fence of {open_site.topic} at east: begun" in fences_to_act_on(open_site)
    done = open_site.fence(*shut, "--abort-open-transactions-after", "0")
    assert (done.code, "transaction of producer" in done.err) == (0, True), done.err
    [end] = operations(open_site.config, "fence")[-1]["partitions"]
    assert (end["end"], end["last_stable"]) == (3, 3), "two records and the marker"
    with pytest.raises(KafkaException):
        commit()


def test_a_marker_ends_a_transaction_in_one_partition_and_its_producer_is_not_told(
    open_site: OpenSite,
) -> None:
    """So it is for those alone that no coordinator waits for."""
    commit = KafkaApplications(open_site.servers).begin_transaction(open_site.topic, 0, 2)
    with closing(KafkaFencing("east", open_site.config.cluster("east"), SystemClock())) as cluster:
        at = TopicPartition(open_site.topic, cluster.topics()[open_site.topic].topic_id, 0)
        [transaction] = cluster.open_transactions(at)
        assert cluster.coordinated(transaction.producer_id) == CoordinatedTransaction(
            open_site.topic, "Ongoing"
        )
        [seen] = cluster.transactions_in([open_site.topic])
        assert seen == CoordinatedTransaction(open_site.topic, "Ongoing", frozenset({(open_site.topic, 0)}))
        cluster.abort_hanging(transaction)
        eventually(lambda: cluster.open_transactions(at) == [], "the marker ends it")
        end = cluster.ends([(open_site.topic, 0)])[open_site.topic, 0]
    assert (end.last_stable, end.high_watermark) == (3, 3)
    commit()


def test_a_cluster_that_is_away_is_continued_without_by_word_alone(open_site: OpenSite) -> None:
    text = Path(open_site.config.file).read_text()
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    Path(open_site.config.file).write_text(text.replace(open_site.servers, nobody))
    assert open_site.fence().code == 1
    assert operations(open_site.config, "fence") == []
    done = open_site.fence("--accept=unproven=no network")
    assert (done.code, "continued without a proof" in done.err) == (0, True), done.err
    assert "the fence is unproven (no network)" in fences_to_act_on(open_site)
    Path(open_site.config.file).write_text(text)
    hook = f"{sys.executable} -c \"import os; print(os.environ['MIRROR_LEDGER_TOPICS'])\""
    done = open_site.fence("--how", "hook", "--hook", hook, *BRIEFLY)
    assert done.code == 0, done.err
    assert operations(open_site.config, "fence")[-1]["hook"]["output"] == f"{open_site.topic}\n"
    assert fences_to_act_on(open_site) == ""


def record(config: MirrorConfig) -> None:
    record_clusters(config, ["east"], stop=threading.Event(), once=True)


def fences_to_act_on(site: OpenSite) -> str:
    """What `status --check` says where it speaks of fences; as the flow has never run, it always finds a reason."""
    done = command(site.capture, site.config, "status", "--check")
    assert done.code == 4, done.err
    words = " ".join(done.out.split())
    return words if "fence" in words else ""
