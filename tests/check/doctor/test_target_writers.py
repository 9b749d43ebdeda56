"""The verdict on who may write to target topics beside the mirror."""

import pytest

from ledger.doctor.checks import Verdict
from ledger.doctor.flow import no_authorizer, target_writers
from ledger.doctor.results import Unmeasured
from ledger.facts.permissions import Permission, topic_acl

MIRROR = "User:mirror"


def acl(principal: str, name: str = "orders", *, is_denial: bool = False) -> Permission:
    permission = "deny" if is_denial else "allow"
    return topic_acl(name, principal, "write", permission_type=permission, pattern_type="prefixed")


@pytest.mark.parametrize(
    ("acls", "verdict", "measured"),
    [
        ([acl(MIRROR)], Verdict.OK, "2 topics: nobody else"),
        ([acl("User:a", "other")], Verdict.OK, "2 topics: nobody else"),
        ([acl("User:a"), acl("User:a", is_denial=True)], Verdict.OK, "2 topics: nobody else"),
        (
            [acl("User:a"), acl("User:*", "orders.eu"), acl(MIRROR)],
            Verdict.WARNING,
            "User:*, User:a may write to orders, orders.eu",
        ),
    ],
)
def test_other_principals_that_may_write_are_named(
    acls: list[Permission], verdict: Verdict, measured: str
) -> None:
    found = target_writers("flow f", ["orders", "orders.eu"], frozenset(acls), MIRROR)
    assert (found.verdict, found.measured) == (verdict, measured)
    assert (found.advice is None) == (verdict is Verdict.OK)


def test_what_is_not_known_is_not_in_order() -> None:
    unread = target_writers("flow f", ["orders"], Unmeasured("no DESCRIBE"), MIRROR)
    assert (unread.verdict, unread.measured) == (Verdict.UNKNOWN, "no DESCRIBE")
    nameless = target_writers("flow f", ["orders"], frozenset({acl("User:a")}), None)
    assert (nameless.verdict, nameless.advice) == (
        Verdict.UNKNOWN,
        "set mirror_principal of the cluster",
    )
    assert no_authorizer("flow f").verdict is Verdict.WARNING
