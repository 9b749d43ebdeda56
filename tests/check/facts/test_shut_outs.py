"""What of shutting the mirror out still stands: rules until they are removed, fenced producer ids for ever."""

import json
from collections.abc import Collection

import pytest

from ledger.facts.acls import denial
from ledger.facts.fences import EpochMarker, MirrorLetIn, MirrorShutOut, ShutOuts
from ledger.facts.identity import ClusterIdentities
from ledger.facts.permissions import Permission
from tests.support.ledger_rows import claimed, row

ORDERS, USERS = (denial(topic, "User:mirror") for topic in ("orders", "users"))


def shut_out(
    *rules: Permission, at: str = "W", fenced: int | None = None, former: str = "east"
) -> MirrorShutOut:
    marker = EpochMarker(
        flow="f", producer_id=fenced or 0, producer_epoch=1, topic="orders", topic_id="T", partition=0
    )
    return MirrorShutOut(
        cluster="west",
        cluster_id=at,
        former=former,
        principal="User:mirror",
        flows={"f": 1},
        topics=("orders",),
        rules=rules,
        markers=() if fenced is None else (marker,),
        proof=None,
    )


def let_in(*rules: Permission, at: str = "W", former: str = "east") -> MirrorLetIn:
    return MirrorLetIn(cluster="west", cluster_id=at, former=former, topics=("orders",), rules=rules)


def rows(*changes: MirrorShutOut | MirrorLetIn) -> list[dict[str, object]]:
    return [
        row("operations", kind=str(change.kind), content=json.dumps(change.content())) for change in changes
    ]


@pytest.mark.parametrize(
    ("changes", "topics", "standing"),
    [
        ((), None, ()),
        ((shut_out(ORDERS, USERS),), None, (ORDERS, USERS)),
        ((shut_out(ORDERS, USERS),), ("users",), (USERS,)),
        ((shut_out(ORDERS), shut_out(USERS)), None, (ORDERS, USERS)),
        ((shut_out(ORDERS, USERS), let_in(ORDERS)), None, (USERS,)),
        ((shut_out(ORDERS), let_in(ORDERS), shut_out(ORDERS)), None, (ORDERS,)),
        ((shut_out(ORDERS), let_in(ORDERS, at="W2")), None, (ORDERS,)),
        ((shut_out(ORDERS, at="W2"),), None, ()),
    ],
)
def test_rules_stand_until_they_are_removed(
    changes: tuple[MirrorShutOut | MirrorLetIn, ...],
    topics: Collection[str] | None,
    standing: tuple[Permission, ...],
) -> None:
    shut_outs = ShutOuts.of_rows(rows(*changes))
    assert shut_outs.rules("W", topics) == frozenset(standing)


def test_of_an_alias_the_rules_of_any_cluster_that_it_stood_for_count() -> None:
    shut_outs = ShutOuts.of_rows(rows(shut_out(ORDERS, at="W2")))
    found = [shut_outs.has_rules("west", "east", [topic]) for topic in ("orders", "users")]
    assert found == [True, False]
    assert not shut_outs.has_rules("east", "west", None)


def test_what_keeps_flows_of_another_cluster_out_stands_when_a_pair_is_let_in() -> None:
    made = (shut_out(ORDERS), shut_out(ORDERS, USERS, former="north"))
    before = ShutOuts.of_rows(rows(*made))
    assert before.rules("W", None, "east") == {ORDERS}
    assert before.only_of("W", "east", [ORDERS]) == frozenset(), "north needs it as well"
    assert before.only_of("W", "north", [ORDERS, USERS]) == {USERS}
    after = ShutOuts.of_rows(rows(*made, let_in(ORDERS, former="east")))
    assert not after.has_rules("west", "east", None)
    assert after.rules("W", None) == after.rules("W", None, "north") == {ORDERS, USERS}
    assert after.only_of("W", "north", [ORDERS, USERS]) == {ORDERS, USERS}


@pytest.mark.parametrize(
    ("change", "is_fenced"),
    [
        (shut_out(fenced=7), True),
        (shut_out(fenced=8), False),
        (shut_out(fenced=7, at="W2"), False),
        (shut_out(ORDERS), False),
    ],
)
def test_the_id_that_a_flow_writes_with_is_fenced_by_a_marker_at_its_cluster(
    change: MirrorShutOut, is_fenced: bool
) -> None:
    claims = [claimed("f", 1, producer_id=7), claimed("g", 1, producer_id=9)]
    identities = ClusterIdentities.of_rows(claims, [], rows(change, let_in()))
    assert identities.fenced_topics("f", "W") == ({"orders"} if is_fenced else set())
    assert not identities.fenced_topics("g", "W")
    replaced = [*claims, claimed("f", 2, producer_id=10, former=7)]
    assert not ClusterIdentities.of_rows(replaced, [], rows(change)).fenced_topics("f", "W")
