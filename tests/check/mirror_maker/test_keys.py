"""The forty keys that public configurations of MirrorMaker 2 have most, and what an import makes of each."""

import tomllib
from collections.abc import Mapping

import pytest

from ledger.config.values import StartAt
from ledger.mirror_maker.keys import Verdict
from ledger.mirror_maker.translating import KeyRow
from ledger.topics.naming import NamingKind
from tests.support.maker_files import BASE, Imported, imported, of_lines

FLOW, SOURCE = "a-to-b", "a"
NEVER = r"mm2.*\.internal"
"""What MirrorMaker leaves out whatever its lists say."""

# -- Keys of flows that are taken ------------------------------------------------------------------

TAKEN: Mapping[str, tuple[str, object]] = {
    "a->b.topics = orders, payments\\\\..*": ("topics", ["orders", r"payments\..*"]),
    "topics = x": ("topics", ["x"]),
    "topics.exclude = .*\\\\.tmp": ("exclude", [r".*\.tmp", NEVER]),
    "topics.exclude =": ("exclude", [NEVER]),
    "topics.blacklist = x-.*": ("exclude", ["x-.*", NEVER]),
    "groups = billing, reports": ("groups", ["billing", "reports"]),
    "groups.exclude = test-.*": ("groups_exclude", ["test-.*"]),
    "groups.blacklist = test-.*": ("groups_exclude", ["test-.*"]),
    "replication.factor = 3": ("replication_factor", 3),
    "replication.factor = -1": ("replication_factor", -1),
    "refresh.topics.interval.seconds = 60": ("topic_refresh_seconds", 60.0),
    "sync.group.offsets.enabled = true": ("sync_groups", True),
    "sync.group.offsets.enabled = false": ("sync_groups", False),
    "sync.group.offsets.interval.seconds = 30": ("sync_groups_seconds", 30.0),
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy": (
        "topic_naming",
        "identity",
    ),
    "replication.policy.class = io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": (
        "topic_naming",
        "identity",
    ),
    "replication.policy.class = com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy": (
        "topic_naming",
        "identity",
    ),
    "replication.policy.class = org.apache.kafka.connect.mirror.DefaultReplicationPolicy": ("prefix", "a"),
    "replication.policy.separator = _": ("rename", [{"match": "(.*)", "to": r"a_\1"}]),
    "replication.policy.separator = .": ("prefix", "a"),
    "source.cluster.alias = plant": ("prefix", "plant"),
    "sync.topic.acls.enabled = true": ("acls", "read"),
    "sync.topic.acls.enabled = false": ("acls", "none"),
    "sync.topic.configs.enabled = true": ("configuration_follow", "incremental"),
    "sync.topic.configs.enabled = false": ("configuration_follow", "create"),
    "config.properties.exclude = retention\\\\..*": ("configuration_exclude", [r"retention\..*"]),
    "tasks.max = 8": ("tasks", 8),
    "tasks.max = 500": ("tasks", 64),
    "emit.checkpoints.enabled = true": ("emit_checkpoints", True),
    "emit.checkpoints.enabled = false": ("emit_checkpoints", False),
    "emit.heartbeats.enabled = true": ("emit_heartbeats", True),
}


@pytest.mark.parametrize("line", TAKEN)
def test_a_key_of_a_flow_is_taken(line: str) -> None:
    key, expected = TAKEN[line]
    found = of_lines(line)
    table = tomllib.loads(found.text)["flows"][FLOW]
    assert table[key] == expected
    row = row_of(found, line)
    assert (row.verdict, row.where) == (Verdict.TAKEN, "line 5")
    assert f"flows.{FLOW}.{key}" in str(row.taken_as).split(", ")
    assert found.config.flow(FLOW)


def row_of(found: Imported, line: str) -> KeyRow:
    return found.rows[line.partition(" =")[0]]


# -- Keys that have no equal -----------------------------------------------------------------------

OTHERS: Mapping[str, tuple[Verdict, str]] = {
    "offset-syncs.topic.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "checkpoints.topic.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "heartbeats.topic.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "config.storage.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "offset.storage.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "status.storage.replication.factor = 1": (Verdict.NO_MEANING, "ledger takes the place"),
    "config.storage.topic = x": (Verdict.NO_MEANING, "ledger takes the place"),
    "b.group.id = x": (Verdict.NO_MEANING, "without a group"),
    "refresh.topics.enabled = true": (Verdict.DIFFERS, "always checked for"),
    "refresh.groups.enabled = true": (Verdict.DIFFERS, "always read"),
    "refresh.groups.interval.seconds = 60": (Verdict.DIFFERS, "checkpoint_seconds"),
    "emit.checkpoints.interval.seconds = 5": (Verdict.DIFFERS, "checkpoint_seconds"),
    "emit.heartbeats.interval.seconds = 5": (Verdict.DIFFERS, "each second"),
    "sync.topic.acls.interval.seconds = 60": (Verdict.DIFFERS, "topic_refresh_seconds"),
    "sync.topic.configs.interval.seconds = 60": (Verdict.DIFFERS, "topic_refresh_seconds"),
    "a->b.use.defaults.from = source": (Verdict.DIFFERS, "defaults of the source's brokers"),
    "offset.lag.max = 10": (Verdict.NO_MEANING, "every offset"),
    "offset-syncs.topic.location = target": (Verdict.NO_MEANING, "nothing is written to the source"),
    "a.consumer.isolation.level = read_committed": (Verdict.DIFFERS, "always read_committed"),
    "b.producer.enable.idempotence = false": (Verdict.DIFFERS, "producer id"),
    "b.producer.max.request.size = 1048576": (Verdict.DIFFERS, "cut into records"),
    "b.producer.batch.size = 1": (Verdict.DIFFERS, "cut into records"),
    "b.producer.linger.ms = 1": (Verdict.DIFFERS, "cut into records"),
    "b.producer.compression.type = lz4": (Verdict.NO_MEANING, "bytes that they are"),
    "a.consumer.fetch.max.bytes = 1": (Verdict.NO_MEANING, "connections are its own"),
    "a.consumer.max.poll.records = 1": (Verdict.NO_MEANING, "connections are its own"),
    "b.exactly.once.source.support = enabled": (Verdict.NO_MEANING, "always once"),
    "dedicated.mode.enable.internal.rest = true": (Verdict.NO_MEANING, "one driver"),
    "key.converter = x": (Verdict.NO_MEANING, "bytes that they are"),
    "value.converter = x": (Verdict.NO_MEANING, "bytes that they are"),
    "a->b.transforms = x": (Verdict.NOT_YET, "filter"),
    "a.client.id = x": (Verdict.NO_MEANING, "names itself"),
    "metric.reporters = x": (Verdict.NO_MEANING, "no reporters of Java"),
    "config.providers = env": (Verdict.DIFFERS, "references"),
    "topic.filter.class = org.example.Filter": (Verdict.NOT_YET, "as it does"),
    "replication.policy.class = org.example.Policy": (Verdict.NOT_YET, "write topic_naming"),
}


@pytest.mark.parametrize("line", OTHERS)
def test_a_key_without_an_equal_is_explained(line: str) -> None:
    verdict, words = OTHERS[line]
    found = of_lines(line)
    row = row_of(found, line)
    assert (row.verdict, words in str(row.remark)) == (verdict, True), row
    assert found.config.flow(FLOW)


@pytest.mark.parametrize(
    ("value", "key", "expected"), [("latest", "start", StartAt.LATEST), ("none", "on_loss", "stop")]
)
def test_where_a_consumer_begins(value: str, key: str, expected: str) -> None:
    for name in ("a.consumer.auto.offset.reset", "a->b.consumer.auto.offset.reset"):
        found = of_lines(f"{name} = {value}")
        assert getattr(found.flow, key) == expected
        assert found.rows[name].taken_as == f"flows.{FLOW}.{key}"


# -- Clusters and flows ----------------------------------------------------------------------------


def test_clusters_addresses_and_ways() -> None:
    found = imported(BASE + "b->a.enabled = false\n")
    config = found.config
    assert {name: one.bootstrap_servers for name, one in config.clusters.items()} == {
        "a": "a1:9092",
        "b": "b1:9092",
    }
    assert [(name, flow.enabled) for name, flow in config.flows.items()] == [
        ("a-to-b", True),
        ("b-to-a", False),
    ]
    assert found.rows["clusters"].verdict is Verdict.TAKEN
    assert found.rows["a.bootstrap.servers"].taken_as == "clusters.a.bootstrap_servers"
    assert found.rows["b->a.enabled"].taken_as == "flows.b-to-a.enabled"


@pytest.mark.parametrize("written", ["a,b,", "a,,b", ",a, b"])
def test_a_needless_comma_in_clusters_is_said_because_mirror_maker_does_not_start_with_it(
    written: str,
) -> None:
    found = imported(BASE.replace("clusters = a, b", f"clusters = {written}"))
    assert list(found.config.clusters) == ["a", "b"]
    assert found.rows["clusters"].verdict is Verdict.DIFFERS
    assert "a cluster without a name, and ends when it starts" in (found.rows["clusters"].remark or "")


def test_a_flow_wins_over_the_top_and_the_top_counts_for_all_others() -> None:
    found = of_lines("b->a.enabled = true", "tasks.max = 2", "a->b.tasks.max = 3")
    assert {name: flow.tasks for name, flow in found.config.flows.items()} == {"a-to-b": 3, "b-to-a": 2}
    assert found.rows["tasks.max"].taken_as == "flows.b-to-a.tasks"


def test_what_is_not_enabled_does_not_run() -> None:
    for line in ("", "a->b.enabled = yes\n", "a->b.enabled = true # now\n", "a->b.enabled = true \n"):
        found = imported(BASE.replace("a->b.enabled = true\n", line))
        assert not found.flow.enabled, line


# -- Names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((), "a.orders"),
        (("replication.policy.separator = -",), "a-orders"),
        (("replication.policy.separator =",), "aorders"),
        (("replication.policy.separator =", "source.cluster.alias ="), "orders"),
        (("source.cluster.alias =",), ".orders"),
        (("source.cluster.alias = x", "replication.policy.separator = __"), "x__orders"),
        (
            ("replication.policy.class = IdentityReplicationPolicy", "replication.policy.separator = _"),
            "orders",
        ),
    ],
)
def test_names_at_the_target(lines: tuple[str, ...], name: str) -> None:
    found = of_lines(*lines)
    assert found.flow.naming.target_name("orders") == name


def test_copies_from_the_target_stay_out_with_other_separators() -> None:
    found = of_lines("replication.policy.separator = _", "b->a.enabled = true")
    selection = found.config.topic_selection(FLOW)
    assert (selection.selects("b_orders"), selection.selects("orders")) == (False, True)


def test_same_names_both_ways_share_their_targets() -> None:
    found = of_lines("b->a.enabled = true", "replication.policy.class = IdentityReplicationPolicy")
    flows = found.config.flows.values()
    assert {(flow.topic_naming, str(flow.target_mode)) for flow in flows} == {(NamingKind.IDENTITY, "shared")}


# -- What MirrorMaker ignores ----------------------------------------------------------------------

IGNORED: Mapping[str, str] = {
    "sync.group.offests.enabled = true": "is sync.group.offsets.enabled meant?",
    "offset.sotrage.replication.factor = 1": "is offset.storage.replication.factor meant?",
    "max.tasks = 8": "is tasks.max meant?",
    '"replication.policy.separator": "",': "is replication.policy.separator meant?",
    "a->b.topic = x": "is a->b.topics meant?",
    "a.bootstrap.server = x": "is a.bootstrap.servers meant?",
    "c->b.enabled = true": "clusters does not name both",
    "a -> b.topics = x": "the blank ends the key",
    "a.topics = x": "given to the clients of a",
    "consumer.isolation.level = read_committed": "at the top of the file",
    "producer.batch.size = 1": "at the top of the file",
    "use.defaults.from = source": "for a flow write SOURCE->TARGET.use.defaults.from",
    "sync.topic.acls.enabled = flase": "neither true nor false",
    "emit.heartbeats.enabled = true # often": "what is meant as a comment is part of the value",
    "tasks.max = 8 # many": "what is meant as a comment is part of the value",
    "something.else = 1": "nobody has such a key",
}


@pytest.mark.parametrize("line", IGNORED)
def test_what_mirror_maker_ignores_is_said(line: str) -> None:
    found = of_lines(line)
    [row] = [row for row in found.all_rows if row.where == "line 5"]
    said = str(row.remark).replace("neither MirrorMaker nor Kafka's clients have", "nobody has")
    assert (row.verdict, IGNORED[line] in said) == (Verdict.IGNORED, True), row
    assert row.taken_as is None
    assert found.text.replace(", line 5", "") == of_lines("").text


def test_the_last_of_repeated_keys_counts() -> None:
    found = of_lines("tasks.max = 3", "tasks.max = 4")
    assert found.flow.tasks == 4
    [first, second] = [row for row in found.all_rows if row.key == "tasks.max"]
    assert (first.verdict, "line 6 has the same key" in str(first.remark)) == (Verdict.IGNORED, True)
    assert second.verdict is Verdict.TAKEN


# -- Notes -----------------------------------------------------------------------------------------


def test_what_differs_without_a_word_in_the_file_is_said() -> None:
    notes = {row.key: str(row.remark) for row in of_lines().all_rows if row.where == "default"}
    assert "uncommitted" in notes["isolation.level"]
    assert "console-consumer-.*" in notes["groups.exclude"]
    assert "follow" in notes["sync.topic.configs.enabled"]
    assert "off unless" in notes["sync.topic.acls.enabled"]
    assert "checkpoints.internal" in notes["replication.policy.class"]
    assert "no key" in notes["(no key)"]
    silent = of_lines(
        "groups.exclude = x", "sync.topic.acls.enabled = true", "sync.topic.configs.enabled = true"
    )
    written = {row.key for row in silent.all_rows if row.where == "default"}
    assert written & {"groups.exclude", "sync.topic.acls.enabled", "sync.topic.configs.enabled"} == set()


def test_defaults_that_decide_what_is_selected_are_written_out() -> None:
    flow = of_lines().flow
    assert flow.exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert flow.groups_exclude == ("console-consumer-.*", "connect-.*", "__.*")
    assert flow.configuration_exclude == (r"min\.insync\.replicas",)


# -- Releases --------------------------------------------------------------------------------------


def test_old_names_count_before_kafka_4_alone() -> None:
    text = BASE + "topics.blacklist = x\n"
    for release, exclude in (
        ((3, 9), ("x", r".*[\-\.]internal")),
        (None, ("x", NEVER)),
        ((4, 0), (r"mm2.*\.internal", r".*\.replica", "__.*")),
    ):
        found = imported(text, release=release)
        assert found.flow.exclude == exclude
        verdict = Verdict.IGNORED if release == (4, 0) else Verdict.TAKEN
        assert found.rows["topics.blacklist"].verdict is verdict


def test_defaults_of_a_release() -> None:
    before, since = imported(BASE, release=(3, 9)), imported(BASE, release=(4, 3))
    assert before.flow.exclude == (r".*[\-\.]internal", r".*\.replica", "__.*")
    for topic, is_taken in (("audit-internal", (False, True)), ("orders", (True, True))):
        taken = tuple(one.config.topic_selection(FLOW).selects(topic) for one in (before, since))
        assert taken == is_taken
