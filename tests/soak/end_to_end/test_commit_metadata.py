"""Metadata that counts from a commit goes to the target only where it names the same records there."""

from contextlib import closing

from confluent_kafka import Producer

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.facts.groups import NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.following import name_of, produce
from tests.support.runs import FLOW, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

NOTHING = "\0"
"""As clients by librdkafka commit an empty text."""


def test_metadata_is_kept_in_step_and_left_out_before_a_marker(site: RealSite) -> None:
    topic, servers = name_of("noted"), servers_of(site.pair)
    create_topics(servers["east"], [topic], partitions=2)
    producer = Producer({"bootstrap.servers": servers["east"], "transactional.id": topic})
    producer.init_transactions()
    for _ in range(3):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, str(number), partition=0)
        producer.commit_transaction()
    produce(servers["east"], topic, *map(str, range(30)), partition=1)
    options = "round_seconds = 1.0\ncheckpoint_seconds = 0.5\nsync_groups = true\nsync_groups_seconds = 0.2"
    config = write_config(
        site.folder, servers, {FLOW: f'{options}\ntopics = ["{topic}"]\ngroups = ["{topic}-.*"]'}
    )
    init_ledger(config)
    group, note = f"{topic}-group", "done:+1,+13"
    with (
        closing(KafkaAdmin("east", config.cluster("east"), SystemClock())) as east,
        closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as west,
    ):

        def committed() -> dict[int, tuple[int | None, str | None]]:
            commits = west.commits([GroupListing(group, None, None)], topic_ids={})
            return {one.partition: (one.committed_offset, one.metadata or None) for one in commits}

        with running(config, site.spark, recorded=frozenset({Subject.CHECKPOINTS})):
            places = [(f"east.{topic}", partition) for partition in range(2)]
            eventually(
                lambda: (
                    {at: end.high_watermark for at, end in west.ends(places).items()}
                    == dict.fromkeys(places, 30)
                ),
                "all is copied",
            )
            east.set_commits(group, [NewCommit(topic, 0, 11, note), NewCommit(topic, 1, 11, note)])
            eventually(lambda: committed() == {0: (10, None), 1: (11, note)}, "one keeps it")
            east.set_commits(group, [NewCommit(topic, 0, 22, note)])
            eventually(lambda: committed()[0][0] == 20, "behind two markers")
            before = committed()[0]
            east.set_commits(group, [NewCommit(topic, 0, 24, NOTHING)])
            eventually(lambda: committed()[0] == (22, NOTHING), "what says nothing is as it was")
        assert before == (20, None), "a marker ends the last transaction, too"
