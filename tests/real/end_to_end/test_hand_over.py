"""Applications find at the promoted cluster what they had at the other one, and nothing is left when it is undone."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from kafka.admin import ACLOperation, ResourceType

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.facts.acls import denial
from ledger.facts.permissions import Permission
from ledger.kafka.admin import KafkaAdmin
from ledger.recorders.observation import Subject
from ledger.recorders.run import record_clusters
from ledger.sandbox.ports import free_ports
from ledger.topics.following import REQUIRED_AT_TARGET
from tests.support.clusters import servers_of
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.following import Pair, admin_of, name_of
from tests.support.guarded import Guarded
from tests.support.quotas import limit_producing
from tests.support.recorded import operations, query
from tests.support.waiting import eventually

OWN = {
    "compression.type": "gzip",
    "max.message.bytes": "2000000",
    "message.timestamp.type": "LogAppendTime",
    "retention.ms": "1209600000",
}
PAIR = ("--from", "east", "--to", "west")
REASON = ("--reason", "a fire")
MIRROR = "mirror"
Commands = Callable[..., Done]


@pytest.fixture
def done(capsys: pytest.CaptureFixture[str]) -> Commands:
    def carried_out(config: MirrorConfig, *arguments: str, code: int = 0) -> Done:
        found = command(capsys, config, *arguments)
        assert found.code == code, found.err
        return found

    return carried_out


def config_of(folder: Path, east: str, west: str, topic: str) -> MirrorConfig:
    lines = f'topics = ["{topic}"]\ntopic_naming = "identity"'
    principal = f'mirror_principal = "User:{MIRROR}"'
    properties = {"east": principal, "west": principal}
    return write_config(folder, {"east": east, "west": west}, {"flow": lines}, properties=properties)


def set_own(admin: KafkaAdmin, topic: str, own: dict[str, str]) -> None:
    """These, and no others."""
    there = admin.configurations([topic])[topic]
    admin.change_settings(topic, to_set=own, to_remove=sorted(there.keys() - own.keys()))
    eventually(lambda: admin.configurations([topic])[topic] == own, "the settings are as they were set")


class Application:
    """A user of SCRAM with a topic, a group and a client id of the same name."""

    def __init__(self, guarded: Guarded, topic: str) -> None:
        self._guarded = guarded
        self.topic = topic
        self.user = guarded.new_user()
        self._login = {
            "bootstrap.servers": guarded.over_tls,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": self.user,
            "sasl.password": guarded.password,
            "ssl.ca.location": str(guarded.certificate),
        }

    def may_all(self) -> None:
        self._guarded.allow(self.user, self.topic, ACLOperation.READ, ACLOperation.WRITE)
        self._guarded.allow(self.user, self.user, ACLOperation.READ, kind=ResourceType.GROUP)
        limit_producing(self._guarded.open, self.user, 5e6)

    def may_nothing(self) -> None:
        self._guarded.forbid(self.user, self.topic)
        self._guarded.forbid(self.user, self.user, kind=ResourceType.GROUP)
        limit_producing(self._guarded.open, self.user, None)

    def permissions(self, admin: KafkaAdmin) -> set[Permission]:
        """All of its own but the credential."""
        found = (one for kind in admin.permissions().values() for one in kind.found)
        return {one for one in found if self.user in one.entity and one.entity != self.user}

    def produced(self, value: bytes) -> str | None:
        """Why it was refused; None: it was written."""
        errors: list[str | None] = []

        def delivered(error: object, _message: Message) -> None:
            errors.append(None if error is None else str(error))

        producer = Producer(self._login)
        producer.produce(self.topic, value, on_delivery=delivered)
        assert producer.flush(30) == 0
        [reason] = errors
        return reason

    def consumed(self) -> bytes | None:
        consumer = Consumer({**self._login, "group.id": self.user, "auto.offset.reset": "earliest"})
        consumer.subscribe([self.topic])
        try:
            message = consumer.poll(30)
            assert message is not None
            if error := message.error():
                raise KafkaException(error)
            consumer.commit(asynchronous=False)
            return message.value()
        finally:
            consumer.close()


def test_an_application_works_at_the_promoted_cluster_until_it_is_undone(
    guarded: Guarded, tmp_path: Path, done: Commands
) -> None:
    """The guarded cluster is both, one after the other: as it was recorded `east`, without its rules `west`."""
    application = Application(guarded, name_of("orders"))
    topic, user = application.topic, application.user
    config = config_of(tmp_path, guarded.open, guarded.open, topic)
    init_ledger(config)
    with admin_of(config, "east") as admin:
        admin.create_topic(topic, partitions=1, replication_factor=1, configuration=OWN)
        application.may_all()
        eventually(lambda: len(application.permissions(admin)) == 4, "all of its permissions are there")
        at_east = application.permissions(admin)
        guarded.allow(MIRROR, topic, ACLOperation.READ)
        done(config, "fence", "east", "--topic", topic, *REASON)
        fence = denial(topic, f"User:{user}")
        assert fence in application.permissions(admin)
        record_clusters(config, ["east"], stop=threading.Event(), once=True)
        application.may_nothing()
        guarded.forbid(MIRROR, topic)
        set_own(admin, topic, dict(REQUIRED_AT_TARGET))
        eventually(lambda: application.permissions(admin) == set(), "it may do nothing")

        config = config_of(tmp_path, f"127.0.0.1:{free_ports(1)[0]}", guarded.open, topic)
        refused = done(config, "hand-over", "apply", *PAIR, *REASON, code=5)
        assert f"{topic} of west is not promoted over east" in refused.err
        done(config, "promote", "west", "--over", "east", *REASON)
        assert "Topic authorization failed" in (application.produced(b"too early") or "")
        shown = json.loads(done(config, "hand-over", "show", *PAIR, "-o", "json").out)
        assert [row["part"] for row in shown].count("permission") == 4
        assert {row["part"] for row in shown} == {"setting", "permission"}
        assert application.permissions(admin) == set(), "nothing was changed"

        operation = done(config, "hand-over", "apply", *PAIR, *REASON).out.strip()
        assert (application.permissions(admin), admin.configurations([topic])) == (at_east, {topic: OWN})
        assert not any(
            acl.resource_name == topic and acl.entity == f"User:{MIRROR}" for acl in admin.topic_acls()
        )
        assert (application.produced(b"at west"), application.consumed()) == (None, b"at west")
        record_clusters(config, ["west"], stop=threading.Event(), once=True)
        gaps = query(config, "permission_gaps", source="east", target="west")
        lacking = [gap for gap in gaps if user in str(gap["entity"])]
        assert [gap["permission_type"] for gap in lacking] == ["deny"], "the fence stays behind"
        again = done(config, "hand-over", "apply", *PAIR, *REASON)
        assert (again.out, "nothing to do" in again.err) == ("", True)

        done(config, "hand-over", "undo", operation, *REASON)
        assert application.permissions(admin) == set()
        assert admin.configurations([topic]) == {topic: dict(REQUIRED_AT_TARGET)}
        assert application.produced(b"too late") is not None
        assert (
            "no hand-over has the operation id" in done(config, "hand-over", "undo", "x", *REASON, code=2).err
        )
    assert len(operations(config, "handed_over")) == 1
    assert [(one["of"], one["failed"]) for one in operations(config, "hand_over_result")] == [
        ("handed_over", []),
        ("hand_over_undone", []),
    ]
    assert guarded.password not in str(operations(config, "handed_over"))


def test_settings_come_over_what_is_unknown_is_said_and_the_former_cluster_gets_what_a_copy_back_needs(
    broker_pair: Pair, tmp_path: Path, done: Commands
) -> None:
    topic = name_of("orders")
    servers = servers_of(broker_pair)
    config = config_of(tmp_path, servers["east"], servers["west"], topic)
    init_ledger(config)
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        east.create_topic(topic, partitions=1, replication_factor=1, configuration=OWN)
        west.create_topic(topic, partitions=1, replication_factor=1, configuration=REQUIRED_AT_TARGET)
        topics = frozenset({Subject.TOPICS})
        record_clusters(config, ["east"], topics, stop=threading.Event(), once=True)
        done(config, "promote", "west", "--over", "east", *REASON)
        applied = done(config, "hand-over", "apply", *PAIR, *REASON, code=4)
        to_west = applied.out.strip()
        assert "unknown: client quotas of east: never_recorded" in applied.err
        assert west.configurations([topic]) == {topic: OWN}
        longer = {"retention.ms": "1728000000", "max.message.bytes": "1000000"}
        west.change_settings(topic, to_set=longer, to_remove=[])
        eventually(
            lambda: longer.items() <= west.configurations([topic])[topic].items(), "west keeps for longer"
        )

        to_east = done(config, "hand-over", "apply", *PAIR, *REASON, "--for", "mirror").out.strip()
        without_default = {**REQUIRED_AT_TARGET, "retention.ms": longer["retention.ms"]}
        del without_default["message.timestamp.before.max.ms"]
        assert east.configurations([topic]) == {topic: {**OWN, **without_default}}
        done(config, "hand-over", "undo", to_east, *REASON)
        assert east.configurations([topic]) == {topic: OWN}
        undone = done(config, "hand-over", "undo", to_west, *REASON)
        assert "left: max.message.bytes of" in undone.err
        assert west.configurations([topic]) == {topic: {**REQUIRED_AT_TARGET, **longer}}
