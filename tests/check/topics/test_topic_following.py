"""What target topics need so that they follow their sources."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from ledger.errors import PreconditionError
from ledger.topics.following import (
    REQUIRED_AT_TARGET,
    AddPartitions,
    ChangeSettings,
    ConfiguredTopic,
    CreateTopic,
    FollowingPlan,
    SettingsChange,
    TopicFollowing,
)
from ledger.topics.naming import NamingKind, TopicNaming

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
    assert isinstance(action, CreateTopic)
    assert (action.name, action.partitions, action.replication_factor) == ("east.orders", 3, 2)
    assert action.configuration["retention.ms"] == "7"
    assert made.warnings == ("orders has 3 replicas at the source, its target topic gets 2",)


def test_a_configured_replication_factor_wins_and_must_be_feasible() -> None:
    one = TopicFollowing(PREFIX, target_brokers=2, replication_factor=1)
    [action] = one.plan([source()], {}, written_topic_ids=frozenset(), set_by_mirror={}).actions
    assert isinstance(action, CreateTopic)
    assert action.replication_factor == 1
    three = TopicFollowing(PREFIX, target_brokers=2, replication_factor=3)
    with pytest.raises(PreconditionError, match="the target has 2; no topic was created"):
        three.plan([source()], {}, written_topic_ids=frozenset(), set_by_mirror={})


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
    assert isinstance(created, CreateTopic)
    assert created.configuration == REQUIRED_AT_TARGET


def test_actions_come_in_order_of_name() -> None:
    made = TopicFollowing(IDENTITY, 3).plan(
        [source("b"), source("a")], {}, written_topic_ids=frozenset(), set_by_mirror={}
    )
    assert [action.name for action in made.actions] == ["a", "b"]
