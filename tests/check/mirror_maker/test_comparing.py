"""Which topics and groups MirrorMaker selects, and how an imported configuration compares."""

import pytest

from ledger.mirror_maker.comparing import Comparison, compared_groups, compared_topics
from ledger.mirror_maker.selection import MakerPolicy, MakerSelection, PolicyKind
from ledger.mirror_maker.translating import selection_of
from tests.support.maker_files import BASE, Imported, imported, of_lines

DEFAULT = MakerPolicy(PolicyKind.DEFAULT, "a", "b")
UNDERSCORE = MakerPolicy(PolicyKind.DEFAULT, "a", "b", "_", "_")
IDENTITY = MakerPolicy(PolicyKind.IDENTITY, "a", "b")
EMPTY = MakerPolicy(PolicyKind.DEFAULT, "", "", "", "")
BEFORE_4 = MakerPolicy(PolicyKind.DEFAULT, "a", "b", is_before_4=True)


@pytest.mark.parametrize(
    ("policy", "topic", "is_taken"),
    [
        (DEFAULT, "orders", True),
        (DEFAULT, "audit-internal", True),
        (DEFAULT, "customer.internal", True),
        (DEFAULT, "mm2-x.internal", False),
        (DEFAULT, "mm2-migration", True),
        (DEFAULT, "x.checkpoints.internal", False),
        (DEFAULT, "__tools", False),
        (DEFAULT, ".hidden", False),
        (DEFAULT, "b.orders", False),
        (DEFAULT, "x.b.orders", False),
        (DEFAULT, "b", True),
        (DEFAULT, "b_orders", True),
        (DEFAULT, "heartbeats", True),
        (DEFAULT, "x.heartbeats", True),
        (UNDERSCORE, "b_orders", False),
        (UNDERSCORE, "b.orders", True),
        (UNDERSCORE, "mm2-x_internal", False),
        (IDENTITY, "b.orders", True),
        (IDENTITY, "b.heartbeats", False),
        (EMPTY, "orders", True),
        (BEFORE_4, "orders", True),
        (BEFORE_4, "audit-internal", False),
        (BEFORE_4, "customer.internal", False),
    ],
)
def test_what_mirror_maker_takes_without_lists(policy: MakerPolicy, topic: str, is_taken: bool) -> None:
    assert MakerSelection(policy, topics_exclude=()).takes_topic(topic) is is_taken


def test_heartbeats_are_copied_whatever_the_lists_say() -> None:
    assert MakerSelection(DEFAULT, topics=("orders",)).takes_topic("heartbeats")
    assert not MakerSelection(DEFAULT, topics=("orders",), copies_heartbeats=False).takes_topic("heartbeats")


def test_defaults_of_lists() -> None:
    selection = MakerSelection(DEFAULT)
    assert not selection.takes_topic("orders.replica")
    assert [
        name for name in ("billing", "connect-x", "console-consumer-1") if selection.takes_group(name)
    ] == ["billing"]


def compared(found: Imported, *topics: str) -> dict[str, Comparison]:
    config, [flow, *_] = found.config, found.made.flows
    rows = compared_topics(
        config, flow.name, selection_of(flow), dict.fromkeys(topics, False), same_cluster=False
    )
    return {row.name: row.comparison for row in rows}


def test_what_both_select_under_one_name_is_the_same() -> None:
    for lines in (
        (),
        ("replication.policy.separator = _",),
        ("replication.policy.class = IdentityReplicationPolicy",),
    ):
        found = compared(of_lines(*lines), "orders", "x.replica", "__tools", "audit-internal")
        assert found == {"orders": Comparison.SAME, "audit-internal": Comparison.SAME}


def test_names_without_a_separator_and_an_alias() -> None:
    found = of_lines("replication.policy.separator =", "source.cluster.alias =", "target.cluster.alias =")
    assert compared(found, "orders", "audit-internal") == dict.fromkeys(
        ("orders", "audit-internal"), Comparison.SAME
    )


def test_internal_names_stay_out_whatever_the_lists_say() -> None:
    for separator in (".", "_"):
        found = of_lines("topics.exclude =", f"replication.policy.separator = {separator}")
        names = (f"mm2-x{separator}internal", f"z{separator}checkpoints{separator}internal", "x.replica")
        assert compared(found, *names) == {"x.replica": Comparison.SAME}


def test_before_kafka_4_internal_names_stay_out_of_both() -> None:
    found = imported(f"{BASE}topics.exclude =\n", release=(3, 9))
    assert compared(found, "orders", "audit-internal") == {"orders": Comparison.SAME}


def test_what_differs_is_named() -> None:
    found = compared(of_lines(), "orders", ".hidden", "heartbeats", "a.checkpoints.internal")
    assert found == {
        "orders": Comparison.SAME,
        ".hidden": Comparison.ONLY_HERE,
        "heartbeats": Comparison.MIRROR_MAKERS_OWN,
    }


def test_names_of_somebodys_own_class_are_unknown() -> None:
    found = of_lines("replication.policy.class = org.example.Policy")
    assert compared(found, "orders") == {"orders": Comparison.UNKNOWN}


def test_an_edited_configuration_is_compared_as_it_is() -> None:
    found = of_lines("topics = orders, payments")
    edited = Imported(
        found.made, found.text.replace('["orders", "payments"]', '["orders", "returns"]'), found.all_rows
    )
    assert compared(edited, "orders", "payments", "returns") == {
        "orders": Comparison.SAME,
        "payments": Comparison.ONLY_MIRROR_MAKER,
        "returns": Comparison.ONLY_HERE,
    }


def test_topics_that_the_broker_calls_its_own_are_nobodys() -> None:
    found = of_lines()
    [flow] = found.made.flows
    rows = compared_topics(found.config, flow.name, selection_of(flow), {"own": True}, same_cluster=False)
    assert list(rows) == []


def test_groups() -> None:
    found = of_lines("groups = billing, connect-.*")
    [flow] = found.made.flows
    rows = compared_groups(found.config, flow.name, selection_of(flow), ["billing", "connect-x", "other"])
    assert {row.name: row.comparison for row in rows} == {"billing": Comparison.SAME}
