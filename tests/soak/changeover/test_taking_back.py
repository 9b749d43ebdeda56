"""What an apply has made so far is verified and taken back, on real brokers."""

from functools import partial

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.following import copying, name_of, produce, values
from tests.support.plans import OFTEN, receipts, verified
from tests.support.recorded import operations, rows
from tests.support.runs import FLOW
from tests.support.site import RealSite
from tests.support.waiting import eventually

_SHUT = (
    "--fence",
    "shut",
    "--accept=producers_stopped",
    "--quiet-seconds",
    "0.2",
    "--most-quiet-seconds",
    "2",
    "--accept=mirror_not_shut_out",
)


def is_recorded(config: MirrorConfig, topic: str, end: int) -> bool:
    """Whether a high watermark of the source is in the ledger."""
    found = rows(config, "high_watermarks")
    return any((row["cluster"], row["topic"], row["high_watermark"]) == ("east", topic, end) for row in found)


def test_a_promotion_is_taken_back_and_the_mirror_goes_on(site: RealSite) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured({FLOW: copying(topic, OFTEN, 'topic_naming = "identity"')})
    create_topics(east, [topic], partitions=1)
    with site.running(config):
        for end, value in enumerate("abc", start=1):
            produce(east, topic, value)
            eventually(partial(is_recorded, config, topic, end), "how long writers pause is recorded")
        asked = (*_SHUT, "--no-reverse")
        plan_id = site.planned(config, "switchover", *asked, "--hook", "start_applications=false")
        stuck = site.command(config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert stuck.code == 5, stuck.err
        healthy = {"is_source_reached": True, "drift": [], "doctor": []}
        assert receipts(config)["check"]["read_back"] == healthy
        operation = rows(config, "operations")[-1]["operation_id"]
        code, found = verified(site.capsys, config, operation)
        assert (code, found["steps"], found["promoted"], found["fence"]) == (4, "not_ok", "ok", "ok")
        site.done(config, "undo", operation, "--reason", "back", "--yes")
        produce(east, topic, "d")
        eventually(lambda: values(west, topic) == [b"a", b"b", b"c", b"d"], "the mirror is at work again")
    assert len(operations(config, "undone")) == len(operations(config, "undo_begun")) == 1
