"""A consumer with an instance id leaves its group behind with a member; that is said, and the broker removes it."""

import json
import re
import shlex
from contextlib import closing

from confluent_kafka import Consumer

from ledger.changeover.static_members import static_words
from ledger.clock import SystemClock
from ledger.kafka.admin import KafkaAdmin
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.following import copying, name_of, produce
from tests.support.recorded import operations
from tests.support.runs import FLOW, run
from tests.support.site import RealSite


def read_and_close(servers: str, topic: str, group: str, instance: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.instance.id": instance,
            "session.timeout.ms": 600_000,
            "max.poll.interval.ms": 600_001,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def test_static_members_of_stopped_consumers_are_named_and_removed(site: RealSite) -> None:
    topic, group = name_of("static"), f"{name_of('pods')} it's"
    config = site.configured({FLOW: copying(topic)})
    create_topics(site.servers[0], [topic], partitions=1)
    produce(site.servers[0], topic, "1")
    read_and_close(site.servers[0], topic, group, "pod-1")
    with closing(KafkaAdmin("east", config.cluster("east"), SystemClock())) as admin:

        def state() -> str | None:
            return next(one.group_state for one in admin.groups() if one.group_id == group)

        assert state() == "Stable", "it is closed, and has a member"
        subjects = frozenset({Subject.TOPICS, Subject.CHECKPOINTS, Subject.HIGH_WATERMARKS})
        run(config, site.spark, recorded=subjects)
        way = ("--from", "east", "--to", "west")
        planned = site.command(config, "plan", "switchover", *way, "-o", "json")
        assert json.loads(planned.out)[0]["forecast"]["static_members"] == {group: ["pod-1"]}
        words = static_words(admin, [group, "nobody"])
        assert f"static members of {group} pod-1: they count until their session.timeout.ms" in words
        stranger = site.command(
            config, "remove-members", "east", "--group", group, "--instance", "pod-2", "--reason", "a test"
        )
        assert (stranger.code, state()) == (5, "Stable")
        assert "has 1 static member: pod-1, and not pod-2; nothing was removed" in stranger.err
        [command] = re.findall(r"mirror-ledger (remove-members .*) WHY\)", words)
        done = site.done(config, *shlex.split(command), "they are stopped")
        assert f"1 static member of group {group} removed: pod-1" in done.err
        assert state() == "Empty"
        assert static_words(admin, [group]) == ""
    [removed] = operations(config, "members_removed")
    assert (removed["group"], removed["instances"]) == (group, ["pod-1"])
