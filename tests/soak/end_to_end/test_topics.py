"""What a plan says of topics that have not followed yet, and of transactions that topics share."""

import json
import threading
from typing import Any

from ledger.recorders.run import record_clusters
from ledger.sandbox.workload import create_topics
from tests.support.following import (
    admin_of,
    name_of,
    produce,
)
from tests.support.runs import FLOW, run
from tests.support.shops import transaction
from tests.support.site import RealSite


def test_a_plan_says_what_has_not_followed_yet_and_what_shares_transactions(site: RealSite) -> None:
    """Until a driver has made it follow, and recorders have seen that."""
    topic = name_of("followed")
    config = site.configured({FLOW: f'topics = ["{topic}.*"]\nsource = "east"\ntarget = "west"\n'})
    create_topics(site.servers[0], [topic], partitions=1)
    produce(site.servers[0], topic, "1")

    forecast: dict[str, Any] = {}

    def not_followed() -> dict[str, int | None]:
        record_clusters(config, ["east", "west"], stop=threading.Event(), once=True)
        done = site.command(config, "plan", "failover", "--from", "east", "--to", "west", "-o", "json")
        [plan] = json.loads(done.out)
        forecast.update(plan["forecast"])
        found = forecast["not_followed"]
        assert all(one["age_seconds"] < 60 for one in found if one["changes"]), found
        return {one["part"]: one["changes"] for one in found}

    run(config, site.spark)
    followed = {"topics": 0, "settings": 0, "permissions": 0}
    assert not_followed() == followed
    with admin_of(config, "east") as admin:
        admin.change_settings(topic, to_set={"retention.ms": "70000"}, to_remove=[])
    create_topics(site.servers[0], [f"{topic}-new"], partitions=1)
    assert not_followed() == {**followed, "topics": 1, "settings": 1}
    assert "shared_transactions" not in forecast
    beside = name_of("beside")
    create_topics(site.servers[0], [beside], partitions=1)
    producer = transaction(site.servers[0], beside, beside, b"1")
    producer.produce(topic, b"2", partition=0)
    producer.commit_transaction(10)
    run(config, site.spark)
    assert not_followed() == followed
    assert forecast["shared_transactions"] == {beside: [topic]}, (
        "one stays, and shares transactions with one that moves"
    )
