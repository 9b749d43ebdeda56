"""What `status` says of clusters: fences, outages, and flows that start."""

import json
import re

import pytest

from ledger.facts.direction import Demoted, Promoted
from ledger.facts.fences import Fence, FenceHow, Proof, Unfenced
from ledger.topics.following import FENCE_MAX_MESSAGE_BYTES
from tests.support.operated import FLOW, NOBODY, Operated, mark_of_a_gone_process, own_mark
from tests.support.told_status import report, text

# -- Fences ----------------------------------------------------------------------------------------

PROMOTED = Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=("orders",))
DEMOTED = Demoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=("orders",))


def recorded(flow: Operated, proof: str, *, cluster: str = "east", topic: str = "orders") -> None:
    fence = Fence(
        cluster=cluster,
        cluster_id="E",
        topic=topic,
        topic_id="T",
        how=FenceHow.CLOSED,
        proof=proof,
        override="no network" if proof == Proof.UNPROVEN else None,
    )
    append(flow, "operators", "fence", fence.content())


def lifted(flow: Operated, *, cluster: str = "east") -> None:
    unfenced = Unfenced(cluster=cluster, cluster_id="E", topic="orders", topic_id="T", how=FenceHow.CLOSED)
    append(flow, "operators", "unfenced", unfenced.content())


def append(flow: Operated, writer: str, kind: str, content: dict[str, object]) -> None:
    row = {"writer": writer, "kind": kind, "flow": None, "content": json.dumps(content)}
    flow.append("operations", row)


def check(flow: Operated) -> tuple[int, str]:
    done = flow.command("status", "--check")
    return done.code, " ".join(done.out.split())


def test_it_passes_once_it_is_proved_or_lifted(at_work: Operated) -> None:
    recorded(at_work, Proof.BEGUN, cluster="north")
    recorded(at_work, Proof.PROVEN, topic="users")
    assert check(at_work)[0] == 0
    recorded(at_work, Proof.UNPROVEN)
    code, said = check(at_work)
    assert (code, "the fence is unproven (no network)" in said) == (4, True)
    recorded(at_work, Proof.PROVEN)
    assert check(at_work)[0] == 0
    recorded(at_work, Proof.BEGUN)
    lifted(at_work, cluster="west")
    assert check(at_work)[0] == 4
    lifted(at_work)
    assert check(at_work)[0] == 0


def test_a_topic_that_takes_no_batch_needs_a_fence_that_is_recorded(at_work: Operated) -> None:
    """What has the setting of a fence; neither what is above it, nor another cluster's or what is not mirrored."""

    def seen(
        topic: str, limit: str | None, *, cluster: str = "east", event: str = "configuration_changed"
    ) -> None:
        settings = {} if limit is None else {"max.message.bytes": limit}
        state = {"cluster": cluster, "topic": topic, "topic_id": "T", "writer": f"recorder:{cluster}"}
        at_work.append("topics", {**state, "event": event, "configuration": json.dumps(settings)})

    for number, limit in enumerate((None, str(FENCE_MAX_MESSAGE_BYTES + 1), "1048588")):
        seen(f"open-{number}", limit)
    seen("orders", "78", cluster="north")
    seen("deleted", "78")
    seen("deleted", "78", event="deleted")
    code, said = check(at_work)
    assert code == 0, said
    seen("orders", "78")
    code, said = check(at_work)
    assert code == 4
    assert said.startswith("east-to-west: fence of orders at east: unrecorded")
    assert (
        "mirror-ledger fence east --topic orders --how shut --accept producers_stopped --reason WHY" in said
    )
    told = report(at_work)["fences"]
    assert [(one["topics"], one["state"]) for one in told] == [(["orders"], "unrecorded")]
    recorded(at_work, Proof.PROVEN)
    assert check(at_work)[0] == 0
    lifted(at_work)
    assert check(at_work)[0] == 0, "recorders read a little later that the setting is another one"
    seen("orders", "78")
    assert check(at_work)[0] == 4


def test_a_target_topic_that_takes_no_batch_needs_one_too(at_work: Operated) -> None:
    state = {"cluster": "west", "topic_id": "T", "writer": "recorder:west", "event": "observed"}
    shut = {**state, "configuration": json.dumps({"max.message.bytes": "78"})}
    at_work.append("topics", {**shut, "topic": "of others"})
    assert check(at_work)[0] == 0
    at_work.append("topics", {**shut, "topic": "east.orders"})
    code, said = check(at_work)
    assert (code, "fence of east.orders at west: unrecorded" in said) == (4, True)


def test_records_behind_a_fence_do_not_pass_until_they_are_cleared(at_work: Operated) -> None:
    key = {"finding": "late_write", "topic": "orders", "partition": 1}
    said = {**key, "message": "orders partition 1 of east: a record was written", "next": "stop it"}
    append(at_work, "recorder:east", "finding_raised", {**said, "cluster": "east"})
    append(at_work, "recorder:north", "finding_raised", {**said, "cluster": "north"})
    append(at_work, "recorder:west", "finding_cleared", key)
    code, told = check(at_work)
    assert code == 4
    assert told.startswith("east-to-west: fence of orders at east: late_write")
    assert told.count("orders partition 1 of east: a record was written") == 1
    assert "north" not in told
    append(at_work, "recorder:east", "finding_cleared", key)
    assert check(at_work)[0] == 0


def test_a_fence_stays_while_applications_work_elsewhere(idle: Operated) -> None:
    """One that stops the mirror as well has to go before it copies back."""
    recorded(idle, Proof.PROVEN)
    append(idle, "operator", "promoted", PROMOTED.content())
    for topics in ((), ("--topic", "orders")):
        done = idle.command("unfence", "east", *topics, "--reason", "home")
        assert (done.code, done.out) == (5, "")
        assert "orders of west was promoted over east" in done.err
        assert "nothing was lifted or recorded" in done.err
    of_another = idle.command("unfence", "east", "--topic", "users", "--reason", "home")
    assert "was promoted over" not in of_another.err
    append(idle, "operator", "demoted", DEMOTED.content())
    demoted = idle.command("unfence", "east", "--topic", "orders", "--reason", "home")
    assert demoted.code == 0, demoted.err


# -- Outages ---------------------------------------------------------------------------------------


@pytest.fixture
def flow(idle: Operated) -> Operated:
    """A flow with a driver at work: this process."""
    idle.writer("claimed", own_mark(), epoch=3)
    idle.copied({("orders", 0): 100})
    idle.watermark("orders", 0, end=100)
    return idle


def checked(flow: Operated, *, code: int) -> str:
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
    told = checked(flow, code=4)
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
        seen = {**key, "cluster": cluster, "message": f"{cluster} does not answer: refused", "next": None}
        row = {"writer": f"recorder:{cluster}", "kind": "finding_raised", "content": json.dumps(seen)}
        flow.append("operations", {**row, "flow": None})
    told = checked(flow, code=4 if is_told else 0)
    assert ("target west does not answer since 1970-01-01 00:00:01Z" in told) == is_told
    assert "elsewhere" not in told


# -- Starts ----------------------------------------------------------------------------------------


def test_a_flow_is_starting_from_the_command_on(idle: Operated) -> None:
    idle.starting(own_mark())
    told = text(idle, "--check")
    assert told.startswith("east-to-west: starting since 20")
    assert "driver    starting since 20" in told
    assert report(idle)["driver"]["state"] == "starting"
    assert (
        "starting on" in idle.command("pause", FLOW).err or "has never run" in idle.command("pause", FLOW).err
    )
    idle.writer("claimed", own_mark())
    assert report(idle)["driver"]["state"] == "running"


@pytest.mark.parametrize(
    ("mark", "age_s", "state", "failed"),
    [
        (mark_of_a_gone_process(), 5, "never_ran", True),
        (own_mark(), 600, "starting", False),
        ("elsewhere:1:1", 170, "starting", False),
        ("elsewhere:1:1", 190, "never_ran", True),
    ],
    ids=["its-process-is-gone", "takes-long", "elsewhere", "elsewhere-long-ago"],
)
def test_a_start_that_came_to_nothing(
    idle: Operated, mark: str, age_s: int, state: str, failed: bool
) -> None:
    idle.starting(mark, at_ms=idle.clock.now_ms() - age_s * 1000)
    found = report(idle)
    assert found["driver"]["state"] == state
    assert (found["driver"]["failed_start_at_ms"] is not None) == failed
    told = [reason for reason in found["needs_attention"] if "ended before it claimed the flow" in reason]
    assert len(told) == failed
    told = [
        reason for reason in found["needs_attention"] if "its driver has been starting for 10 min" in reason
    ]
    assert len(told) == (age_s == 600)


def test_a_dead_driver_that_is_started_again_is_starting(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process())
    idle.starting(own_mark())
    found = report(idle, "--check")
    assert (found["driver"]["state"], found["needs_attention"]) == ("starting", [])


def test_a_driver_at_work_is_running_whoever_else_starts(at_work: Operated) -> None:
    at_work.starting(own_mark())
    assert report(at_work)["driver"]["state"] == "running"


# -- Addresses -------------------------------------------------------------------------------------


def test_a_configured_address_at_which_no_broker_is_any_more_is_a_remark(at_work: Operated) -> None:
    def seen(event: str, *addresses: str) -> None:
        brokers = ",".join(f"PLAINTEXT://{address}" for address in addresses)
        recorder = {"writer": "recorder:east", "source_cluster": "east", "host": own_mark()}
        at_work.append("writers", {**recorder, "event": event, "brokers": brokers})

    def told() -> list[str]:
        found = report(at_work, "--check")
        assert found["needs_attention"] == []
        return [one for one in found["remarks"] if "bootstrap_servers" in one]

    seen("claimed", "east-2:9092")
    assert told() == [], "an address may be of a load balancer, and never of a broker"
    seen("claimed", NOBODY, "east-2:9092")
    seen("alive", "east-2:9092", "east-3:9092")
    assert told() == [
        f"no broker of east is at {NOBODY} any more; its recorder saw them at east-2:9092, east-3:9092: change "
        "bootstrap_servers of [clusters.east]"
    ]
