"""Settings and access control lists of target topics: what is copied, what follows, what targets need."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from ledger.errors import PreconditionError
from ledger.topics.following import (
    BROKERS_DEFAULT,
    FENCE_MAX_MESSAGE_BYTES,
    REQUIRED_AT_TARGET,
    AddPartitions,
    ChangeSettings,
    ConfigurationFollow,
    ConfiguredTopic,
    FollowingPlan,
    NewTopic,
    SettingsChange,
    SettingsFollowing,
    TopicFollowing,
    target_configuration,
)
from ledger.topics.naming import NamePatterns, NamingKind, TopicNaming

# -- Settings --------------------------------------------------------------------------------------

WITHOUT_SEGMENTS = NamePatterns((".*",), exclude=("segment.bytes",))


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
    copied = target_configuration({setting: value}, copied=WITHOUT_SEGMENTS, replication_factor=2)
    assert copied.get(setting) == at_target
    assert {name: copied[name] for name in REQUIRED_AT_TARGET} == REQUIRED_AT_TARGET


def test_excluded_min_insync_replicas_are_not_copied() -> None:
    excluded = NamePatterns((".*",), exclude=(r"min\..*",))
    copied = target_configuration({"min.insync.replicas": "2"}, copied=excluded, replication_factor=3)
    assert copied == REQUIRED_AT_TARGET


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ((".*",), (), {"retention.ms", "retention.bytes"}),
        ((r"retention\.ms",), (), {"retention.ms"}),
        ((".*",), (r"retention\..*",), set()),
    ],
)
def test_settings_are_taken_by_pattern(
    include: tuple[str, ...], exclude: tuple[str, ...], taken: set[str]
) -> None:
    source = {"retention.ms": "1", "retention.bytes": "2"}
    copied = target_configuration(source, copied=NamePatterns(include, exclude), replication_factor=1)
    assert copied.keys() - REQUIRED_AT_TARGET.keys() == taken


# Following -------------------------------------------------------------------------------------

BY_MIRROR = frozenset({"retention.ms", "cleanup.policy"})


def change(
    source: dict[str, str],
    target: dict[str, str],
    follow: ConfigurationFollow = ConfigurationFollow.INCREMENTAL,
    exclude: tuple[str, ...] = (),
    by_mirror: frozenset[str] = BY_MIRROR,
) -> SettingsChange:
    """The change of a target topic that has what copying needs, unless `target` says otherwise."""
    following = SettingsFollowing(follow, NamePatterns((".*",), exclude))
    return following.change(
        source, {**REQUIRED_AT_TARGET, **target}, replication_factor=2, set_by_mirror=by_mirror
    )


@pytest.mark.parametrize(
    ("follow", "created", "to_set", "to_remove"),
    [
        (ConfigurationFollow.NONE, None, {}, ()),
        (ConfigurationFollow.CREATE, "7", {}, ()),
        (ConfigurationFollow.INCREMENTAL, "7", {"retention.ms": "7"}, ("cleanup.policy",)),
        (ConfigurationFollow.WHOLE, "7", {"retention.ms": "7"}, ("cleanup.policy", "segment.ms")),
    ],
)
def test_how_far_settings_follow(
    follow: ConfigurationFollow, created: str | None, to_set: dict[str, str], to_remove: tuple[str, ...]
) -> None:
    source = {"retention.ms": "7"}
    at_creation = SettingsFollowing(follow).at_creation(source, replication_factor=2)
    assert at_creation.get("retention.ms") == created
    assert REQUIRED_AT_TARGET.items() <= at_creation.items()
    target = {"retention.ms": "9", "cleanup.policy": "compact", "segment.ms": "5"}
    assert change(source, target, follow) == SettingsChange(to_set, to_remove)


def test_what_is_as_wanted_is_not_changed() -> None:
    assert not change({"retention.ms": "7"}, {"retention.ms": "7"})
    assert change({"retention.ms": "7"}, {})


@pytest.mark.parametrize("follow", [ConfigurationFollow.INCREMENTAL, ConfigurationFollow.WHOLE])
def test_a_fence_is_neither_copied_nor_lifted(follow: ConfigurationFollow) -> None:
    limit, ours = "max.message.bytes", frozenset({"max.message.bytes"})
    fence = str(FENCE_MAX_MESSAGE_BYTES)
    assert not change({limit: fence}, {limit: "5000"}, follow, by_mirror=ours), "the source is fenced"
    assert not change({limit: fence}, {}, follow, by_mirror=ours)
    assert not change({limit: "5000"}, {limit: fence}, follow, by_mirror=ours), "the target is fenced"
    assert not change({}, {limit: fence}, follow, by_mirror=ours)
    assert change({limit: "7000"}, {limit: "6000"}, follow).to_set == {limit: "7000"}


@pytest.mark.parametrize("follow", [ConfigurationFollow.INCREMENTAL, ConfigurationFollow.WHOLE])
def test_the_limit_is_not_lowered(follow: ConfigurationFollow) -> None:
    limit, ours = "max.message.bytes", frozenset({"max.message.bytes"})
    assert not change({limit: "5000"}, {limit: "6000"}, follow, by_mirror=ours)
    assert not change({}, {limit: "6000"}, follow, by_mirror=ours)


@pytest.mark.parametrize(
    "setting", ["leader.replication.throttled.replicas", "unclean.leader.election.enable"]
)
def test_what_belongs_to_the_target_cluster_is_never_removed(setting: str) -> None:
    assert not change({}, {setting: "x"}, ConfigurationFollow.WHOLE, by_mirror=frozenset({setting}))


def test_excluded_settings_are_left_alone_in_both_directions() -> None:
    excluded = (r"retention\..*", r"compression\.type")
    target = {"retention.ms": "9", "retention.bytes": "1", "compression.type": "zstd"}
    assert not change({"retention.ms": "7"}, target, ConfigurationFollow.WHOLE, excluded)


def test_what_copying_needs_is_put_right() -> None:
    assert change({}, {"compression.type": "zstd"}).to_set == {"compression.type": "producer"}


def test_min_insync_replicas_follow_as_far_as_replicas_go() -> None:
    setting = "min.insync.replicas"
    assert change({setting: "3"}, {setting: "1"}).to_set == {setting: "2"}
    assert change({}, {setting: "2"}, by_mirror=frozenset({setting})).to_remove == (setting,)
    assert not change({}, {setting: "2"})


# -- Following -------------------------------------------------------------------------------------

IDENTITY = TopicNaming(NamingKind.IDENTITY)
PREFIX = TopicNaming(NamingKind.PREFIX, "east")
NOTHING: Mapping[str, frozenset[str]] = MappingProxyType({})


def source(name: str = "orders", *, partitions: int = 3, replication_factor: int = 3) -> ConfiguredTopic:
    return ConfiguredTopic(name, f"id-{name}", partitions, replication_factor, {"retention.ms": "7"})


def target(partitions: int) -> ConfiguredTopic:
    return ConfiguredTopic("east.orders", "target-id", partitions, 1)


def plan(
    topic: ConfiguredTopic,
    found: ConfiguredTopic | None,
    written: frozenset[str] = frozenset(),
    by_mirror: Mapping[str, frozenset[str]] = NOTHING,
) -> FollowingPlan:
    targets = {found.name: found} if found else {}
    following = TopicFollowing(PREFIX, target_brokers=2)
    return following.plan([topic], targets, written_topic_ids=written, set_by_mirror=by_mirror)


def test_a_missing_topic_is_created_with_feasible_replicas() -> None:
    made = plan(source(), None)
    [action] = made.actions
    assert isinstance(action, NewTopic)
    assert (action.name, action.partitions, action.replication_factor) == ("east.orders", 3, 2)
    assert action.configuration["retention.ms"] == "7"
    assert made.warnings == ("orders has 3 replicas at the source, its target topic gets 2",)


def test_a_configured_replication_factor_wins_and_must_be_feasible() -> None:
    one = TopicFollowing(PREFIX, target_brokers=2, replication_factor=1)
    [action] = one.plan([source()], {}, written_topic_ids=frozenset(), set_by_mirror={}).actions
    assert isinstance(action, NewTopic)
    assert action.replication_factor == 1
    three = TopicFollowing(PREFIX, target_brokers=2, replication_factor=3)
    with pytest.raises(PreconditionError, match="the target has 2; no topic was created"):
        three.plan([source()], {}, written_topic_ids=frozenset(), set_by_mirror={})


def test_the_targets_brokers_choose_replicas_and_how_many_are_in_sync() -> None:
    topic = replace(source(), configuration={"min.insync.replicas": "2", "retention.ms": "7"})
    for brokers in (1, 3):
        theirs = TopicFollowing(PREFIX, target_brokers=brokers, replication_factor=BROKERS_DEFAULT)
        made = theirs.plan([topic], {}, written_topic_ids=frozenset(), set_by_mirror={})
        [action] = made.actions
        assert isinstance(action, NewTopic)
        assert (action.replication_factor, made.warnings) == (-1, ())
        assert action.configuration["retention.ms"] == "7"
        assert "min.insync.replicas" not in action.configuration
    there = replace(target(3), configuration=REQUIRED_AT_TARGET)
    written = frozenset({there.topic_id})
    [change] = theirs.plan([topic], {there.name: there}, written_topic_ids=written, set_by_mirror={}).actions
    assert isinstance(change, ChangeSettings)
    assert change.change.to_set["min.insync.replicas"] == str(min(2, there.replication_factor))


@pytest.mark.parametrize(("partitions", "total"), [(2, 3), (3, None), (4, None)])
def test_partitions_are_added_never_removed(partitions: int, total: int | None) -> None:
    made = plan(source(), target(partitions), frozenset({"target-id"}))
    assert made.actions == (() if total is None else (AddPartitions("east.orders", total),))
    assert made.warnings == ()


def test_a_topic_that_the_flow_never_wrote_to_is_told() -> None:
    for written, told in ((set(), True), ({"target-id"}, False), ({"another-life"}, True)):
        warnings = plan(source(), target(3), frozenset(written)).warnings
        assert [warning.partition(" and ")[0] for warning in warnings] == ["east.orders exists"] * told


def test_settings_follow_by_the_life_of_the_target_topic() -> None:
    found = replace(target(3), configuration={**REQUIRED_AT_TARGET, "segment.ms": "5"})
    [action] = plan(source(), found).actions
    assert action == ChangeSettings("east.orders", "target-id", SettingsChange({"retention.ms": "7"}))
    [action] = plan(source(), found, by_mirror={"target-id": frozenset({"segment.ms"})}).actions
    assert isinstance(action, ChangeSettings)
    assert action.change.to_remove == ("segment.ms",)
    assert plan(source(), found, by_mirror={"other-id": frozenset({"segment.ms"})}).actions != (action,)


def test_settings_that_cannot_be_read_do_not_follow() -> None:
    assert plan(replace(source(), configuration=None), replace(target(3), configuration={})).actions == ()
    assert plan(source(), target(3)).actions == ()
    [created] = plan(replace(source(), configuration=None), None).actions
    assert isinstance(created, NewTopic)
    assert created.configuration == REQUIRED_AT_TARGET


def test_actions_come_in_order_of_name() -> None:
    made = TopicFollowing(IDENTITY, 3).plan(
        [source("b"), source("a")], {}, written_topic_ids=frozenset(), set_by_mirror={}
    )
    assert [action.name for action in made.actions] == ["a", "b"]
