"""A life in the field: topics, groups and releases as they are elsewhere, with kills, and nothing differs silently.

MIRROR_LEDGER_SEED draws the same topics, settings, groups and releases again; MIRROR_LEDGER_FIELD_TOPICS and
MIRROR_LEDGER_FIELD_SECONDS say how many topics there are and how long it lasts.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.errors import ClusterUnavailableError
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.field_faults import Victims
from tests.support.field_groups import draw_groups
from tests.support.field_oracle import Comparison, seen
from tests.support.field_topics import (
    COLLIDING_AT_TARGET,
    PATIENT,
    RELEASES,
    SOURCE_SETTINGS,
    Writers,
    drawn_topics,
)
from tests.support.recorded import broken_invariants, query
from tests.support.releases import old_clusters
from tests.support.runs import FLOW
from tests.support.waiting import eventually

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))
TOPICS = int(os.environ.get("MIRROR_LEDGER_FIELD_TOPICS", "500"))
SECONDS = float(os.environ.get("MIRROR_LEDGER_FIELD_SECONDS", "1200"))
KILLED_EVERY_S = max(30.0, SECONDS / 20)
LINES = """
topics = [".*"]
round_seconds = 2
sync_groups = true
sync_groups_seconds = 5
on_loss = "continue"
on_source_recreated = "continue"
dead_letters = "dead-letters.{topic}"
"""
PREFIX = "east."
_SHOWN = 200


def test_what_differs_in_the_end_is_told(tmp_path: Path) -> None:
    print(
        f"MIRROR_LEDGER_SEED={SEED} MIRROR_LEDGER_FIELD_TOPICS={TOPICS} MIRROR_LEDGER_FIELD_SECONDS={SECONDS}"
    )
    chance = random.Random(SEED)
    releases = dict(zip(("east", "west"), chance.sample(RELEASES, k=2), strict=True))
    print(releases)
    overrides = {"east": SOURCE_SETTINGS, "west": PATIENT}
    with old_clusters(tmp_path / "clusters", releases, overrides) as sandbox:
        servers = servers_of(sandbox.status())
        topics = drawn_topics(chance, TOPICS, releases["east"])
        writers = Writers(servers["east"], chance, releases["east"])
        writers.create(topics)
        create_topics(servers["west"], [COLLIDING_AT_TARGET], partitions=1)
        for topic in topics:
            writers.write(topic, chance.randint(1, 100))
        writers.finish()
        groups = draw_groups(chance, max(TOPICS // 5, 5), [one.name for one in topics])
        ends = writers.ends()
        for group in groups:
            group.commit(servers["east"], ends)
        config = write_config(tmp_path, servers, {FLOW: LINES})
        init_ledger(config)
        with Victims(config, sandbox, tmp_path, chance) as victims:
            eventually(
                lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work", within_s=300
            )
            until_s = time.monotonic() + SECONDS
            killed_s = time.monotonic()
            while time.monotonic() < until_s:
                for topic in chance.sample(topics, k=max(TOPICS // 10, 1)):
                    writers.write(topic, chance.randint(1, 30))
                    if chance.random() < 0.1:
                        writers.disturb(topic)
                chance.choice(groups).commit(servers["east"], writers.ends())
                if time.monotonic() > killed_s + KILLED_EVERY_S:
                    victims.kill_one()
                    killed_s = time.monotonic()
                writers.finish()
                time.sleep(1)
            victims.require_alive()
            require_told(config, servers)
        assert broken_invariants(config) == {}
        print(f"{writers.total} records written, killed: {victims.killed}")


def require_told(config: MirrorConfig, servers: dict[str, str]) -> None:
    """Nothing waits, and each difference that lies in the two clusters is a row of `not_equal`, and no more."""
    deadline_s = time.monotonic() + 120 + TOPICS
    while True:
        time.sleep(10)
        try:
            source, target = seen(servers["east"]), seen(servers["west"])
        except ClusterUnavailableError as error:  # on a busy machine
            print(error)
            assert time.monotonic() < deadline_s
            continue
        ledger = Ledger.open(config)
        rows = ledger.query("not_equal", flow=FLOW).table.to_pylist()
        found = Comparison(source, target, rows, PREFIX).compare()
        kinds = Counter((row["subject"], row["status"], row["cause"]) for row in rows)
        counted = ledger.status(FLOW, differences=True).flows[0].differences
        assert counted is not None
        assert sum(kinds.values()) == sum(one.rows for one in counted)
        assert {(one.topic, one.status, one.cause) for one in counted} == {
            (row["source_topic"], row["status"], row["cause"]) for row in rows
        }
        is_waiting = any(status == "waiting" for _, status, _ in kinds)
        print(f"{sum(map(len, target.records.values()))} records at the target; {dict(kinds)}")
        if not found and not is_waiting:
            return
        print("\n".join(found[:10]))
        if time.monotonic() > deadline_s:
            pytest.fail("\n".join([f"{len(found)} differences, waiting: {is_waiting}", *found[:_SHOWN]]))
