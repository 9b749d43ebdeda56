"""Which access control lists target topics get."""

import pytest

from ledger.facts.acls import acl_change, wanted_acls
from ledger.facts.permissions import Permission, topic_acl
from ledger.topics.naming import NamingKind, RenameRule, TopicNaming

PREFIX = TopicNaming(NamingKind.PREFIX, "east")
IDENTITY = TopicNaming(NamingKind.IDENTITY)
RENAME = TopicNaming(NamingKind.RENAME, rules=(RenameRule("(.*)", r"x-\1"),))
TOPICS = ("orders", "orders-2")


def acl(
    name: str = "orders",
    operation: str = "read",
    permission: str = "allow",
    pattern: str = "literal",
) -> Permission:
    return topic_acl(
        name, "User:ada", operation, permission_type=permission, pattern_type=pattern, host="10.0.0.1"
    )


@pytest.mark.parametrize("permission", ["allow", "deny"])
@pytest.mark.parametrize(
    ("operation", "at_target"),
    [
        ("all", "read"),
        ("read", "read"),
        ("write", None),
        ("describe", "describe"),
        ("describe_configs", "describe_configs"),
        ("alter", "alter"),
    ],
)
def test_what_becomes_of_an_operation(permission: str, operation: str, at_target: str | None) -> None:
    wanted = wanted_acls([acl(operation=operation, permission=permission)], naming=PREFIX, topics=TOPICS)
    expected = {acl("east.orders", at_target, permission)} if at_target else set()
    assert wanted == expected


@pytest.mark.parametrize(
    ("pattern", "name", "naming", "at_target"),
    [
        ("literal", "orders", PREFIX, "east.orders"),
        ("literal", "orders", RENAME, "x-orders"),
        ("literal", "orders", IDENTITY, "orders"),
        ("literal", "other", PREFIX, None),
        ("literal", "*", PREFIX, None),
        ("prefixed", "ord", PREFIX, "east.ord"),
        ("prefixed", "orders", PREFIX, "east.orders"),
        ("prefixed", "pay", PREFIX, None),
        ("prefixed", "ord", IDENTITY, None),
        ("prefixed", "ord", RENAME, None),
    ],
)
def test_which_rules_get_which_names(
    pattern: str, name: str, naming: TopicNaming, at_target: str | None
) -> None:
    wanted = wanted_acls([acl(name, pattern=pattern)], naming=naming, topics=TOPICS)
    assert wanted == ({acl(at_target, pattern=pattern)} if at_target else set())


def test_only_what_the_mirror_created_is_removed() -> None:
    wanted, there = acl("a"), acl("b")
    ours, gone, foreign = acl("c"), acl("d"), acl("e")
    change = acl_change(
        frozenset({wanted, there}),
        frozenset({there, ours, foreign}),
        created_by_mirror=frozenset({there, ours, gone}),
    )
    assert (change.to_create, change.to_remove) == ((wanted,), (ours,))
