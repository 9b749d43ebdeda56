"""Topics of a flow and their access control lists follow, on clusters in memory."""

import json

import pytest

from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.acls import AclFollow
from ledger.facts.findings import FindingName
from ledger.facts.permissions import Permission, topic_acl
from ledger.mirror.assignment import Stop, StopCause
from ledger.mirror.targets import SETTING_FINDINGS
from ledger.topics.following import REQUIRED_AT_TARGET, ConfigurationFollow
from ledger.topics.naming import NamingKind, RenameRule, TopicNaming
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.memory_flows import Flow, follow

# -- Topics ----------------------------------------------------------------------------------------

REPLICA = TopicNaming(NamingKind.RENAME, rules=(RenameRule("(.*)_REPLICA", r"\1"),))


# Naming ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_cluster", [False, True])
def test_a_renamed_topic_is_created_and_paired(one_cluster: bool, caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow(one_cluster=one_cluster)
    flow.source("orders_REPLICA", partitions=2)
    flow.source("plain")
    topics = flow.topics(REPLICA)
    for _ in range(2):
        assert follow(topics) == [("orders_REPLICA", "orders", 0), ("orders_REPLICA", "orders", 1)]
    assert flow.actions() == [("created", "orders")]
    assert caplog.text.count("plain: no rename rule matches; it is not mirrored") == 1


def test_two_flows_may_make_one_target_topic() -> None:
    """A shared target topic: the same name from this and from another cluster."""
    flow = Flow()
    flow.source("orders_REPLICA")
    flow.west.create_topic("orders", partitions=1, replication_factor=1, configuration={})
    assert follow(flow.topics(REPLICA, ConfigurationFollow.CREATE)) == [("orders_REPLICA", "orders", 0)]
    assert flow.actions() == []


def test_every_concern_about_the_settings_of_a_target_topic_is_told() -> None:
    """Kafka's own defaults among them: records far ahead of the broker's clock are refused."""
    flow = Flow()
    flow.source("orders", retention_ms="-1", max_message_bytes="1048588")
    endangered = {
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
        "compression.type": "gzip",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
        "max.message.bytes": "1000",
        "retention.ms": "1000",
    }
    flow.west.create_topic("orders", partitions=1, replication_factor=3, configuration=endangered)
    topics = flow.topics(TopicNaming(NamingKind.IDENTITY), ConfigurationFollow.CREATE)
    assert follow(topics) == [("orders", "orders", 0)]
    raised = {*SETTING_FINDINGS} - {FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE}
    assert {name for name, _, _ in flow.findings()} == {str(name) for name in raised}


A_AND_B = TopicNaming(NamingKind.RENAME, rules=(RenameRule("(.*)_.", r"\1"),))


def test_names_that_conflict_at_the_start_cost_the_topics_concerned() -> None:
    flow = Flow()
    for name in ("a_1", "a_2", "b_1"):
        flow.source(name)
    assert follow(flow.topics(A_AND_B)) == [("b_1", "b", 0)]
    assert list(flow.west.topics()) == ["b"]
    assert flow.findings() == [
        ("target_name_conflict", name, "a_1 and a_2 would all be copied to a; it is not copied")
        for name in ("a_1", "a_2")
    ]


def test_a_name_that_is_too_long_with_its_prefix_costs_that_topic() -> None:
    flow = Flow()
    flow.source("a" * 249)
    flow.source("b")
    assert follow(flow.topics(TopicNaming(NamingKind.PREFIX, prefix="east"))) == [("b", "east.b", 0)]
    [(name, topic, message)] = flow.findings()
    assert (name, topic) == ("target_name_conflict", "a" * 249)
    assert str(message).endswith(
        "a topic name has 1 to 249 letters, digits, dots, underscores and hyphens; it is not copied"
    )


def test_a_name_that_conflicts_later_leaves_what_runs_alone() -> None:
    """Under the next driver, too."""
    flow = Flow()
    flow.source("a_1")
    topics = flow.topics(A_AND_B)
    assert follow(topics) == [("a_1", "a", 0)]
    flow.copied("a_1", "a")
    flow.source("a_2")
    for _ in range(2):
        assert follow(topics) == [("a_1", "a", 0)]
        [(name, topic, message)] = flow.findings()
        assert (name, topic) == ("target_name_conflict", "a_2")
        assert message == "a_1 and a_2 would all be copied to a; it is not copied"
        topics = flow.topics(A_AND_B)
    flow.east.delete_topic("a_2")
    follow(topics)
    assert flow.findings() == []


def test_a_topic_is_not_copied_onto_itself() -> None:
    flow = Flow(one_cluster=True)
    flow.source("a")
    assert follow(flow.topics(TopicNaming(NamingKind.IDENTITY))) == []
    assert flow.findings() == [
        ("target_name_conflict", "a", "a would be copied onto itself; it is not copied")
    ]


def test_copies_within_a_cluster_are_not_copied_again() -> None:
    flow = Flow(one_cluster=True)
    flow.source("a")
    topics = flow.topics(TopicNaming(NamingKind.RENAME, rules=(RenameRule("(.*)", r"copy-\1"),)))
    for _ in range(3):
        assert follow(topics) == [("a", "copy-a", 0)]
    assert flow.east.topics().keys() == {"a", "copy-a"}


# Settings --------------------------------------------------------------------------------------


def own_settings(cluster: MemoryCluster, topic: str) -> dict[str, str]:
    settings = cluster.configurations([topic])[topic]
    return {name: value for name, value in settings.items() if name not in REQUIRED_AT_TARGET}


def test_settings_follow_and_only_the_mirrors_own_are_removed() -> None:
    flow = Flow()
    flow.source("a", retention_ms="5", cleanup_policy="compact")
    topics = flow.topics()
    follow(topics)
    flow.west.change_settings("east.a", to_set={"segment.ms": "9"}, to_remove=[])
    flow.east.change_settings("a", to_set={"retention.ms": "6"}, to_remove=["cleanup.policy"])
    follow(topics)
    assert own_settings(flow.west, "east.a") == {"retention.ms": "6", "segment.ms": "9"}
    assert flow.actions() == [("created", "east.a"), ("settings_changed", "east.a")]
    changed = flow.operations("topic_followed")[1]
    assert (changed["set"], changed["removed"]) == ({"retention.ms": "6"}, ["cleanup.policy"])
    follow(topics)
    assert len(flow.actions()) == 2, "nothing to change, nothing recorded"


def test_a_later_driver_knows_what_an_earlier_one_set() -> None:
    flow = Flow()
    flow.source("a", retention_ms="5")
    follow(flow.topics())
    flow.east.change_settings("a", to_set={}, to_remove=["retention.ms"])
    follow(flow.topics())
    assert own_settings(flow.west, "east.a") == {}
    flow.west.change_settings("east.a", to_set={"retention.ms": "1"}, to_remove=[])
    follow(flow.topics())
    assert own_settings(flow.west, "east.a") == {"retention.ms": "1"}, "set by somebody else since"


@pytest.mark.parametrize(
    ("at_source", "at_target", "finding"),
    [
        ({}, {"compression.type": "gzip"}, FindingName.RECOMPRESSED),
        ({}, {"message.timestamp.type": "LogAppendTime"}, FindingName.LOG_APPEND_TIME),
        ({}, {"unclean.leader.election.enable": "true"}, FindingName.UNCLEAN_LEADER_ELECTION),
        ({"max.message.bytes": "78"}, {"max.message.bytes": "999999"}, None),
        ({}, {"max.message.bytes": "1000000"}, None),
        ({"retention.ms": "5"}, {"retention.ms": "4"}, FindingName.RETENTION_BELOW_SOURCE),
        ({"retention.ms": "-1"}, {"retention.ms": "4"}, FindingName.RETENTION_BELOW_SOURCE),
        ({"retention.ms": "5"}, {"retention.ms": "-1"}, None),
        ({"retention.ms": "5"}, {"retention.ms": "4", "cleanup.policy": "compact"}, None),
        ({}, {"retention.bytes": "4"}, FindingName.RETENTION_BELOW_SOURCE),
        ({}, {"min.insync.replicas": "1"}, None),
    ],
)
def test_what_settings_of_the_target_mean_is_told(
    at_source: dict[str, str], at_target: dict[str, str], finding: FindingName | None
) -> None:
    defaults = {"max.message.bytes": "1000000", "retention.bytes": "-1", "retention.ms": "7"}
    flow = Flow()
    flow.east.default_settings = flow.west.default_settings = defaults
    flow.east.create_topic("a", partitions=1, replication_factor=1, configuration=at_source)
    flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration=at_target)
    topics = flow.topics(follow=ConfigurationFollow.NONE)
    follow(topics)
    assert [name for name, _, _ in flow.findings()] == ([finding] if finding else [])
    flow.west.topic_by_name["east.a"].configuration = {**defaults, "retention.ms": "-1"}
    follow(topics)
    assert flow.findings() == []


@pytest.mark.parametrize(("replicas", "in_sync", "told"), [(1, "1", False), (2, "1", True), (2, "2", False)])
def test_one_replica_that_may_acknowledge_alone_is_told(replicas: int, in_sync: str, told: bool) -> None:
    flow = Flow()
    flow.source("a")
    settings = {"min.insync.replicas": in_sync}
    flow.west.create_topic("east.a", partitions=1, replication_factor=replicas, configuration=settings)
    follow(flow.topics(follow=ConfigurationFollow.NONE))
    assert [name for name, _, _ in flow.findings()] == (["min_insync_replicas_one"] if told else [])


# Partitions and refusals -----------------------------------------------------------------------


def test_partitions_are_added_before_they_are_paired() -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics()
    follow(topics)
    flow.east.add_partitions("a", total=3)
    assert [partition for _, _, partition in follow(topics)] == [0, 1, 2]
    assert flow.actions()[1:] == [("partitions_added", "east.a")]


def test_a_target_with_more_partitions_is_used_and_told() -> None:
    flow = Flow()
    flow.source("a")
    flow.west.create_topic("east.a", partitions=2, replication_factor=1, configuration={})
    topics = flow.topics()
    assert follow(topics) == [("a", "east.a", 0)]
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("more_partitions", "east.a")]
    flow.east.add_partitions("a", total=2)
    follow(topics)
    assert flow.findings() == []


@pytest.mark.parametrize("refused", ["create", "extend"])
def test_one_topics_refusal_stops_this_topic_only(refused: str) -> None:
    flow = Flow()
    flow.source("a", partitions=2)
    flow.source("b")
    if refused == "extend":
        flow.west.create_topic("east.a", partitions=1, replication_factor=1, configuration={})
    flow.west.refused.add((refused, "east.a"))
    topics = flow.topics()
    for _ in range(2):
        assert follow(topics) == [("b", "east.b", 0)]
    [(name, topic, message)] = flow.findings()
    expected = {"create": "target_topic_not_created", "extend": "partitions_not_added"}
    assert (name, topic) == (expected[refused], "east.a")
    assert topics.blocked == {"a": message}
    assert f"does not allow this principal to {refused} east.a" in str(message)
    flow.west.refused.clear()
    assert len(follow(topics)) == 3
    assert (topics.blocked, flow.findings()) == ({}, [])


def test_a_target_of_fewer_partitions_is_paired_as_far_as_it_goes_and_not_at_all_while_it_refuses_more() -> (
    None
):
    """A flow pairs none: producers spread keys over all of them. Who only looks pairs what is there."""
    flow = Flow()
    flow.source("a", partitions=3)
    flow.west.create_topic("east.a", partitions=2, replication_factor=1, configuration={})
    flow.west.refused.add(("extend", "east.a"))
    existing = [(pair.source.partition, pair.target.partition) for pair in flow.topics().existing()]
    assert existing == [(0, 0), (1, 1)]
    assert follow(flow.topics()) == []


def test_many_topics_are_created_and_recorded_together() -> None:
    flow = Flow()
    for number in range(250):
        flow.source(f"{number:03}", retention_ms="5")
    flow.west.refused.add(("create", "east.007"))
    topics = flow.topics()
    assert len(follow(topics)) == 249
    assert {name for name, *_ in flow.findings()} == {"target_topic_not_created"}
    assert len(flow.actions()) == 249
    assert flow.ledger.latest()["operations"] < 10
    content = flow.operations("topic_followed")[-1]
    described = flow.west.topics()[str(content["topic"])]
    assert (content["topic_id"], content["partitions"]) == (described.topic_id, 1)
    flow.east.change_settings("249", to_set={}, to_remove=["retention.ms"])
    follow(topics)
    assert flow.actions()[-1] == ("settings_changed", "east.249"), "what it had set is removed again"


SMALL = {"segment.bytes": "524288"}


@pytest.mark.parametrize("is_named", [True, False])
def test_a_setting_that_the_target_refuses_is_left_out_and_all_others_follow(is_named: bool) -> None:
    flow = Flow()
    for name in ("a", "b", "c"):
        flow.source(name, segment_bytes="524288", retention_ms="5")
    flow.source("d", segment_bytes="2097152")
    flow.west.not_taken, flow.west.is_setting_named = SMALL, is_named
    topics = flow.topics()
    for _ in range(2):
        assert len(follow(topics)) == 4
    assert [own_settings(flow.west, f"east.{name}") for name in "abc"] == [{"retention.ms": "5"}] * 3
    assert own_settings(flow.west, "east.d") == {"segment.bytes": "2097152"}
    assert flow.west.configurations(["east.a"])["east.a"].items() >= REQUIRED_AT_TARGET.items()
    assert {(name, topic) for name, topic, _ in flow.findings()} == {
        ("settings_not_changed", f"east.{name}") for name in "abc"
    }
    assert all("segment.bytes = 524288" in str(message) for _, _, message in flow.findings())
    assert all(str(message).count("east.") == 1 for _, _, message in flow.findings()), "of no other topic"
    assert topics.blocked == {}
    for name in "abc":
        flow.east.change_settings(name, to_set={"segment.bytes": "1048576"}, to_remove=[])
    follow(topics)
    assert own_settings(flow.west, "east.a")["segment.bytes"] == "1048576"


@pytest.mark.parametrize("setting", list(REQUIRED_AT_TARGET))
def test_a_setting_that_copying_needs_costs_no_topic_where_the_target_does_not_take_it(setting: str) -> None:
    flow = Flow()
    flow.source("a", retention_ms="5")
    flow.west.not_taken, flow.west.is_setting_named = {setting: REQUIRED_AT_TARGET[setting]}, False
    topics = flow.topics()
    for _ in range(2):
        assert follow(topics) == [("a", "east.a", 0)]
    others = {"retention.ms": "5", **REQUIRED_AT_TARGET}
    del others[setting]
    assert flow.west.configurations(["east.a"])["east.a"] == others
    [(name, topic, message)] = flow.findings()
    assert (name, topic) == ("settings_not_changed", "east.a")
    assert f"without {setting} = {REQUIRED_AT_TARGET[setting]}: " in str(message)


@pytest.mark.parametrize("is_named", [True, False])
def test_the_same_of_a_setting_that_changes_later(is_named: bool) -> None:
    flow = Flow()
    flow.source("a", retention_ms="5")
    topics = flow.topics()
    follow(topics)
    flow.west.not_taken, flow.west.is_setting_named = SMALL, is_named
    flow.east.change_settings("a", to_set={**SMALL, "retention.ms": "6"}, to_remove=[])
    for _ in range(2):
        assert follow(topics) == [("a", "east.a", 0)]
    assert own_settings(flow.west, "east.a") == {"retention.ms": "6"}
    [(name, topic, message)] = flow.findings()
    assert (name, topic) == ("settings_not_changed", "east.a")
    assert not is_named or "Invalid value 524288 for configuration segment.bytes" in str(message)
    assert "without segment.bytes = 524288: " in str(message), "and of nothing else that was asked for"
    flow.west.not_taken = {**SMALL, "segment.ms": "7"}
    flow.east.change_settings("a", to_set={"segment.ms": "7"}, to_remove=[])
    follow(topics)
    *_, (name, topic, message) = flow.findings()
    assert "without segment.bytes = 524288, segment.ms = 7: " in str(message), "what came since is said, too"
    flow.east.change_settings("a", to_set={}, to_remove=["segment.ms"])
    flow.east.change_settings("a", to_set={}, to_remove=["segment.bytes"])
    follow(topics)
    assert flow.findings() == []


def test_a_quota_is_waited_for_as_long_as_the_target_says() -> None:
    flow = Flow()
    for name in ("a", "b", "c"):
        flow.source(name)
    flow.west.creations = 1
    topics = flow.topics()
    assert follow(topics) == [("a", "east.a", 0)]
    assert topics.blocked.keys() == {"b", "c"}
    assert topics.changes.waits_until == flow.clock.monotonic() + 40.0
    assert flow.findings() == [], "nothing of the topics needs attention"
    flow.west.creations = 9
    assert follow(topics) == [("a", "east.a", 0)], "not sooner"
    flow.clock.wait(41.0)
    assert len(follow(topics)) == 3
    assert topics.blocked == {}
    assert topics.changes.waits_until is None


def test_the_limit_of_a_target_topic_is_never_lowered() -> None:
    """Larger records may be in the source's log from before its limit was lowered; people raise it as they are told."""
    flow = Flow()
    flow.source("a", max_message_bytes="4000000")
    topics = flow.topics()
    follow(topics)
    flow.east.change_settings("a", to_set={"max.message.bytes": "1000"}, to_remove=[])
    follow(topics)
    assert own_settings(flow.west, "east.a") == {"max.message.bytes": "4000000"}
    flow.east.change_settings("a", to_set={}, to_remove=["max.message.bytes"])
    follow(topics)
    assert own_settings(flow.west, "east.a") == {"max.message.bytes": "4000000"}
    flow.east.change_settings("a", to_set={"max.message.bytes": "5000000"}, to_remove=[])
    follow(topics)
    assert own_settings(flow.west, "east.a") == {"max.message.bytes": "5000000"}


def test_settings_that_are_refused_do_not_stop_the_copy() -> None:
    flow = Flow()
    flow.source("a", retention_ms="5")
    topics = flow.topics()
    follow(topics)
    flow.west.refused.add(("configure", "east.a"))
    flow.east.change_settings("a", to_set={"retention.ms": "4"}, to_remove=[])
    assert follow(topics) == [("a", "east.a", 0)]
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("settings_not_changed", "east.a")]
    assert topics.blocked == {}


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_cluster_that_is_exchanged_for_another_ends_the_driver(side: str) -> None:
    flow = Flow()
    flow.source("a")
    topics = flow.topics()
    follow(topics)
    flow.source("b")
    {"east": flow.east, "west": flow.west}[side].kafka_id = "another"
    for _ in range(2):
        with pytest.raises(PreconditionError, match=f"behind {side}: its Kafka cluster id is another, this"):
            follow(topics)
    assert flow.west.topics().keys() == {"east.a"}


# Patterns --------------------------------------------------------------------------------------


def idle(flow: Flow) -> list[tuple[object, object]]:
    return [
        (topic, message)
        for name, topic, message in flow.findings()
        if name == FindingName.PATTERN_MATCHES_NOTHING
    ]


def test_a_misspelt_topic_beside_a_right_one_is_told_until_there_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = Flow()
    flow.source("orders")
    topics = flow.topics(patterns=("orders", "ordres"))
    for _ in range(3):
        assert follow(topics) == [("orders", "east.orders", 0)]
    said = "topics has 'ordres': no topic of east that this principal is shown matches it"
    assert idle(flow) == [("ordres", said)]
    assert caplog.text.count(said) == 1
    topics.require_selected()
    flow.source("ordres")
    assert len(follow(topics)) == 2
    assert idle(flow) == []


def test_a_driver_that_starts_says_again_what_is_so_still(caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow()
    flow.source("orders")
    follow(flow.topics(patterns=("orders", "ordres")))
    caplog.clear()
    corrected = flow.topics(patterns=("orders", "ordres", "payment"))
    for _ in range(2):
        follow(corrected)
    assert [caplog.text.count(f"topics has '{name}'") for name in ("ordres", "payment")] == [1, 1]
    assert [topic for topic, _ in idle(flow)] == ["ordres", "payment"]
    follow(flow.topics(patterns=("orders", "payment")))
    assert [topic for topic, _ in idle(flow)] == ["payment"], "what the configuration has no more is over"


def test_names_that_are_excluded_are_told_and_expressions_are_not() -> None:
    flow = Flow()
    flow.source("orders")
    follow(flow.topics(patterns=("ord.*",), exclude=("secret", "test-.*")))
    said = "exclude has 'secret': no topic of east that this principal is shown matches it"
    assert idle(flow) == [("secret", said)]


def test_a_rule_that_names_nothing_is_told() -> None:
    flow = Flow()
    flow.source("orders_REPLICA")
    rules = (RenameRule("(.*)_REPLICA", r"\1"), RenameRule("(.*)_COPY", r"\1"))
    follow(flow.topics(TopicNaming(NamingKind.RENAME, rules=rules)))
    assert [topic for topic, _ in idle(flow)] == ["(.*)_COPY"]


def test_a_topic_that_was_mirrored_and_is_gone_is_told_once() -> None:
    flow = Flow()
    flow.source("orders")
    flow.source("payments")
    topics = flow.topics(patterns=("orders", "payments"))
    follow(topics)
    flow.east.delete_topic("orders")
    follow(topics)
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("source_topic_deleted", "orders")]
    flow.west.delete_topic("east.orders")
    follow(topics)
    assert [(name, topic) for name, topic, _ in flow.findings()] == [("pattern_matches_nothing", "orders")]


def test_a_flow_that_selects_nothing_has_nothing_to_catch_up_with() -> None:
    flow = Flow()
    topics = flow.topics(patterns=("ordres", "pay.*"))
    topics.require_selected()  # nobody has looked yet
    assert follow(topics) == []
    with pytest.raises(UnsafeError, match=r"no topic of east is selected by topics \(ordres, pay\.\*\), so"):
        topics.require_selected()
    assert [topic for topic, _ in idle(flow)] == ["ordres", "pay.*"]
    flow.source("payments")
    follow(topics)
    topics.require_selected()


def test_a_topic_that_begins_where_applications_have_left_is_told_of_and_not_created() -> None:
    flow = Flow()
    for name in ("a", "b"):
        flow.source(name)
    topics = flow.topics()
    follow(topics)
    flow.source("new")
    for _ in range(2):
        topics.follow(
            written_topic_ids=frozenset(),
            hold=lambda topic: Stop(
                StopCause.OPPOSITE_HOLDS if topic == "east.b" else StopCause.PROMOTED, "it was promoted"
            ),
        )
    assert flow.west.topics().keys() == {"east.a", "east.b"}
    assert flow.findings() == [("new_behind_promotion", "new", "new of east is not copied: it was promoted")]
    said = [json.loads(one["content"]).get("next") or "" for one in flow.ledger.rows("operations")]
    assert said[-1].endswith("mirror-ledger demote west --over east --topic new --reason WHY")
    follow(topics)
    assert flow.findings() == []
    assert "east.new" in flow.west.topics()


# -- Access control lists --------------------------------------------------------------------------


def rule(name: str, operation: str = "read", principal: str = "User:ada") -> Permission:
    return topic_acl(name, principal, operation)


def test_rules_follow_only_if_the_flow_says_so() -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a"), rule("other")}
    follow(flow.topics())
    assert flow.west.acls == set()
    follow(flow.topics(acls=AclFollow.READ))
    assert flow.west.acls == {rule("east.a")}


def test_only_rules_that_the_mirror_created_are_removed_also_by_a_later_driver() -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a"), rule("a", "describe")}
    flow.west.acls = {rule("east.a", "describe"), rule("east.a", "alter")}
    follow(flow.topics(acls=AclFollow.READ))
    assert flow.west.acls == {rule("east.a"), rule("east.a", "describe"), rule("east.a", "alter")}
    flow.east.acls = set()
    topics = flow.topics(acls=AclFollow.READ)
    for _ in range(2):
        follow(topics)
    assert flow.west.acls == {rule("east.a", "describe"), rule("east.a", "alter")}
    actions = [content["action"] for content in flow.operations("acls_followed")]
    assert actions == ["created", "removed"], "what was there already is not the mirror's"


@pytest.mark.parametrize(
    ("call", "name", "finding"),
    [
        ("create rules of", "east.a", "acls_not_changed"),
        ("describe rules of", "topics", "acls_not_read"),
    ],
)
def test_refused_rules_do_not_stop_the_copy(call: str, name: str, finding: str) -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a")}
    flow.west.refused.add((call, name))
    topics = flow.topics(acls=AclFollow.READ)
    assert follow(topics) == [("a", "east.a", 0)]
    assert [(found, topic) for found, topic, _ in flow.findings()] == [(finding, None)]
    flow.west.refused.clear()
    follow(topics)
    assert (flow.findings(), flow.west.acls) == ([], {rule("east.a")})
