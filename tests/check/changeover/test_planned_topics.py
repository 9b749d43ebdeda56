"""While a plan is carried out its topics have to be those that it was made for."""

import pytest

from ledger.changeover.plans import PlannedTopic
from ledger.changeover.scene import changed_topics, require_no_later
from ledger.errors import PreconditionError
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.fakes import FakeClock


def cluster() -> MemoryCluster:
    made = MemoryCluster("east", FakeClock())
    for name in ("orders", "users"):
        made.create_topic(name, partitions=1, replication_factor=1, configuration={})
    return made


def ids(of: MemoryCluster) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in of.topics().items()}


def test_topics_that_grew_are_the_planned_ones() -> None:
    east = cluster()
    planned = ids(east)
    east.add_partitions("orders", total=3)
    assert changed_topics(east, planned) == {}


def test_topics_that_were_created_again_or_deleted_are_named_together() -> None:
    east = cluster()
    planned = ids(east)
    east.recreate_topic("orders")
    east.delete_topic("users")
    changed = changed_topics(east, planned)
    words = f"its topic id is {ids(east)['orders']}, the plan is about {planned['orders']}"
    assert changed["orders"].endswith(words)
    assert "east has no topic users any more" in changed["users"]


def test_a_topic_that_began_to_be_copied_since_is_not_promoted_unasked() -> None:
    planned = [
        PlannedTopic(flow="f", source_topic="orders", source_topic_id="E", topic="orders", topic_id="W")
    ]
    require_no_later(planned, [("f", "orders")], operation_id="op")
    with pytest.raises(PreconditionError, match=r"users began to be copied since the plan was made.*undo op"):
        require_no_later(planned, [("f", "orders"), ("f", "users")], operation_id="op")
