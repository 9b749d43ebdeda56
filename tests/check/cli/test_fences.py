"""What `status` says of fences of a flow's clusters."""

import json

from ledger.facts.direction import Demoted, Promoted
from ledger.facts.fences import Fence, FenceHow, Proof, Unfenced
from tests.support.operated import Operated

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
