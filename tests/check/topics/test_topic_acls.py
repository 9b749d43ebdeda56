"""Which access control lists target topics get."""

import pytest

from ledger.topics.acls import AclPattern, AclPermission, TopicAcl, acl_change, wanted_acls
from ledger.topics.naming import NamingKind, RenameRule, TopicNaming

PREFIX = TopicNaming(NamingKind.PREFIX, "east")
IDENTITY = TopicNaming(NamingKind.IDENTITY)
RENAME = TopicNaming(NamingKind.RENAME, rules=(RenameRule("(.*)", r"x-\1"),))
TOPICS = ("orders", "orders-2")


def acl(
    name: str = "orders",
    operation: str = "read",
    permission: AclPermission = AclPermission.ALLOW,
    pattern: AclPattern = AclPattern.LITERAL,
) -> TopicAcl:
    return TopicAcl(pattern, name, "User:ada", "10.0.0.1", operation, permission)


@pytest.mark.parametrize("permission", list(AclPermission))
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
def test_what_becomes_of_an_operation(
    permission: AclPermission, operation: str, at_target: str | None
) -> None:
    wanted = wanted_acls([acl(operation=operation, permission=permission)], naming=PREFIX, topics=TOPICS)
    expected = {acl("east.orders", at_target, permission)} if at_target else set()
    assert wanted == expected


@pytest.mark.parametrize(
    ("pattern", "name", "naming", "at_target"),
    [
        (AclPattern.LITERAL, "orders", PREFIX, "east.orders"),
        (AclPattern.LITERAL, "orders", RENAME, "x-orders"),
        (AclPattern.LITERAL, "orders", IDENTITY, "orders"),
        (AclPattern.LITERAL, "other", PREFIX, None),
        (AclPattern.LITERAL, "*", PREFIX, None),
        (AclPattern.PREFIXED, "ord", PREFIX, "east.ord"),
        (AclPattern.PREFIXED, "orders", PREFIX, "east.orders"),
        (AclPattern.PREFIXED, "pay", PREFIX, None),
        (AclPattern.PREFIXED, "ord", IDENTITY, None),
        (AclPattern.PREFIXED, "ord", RENAME, None),
    ],
)
def test_which_rules_get_which_names(
    pattern: AclPattern, name: str, naming: TopicNaming, at_target: str | None
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
