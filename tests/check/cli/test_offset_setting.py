"""`offsets set`: which words do not go together, and a target that does not answer."""

import json

import pytest
from deltalake import DeltaTable

from ledger.facts.direction import Promoted
from tests.support.operated import Operated, own_mark

SET = ("offsets", "set", "--flow")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("east-to-west",), "--group (again for each) or --all-groups"),
        (("east-to-west", "--all-groups", "--group", "g"), "one of both; none was set"),
        (("east-to-west", "--all-groups", "--partition", "1"), "--partition needs --topic"),
        (("nope", "--all-groups"), "nope"),
        (("east-to-west", "--all-groups", "--watch", "5"), "--watch goes with --from and --to"),
        (("east-to-west", "--all-groups", "--accept", "exact"), "exact"),
        (
            ("east-to-west", "--from", "east", "--to", "west", "--all-groups"),
            "name either --flow, or --from and",
        ),
        (("east-to-west", "--all-groups", "--wide", "-o", "csv"), "--wide is about tables"),
    ],
)
def test_what_does_not_go_together_is_refused(
    idle: Operated, arguments: tuple[str, ...], telling: str
) -> None:
    done = idle.command(*SET, *arguments)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err


def test_clusters_of_which_nothing_is_known_are_refused(idle: Operated) -> None:
    between = ("offsets", "set", "--all-groups")
    done = idle.command(*between, "--from", "east")
    assert (done.code, "name either --flow, or --from and --to" in done.err) == (2, True)
    done = idle.command(*between, "--from", "east", "--to", "north")
    assert (done.code, "no cluster 'north'" in done.err) == (2, True)


def test_a_target_that_does_not_answer_leaves_everything_as_it_is(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    for asked in (("--flow", "east-to-west"), ("--from", "east", "--to", "west")):
        done = idle.command("offsets", "set", *asked, "--all-groups")
        assert (done.code, done.out) == (1, "")
        assert "could not be reached" in done.err
    assert idle.operations() == []


def test_where_applications_have_left_no_offset_is_set(idle: Operated) -> None:
    """What they read where they are now would be read again; the advice is carried out."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10, ("users", 0): 10})
    for topic in ("orders", "users"):
        at = {"cluster": "east", "topic": topic, "topic_id": f"id-of-{topic}", "partition": 0}
        idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    promoted = Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=("east.orders",))
    content = json.dumps(promoted.content())
    row = {"writer": "operator", "kind": "promoted", "flow": None, "content": content}
    idle.append("operations", {**row, "operation_id": "op-1", "operator": "anna"})
    asked = ("offsets", "set", "--flow", "east-to-west", "--all-groups")
    done = idle.command(*asked)
    assert (done.code, done.out) == (5, "")
    assert "orders of east was promoted over west" in done.err
    assert "applications work at east, not at west; no offset was set there" in done.err
    assert 'mirror-ledger demote east --over west --keep-ends --reason "home again"' in done.err
    of_another = idle.command(*asked, "--topic", "users")
    assert (of_another.code, "could not be reached" in of_another.err) == (1, True)
    assert [row["kind"] for row in idle.operations()] == ["promoted"]


def test_from_a_ledger_that_has_lost_rows_nothing_is_set_unless_that_is_accepted(idle: Operated) -> None:
    """A map without its beginning sends a group behind what it has not read."""
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    syncs = DeltaTable(f"{idle.path}/offset_syncs")
    syncs.alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(syncs.table_uri).delete("kind = 'started'")
    reset = ("offsets", "translate", "--flow", "east-to-west", "-o", "kafka-reset")
    of_flow = ("offsets", "set", "--flow", "east-to-west", "--all-groups")
    between = ("offsets", "set", "--from", "east", "--to", "west", "--all-groups")
    for asked, goes_on in ((reset, 0), (of_flow, 1), (between, 1)):
        refused = idle.command(*asked)
        assert (refused.code, refused.out) == (4, "")
        assert "the ledger has lost rows (audit_l8_nothing_missing: 1 row)" in refused.err
        assert idle.command(*asked, "--accept", "missing_rows").code == goes_on
    assert idle.command("query", "audit_l8_nothing_missing").code == 4
