"""Access control lists of target topics follow, on clusters in memory."""

import pytest

from ledger.facts.acls import AclFollow
from ledger.facts.permissions import Permission, topic_acl
from tests.support.memory_flows import Flow, follow


def rule(name: str, operation: str = "read", principal: str = "User:ada") -> Permission:
    return topic_acl(name, principal, operation)


def test_rules_follow_only_if_the_flow_says_so() -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a"), rule("other")}
    follow(flow.topics())
    assert flow.west.acls == set()
    follow(flow.topics(acls=AclFollow.READ))
    assert flow.west.acls == {rule("east.a")}


def test_only_rules_that_the_mirror_created_are_removed_also_by_a_later_driver() -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a"), rule("a", "describe")}
    flow.west.acls = {rule("east.a", "describe"), rule("east.a", "alter")}
    follow(flow.topics(acls=AclFollow.READ))
    assert flow.west.acls == {rule("east.a"), rule("east.a", "describe"), rule("east.a", "alter")}
    flow.east.acls = set()
    topics = flow.topics(acls=AclFollow.READ)
    for _ in range(2):
        follow(topics)
    assert flow.west.acls == {rule("east.a", "describe"), rule("east.a", "alter")}
    actions = [content["action"] for content in flow.operations("acls_followed")]
    assert actions == ["created", "removed"], "what was there already is not the mirror's"


@pytest.mark.parametrize(
    ("call", "name", "finding"),
    [
        ("create rules of", "east.a", "acls_not_changed"),
        ("describe rules of", "topics", "acls_not_read"),
    ],
)
def test_refused_rules_do_not_stop_the_copy(call: str, name: str, finding: str) -> None:
    flow = Flow()
    flow.source("a")
    flow.east.acls = {rule("a")}
    flow.west.refused.add((call, name))
    topics = flow.topics(acls=AclFollow.READ)
    assert follow(topics) == [("a", "east.a", 0)]
    assert [(found, topic) for found, topic, _ in flow.findings()] == [(finding, None)]
    flow.west.refused.clear()
    follow(topics)
    assert (flow.findings(), flow.west.acls) == ([], {rule("east.a")})
