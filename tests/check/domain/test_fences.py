"""Whom a fence denies writing, why it is refused, and what proves it."""

import pytest

from ledger.domain.fences.closing import Authorization, closing, denial
from ledger.domain.fences.proof import PartitionWatch, Proof, QuietBounds, QuietTime, least, quiet_time
from ledger.domain.topics.topic_acls import AclPattern, AclPermission, TopicAcl

MIRROR = "User:mirror"
PLAIN = Authorization(1, frozenset(), False)


def acl(
    principal: str,
    name: str = "orders",
    operation: str = "write",
    *,
    pattern: AclPattern = AclPattern.LITERAL,
    permission: AclPermission = AclPermission.ALLOW,
    host: str = "*",
) -> TopicAcl:
    return TopicAcl(pattern, name, principal, host, operation, permission)


def denied(*acls: TopicAcl, topic: str = "orders") -> set[str]:
    found = closing([topic], acls, [PLAIN], mirror=MIRROR)
    assert found.refusals == ()
    assert found.rules[topic] == {denial(topic, rule.principal) for rule in found.rules[topic]}
    return {rule.principal for rule in found.rules[topic]}


def refusals(
    *acls: TopicAcl,
    brokers: tuple[Authorization, ...] = (PLAIN,),
    mirror: str | None = MIRROR,
    confirmed: tuple[str, ...] = (),
) -> tuple[str, ...]:
    return closing(["orders", "users"], acls, brokers, mirror=mirror, confirmed=confirmed).refusals


@pytest.mark.parametrize(
    ("rule", "is_denied"),
    [
        (acl("User:a"), True),
        (acl("User:a", operation="all"), True),
        (acl("User:a", "ord", pattern=AclPattern.PREFIXED), True),
        (acl("User:a", "*"), True),
        (acl("User:a", host="10.0.0.1"), True),
        (acl("User:a", operation="read"), False),
        (acl("User:a", "ord"), False),
        (acl("User:a", "users"), False),
        (acl("User:a", "orders-", pattern=AclPattern.PREFIXED), False),
        (acl("User:a", permission=AclPermission.DENY), False),
    ],
)
def test_whoever_a_rule_allows_to_write_is_denied(rule: TopicAcl, is_denied: bool) -> None:
    assert denied(rule, acl("User:b", "users")) == ({"User:a"} if is_denied else set())


def test_the_mirror_that_reads_is_not_denied_and_the_rule_is_for_the_topic_from_every_host() -> None:
    assert denied(acl(MIRROR, operation="read"), acl("User:a")) == {"User:a"}
    assert denial("orders", "User:a") == acl("User:a", permission=AclPermission.DENY)


def test_a_rule_for_everybody_is_refused_unless_it_is_denied_already() -> None:
    [reason] = refusals(acl("User:*", "*"))
    assert reason.startswith("a rule allows User:* to write to orders, users: ")
    [one] = refusals(acl("User:*", "*"), acl("User:*", "users", permission=AclPermission.DENY))
    assert "to write to orders: " in one
    by_host = acl("User:*", "orders", permission=AclPermission.DENY, host="10.0.0.1")
    assert refusals(acl("User:*", "orders"), by_host) != ()


def test_a_principal_that_the_mirror_shares_is_refused_unless_it_may_not_write() -> None:
    [reason] = refusals(acl(MIRROR, "o", "all", pattern=AclPattern.PREFIXED))
    assert reason.startswith("the mirror's principal User:mirror is allowed to write to orders: ")
    assert refusals(acl(MIRROR), acl(MIRROR, permission=AclPermission.DENY)) == ()
    assert refusals(acl(MIRROR), acl(MIRROR, operation="read", permission=AclPermission.DENY)) != ()


def test_without_the_mirrors_principal_it_is_refused() -> None:
    [reason] = refusals(acl("User:a"), mirror=None)
    assert "set mirror_principal" in reason


def test_super_users_are_confirmed_by_name() -> None:
    brokers = (PLAIN, Authorization(2, frozenset({"User:root", "User:ops", MIRROR}), False))
    [reason] = refusals(brokers=brokers, confirmed=("User:root",))
    assert reason.endswith(": --confirm-super-user User:mirror --confirm-super-user User:ops")
    assert refusals(brokers=brokers, confirmed=("User:root", "User:ops", MIRROR)) == ()


def test_what_is_allowed_where_no_rule_is_found_is_refused() -> None:
    [reason] = refusals(brokers=(PLAIN, Authorization(2, frozenset(), True)))
    assert reason.startswith("allow.everyone.if.no.acl.found is true")


def test_where_brokers_do_not_tell_it_a_topic_without_a_rule_is_refused() -> None:
    unknown = (PLAIN, Authorization(2, None, None))
    [reason] = refusals(acl("User:a"), brokers=unknown)
    assert reason.startswith("no rule is about users, and the brokers do not tell")
    assert refusals(acl("User:a"), acl("User:b", "users", "read"), brokers=unknown) == ()


def test_all_reasons_are_given_at_once() -> None:
    everything = refusals(acl("User:*", "*"), brokers=(Authorization(1, frozenset("x"), True),), mirror=None)
    assert len(everything) == 4


# The proof ------------------------------------------------------------------------------------------

BOUNDS = QuietBounds(10.0, 120.0)


@pytest.mark.parametrize(
    ("pause_s", "expected"),
    [
        (None, QuietTime(120.0, is_telling=False)),
        (0.5, QuietTime(10.0, is_telling=True)),
        (10.0, QuietTime(10.0, is_telling=True)),
        (60.0, QuietTime(60.0, is_telling=True)),
        (120.0, QuietTime(120.0, is_telling=True)),
        (120.1, QuietTime(120.0, is_telling=False)),
    ],
)
def test_it_is_watched_for_as_long_as_writers_ever_paused(pause_s: float | None, expected: QuietTime) -> None:
    assert quiet_time(pause_s, BOUNDS) == expected


def watch(*, is_telling: bool = True, last_stable: int = 7, read_at_s: float = 100.0) -> PartitionWatch:
    return PartitionWatch(
        topic="orders",
        partition=0,
        quiet=QuietTime(10.0, is_telling),
        end=7,
        last_stable=last_stable,
        still_since_s=100.0,
        read_at_s=read_at_s,
    )


@pytest.mark.parametrize(
    ("seen", "is_enforced", "expected"),
    [
        (watch(read_at_s=109.9), True, Proof.UNPROVEN),
        (watch(read_at_s=110.0), True, Proof.PROVEN),
        (watch(read_at_s=110.0), False, Proof.OBSERVED),
        (watch(is_telling=False, read_at_s=110.0), True, Proof.OBSERVED),
        (watch(last_stable=6, read_at_s=200.0), True, Proof.UNPROVEN),
    ],
)
def test_a_partition_that_was_read_as_still_is_proved(
    seen: PartitionWatch, is_enforced: bool, expected: Proof
) -> None:
    assert seen.proof(is_enforced=is_enforced) is expected


def again(seen: PartitionWatch, now_s: float) -> PartitionWatch:
    """Read again, without anything new."""
    return seen.after(last_stable=seen.end, high_watermark=seen.end, has_data=False, now_s=now_s)


def test_data_behind_the_fence_begins_the_quiet_time_again_and_markers_do_not() -> None:
    marked = watch(last_stable=6).after(last_stable=8, high_watermark=8, has_data=False, now_s=105.0)
    assert (marked.end, marked.is_still, again(marked, 110.0).is_still, marked.appended) == (
        8,
        False,
        True,
        0,
    )
    moved = marked.after(last_stable=9, high_watermark=9, has_data=True, now_s=108.0)
    assert (again(moved, 117.9).is_still, again(moved, 118.0).is_still) == (False, True)
    assert (moved.end, moved.appended) == (9, 1)


def test_the_least_proof_counts_for_a_topic() -> None:
    assert least([Proof.PROVEN, Proof.OBSERVED]) is Proof.OBSERVED
    assert least([Proof.UNPROVEN, Proof.PROVEN]) is Proof.UNPROVEN
    assert least([]) is Proof.UNPROVEN
