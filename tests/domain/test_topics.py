"""Names, selection, and how a target topic follows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.topic_ids import topic_id_bytes, topic_id_of_halves, topic_id_text
from ledger.domain.topics import (
    FENCE_MAX_MESSAGE_BYTES,
    REQUIRED_AT_TARGET,
    AddPartitions,
    CreateTopic,
    FollowingFinding,
    FollowingPlan,
    NamePatterns,
    NamingKind,
    SelectionRefusal,
    SourceTopic,
    TargetTopic,
    TopicFollowing,
    TopicNaming,
    TopicSelection,
    target_configuration,
)
from ledger.errors import InvalidValueError, PreconditionError

IDENTITY = TopicNaming(NamingKind.IDENTITY)
PREFIX = TopicNaming(NamingKind.PREFIX, "east")
names = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(names)
def test_naming_goes_there_and_back(topic: str) -> None:
    for naming in (IDENTITY, PREFIX):
        assert naming.source_name(naming.target_name(topic)) == topic


@pytest.mark.parametrize("foreign", ["orders", "eastorders", "west.orders", "east."])
def test_names_that_a_prefix_cannot_have_made(foreign: str) -> None:
    assert PREFIX.source_name(foreign) is None


@pytest.mark.parametrize(("kind", "prefix"), [(NamingKind.PREFIX, ""), (NamingKind.IDENTITY, "east")])
def test_a_prefix_belongs_to_prefix_naming(kind: NamingKind, prefix: str) -> None:
    with pytest.raises(InvalidValueError):
        TopicNaming(kind, prefix)


SELECTION = TopicSelection(
    ("orders.*", "__.*", "west.*"), exclude=("orders-test",), mirrored_prefixes=("west",)
)


@pytest.mark.parametrize(
    ("topic", "refusal"),
    [
        ("orders", None),
        ("orders-2", None),
        ("western", None),
        ("old-orders", SelectionRefusal.NOT_INCLUDED),
        ("orders-test", SelectionRefusal.EXCLUDED),
        ("orders-tests", None),
        ("west.orders", SelectionRefusal.MIRRORED_BACK),
        ("__consumer_offsets", SelectionRefusal.INTERNAL),
        ("mm2-offset-syncs.west.internal", SelectionRefusal.INTERNAL),
        ("west.checkpoints.internal", SelectionRefusal.INTERNAL),
    ],
)
def test_selection(topic: str, refusal: SelectionRefusal | None) -> None:
    assert SELECTION.refusal(topic) is refusal
    assert SELECTION.selects(topic) is (refusal is None)


def test_what_the_broker_calls_internal_is_internal() -> None:
    assert SELECTION.refusal("orders", internal=True) is SelectionRefusal.INTERNAL


def test_patterns_match_whole_names() -> None:
    patterns = NamePatterns(("app-.*",), exclude=("app-test",))
    assert [patterns.matches(name) for name in ("app-1", "my-app-1", "app-test", "app-test-2")] == [
        True,
        False,
        False,
        True,
    ]


# Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "at_target"),
    [
        ("retention.ms", "1000", "1000"),
        ("cleanup.policy", "compact", "compact"),
        ("max.message.bytes", "78", None),
        ("max.message.bytes", str(FENCE_MAX_MESSAGE_BYTES), None),
        ("max.message.bytes", str(FENCE_MAX_MESSAGE_BYTES + 1), str(FENCE_MAX_MESSAGE_BYTES + 1)),
        ("follower.replication.throttled.replicas", "*", None),
        ("leader.replication.throttled.replicas", "*", None),
        ("unclean.leader.election.enable", "true", None),
        ("min.insync.replicas", "3", "2"),
        ("min.insync.replicas", "1", "1"),
        ("segment.bytes", "1", None),
        ("message.timestamp.type", "LogAppendTime", "CreateTime"),
        ("message.timestamp.before.max.ms", "5", str(2**63 - 1)),
        ("message.timestamp.after.max.ms", "5", str(2**63 - 1)),
        ("compression.type", "zstd", "producer"),
    ],
)
def test_settings_of_the_target(setting: str, value: str, at_target: str | None) -> None:
    copied = target_configuration({setting: value}, exclude=("segment.bytes",), replication_factor=2)
    assert copied.get(setting) == at_target
    assert {name: copied[name] for name in REQUIRED_AT_TARGET} == REQUIRED_AT_TARGET


def test_excluded_min_insync_replicas_are_not_copied() -> None:
    excluded = ("min.insync.replicas",)
    copied = target_configuration({"min.insync.replicas": "2"}, exclude=excluded, replication_factor=3)
    assert copied == REQUIRED_AT_TARGET


# Following -------------------------------------------------------------------------------------


def source(name: str = "orders", *, partitions: int = 3, replication_factor: int = 3) -> SourceTopic:
    return SourceTopic(name, f"id-{name}", partitions, replication_factor, {"retention.ms": "7"})


def target(partitions: int) -> TargetTopic:
    return TargetTopic("east.orders", "target-id", partitions, 1)


def plan(
    topic: SourceTopic, found: TargetTopic | None, written: frozenset[str] = frozenset()
) -> FollowingPlan:
    targets = {found.name: found} if found else {}
    return TopicFollowing(PREFIX, target_brokers=2).plan([topic], targets, written_topic_ids=written)


def test_a_missing_topic_is_created_with_feasible_replicas() -> None:
    made = plan(source(), None)
    [action] = made.actions
    assert isinstance(action, CreateTopic)
    assert (action.name, action.partitions, action.replication_factor) == ("east.orders", 3, 2)
    assert action.configuration["retention.ms"] == "7"
    assert [warning.finding for warning in made.warnings] == [FollowingFinding.REPLICATION_FACTOR_LOWERED]


def test_a_configured_replication_factor_wins_and_must_be_feasible() -> None:
    one = TopicFollowing(PREFIX, target_brokers=2, replication_factor=1)
    [action] = one.plan([source()], {}, written_topic_ids=frozenset()).actions
    assert isinstance(action, CreateTopic)
    assert action.replication_factor == 1
    three = TopicFollowing(PREFIX, target_brokers=2, replication_factor=3)
    with pytest.raises(PreconditionError, match="the target has 2; no topic was created"):
        three.plan([source()], {}, written_topic_ids=frozenset())


@pytest.mark.parametrize(("partitions", "total"), [(2, 3), (3, None), (4, None)])
def test_partitions_are_added_never_removed(partitions: int, total: int | None) -> None:
    made = plan(source(), target(partitions), frozenset({"target-id"}))
    assert made.actions == (() if total is None else (AddPartitions("east.orders", total),))
    more = [FollowingFinding.MORE_PARTITIONS] if partitions > 3 else []
    assert [warning.finding for warning in made.warnings] == more


def test_a_topic_that_the_flow_never_wrote_to_is_unproven() -> None:
    assert plan(source(), target(3)).unproven_topics == ("east.orders",)
    assert plan(source(), target(3), frozenset({"target-id"})).unproven_topics == ()
    assert plan(source(), target(3), frozenset({"another-life"})).unproven_topics == ("east.orders",)


def test_actions_come_in_order_of_name() -> None:
    made = TopicFollowing(IDENTITY, 3).plan([source("b"), source("a")], {}, written_topic_ids=frozenset())
    assert [action.name for action in made.actions] == ["a", "b"]


@pytest.mark.parametrize("length", [244, 245])
def test_names_that_get_too_long_are_refused(length: int) -> None:
    topic = source("x" * length)
    if length + len("east.") <= 249:
        assert plan(topic, None).actions
    else:
        with pytest.raises(PreconditionError, match="at most 249 characters"):
            plan(topic, None)


# Topic ids -------------------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_go_there_and_back(raw: bytes) -> None:
    text = topic_id_text(raw)
    assert len(text) == 22
    assert topic_id_bytes(text) == raw
    halves = [int.from_bytes(raw[start : start + 8], "big", signed=True) for start in (0, 8)]
    assert topic_id_of_halves(*halves) == text


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+", "ä" * 22])
def test_text_that_is_no_topic_id(text: str) -> None:
    with pytest.raises(InvalidValueError):
        topic_id_bytes(text)
