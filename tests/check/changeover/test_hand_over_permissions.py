"""Permissions when a direction changes: what is created at the other cluster, what is unknown, what is left."""

import json
from dataclasses import replace

import pytest

from ledger.changeover.permissions import (
    NotCarried,
    PermissionGaps,
    Side,
    TopicNames,
    covers,
    in_words,
    permission_gaps,
)
from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    quota_entity,
)

ACL, USER, QUOTA = PermissionKind.ACL, PermissionKind.SCRAM_USER, PermissionKind.QUOTA
READABLE = PermissionEvent.READABLE
NAMES = TopicNames.of(
    {"orders": "orders", "orders-old": "orders-old", "users": "users"},
    at_source=["orders", "orders-old", "users", "ux"],
    at_target=["orders", "orders-old", "users", "west-only"],
)
RENAMED = TopicNames.of({"orders": "east.orders"}, at_source=["orders"], at_target=["east.orders", "orders"])


def rule(
    name: str,
    operation: str = "write",
    *,
    who: str = "User:app",
    on: str = "topic",
    does: str = "allow",
    host: str = "*",
) -> Permission:
    """A rule; a name that ends with `...` is a prefix."""
    return Permission(
        kind=ACL,
        entity=who,
        host=host,
        operation=operation,
        permission_type=does,
        resource_type=on,
        resource_name=name.removesuffix("..."),
        pattern_type="prefixed" if name.endswith("...") else "literal",
    )


def user(name: str, mechanism: str = "SCRAM-SHA-512") -> Permission:
    return Permission(kind=USER, entity=name, setting=mechanism, value=4096.0)


def quota(limit: float = 1e6, **names: str | None) -> Permission:
    entity = quota_entity({name.replace("_", "-"): value for name, value in names.items()})
    return Permission(kind=QUOTA, entity=entity, setting="producer_byte_rate", value=limit)


def read(*found: Permission, **readings: PermissionEvent) -> Permissions:
    """Every kind is readable, unless another reading is given by its name."""
    return {
        kind: PermissionsOfKind(
            readings.get(kind.value, READABLE), frozenset(one for one in found if one.kind is kind)
        )
        for kind in PermissionKind
    }


def gaps(
    east: Permissions,
    west: Permissions | None = None,
    names: TopicNames = NAMES,
    not_carried: NotCarried | None = None,
) -> PermissionGaps:
    there = read() if west is None else west
    return permission_gaps(Side("east", east), Side("west", there), names, not_carried or NotCarried())


def created(
    *found: Permission, west: Permissions | None = None, names: TopicNames = NAMES
) -> set[Permission]:
    return set(gaps(read(*found, user("app")), west or read(user("app")), names).to_create)


@pytest.mark.parametrize(
    ("at_east", "at_west"),
    [
        ([rule("orders")], [rule("orders")]),
        ([rule("orders", "all", host="10.0.0.1")], [rule("orders", "all", host="10.0.0.1")]),
        ([rule("orders", "read", does="deny")], [rule("orders", "read", does="deny")]),
        ([rule("orders..."), rule("orders")], [rule("orders..."), rule("orders")]),
        ([rule("u...")], [rule("users")]),
        ([rule("west...")], []),
        ([rule("*", "read")], [rule(name, "read") for name in ("orders", "orders-old", "users")]),
        ([rule("ux")], []),
        ([rule("orders"), rule("g", "read", on="group")], [rule("orders"), rule("g", "read", on="group")]),
        ([rule("ux"), rule("g", "read", on="group")], []),
        ([rule("orders", who="User:b"), rule("g...", on="group")], [rule("orders", who="User:b")]),
        (
            [rule("orders", who="User:*"), rule("tx...", on="transactional_id")],
            [rule("orders", who="User:*"), rule("tx...", on="transactional_id")],
        ),
        ([rule("orders"), rule("kafka-cluster", "alter", on="cluster")], [rule("orders")]),
    ],
    ids=[
        "as it is",
        "of a host",
        "a denial",
        "a prefix that is of the pair alone",
        "a prefix that others have too",
        "a prefix of the target's own",
        "all topics",
        "another topic",
        "a group",
        "a group of who has no rule here",
        "a group of another one",
        "everybody's topics",
        "never of the cluster",
    ],
)
def test_rules_that_come_along(at_east: list[Permission], at_west: list[Permission]) -> None:
    assert created(*at_east) == set(at_west)


@pytest.mark.parametrize(
    ("at_east", "at_west"),
    [
        (rule("orders"), None),
        (rule("orders", does="deny"), None),
        (rule("orders", "all"), rule("east.orders", "read")),
        (rule("orders", "describe"), rule("east.orders", "describe")),
        (rule("ord...", "read"), rule("east.orders", "read")),
    ],
)
def test_where_a_topic_has_another_name_nobody_but_the_mirror_writes(
    at_east: Permission, at_west: Permission | None
) -> None:
    assert created(at_east, names=RENAMED) == ({at_west} if at_west else set())
    [manual] = gaps(read(at_east, user("app")), read(user("app")), RENAMED).manual
    assert manual.startswith("east.orders of west: no rule about writing was carried")


def test_rules_of_mirrors_and_fences_stay_behind() -> None:
    fence = rule("orders", does="deny")
    own = [rule("orders", "read", who="User:mirror"), user("mirror"), quota(user="mirror")]
    kept = [rule("orders", "read", does="deny"), user("app"), quota(user="app")]
    found = gaps(
        read(fence, *own, *kept),
        read(user("app")),
        not_carried=NotCarried(frozenset({"User:mirror"}), frozenset({fence})),
    )
    assert set(found.to_create) == {kept[0], kept[2]}
    assert found.manual == ()


@pytest.mark.parametrize(
    ("there", "is_covered"),
    [
        (rule("orders", "describe"), True),
        (rule("orders", "all"), True),
        (rule("orders", "read"), True),
        (rule("orders", "create"), False),
        (rule("orders", "describe", who="User:*"), True),
        (rule("orders", "describe", who="User:b"), False),
        (rule("orders", "describe", host="10.0.0.1"), False),
        (rule("ord...", "describe"), True),
        (rule("orders-...", "describe"), False),
        (rule("*", "describe"), True),
        (rule("order", "describe"), False),
        (rule("orders", "describe", on="group"), False),
        (rule("orders", "describe", does="deny"), False),
    ],
)
def test_what_another_rule_covers_is_there(there: Permission, is_covered: bool) -> None:
    wanted = rule("orders", "describe")
    assert covers(there, wanted) is is_covered
    assert created(wanted, west=read(there, user("app"))) == (set() if is_covered else {wanted})


def test_a_denial_implies_nothing_and_covers_no_rule_for_all_by_a_prefix() -> None:
    assert not covers(rule("orders", "read", does="deny"), rule("orders", "describe", does="deny"))
    assert not covers(rule("o...", "read"), rule("*", "read"))
    assert covers(rule("orders", "alter_configs"), rule("orders", "describe_configs"))


@pytest.mark.parametrize(
    ("denial", "is_said"),
    [
        (rule("orders", "write", does="deny"), True),
        (rule("orders", "all", does="deny"), True),
        (rule("ord...", "write", does="deny", who="User:*"), True),
        (rule("*", "write", does="deny"), True),
        (rule("orders", "read", does="deny"), False),
        (rule("users", "write", does="deny"), False),
        (rule("orders", "write", does="deny", who="User:b"), False),
        (rule("orders", "write", does="deny", who="User:mirror"), False),
    ],
)
def test_what_the_target_denies_to_applications_is_left_to_people(denial: Permission, is_said: bool) -> None:
    not_carried = NotCarried(frozenset({"User:mirror"}))
    found = gaps(read(rule("orders"), user("app")), read(denial, user("app")), not_carried=not_carried)
    assert found.manual == ((f"west has: {in_words(denial)}",) if is_said else ())


def test_a_denial_that_both_have_is_not_said() -> None:
    both = [rule("orders"), rule("orders", does="deny"), user("app")]
    assert gaps(read(*both), read(*both)) == PermissionGaps()


@pytest.mark.parametrize(
    ("east", "west", "to_create", "manual"),
    [
        (quota(client_id="c"), None, True, None),
        (quota(user="app", client_id="c"), None, True, None),
        (quota(user="app"), quota(user="app"), False, None),
        (quota(user="app"), quota(2e6, user="app"), False, "west has 2000000: it was left so"),
        (quota(user=None), None, False, "quota of user default: producer_byte_rate 1000000, west has none"),
        (quota(ip="10.0.0.1"), None, False, "quota of ip 10.0.0.1"),
    ],
    ids=["client id", "both", "equal", "another limit", "default", "address"],
)
def test_quotas(east: Permission, west: Permission | None, to_create: bool, manual: str | None) -> None:
    found = gaps(read(east), read(*([west] if west else [])))
    assert found.to_create == ((east,) if to_create else ())
    assert (len(found.manual) == 1 and manual in found.manual[0]) if manual else found.manual == ()


def test_credentials_are_left_to_people_by_name() -> None:
    east = read(rule("orders"), rule("orders", who="User:CN=shop"), user("app"), user("b", "SCRAM-SHA-256"))
    found = gaps(east, read(user("app"), user("b")))
    assert found.manual == (
        "User:CN=shop: no SCRAM users of east; west must accept their credentials",
        "create SCRAM user b (SCRAM-SHA-256) at west with its password",
    )


@pytest.mark.parametrize("kind", PermissionKind)
@pytest.mark.parametrize("reading", [PermissionEvent.NOT_PERMITTED, PermissionEvent.REFUSED, None])
@pytest.mark.parametrize("side", ["east", "west"])
def test_what_could_not_be_read_is_unknown_and_never_nothing_to_do(
    kind: PermissionKind, reading: PermissionEvent | None, side: str
) -> None:
    every = read(rule("orders"), rule("orders", who="User:b"), user("b"), quota(user="app"))
    unread = {one: found for one, found in every.items() if one is not kind or reading is not None}
    if reading is not None:
        unread[kind] = replace(every[kind], reading=reading)
    found = gaps(unread, read()) if side == "east" else gaps(every, unread)
    assert len(found.unknown) == 1
    assert f"of {side}: {reading or 'never_recorded'}" in found.unknown[0]
    assert not [one for one in found.to_create if one.kind is kind]


@pytest.mark.parametrize(
    ("east", "west", "telling"),
    [
        ("not_enforced", "readable", "create what applications need there"),
        ("readable", "not_enforced", "everybody may do everything there"),
        ("not_enforced", "not_enforced", None),
    ],
)
def test_clusters_without_an_authorizer(east: str, west: str, telling: str | None) -> None:
    at_east = [rule("orders")] if east == "readable" else []
    found = gaps(read(*at_east, acl=PermissionEvent(east)), read(acl=PermissionEvent(west)))
    assert (found.to_create, found.unknown) == ((), ())
    assert (telling in found.manual[0]) if telling else found.manual == ()


def test_rules_of_applications_about_the_cluster_are_named() -> None:
    about = [
        rule("kafka-cluster", "idempotent_write", on="cluster", who=who) for who in ("User:app", "User:b")
    ]
    found = gaps(read(rule("orders"), *about, user("app")), read(user("app")))
    assert found.manual == (f"east has, and it was left out: {in_words(about[0])}",)
    assert in_words(about[0]) == "allow User:app idempotent_write on cluster kafka-cluster"
    assert json.loads(quota(user="a").entity) == {"user": "a"}
