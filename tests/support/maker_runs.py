"""One configuration of MirrorMaker 2, carried out twice: by a real MirrorMaker, and as it was imported.

MirrorMaker mirrors from `east` to `west`, the imported configuration from `east` to `south`. The oracle is what
MirrorMaker has put into west: names of topics, their records, groups with their places.
"""

import json
import re
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from ledger.sandbox.groups import TO_THE_END, GroupPlan, consume
from ledger.sandbox.reading import Record, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.commands import mirror_ledger
from tests.support.following import produce
from tests.support.maker_files import FIRST, FOLDER, SECOND
from tests.support.mirror_maker import connectors_of, maker_of
from tests.support.recorded import broken_invariants
from tests.support.runs import run
from tests.support.waiting import eventually

TOPICS = (
    *("orders", "payments.eu", "payments.us", "inventory.v1", "inventoryxv1", "audit-internal"),
    *("secret-things", "orders.replica", "mm2-old.internal", "__tools", "second_orders", "second.orders"),
)
"""At the source; what lists, defaults and prefixes select and leave out."""
RECORDS = 12
GROUPS = {
    "billing": "orders",
    "reports-daily": "payments.eu",
    "console-consumer-7": "orders",
    "connect-sink": "orders",
    "test-1": "inventory.v1",
    "watching": "secret-things",
}
"""What each group reads, to its end: MirrorMaker translates no commit that lies before the syncs that it has seen."""
_OFTEN = """
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 1
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 1
offset.lag.max = 0
second.offset.flush.interval.ms = 1000
B.offset.flush.interval.ms = 1000
"""
"""The last two by the aliases of targets: workers send offset syncs that have to wait when they flush."""
_ONE_REPLICA = "".join(
    f"{name}replication.factor = 1\n"
    for name in (
        *("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic."),
        *("offset.storage.", "config.storage.", "status.storage."),
    )
)
_MAKERS_OWN = re.compile(r"(mm2-|mirror-|__).*|.*checkpoints.?internal|(.*[._-])?heartbeats")
_CHECKPOINTS = re.compile(r".*checkpoints.?internal")
_NOTHING_MORE_WITHIN_S = 6.0


@dataclass(frozen=True)
class MakerSite:
    """Three clusters of one broker each, for one file alone: a pattern may select all that there is."""

    servers: Mapping[str, str]
    folder: Path
    spark: SparkSession
    capsys: pytest.CaptureFixture[str]

    def text(self, name: str, *, to: str) -> str:
        """A file with addresses that answer."""
        written = (FOLDER / name).read_text(encoding="utf-8")
        return written.replace(FIRST, self.servers["east"]).replace(SECOND, self.servers[to])


@contextmanager
def maker_site(folder: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Iterator[MakerSite]:
    sandbox = Sandbox(folder / "sandbox")
    try:
        servers = servers_of(sandbox.up(["east", "west", "south"], brokers=1))
        create_topics(servers["east"], TOPICS, partitions=1)
        for topic in TOPICS:
            produce(servers["east"], topic, *(f"{topic} {number}" for number in range(RECORDS)))
        for group, topic in GROUPS.items():
            consume(servers["east"], GroupPlan(group, {(topic, 0): TO_THE_END}))
        yield MakerSite(servers, folder, spark, capsys)
    finally:
        sandbox.down()


def assert_mirrored_alike(site: MakerSite, name: str, *, has_checkpoints: bool = True) -> None:
    """Import, run both, and compare; `has_checkpoints`: whether MirrorMaker can translate a group by this file."""
    config = imported_configuration(site, name)
    compared = compared_names(site, name)
    with _maker(site, name):
        expected = wait_for_maker(
            site, {str(row["here"]) for row in compared if row["here"] and row["kind"] == "topic"}
        )
        checkpoints = eventually_checkpoints(site, compared) if has_checkpoints else checkpointed(site)
    init_ledger(config)
    for flow in config.enabled_flows:
        if config.cluster(flow.source).bootstrap_servers == site.servers["east"]:
            assert not run(config, site.spark, flow.name, recorded=frozenset(Subject)).stopped
    assert records(site, "south", topics_of(site, "south")) == expected
    assert expected, "MirrorMaker has mirrored something"
    said = {str(row["mirror_maker"]) for row in compared if row["mirror_maker"] and row["kind"] == "topic"}
    assert said == expected.keys(), "what --check said of MirrorMaker is what it did"
    if has_checkpoints:
        assert recorded_places(config) == checkpoints
    else:
        assert (checkpoints, bool(recorded_places(config))) == (set(), True)
    assert broken_invariants(config) == {}


def _maker(site: MakerSite, name: str) -> AbstractContextManager[None]:
    text = site.text(name, to="west")
    if name.endswith(".json"):
        return connectors_of(text, site.servers["west"], site.folder)
    return maker_of(text + _OFTEN + _ONE_REPLICA, site.folder)


def imported_configuration(site: MakerSite, name: str) -> MirrorConfig:
    """As a user has it: the output of the command in a file."""
    file = site.folder / name
    file.write_text(site.text(name, to="south"), encoding="utf-8")
    done = mirror_ledger(site.capsys, "import", str(file))
    assert done.code == 0, done.err
    written = site.folder / "mirror.toml"
    written.write_text(done.out, encoding="utf-8")
    return load_config(written)


def compared_names(site: MakerSite, name: str) -> list[dict[str, object]]:
    """What `--check` says before anything has run, of flows that leave east."""
    done = mirror_ledger(site.capsys, "import", str(site.folder / name), "--check", "-o", "json")
    assert done.code in (0, 4), done.err
    rows = [row for row in json.loads(done.out) if str(row["flow"]).startswith(("first-", "A-"))]
    assert {row["comparison"] for row in rows} == {"same"}, rows
    return rows


# -- What lies there -------------------------------------------------------------------------------


def topics_of(site: MakerSite, alias: str) -> list[str]:
    """Names of a target that are neither MirrorMaker's own nor Kafka's."""
    names = AdminClient({"bootstrap.servers": site.servers[alias]}).list_topics(timeout=30).topics
    return sorted(name for name in names if not _MAKERS_OWN.fullmatch(name))


def records(site: MakerSite, alias: str, topics: list[str]) -> dict[str, list[Record]]:
    """By topic, in their order; of topics without a record too."""
    if not topics:
        return {}
    found = read_topics(site.servers[alias], topics)
    return {topic: [placed.record for placed in found.get((topic, 0), [])] for topic in topics}


def wait_for_maker(site: MakerSite, wanted: set[str]) -> dict[str, list[Record]]:
    """What MirrorMaker has copied, once it is at least what was said of it, and then nothing more comes."""

    def copied() -> dict[str, list[Record]]:
        return records(site, "west", topics_of(site, "west"))

    def is_there() -> bool:
        found = copied()
        return wanted <= found.keys() and all(len(found[topic]) == RECORDS for topic in wanted)

    eventually(is_there, f"MirrorMaker has copied {sorted(wanted)}", within_s=120)
    time.sleep(_NOTHING_MORE_WITHIN_S)
    return copied()


def eventually_checkpoints(site: MakerSite, compared: list[dict[str, object]]) -> set[tuple[str, str]]:
    groups = {str(row["name"]) for row in compared if row["kind"] == "group" and row["mirror_maker"]}
    mirrored = {str(row["name"]) for row in compared if row["kind"] == "topic" and row["mirror_maker"]}
    wanted = {group for group, topic in GROUPS.items() if group in groups and topic in mirrored}
    found = set[tuple[str, str]]()

    def is_there() -> bool:
        found.update(checkpointed(site))
        return wanted <= {group for group, _ in found}

    eventually(is_there, f"MirrorMaker has a checkpoint of {sorted(wanted)}", within_s=180)
    return found


def checkpointed(site: MakerSite) -> set[tuple[str, str]]:
    """Groups, and target topics, of which MirrorMaker has written a checkpoint."""
    names = AdminClient({"bootstrap.servers": site.servers["west"]}).list_topics(timeout=30).topics
    topics = [name for name in names if _CHECKPOINTS.fullmatch(name)]
    placed = (
        [one for rows in read_topics(site.servers["west"], topics).values() for one in rows] if topics else []
    )
    return {_key(one.record.key) for one in placed if one.record.key}


def _key(key: bytes) -> tuple[str, str]:
    (size,) = struct.unpack_from(">h", key)
    group = key[2 : 2 + size].decode()
    (topic_size,) = struct.unpack_from(">h", key, 2 + size)
    return group, key[4 + size : 4 + size + topic_size].decode()


def recorded_places(config: MirrorConfig) -> set[tuple[str, str]]:
    """Groups, and target topics that they would continue in, by the ledger."""
    flows = [flow.name for flow in config.enabled_flows if flow.source in ("first", "A")]
    found = [row for flow in flows for row in Ledger.open(config).translate(flow=flow)]
    return {
        (row.group_id, row.target_topic)
        for row in found
        if row.committed_offset == RECORDS and row.target_topic is not None and row.group_id is not None
    }
