"""One configuration of MirrorMaker 2, carried out twice: by a real MirrorMaker, and as it was imported.

Both mirror from the same sources, each to targets of its own: from `east`, MirrorMaker to `west` and the imported
configuration to `south`. The oracle is what MirrorMaker has put there: names of topics, their records, groups with
their places.

Files are carried out as they are, but for addresses, and for factors of replication above 1: a cluster here is one
broker. Resources of Strimzi are without their logins, which `tests/real/kafka/test_logins.py` tries, and MirrorMaker
runs them as the connectors that Strimzi's operator makes of them.
"""

import json
import re
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from ledger.sandbox.groups import TO_THE_END, GroupPlan, consume
from ledger.sandbox.reading import Record, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.commands import mirror_ledger
from tests.support.following import produce
from tests.support.maker_files import FIRST, FOLDER, SECOND
from tests.support.mirror_maker import connectors_of, connectors_of_resource, maker_of
from tests.support.recorded import broken_invariants
from tests.support.releases import BEFORE_4
from tests.support.runs import run
from tests.support.waiting import eventually

TOPICS = (
    *("orders", "payments.eu", "payments.us", "inventory.v1", "inventoryxv1", "audit-internal"),
    *("secret-things", "orders.replica", "mm2-old.internal", "__tools", "second_orders", "second.orders"),
    "sensors.hall",
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
    "dashboards": "sensors.hall",
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
class Cast:
    """Which clusters stand at the addresses of a file. `targets`: MirrorMaker's, and ours.

    `release`: of MirrorMaker, where it is not the newest. `misnamed`: what its checkpoints have in front of names of
    topics that are not called so, because its connectors do not agree.
    """

    sources: Mapping[str, str] = field(default_factory=lambda: {FIRST: "east"})
    targets: Mapping[str, tuple[str, str]] = field(default_factory=lambda: {SECOND: ("west", "south")})
    release: str | None = None
    misnamed: str = ""

    @property
    def clusters(self) -> list[str]:
        return [*self.sources.values(), *(alias for both in self.targets.values() for alias in both)]


_CASTS = {
    "fan_out.properties": Cast(
        targets={SECOND: ("west", "south"), "third.example:9092": ("far-west", "far-south")}
    ),
    "strimzi_v1.yaml": Cast(
        {"plant-kafka-bootstrap:9092": "east", "office-kafka-bootstrap:9092": "north"},
        {"hub-kafka-bootstrap:9093": ("west", "south")},
    ),
    "strimzi_v1beta2.yaml": Cast(
        {"site-a-kafka-bootstrap:9093": "east"},
        {"site-b-kafka-bootstrap:9092": ("west", "south")},
        BEFORE_4,
        misnamed="site-a.",
    ),
}


@dataclass(frozen=True)
class MakerSite:
    """Clusters of one broker each, for one file alone: a pattern may select all that there is.

    `servers`: where anybody may do anything; `addresses`: what stands in the file, `replaced` what else does not stay.
    """

    name: str
    cast: Cast
    servers: Mapping[str, str]
    addresses: Mapping[str, str]
    replaced: Mapping[str, str]
    folder: Path
    spark: SparkSession
    capsys: pytest.CaptureFixture[str]

    def text(self, *, ours: bool) -> str:
        """The file with addresses that answer: of our targets, or of MirrorMaker's."""
        written = (FOLDER / self.name).read_text(encoding="utf-8")
        if self.name.endswith(".yaml"):
            written = yaml.safe_dump_all(map(_without_logins, yaml.safe_load_all(written)), sort_keys=False)
        for address, alias in self.cast.sources.items():
            written = written.replace(address, self.addresses[alias])
        for address, (makers, own) in self.cast.targets.items():
            written = written.replace(address, self.addresses[own if ours else makers])
        for text, other in self.replaced.items():
            assert text in written
            written = written.replace(text, other)
        return re.sub(r"(replication\.factor ?[=:] )[2-9]$", r"\g<1>1", written, flags=re.MULTILINE)

    def flows(self, config: MirrorConfig) -> list[FlowConfig]:
        """Those that leave a source of the cast: a file may mirror the other way too."""
        at = [self.addresses[alias] for alias in self.cast.sources.values()]
        return [one for one in config.enabled_flows if config.cluster(one.source).bootstrap_servers in at]

    def into(self, config: MirrorConfig, alias: str) -> list[str]:
        """Names of the flows that end at a cluster of ours."""
        at = self.addresses[alias]
        return [one.name for one in self.flows(config) if config.cluster(one.target).bootstrap_servers == at]


def _without_logins(of: Any) -> Any:
    if isinstance(of, list):
        return [*map(_without_logins, of)]
    if not isinstance(of, dict):
        return of
    return {key: _without_logins(value) for key, value in of.items() if key not in ("authentication", "tls")}


@contextmanager
def maker_site(
    name: str, folder: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> Iterator[MakerSite]:
    sandbox, cast = Sandbox(folder / "sandbox"), _CASTS.get(name, Cast())
    try:
        servers = servers_of(sandbox.up(cast.clusters, brokers=1))
        filled(servers["east"], TOPICS)
        if "north" in servers:
            filled(servers["north"], ("letters",))
        read_to_the_end(servers["east"])
        yield MakerSite(name, cast, servers, servers, {}, folder, spark, capsys)
    finally:
        sandbox.down()


def filled(servers: str, topics: Sequence[str]) -> None:
    create_topics(servers, topics, partitions=1)
    for topic in topics:
        produce(servers, topic, *(f"{topic} {number}" for number in range(RECORDS)))


def read_to_the_end(servers: str) -> None:
    for group, topic in GROUPS.items():
        consume(servers, GroupPlan(group, {(topic, 0): TO_THE_END}))


def assert_mirrored_alike(site: MakerSite, *, has_checkpoints: bool = True) -> None:
    """Import, run both, and compare; `has_checkpoints`: whether MirrorMaker can translate a group by this file."""
    config = imported_configuration(site)
    compared = compared_names(site, config)
    with maker_at_work(site):
        expected = {
            ours: wait_for_maker(site, makers, said_of_maker(compared, site.into(config, ours), by="here"))
            for makers, ours in site.cast.targets.values()
        }
        checkpoints = eventually_checkpoints(site, compared) if has_checkpoints else checkpointed(site)
    init_ledger(config)
    for flow in site.flows(config):
        assert not run(config, site.spark, flow.name, recorded=frozenset(Subject)).stopped
    for ours, of_maker in expected.items():
        assert records(site, ours, topics_of(site, ours)) == of_maker
        assert of_maker, "MirrorMaker has mirrored something"
        said = said_of_maker(compared, site.into(config, ours), by="mirror_maker")
        assert said == of_maker.keys(), "what --check said of MirrorMaker is what it did"
    if has_checkpoints:
        places = recorded_places(site, config)
        assert {(group, f"{site.cast.misnamed}{topic}") for group, topic in places} == checkpoints
    else:
        assert (checkpoints, bool(recorded_places(site, config))) == (set(), True)
    assert broken_invariants(config) == {}


def maker_at_work(site: MakerSite) -> AbstractContextManager[None]:
    text, target, release = site.text(ours=False), site.servers["west"], site.cast.release
    if site.name.endswith(".json"):
        return connectors_of(json.loads(text), target, site.folder)
    if site.name.endswith(".yaml"):
        *_, resource = yaml.safe_load_all(text)
        more = {key.strip(): value.strip() for key, value in _lines(_OFTEN + _ONE_REPLICA)}
        connectors = connectors_of_resource(resource["spec"], more)
        return connectors_of(connectors, target, site.folder, release=release)
    return maker_of(text + _OFTEN + _ONE_REPLICA, site.folder)


def _lines(properties: str) -> list[tuple[str, str]]:
    halves = (line.partition("=") for line in properties.splitlines())
    return [(key, value) for key, equals, value in halves if equals]


def imported_configuration(site: MakerSite) -> MirrorConfig:
    """As a user has it: the output of the command in a file."""
    file = site.folder / site.name
    file.write_text(site.text(ours=True), encoding="utf-8")
    done = mirror_ledger(site.capsys, "import", str(file))
    assert done.code == 0, done.err
    written = site.folder / "mirror.toml"
    written.write_text(done.out, encoding="utf-8")
    return load_config(written)


def compared_names(site: MakerSite, config: MirrorConfig) -> list[dict[str, object]]:
    """What `--check` says before anything has run, of flows that leave a source of the cast."""
    done = mirror_ledger(site.capsys, "import", str(site.folder / site.name), "--check", "-o", "json")
    assert done.code in (0, 4), done.err
    flows = [flow.name for flow in site.flows(config)]
    rows = [row for row in json.loads(done.out) if row["flow"] in flows]
    assert {row["comparison"] for row in rows} == {"same"}, rows
    return rows


def said_of_maker(compared: list[dict[str, object]], flows: list[str], *, by: str) -> set[str]:
    """Names of topics at the target of flows, of the column `by`."""
    rows = (row for row in compared if row["flow"] in flows and row["kind"] == "topic")
    return {str(row[by]) for row in rows if row[by]}


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


def wait_for_maker(site: MakerSite, alias: str, wanted: set[str]) -> dict[str, list[Record]]:
    """What MirrorMaker has copied, once it is at least what was said of it, and then nothing more comes."""

    def copied() -> dict[str, list[Record]]:
        return records(site, alias, topics_of(site, alias))

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
    found = set[tuple[str, str]]()
    for makers, _ in site.cast.targets.values():
        names = AdminClient({"bootstrap.servers": site.servers[makers]}).list_topics(timeout=30).topics
        topics = [name for name in names if _CHECKPOINTS.fullmatch(name)]
        rows = read_topics(site.servers[makers], topics).values() if topics else []
        found |= {_key(one.record.key) for placed in rows for one in placed if one.record.key}
    return found


def _key(key: bytes) -> tuple[str, str]:
    (size,) = struct.unpack_from(">h", key)
    group = key[2 : 2 + size].decode()
    (topic_size,) = struct.unpack_from(">h", key, 2 + size)
    return group, key[4 + size : 4 + size + topic_size].decode()


def recorded_places(site: MakerSite, config: MirrorConfig) -> set[tuple[str, str]]:
    """Groups, and target topics that they would continue in, by the ledger."""
    found = [row for flow in site.flows(config) for row in Ledger.open(config).translate(flow=flow.name)]
    return {
        (row.group_id, row.target_topic)
        for row in found
        if row.committed_offset is not None and row.target_topic is not None and row.group_id is not None
    }
