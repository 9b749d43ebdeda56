"""Applications are kept from writing at a cluster, and it is proved: with an authorizer, without one, over again."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.admin import ACLOperation

from ledger.app.tables import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.domain.fences.closing import denial
from ledger.domain.topics.topic_acls import TopicAcl
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.following import admin_of, copying, name_of
from tests.support.guarded import SECRET, Guarded
from tests.support.recorded import operations
from tests.support.runs import FLOW

MIRROR, WRITER, OTHER_WRITER = "mirror", "ada", "guest"
QUICKLY = ("--quiet-seconds", "0.5", "--most-quiet-seconds", "1", "--wait", "30")


@dataclass(frozen=True)
class Site:
    """A guarded cluster `east`, whose topic two applications may write to."""

    guarded: Guarded
    config: MirrorConfig
    topic: str
    capture: pytest.CaptureFixture[str]

    def fence(self, *options: str) -> Done:
        told = ("--topic", self.topic, "--reason", "a fire", *QUICKLY, *options)
        return command(self.capture, self.config, "fence", "east", *told)

    def unfence(self) -> Done:
        return command(self.capture, self.config, "unfence", "east", "--reason", "it is out")

    def rules(self) -> set[TopicAcl]:
        with admin_of(self.config, "west") as admin:
            return {one for one in admin.topic_acls() if one.name.startswith(self.topic[:-2])}

    def producer(self, user: str) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.guarded.without_tls,
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": self.guarded.password,
            }
        )


@pytest.fixture
def site(guarded: Guarded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    topic = name_of("fenced")
    login = f"""
security.protocol = "sasl_plaintext"
sasl.mechanism = "PLAIN"
sasl.username = "{MIRROR}"
sasl.password = {{ env = "{SECRET}" }}
mirror_principal = "User:{MIRROR}"
admin.sasl.username = "root"
"""
    servers = {"east": guarded.without_tls, "west": guarded.open}
    flow = {FLOW: copying(topic)}
    config = write_config(tmp_path, servers, flow, properties={"east": login})
    init_ledger(config)
    with admin_of(config, "west") as admin:
        admin.create_topic(topic, partitions=2, replication_factor=1, configuration={})
    guarded.allow(MIRROR, topic, ACLOperation.READ, ACLOperation.DESCRIBE)
    guarded.allow(WRITER, topic, ACLOperation.WRITE)
    guarded.allow(OTHER_WRITER, topic[:-2], ACLOperation.ALL, is_prefix=True)
    return Site(guarded, config, topic, capsys)


def delivered(producer: Producer, topic: str) -> KafkaError | None:
    """Why a record was refused; None: it was written."""
    answers: list[KafkaError | None] = []
    producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(30) == 0
    return answers[0]


def test_writers_at_work_are_refused_and_the_mirror_reads(site: Site) -> None:
    writers = {user: site.producer(user) for user in (WRITER, OTHER_WRITER)}
    for user, producer in writers.items():
        assert delivered(producer, site.topic) is None, user
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
    assert (begun["proof"], proved["proof"]) == ("begun", "observed"), (
        "nobody has recorded how often it is written"
    )
    assert begun["denied"] == proved["denied"] == ["User:ada", "User:guest"]
    assert [(one["partition"], one["end"]) for one in proved["partitions"]] == [(0, 2), (1, 0)]
    with admin_of(site.config, "east") as mirror:
        assert mirror.ends([(site.topic, 0)])[site.topic, 0].high_watermark == 2

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
