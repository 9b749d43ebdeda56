"""`status` and clusters that do not answer: told before all else, by the driver or, without one, by recorders."""

import json
import re

import pytest

from tests.support.operated import FLOW, Operated, own_mark


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """A flow with a driver at work: this process."""
    idle.writer("claimed", own_mark(), epoch=3)
    idle.copied({("orders", 0): 100})
    idle.watermark("orders", 0, end=100)
    return idle


def text(flow: Operated, *, code: int) -> str:
    """What `status --check` tells, without the folds."""
    done = flow.command("status", "--check")
    assert done.code == code, done.err
    return " ".join(done.out.split())


def test_clusters_that_do_not_answer_come_first(flow: Operated) -> None:
    since_ms = flow.clock.now_ms() - 130_000
    for name, topic, message, began_ms in (
        (
            "target_unreachable",
            "orders",
            "west cannot be used for orders partition 0: refused",
            1_000,
        ),
        ("source_unreachable", None, "east does not answer: 127.0.0.1:9 cannot be connected", since_ms),
        ("recompressed", "orders", "compression.type is gzip", None),
    ):
        key = {"finding": name, "topic": topic, "partition": None, "message": message, "next": "look"}
        flow.operation("finding_raised", {**key, "since_ms": began_ms})
    told = text(flow, code=4)
    assert re.match(
        r"east-to-west: source east does not answer since \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, 2 min 1\d s ago: "
        r"127.0.0.1:9 cannot be connected east-to-west: target west cannot be used for orders partition 0 since "
        r"1970-01-01 00:00:01Z, .* ago: refused east-to-west: ",
        told,
    )
    assert told.count("cannot be connected") == 1, "it is not said twice"
    assert told.index("finding source_unreachable") < told.index("finding recompressed")
    first, second = json.loads(flow.command("status", FLOW, "-o", "json").out)[0]["outages"]
    assert (first["side"], first["topic"], first["since_ms"]) == ("source", None, since_ms)
    assert 130 <= first["seconds"] < 190
    assert (second["side"], second["topic"], second["finding"]) == ("target", "orders", "target_unreachable")


@pytest.mark.parametrize(("event", "is_told"), [("alive", False), ("released", True)])
def test_without_a_driver_its_clusters_recorders_tell(flow: Operated, event: str, *, is_told: bool) -> None:
    """A driver at work looks itself."""
    flow.writer(event, own_mark(), epoch=3, round_number=1)
    key = {"finding": "cluster_unreachable", "topic": None, "partition": None, "since_ms": 1_000}
    for cluster in ("west", "elsewhere"):
        seen = {**key, "cluster": cluster, "message": f"{cluster} does not answer: refused"}
        row = {"writer": f"recorder:{cluster}", "kind": "finding_raised", "content": json.dumps(seen)}
        flow.append("operations", {**row, "flow": None})
    told = text(flow, code=4 if is_told else 0)
    assert ("target west does not answer since 1970-01-01 00:00:01Z" in told) == is_told
    assert "elsewhere" not in told
