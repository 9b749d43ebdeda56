"""A source that loses the marker of a committed transaction by an unclean election, on brokers."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from tests.support.config_files import write_flow
from tests.support.following import name_of, values
from tests.support.recorded import broken_invariants, open_findings, rows
from tests.support.runs import run
from tests.support.trio import FOLLOWER, LEADER, OTHER, UNCLEAN, Trio


def send(producer: Producer, topic: str, *sent: str) -> None:
    """In the transaction that is open, or in one that begins."""
    for value in sent:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(30) == 0


@pytest.mark.fault(10)
@pytest.mark.parametrize("commits", [False, True], ids=["aborted", "committed"])
def test_what_the_source_ends_again_is_copied_as_it_ended(
    trio: Trio, tmp_path: Path, spark: SparkSession, commits: bool
) -> None:
    source, target = name_of("markers"), name_of("copies")
    trio.create(source, [[LEADER, FOLLOWER]], UNCLEAN)
    trio.create(target, [[OTHER]], {"min.insync.replicas": "1"})
    rename = f"""topic_naming = "rename"\nrename = [{{ match = '{source}', to = '{target}' }}]"""
    servers = {"east": trio.servers, "west": trio.servers}
    config = write_flow(
        tmp_path, servers, f'topics = ["{source}"]', rename, 'on_source_truncated = "continue"'
    )
    init_ledger(config)
    producer = Producer({"bootstrap.servers": trio.servers, "transactional.id": source, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, source, "first")
    producer.commit_transaction(30)
    producer.begin_transaction()
    send(producer, source, "second", "third")

    def end_it_and_mirror() -> None:
        producer.commit_transaction(30)
        run(config, spark)
        assert values(trio.servers, target) == [b"first", b"second", b"third"]

    trio.lose_the_end([source], LEADER, FOLLOWER, end_it_and_mirror)
    assert values(trio.servers, source) == [b"first"], "the marker is lost"
    run(config, spark)
    assert open_findings(config) == {("transactions_open_again", source)}

    producer.begin_transaction()  # the same producer, so its marker ends what is open there too
    send(producer, source, "fourth")
    (producer.commit_transaction if commits else producer.abort_transaction)(30)
    producer.begin_transaction()
    send(producer, source, "fifth")
    producer.commit_transaction(30)
    run(config, spark)
    left = [b"second", b"third", b"fourth"] if commits else []
    assert values(trio.servers, source) == [b"first", *left, b"fifth"]
    assert values(trio.servers, target) == [
        *(b"first", b"second", b"third"),
        *([b"fourth"] if commits else []),
        b"fifth",
    ]
    causes = {row["cause"] for row in rows(config, "offset_syncs")}
    assert ("marker_lost" in causes) is not commits
    assert open_findings(config) == set()
    assert broken_invariants(config) == {}
