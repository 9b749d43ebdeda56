"""Whole flows that log in with a key store, and with tokens for longer than a login lasts, in processes of Spark."""

import os
import uuid
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.values import SecretReference
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox.reading import read_topics
from tests.support.config_files import write_config
from tests.support.doors import Doors, stores
from tests.support.guarded import Login, lines_of
from tests.support.runs import FLOW, running
from tests.support.waiting import eventually


def by_files(folder: Path, login: Login) -> Login:
    """Spark's processes do not have the environment of the test."""
    found: dict[str, str | SecretReference] = {}
    for name, value in login.items():
        if isinstance(value, SecretReference):
            (folder / name).write_text(value.resolve(os.environ))
            found[name] = SecretReference(file=str(folder / name))
        else:
            found[name] = value
    return found


@pytest.mark.parametrize("by", ["jks", "token"])
def test_a_flow_mirrors_and_continues(doors: Doors, by: str, tmp_path: Path, spark: SparkSession) -> None:
    login = doors.token_login() if by == "token" else stores(doors, by)
    address = doors.by_token.address if by == "token" else doors.over_tls
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    lines = lines_of(by_files(tmp_path, login))
    with doors.pair(address, login) as pair:
        pair.admins["source"].create_topic(topic, partitions=2, replication_factor=1, configuration={})
        pair.topics = {"source": topic, "target": f"east.{topic}"}
        config = write_config(
            tmp_path,
            {"east": address, "west": address},
            {FLOW: f'topics = ["{topic}"]\nround_seconds = 1.0\nstart = "earliest"'},
            properties={"east": lines, "west": lines},
        )
        init_ledger(config)
        pair.partitions = 2
        with running(config, spark):
            for start in range(0, 600, 200):
                pair.produce(200, start=start)
                eventually(
                    partial(_has, pair.admins["target"], doors.open, f"east.{topic}", start + 200),
                    "records arrive",
                    within_s=180,
                )
        source, target = (read_topics(doors.open, [name]) for name in (topic, f"east.{topic}"))
        for partition in range(2):
            there = [placed.record for placed in target[f"east.{topic}", partition]]
            assert there == [placed.record for placed in source[topic, partition]]


def _has(admin: KafkaAdmin, servers: str, topic: str, records: int) -> bool:
    return topic in admin.topics() and sum(map(len, read_topics(servers, [topic]).values())) == records
