"""A commit on records that the source takes back: where a consumer there goes on, and where the translation lands."""

import re
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from ledger.facts.codec import encode
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, RecordedSync, SyncCause, SyncKind
from ledger.facts.truncation import common_end
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copies import Pair
from tests.support.ledger_rows import row
from tests.support.trio import FOLLOWER, LEADER, OTHER, UNCLEAN, Trio
from tests.support.waiting import eventually

BEFORE, WITHDRAWN, AFTER = 100, 50, 60


def group_on(trio: Trio, node: int, prefix: str) -> str:
    """The name of a group that a node coordinates: the others are going to be killed."""
    client = AdminClient({"bootstrap.servers": trio.servers})
    names = [f"{prefix}-{number}" for number in range(40)]

    def coordinated() -> list[str]:
        asked = client.describe_consumer_groups(names)
        told = {
            name: asked[name] for name in names if asked[name].exception(30) is None
        }  # not all have moved in
        return [name for name, answer in told.items() if answer.result().coordinator.id == node]

    eventually(lambda: bool(coordinated()), f"node {node} coordinates a group")
    return coordinated()[0]


def consumer(trio: Trio, group: str) -> Consumer:
    settings = {"bootstrap.servers": trio.servers, "group.id": group, "enable.auto.commit": False}
    return Consumer({**settings, "auto.offset.reset": "error", "log_level": 0})


def read_and_commit(trio: Trio, group: str, topic: str, count: int) -> None:
    """As consumers do: the epoch of the last record goes with the commit."""
    reader = consumer(trio, group)
    reader.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    while len(messages) < count:
        messages += reader.consume(count - len(messages), 10)
    reader.commit(message=messages[-1], asynchronous=False)
    reader.close()


def put_back_to(trio: Trio, group: str, topic: str) -> int:
    """Where a consumer of the group finds that what it had read at the source ends now."""
    reader = consumer(trio, group)
    reader.assign(reader.committed([TopicPartition(topic, 0)], 30))
    message = reader.poll(30)
    reader.close()
    assert message is not None
    error = message.error()
    assert error is not None, "the consumer reads on"
    found = re.search(r"log truncation detected .* broker end offset is (\d+)", error.str())
    assert found is not None, error
    return int(found[1])


def take_back(pair: Pair) -> int:
    """What a driver records of the truncation, and goes on; returns from where on it counts as taken back."""
    (stopped,) = pair.run(seconds=10, to_the_end=False)
    assert stopped.stop is not None
    assert str(stopped.stop.cause) == "source_truncated"
    assert stopped.divergence is not None
    recorded = [RecordedSync(1, number, sync) for number, sync in enumerate(pair.syncs, 1)]
    common = common_end(recorded, epoch=stopped.divergence.epoch, end=stopped.divergence.end)
    pair.syncs.append(
        OffsetSync(
            source=pair.at("source"),
            target=pair.at("target"),
            source_leader_epoch=common.leader_epoch,
            source_start=common.source_end,
            source_end=stopped.position.source_offset,
            target_start=stopped.position.target_offset,
            target_end=stopped.position.target_offset,
            first_sequence=stopped.position.next_sequence,
            kind=SyncKind.SUPERSEDED,
            cause=SyncCause.SOURCE_TRUNCATED,
        )
    )
    pair.standing[0] = replace(
        stopped,
        position=replace(stopped.position, source_offset=common.source_end, leader_epoch=common.leader_epoch),
        stop=None,
        divergence=None,
    )
    pair.run()
    return common.source_end


@pytest.mark.fault(10)
def test_a_commit_lands_where_a_consumer_at_the_source_is_put_back_to(trio: Trio) -> None:
    servers = {"source": trio.servers, "target": trio.servers}
    with Pair(servers, servers) as pair:
        pair.replace("source", lambda topic: trio.create(topic, [[LEADER, FOLLOWER]], UNCLEAN))
        pair.replace("target", lambda topic: trio.create(topic, [[OTHER]], {"min.insync.replicas": "1"}))
        topic = pair.topics["source"]
        with_epoch, without = (group_on(trio, OTHER, f"{topic}-{kind}") for kind in ("epoch", "none"))
        pair.produce(BEFORE)
        pair.run()

        def write() -> None:
            pair.produce(WITHDRAWN, start=BEFORE)
            pair.run()
            read_and_commit(trio, with_epoch, topic, BEFORE + 40)
            bare = consumer(trio, without)
            bare.commit(offsets=[TopicPartition(topic, 0, BEFORE + 40)], asynchronous=False)
            bare.close()

        trio.lose_the_end([topic], LEADER, FOLLOWER, write)
        pair.produce(AFTER, start=500)
        assert take_back(pair) == BEFORE

        listed = [
            group for group in pair.admins["source"].groups() if group.group_id in (with_epoch, without)
        ]
        commits = pair.admins["source"].commits(listed, topic_ids={topic: pair.at("source").topic_id})
        assert {one.group_id: (one.committed_offset, one.leader_epoch is None) for one in commits} == {
            with_epoch: (BEFORE + 40, False),
            without: (BEFORE + 40, True),
        }
        ledger = MemoryLedger()
        ledger.append("writers", [row("writers", event="claimed", flow="f", source_cluster="source")])
        identity = FlowIdentity("f", "source", "target")
        for number, sync in enumerate(pair.syncs, 1):
            stamp = {"writer": "flow:f", "writer_epoch": 1, "round": number, "recorded_at_ms": 1}
            ledger.append("offset_syncs", [{**stamp, **sync_row(identity, sync)}])
        ledger.append("checkpoints", [row("checkpoints", **encode(one)) for one in commits])
        params: dict[str, catalog.Value] = {"from_cluster": "source", "to_cluster": "target"}
        answer = run_query(catalog.query("offset_translation"), params, ledger.at(ledger.latest()))
        assert {one["group_id"]: (one["target_offset"], one["status"]) for one in answer.to_pylist()} == {
            with_epoch: (BEFORE + WITHDRAWN, "truncated"),
            without: (BEFORE + WITHDRAWN, "truncated"),
        }
        assert put_back_to(trio, with_epoch, topic) == BEFORE
