"""Thousands of groups, and the one whose id is empty: recorded, translated and set in one go each."""

import json
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
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, run
from tests.support.site import RealSite
from tests.support.waiting import eventually

GROUPS, BEFORE_THE_MARKER, RECORDS = 3_000, 10, 1_000


def at_target(offset: int) -> int:
    """The marker of a transaction is at the source alone."""
    return offset if offset <= BEFORE_THE_MARKER else offset - 1


def test_all_groups_are_recorded_translated_and_set(site: RealSite) -> None:
    topic, servers = name_of("many"), servers_of(site.pair)
    create_topics(servers["east"], [topic], partitions=1)
    producer = Producer({"bootstrap.servers": servers["east"], "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(BEFORE_THE_MARKER):
        producer.produce(topic, str(number), partition=0)
    producer.commit_transaction()
    committed = {f"{topic}-{number}": number % (RECORDS + 1) for number in range(GROUPS)} | {"": 500}
    config = write_config(site.folder, servers, {FLOW: f'topics = ["{topic}"]\ngroups = ["({topic}-.*)?"]'})
    init_ledger(config)
    with (
        closing(KafkaAdmin("east", config.cluster("east"), SystemClock())) as east,
        closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as west,
    ):
        marker = {(topic, 0): BEFORE_THE_MARKER + 1}
        eventually(
            lambda: {at: one.high_watermark for at, one in east.ends([*marker]).items()} == marker, "ended"
        )
        produce(servers["east"], topic, *map(str, range(RECORDS - BEFORE_THE_MARKER - 1)), partition=0)
        wanted = {group: [NewCommit(topic, 0, offset, None)] for group, offset in committed.items()}
        assert {str(one) for one in east.set_commits_of_groups(wanted).values()} == {"{}"}
        run(config, site.spark, recorded=frozenset(Subject))
        answer = site.command(config, "offsets", "translate", "--flow", FLOW, "-o", "json")
        assert {row["group_id"]: (row["status"], row["target_offset"]) for row in json.loads(answer.out)} == {
            group: ({BEFORE_THE_MARKER: "gap", RECORDS: "at_end"}.get(offset, "exact"), at_target(offset))
            for group, offset in committed.items()
        }
        done = site.command(config, "offsets", "set", "--flow", FLOW, "--all-groups", "--reason", "test")
        assert done.code == 0, done.err
        found = west.commits([GroupListing(group, None, None) for group in committed], topic_ids={})
        assert {one.group_id: one.committed_offset for one in found} == {
            group: at_target(offset) for group, offset in committed.items()
        }
        assert broken_invariants(config) == {}
        for admin, name in ((east, topic), (west, f"east.{topic}")):
            admin.delete_topic(name, topic_id=admin.topics()[name].topic_id)  # with all that was committed
