"""Whom a fence denies writing, why it is refused, and what proves it."""

import pytest

from ledger.facts.acls import Authorization, closing, closing_for_reading, denial
from ledger.facts.fences import (
    Evidence,
    LeaderReading,
    PartitionWatch,
    Proof,
    QuietBounds,
    QuietTime,
    least,
    quiet_time,
)
from ledger.facts.permissions import Permission, topic_acl

MIRROR = "User:mirror"
PLAIN = Authorization(1, frozenset(), False)


def acl(
    principal: str,
    name: str = "orders",
    operation: str = "write",
    *,
    pattern: str = "literal",
    permission: str = "allow",
    host: str = "*",
) -> Permission:
    return topic_acl(name, principal, operation, permission_type=permission, pattern_type=pattern, host=host)


def denied(*acls: Permission, topic: str = "orders") -> set[str]:
    found = closing([topic], acls, [PLAIN], mirror=MIRROR)
    assert found.refusals == ()
    assert found.rules[topic] == {denial(topic, rule.entity) for rule in found.rules[topic]}
    return {rule.entity for rule in found.rules[topic]}


def refusals(
    *acls: Permission,
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
        (acl("User:a", "ord", pattern="prefixed"), True),
        (acl("User:a", "*"), True),
        (acl("User:a", host="10.0.0.1"), True),
        (acl("User:a", operation="read"), False),
        (acl("User:a", "ord"), False),
        (acl("User:a", "users"), False),
        (acl("User:a", "orders-", pattern="prefixed"), False),
        (acl("User:a", permission="deny"), False),
    ],
)
def test_whoever_a_rule_allows_to_write_is_denied(rule: Permission, is_denied: bool) -> None:
    assert denied(rule, acl("User:b", "users")) == ({"User:a"} if is_denied else set())


def test_the_mirror_that_reads_is_not_denied_and_the_rule_is_for_the_topic_from_every_host() -> None:
    assert denied(acl(MIRROR, operation="read"), acl("User:a")) == {"User:a"}
    assert denial("orders", "User:a") == acl("User:a", permission="deny")


@pytest.mark.parametrize(
    ("rule", "is_denied"),
    [
        (acl("User:a", operation="read"), True),
        (acl("User:a", operation="all"), True),
        (acl("User:a", "ord", "read", pattern="prefixed"), True),
        (acl("User:a", "*", "read"), True),
        (acl("User:a", operation="write"), False),
        (acl("User:a", operation="describe"), False),
        (acl("User:a", "users", "read"), False),
        (acl("User:a", operation="read", permission="deny"), False),
        (acl(MIRROR, operation="read"), False),
        (acl("User:admin", operation="all"), False),
    ],
)
def test_for_reading_whoever_a_rule_allows_to_read_is_denied_but_the_mirror_and_who_changes_rules(
    rule: Permission, is_denied: bool
) -> None:
    rules = [rule, acl("User:b", "users", "read")]
    found = closing_for_reading(["orders"], rules, mirror=MIRROR, administrator="User:admin")
    wanted = {denial("orders", "User:a", "read")} if is_denied else set()
    assert found.rules == {"orders": wanted}
    assert found.refusals == ()


def test_for_reading_a_rule_for_everybody_is_refused_unless_it_is_denied_already() -> None:
    everybody = acl("User:*", operation="read")
    [refused] = closing_for_reading(["orders"], [everybody], mirror=MIRROR, administrator=None).refusals
    assert refused.startswith("a rule allows User:* to read orders: ")
    denied_again = acl("User:*", operation="read", permission="deny")
    found = closing_for_reading(["orders"], [everybody, denied_again], mirror=MIRROR, administrator=None)
    assert found.refusals == ()


def test_a_rule_for_everybody_is_refused_unless_it_is_denied_already() -> None:
    [reason] = refusals(acl("User:*", "*"))
    assert reason.startswith("a rule allows User:* to write to orders, users: ")
    [one] = refusals(acl("User:*", "*"), acl("User:*", "users", permission="deny"))
    assert "to write to orders: " in one
    by_host = acl("User:*", "orders", permission="deny", host="10.0.0.1")
    assert refusals(acl("User:*", "orders"), by_host) != ()


def test_a_principal_that_the_mirror_shares_is_refused_unless_it_may_not_write() -> None:
    [reason] = refusals(acl(MIRROR, "o", "all", pattern="prefixed"))
    assert reason.startswith("the mirror's principal User:mirror is allowed to write to orders: ")
    assert refusals(acl(MIRROR), acl(MIRROR, permission="deny")) == ()
    assert refusals(acl(MIRROR), acl(MIRROR, operation="read", permission="deny")) != ()


def test_without_the_mirrors_principal_it_is_refused() -> None:
    [reason] = refusals(acl("User:a"), mirror=None)
    assert "set mirror_principal" in reason


def test_super_users_are_confirmed_by_name() -> None:
    brokers = (PLAIN, Authorization(2, frozenset({"User:root", "User:ops", MIRROR}), False))
    [reason] = refusals(brokers=brokers, confirmed=("User:root",))
    assert reason.endswith(": --accept super_user=User:mirror --accept super_user=User:ops")
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

BOUNDS = QuietBounds(5.0, 30.0)


@pytest.mark.parametrize(
    ("pause_s", "expected"),
    [
        (None, QuietTime(30.0, is_telling=False)),
        (0.5, QuietTime(5.0, is_telling=True)),
        (20.0, QuietTime(20.0, is_telling=True)),
        (30.0, QuietTime(30.0, is_telling=True)),
        (30.1, QuietTime(30.0, is_telling=False)),
    ],
)
def test_stillness_is_watched_for_as_long_as_writers_paused(
    pause_s: float | None, expected: QuietTime
) -> None:
    assert quiet_time(Evidence.STILLNESS, pause_s, BOUNDS, is_empty=False) == expected


def test_where_nothing_lies_it_is_watched_for_the_least_unless_writers_are_known() -> None:
    assert quiet_time(Evidence.STILLNESS, None, BOUNDS, is_empty=True).seconds == 5.0
    assert quiet_time(Evidence.STILLNESS, 12.0, BOUNDS, is_empty=True).seconds == 12.0


@pytest.mark.parametrize(
    ("evidence", "seconds"), [(Evidence.RULES, 1.0), (Evidence.REFUSAL, 1.0), (Evidence.SETTING, 5.0)]
)
def test_what_leaders_show_does_not_depend_on_pauses(evidence: Evidence, seconds: float) -> None:
    assert quiet_time(evidence, 900.0, BOUNDS, is_empty=False) == QuietTime(seconds, is_telling=True)


def reading(
    end: int = 7,
    *,
    last_stable: int | None = None,
    log_end: int | None = -1,
    leader: int = 1,
    epoch: int | None = 4,
) -> LeaderReading:
    return LeaderReading(
        leader=leader,
        leader_epoch=epoch,
        log_start=0,
        last_stable=end if last_stable is None else last_stable,
        high_watermark=end,
        log_end=end if log_end == -1 else log_end,
        in_sync=2,
    )


def begun(
    first: LeaderReading, evidence: Evidence = Evidence.RULES, *, in_transaction: bool = False
) -> PartitionWatch:
    """Read for the first time at 100 s."""
    return PartitionWatch(
        topic="orders",
        partition=0,
        evidence=evidence,
        quiet=quiet_time(evidence, 1.0, BOUNDS, is_empty=False),
        reading=first,
        still_since_s=None,
        read_at_s=100.0,
        in_transaction=in_transaction,
    ).begun(100.0)


def again(
    watch: PartitionWatch, now_s: float, seen: LeaderReading | None = None, *, has_data: bool = False
) -> PartitionWatch:
    return watch.after(
        seen or watch.reading, in_transaction=False, has_data=has_data, asked_s=now_s, answered_s=now_s
    )


@pytest.mark.parametrize(
    ("evidence", "at_s", "expected"),
    [
        (Evidence.RULES, 100.9, Proof.UNPROVEN),
        (Evidence.RULES, 101.0, Proof.PROVEN),
        (Evidence.REFUSAL, 101.0, Proof.PROVEN),
        (Evidence.SETTING, 104.9, Proof.UNPROVEN),
        (Evidence.SETTING, 105.0, Proof.PROVEN),
        (Evidence.STILLNESS, 104.9, Proof.UNPROVEN),
        (Evidence.STILLNESS, 105.0, Proof.OBSERVED),
    ],
)
def test_two_calm_readings_prove_it(evidence: Evidence, at_s: float, expected: Proof) -> None:
    assert again(begun(reading(), evidence), at_s).proof is expected


@pytest.mark.parametrize(
    "restless",
    [
        reading(log_end=8),
        reading(last_stable=6),
        reading(leader=2),
        reading(epoch=5),
        reading(epoch=None),
        reading(log_end=None),
    ],
)
def test_what_is_not_calm_or_led_by_another_proves_nothing(restless: LeaderReading) -> None:
    assert again(begun(reading()), 110.0, restless).proof is Proof.UNPROVEN
    assert again(begun(restless), 110.0, reading()).proof is Proof.UNPROVEN, (
        "the second reading is the first calm one"
    )


def test_an_open_transaction_of_a_coordinator_is_not_calm() -> None:
    held = begun(reading(), in_transaction=True)
    assert (held.has_open_transaction, held.is_calm) == (True, False)
    assert again(held, 101.0).proof is Proof.UNPROVEN
    assert again(again(held, 101.0), 102.0).proof is Proof.PROVEN


def test_a_leader_that_does_not_tell_is_believed_where_stillness_is_all() -> None:
    watch = begun(reading(log_end=None, epoch=None), Evidence.STILLNESS)
    assert again(watch, 105.0).proof is Proof.OBSERVED


def test_data_behind_the_fence_begins_again_and_markers_do_not() -> None:
    marked = again(begun(reading()), 100.5, reading(8))
    assert (marked.end, again(marked, 101.0).is_still, marked.appended) == (8, True, 0)
    moved = again(marked, 100.8, reading(9), has_data=True)
    assert (again(moved, 101.7).is_still, again(moved, 101.8).is_still) == (False, True)
    assert (moved.end, moved.appended) == (9, 1)


def test_the_least_proof_counts_for_a_topic() -> None:
    assert least([Proof.PROVEN, Proof.OBSERVED]) is Proof.OBSERVED
    assert least([Proof.UNPROVEN, Proof.PROVEN]) is Proof.UNPROVEN
    assert least([]) is Proof.UNPROVEN
