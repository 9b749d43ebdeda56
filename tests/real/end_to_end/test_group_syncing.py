"""A group whose commits are synced stops at the source, starts at the target by itself, and reads what it had not."""

import json
import uuid
from contextlib import closing

from ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.groups import NewCommit
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import GroupListing
from ledger.recorders.observation import Subject
from ledger.sandbox.groups import GroupPlan, consume, resume
from ledger.sandbox.reading import read_topics
from ledger.sandbox.resumption import compare
from ledger.sandbox.workload import create_topics
from ledger.store import sql
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.following import name_of
from tests.support.runs import FLOW, running
from tests.support.shops import send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

RECORDS = 60


def test_a_group_starts_at_the_target_by_itself_and_reads_exactly_the_unread(site: RealSite) -> None:
    topic, servers = f"synced-{uuid.uuid4().hex[:6]}", servers_of(site.pair)
    group, at_target = f"{topic}-group", f"east.{topic}"
    create_topics(servers["east"], [topic], partitions=2)
    for partition in range(2):
        send(servers["east"], topic, partition, small_source(topic), RECORDS)
    options = "round_seconds = 1.0\ncheckpoint_seconds = 0.5\nsync_groups = true\nsync_groups_seconds = 0.2"
    config = write_config(
        site.folder, servers, {FLOW: f'{options}\ntopics = ["{topic}"]\ngroups = ["{group}"]'}
    )
    init_ledger(config)
    admin = KafkaAdmin("west", config.cluster("west"), SystemClock())

    def committed() -> dict[int, int | None]:
        commits = admin.commits([GroupListing(group, None, None)], topic_ids={})
        return {one.partition: one.committed_offset for one in commits}

    read = consume(servers["east"], GroupPlan(group, {(topic, 0): 20, (topic, 1): 41}))
    with running(config, site.spark, recorded=frozenset({Subject.CHECKPOINTS})):
        eventually(lambda: committed() == {0: 20, 1: 41}, "what it has read at the source is there")
        more = consume(servers["east"], GroupPlan(group, {(topic, 0): 33, (topic, 1): 41}))
        eventually(lambda: committed() == {0: 33, 1: 41}, "it follows")
        resumed = resume(servers["west"], group, [(at_target, partition) for partition in range(2)])
        at_the_end = {0: RECORDS, 1: RECORDS}
        assert committed() == at_the_end
        consume(servers["east"], GroupPlan(group, {(topic, 0): 35, (topic, 1): 41}))
        eventually(lambda: source_commit(config, group) == 35, "that is recorded")
    assert committed() == at_the_end, "what the group has committed itself stays"
    admin.close()
    read_before = {at: [*records, *more.get(at, [])] for at, records in read.items()}
    back = {(topic, partition): records for (_, partition), records in resumed.items()}
    found = compare(group, read_topics(servers["east"], [topic]), read_before, back)
    assert [str(one) for one in found if not one.is_exact] == []
    with sql.connect(Ledger.open(config).snapshot, {}, ("group_moves",)) as connection:
        moves = connection.sql(
            "select kind, left_offset, arrived_offset from group_moves order by from_partition"
        ).fetchall()
    assert moves == [("group_synced", 33, 33), ("group_synced", 41, 41)]


def test_a_commit_of_its_own_is_counted_and_what_an_operator_sets_there_is_followed(site: RealSite) -> None:
    topic, servers = name_of("owned"), servers_of(site.pair)
    group, at_target = f"{topic}-group", f"east.{topic}"
    for alias, name in (("east", topic), ("west", at_target)):
        create_topics(servers[alias], [name], partitions=1)
    send(servers["east"], topic, 0, small_source(topic), RECORDS)
    options = "round_seconds = 1.0\ncheckpoint_seconds = 0.5\nsync_groups = true\nsync_groups_seconds = 0.2"
    config = write_config(
        site.folder, servers, {FLOW: f'{options}\ntopics = ["{topic}"]\ngroups = ["{group}"]'}
    )
    init_ledger(config)
    with closing(KafkaAdmin("west", config.cluster("west"), SystemClock())) as admin:
        admin.set_commits(group, [NewCommit(at_target, 0, 0, None)])

        def committed() -> int | None:
            [one] = admin.commits([GroupListing(group, None, None)], topic_ids={})
            return one.committed_offset

        def not_synced() -> list[str]:
            [report] = json.loads(site.command(config, "status", "-o", "json").out)
            return list(report["own_commits"])

        consume(servers["east"], GroupPlan(group, {(topic, 0): 20}))
        with running(config, site.spark, recorded=frozenset({Subject.CHECKPOINTS})):
            eventually(lambda: not_synced() == [group], "what is left out is counted")
            assert committed() == 0
            assert (
                f"1 group not synced, for what it has committed at the target is its own: {group}"
                in " ".join(site.command(config, "status").out.split())
            )
            setting = ("offsets", "set", "--flow", FLOW, "--group", group, "--reason", "it reads at east")
            eventually(lambda: site.command(config, *setting).code == 0, "once all below is copied it is set")
            assert committed() == 20
            eventually(lambda: not not_synced(), "what stands there now is the ledger's own")
            consume(servers["east"], GroupPlan(group, {(topic, 0): 33}))
            eventually(lambda: committed() == 33, "it follows from there on")


def source_commit(config: MirrorConfig, group: str) -> int | None:
    rows = Ledger.open(config).snapshot.rows(
        "checkpoints", [("cluster", "=", "east"), ("group_id", "=", group)]
    )
    return next((row["committed_offset"] for row in reversed(rows) if row["partition"] == 0), None)
