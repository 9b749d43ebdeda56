"""What is read back of a change of direction: what is not so is not ok, what cannot be read is unknown."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from ledger.changeover import seeing
from ledger.changeover.checks import (
    Check,
    CheckStatus,
    asked,
    audit_checks,
    cut_checks,
    direction_checks,
    fence_checks,
    fences_of_topics,
    group_checks,
    group_places,
    hand_over_checks,
    late_write_checks,
    left_checks,
    operation_checks,
    shut_out_checks,
)
from ledger.changeover.groups import sheets_of
from ledger.changeover.plans import ApplyState, Plan, StepName
from ledger.changeover.waiting import Behind
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.acls import denial
from ledger.facts.cut_offsets import Cut, CutOffset, CutSide
from ledger.facts.direction import Demoted, Directions, Promoted
from ledger.facts.fences import EpochMarker, Fence, MirrorLetIn, MirrorShutOut, ShutOutProof, ShutOuts
from ledger.facts.group_offsets import IntendedCommit, OffsetsSet
from ledger.facts.hand_overs import HandedOver, Purpose, TopicHandOver
from ledger.facts.permissions import Permission
from ledger.facts.ways import Direction
from ledger.kafka.cluster import FenceControl
from ledger.offsets.setting import Basis, Outcome, Setting, SourceCommit, SourceCommits
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from ledger.topics.following import SettingsChange
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.changeovers import Stage, plan
from tests.support.fakes import FakeClock
from tests.support.seen_pairs import flow

OK, NOT_OK, UNKNOWN = CheckStatus.OK, CheckStatus.NOT_OK, CheckStatus.UNKNOWN
RULE = denial("orders", "User:mirror")


def statuses(checks: list[Check]) -> list[CheckStatus]:
    return [one.status for one in checks]


def west() -> ShareGroupCluster:
    cluster = ShareGroupCluster("west", FakeClock())
    cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})
    return cluster


def test_what_cannot_be_asked_is_unknown_with_its_reason() -> None:
    def ask() -> list[Check]:
        raise ClusterUnavailableError("east does not answer")

    [found] = asked("fence", "east", ask)
    assert (found.status, found.words) == (UNKNOWN, "east does not answer")


def test_steps_that_are_not_done_are_named() -> None:
    stage = Stage(plan())
    stage.failing[StepName.CUT] = PreconditionError("no leader")
    with pytest.raises(PreconditionError):
        stage.apply()
    checks = operation_checks(stage.last, stage.plan)
    left = stage.plan.steps[stage.plan.steps.index(StepName.CUT) :]
    assert [one.subject for one in checks] == [str(step) for step in left]
    assert (checks[0].words, set(statuses(checks))) == ("no leader", {NOT_OK})
    stage.failing.clear()
    stage.apply()
    assert statuses(operation_checks(stage.last, stage.plan)) == [OK]
    for state in (ApplyState.UNDOING, ApplyState.UNDONE):
        stage_last = stage.last
        stage_last.state = state
        assert statuses(operation_checks(stage_last, stage.plan)) == [NOT_OK]


def test_every_topic_is_promoted_until_it_is_demoted() -> None:
    named = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E", "topics": None}
    promoted, demoted = Promoted(**cast(Any, named)), Demoted(**cast(Any, named))
    assert statuses(direction_checks(Directions(((promoted, "by ana"),)), plan())) == [OK]
    both = Directions(((promoted, "by ana"), (demoted, "by ben")))
    assert statuses(direction_checks(both, plan())) == [NOT_OK]
    unpromoted: Plan = plan(steps=(StepName.CHECK,))
    assert direction_checks(Directions(), unpromoted) == []


@pytest.mark.parametrize(
    ("offsets", "status"),
    [([], NOT_OK), ([("orders", False)], NOT_OK), ([("users", True)], NOT_OK), ([("orders", True)], OK)],
)
def test_the_cut_is_there_with_the_live_ends_of_the_target(
    offsets: list[tuple[str, bool]], status: CheckStatus
) -> None:
    target = CutOffset(
        operation_id="op",
        flow="flow",
        side=CutSide.TARGET,
        cluster="west",
        cluster_id="W",
        source_topic="orders",
        topic="orders",
        topic_id="W1",
        partition=0,
    )
    cut = Cut("op", tuple(replace(target, topic=topic, is_live=is_live) for topic, is_live in offsets))
    assert statuses(cut_checks(cut, plan())) == [status]


def test_broken_invariants_are_named() -> None:
    assert statuses(audit_checks(["a", "b"], {})) == [OK]
    assert [(one.subject, one.status) for one in audit_checks(["a", "b"], {"b": 2})] == [("b", NOT_OK)]


# Groups -----------------------------------------------------------------------------------------


def sheet(cluster: MemoryCluster, group: str, to: Mapping[int, int], **changed: Any) -> OffsetsSet:
    commits = tuple(
        IntendedCommit(
            topic="orders",
            topic_id=changed.get("topic_id", cluster.topic_by_name["orders"].topic_id),
            partition=partition,
            former=None,
            to=offset,
            source_topic="orders",
            source_partition=partition,
            source_offset=offset,
            status="exact",
        )
        for partition, offset in to.items()
    )
    return OffsetsSet(
        group=group,
        source_cluster="east",
        target_cluster="west",
        group_type=changed.get("group_type"),
        cut="c",
        commits=commits,
        seen=(),
    )


def written(cluster: MemoryCluster, records: int) -> None:
    for log in cluster.topic_by_name["orders"].logs:
        for _ in range(records):
            log.append(application_batch([content(b"k", b"v")], [1]), now_ms=1)


def test_groups_are_where_they_were_set_or_beyond() -> None:
    cluster = west()
    cluster.committed.update(
        {
            ("at", "orders", 0): 7,
            ("beyond", "orders", 0): 9,
            ("beyond", "orders", 1): 7,
            ("below", "orders", 0): 6,
        }
    )
    cluster.committed.update(
        {("half", "orders", 0): 7, ("other", "orders", 0): 7, ("hidden", "orders", 0): 7}
    )
    cluster.started[("shared", "orders", 0)] = 7
    cluster.denied_groups.add("hidden")
    written(cluster, 9)
    sheets = [
        sheet(cluster, "at", {0: 7}),
        sheet(cluster, "beyond", {0: 7, 1: 7}),
        sheet(cluster, "below", {0: 7}),
        sheet(cluster, "half", {0: 7, 1: 7}),
        sheet(cluster, "other", {0: 7}, topic_id="former"),
        sheet(cluster, "hidden", {0: 7}),
        sheet(cluster, "absent", {0: 7}),
        sheet(cluster, "shared", {0: 7}, group_type="share"),
    ]
    places = group_places(cluster, sheets)
    found = {one.subject: one for one in group_checks(places, are_started=True)}
    assert {group: one.status for group, one in found.items()} == {
        "at": OK,
        "beyond": OK,
        "shared": OK,
        "below": NOT_OK,
        "half": NOT_OK,
        "other": NOT_OK,
        "absent": NOT_OK,
        "hidden": UNKNOWN,
    }
    assert found["beyond"].words == "2 partitions where it was set, 1 of them read on"
    assert found["below"].words == "orders partition 0: 6, below 7"
    assert found["half"].words == "orders partition 1: no commit, 7 was to be there"
    at = places["at"]
    beyond = places["beyond"]
    assert at is not None
    assert beyond is not None
    assert [one.is_exact for one in (*at, *beyond)] == [True, False, True]


def test_a_commit_beyond_its_place_is_read_on_only_where_that_can_be() -> None:
    cluster = west()
    written(cluster, 9)
    cluster.committed["job", "orders", 0] = 6
    topic_id = cluster.topic_by_name["orders"].topic_id

    def status(*, cut_at: int = 4, are_started: bool = True) -> CheckStatus:
        at = CutOffset(
            operation_id="op",
            flow="flow",
            side=CutSide.TARGET,
            cluster="west",
            cluster_id="W",
            source_topic="orders",
            topic="orders",
            topic_id=topic_id,
            partition=0,
            high_watermark=cut_at,
        )
        cut = Cut("op", (at,))
        places = group_places(cluster, [sheet(cluster, "job", {0: 4})], cut)
        [found] = group_checks(places, are_started=are_started)
        return found.status

    assert status() is OK
    assert status(are_started=False) is UNKNOWN, "somebody has set it, or read"
    assert status(cut_at=8) is UNKNOWN, "2 were read, and 1 was written since"
    cluster.members.add("job")
    assert status(cut_at=8) is status(are_started=False) is OK, "it is at work there"
    cluster.committed["job", "orders", 0] = 10
    assert status() is UNKNOWN, "beyond the end"
    cluster.log("orders", 0).delete_before(5)
    cluster.committed["job", "orders", 0] = 4
    assert status() is NOT_OK, "its records were deleted"


def test_a_group_that_reads_on_where_it_left_is_not_at_rest_there() -> None:
    east = MemoryCluster("east", FakeClock())
    east.create_topic("orders", partitions=1, replication_factor=1, configuration={})
    moved = sheet(east, "billing", {0: 7})
    assert statuses(left_checks(east, [moved], are_started=False)) == [OK]
    east.committed["billing", "orders", 0] = 7
    assert statuses(left_checks(east, [moved], are_started=False)) == [OK]
    east.committed["billing", "orders", 0] = 8
    assert statuses(left_checks(east, [moved], are_started=False)) == [NOT_OK]
    east.committed["billing", "orders", 0] = 7
    east.members.add("billing")
    assert statuses(left_checks(east, [moved], are_started=False)) == [NOT_OK]


def test_a_sheet_has_what_stands_at_its_place_with_the_commit_that_it_comes_from() -> None:
    answer = {
        "group_id": "billing",
        "source_topic": "orders",
        "source_partition": 0,
        "committed_offset": 9,
        "target_topic": "orders",
        "target_topic_id": "W1",
        "target_partition": 0,
        "target_offset": 7,
        "status": "exact",
    }
    left = SourceCommits("east", {("billing", "orders", 0): SourceCommit(topic_id="E1", leader_epoch=3)})
    settings = [Setting(answer, 7, outcome) for outcome in Outcome]
    sheets = sheets_of("p", settings, target_cluster="west", basis=Basis(None, "c", left, ()))
    found = [one.intended for one in sheets]
    assert [len(one.commits) for one in found] == [4]
    first = found[0].commits[0]
    assert (first.source_topic_id, first.source_leader_epoch, first.source_offset, first.to) == (
        "E1",
        3,
        9,
        7,
    )


# Fences, the mirror, settings -------------------------------------------------------------------


def fence(**changed: Any) -> Fence:
    values = {
        "cluster": "east",
        "cluster_id": "E",
        "topic": "orders",
        "topic_id": "E1",
        "how": "closed",
        "proof": "proven",
        "denied": ("User:a",),
    }
    return Fence(**{**values, **changed})


def test_a_fence_stands_as_it_was_made_and_proved() -> None:
    cluster = west()
    control = cast(FenceControl, cluster)

    def status(of: Fence | None) -> list[CheckStatus]:
        return statuses(fence_checks({"orders": of}, control))

    assert status(None) == [NOT_OK]
    assert status(fence()) == [NOT_OK], "the rule is gone"
    cluster.create_acls(sorted(fence().rules))
    assert status(fence()) == [OK]
    assert status(fence(proof="unproven", override="it burns")) == [UNKNOWN]
    shut = fence(how="shut", denied=())
    assert status(shut) == [NOT_OK]
    cluster.change_settings("orders", to_set={"max.message.bytes": "78"}, to_remove=[])
    assert status(shut) == [OK]


def test_a_fence_of_another_incarnation_of_a_topic_is_none_of_this_one() -> None:
    former, unnamed = fence(topic_id="former"), fence(topic_id=None)
    of_plan = fence(topic_id=plan().topics[0].source_topic_id)
    topics = plan().topics
    assert fences_of_topics([former], topics) == fences_of_topics([], topics) == {"orders": None}
    for one in (of_plan, unnamed):
        assert fences_of_topics([one], topics) == {"orders": one}


def test_a_record_behind_the_end_is_a_late_write() -> None:
    cluster = west()
    at = Behind("orders", cluster.topic_by_name["orders"].topic_id, 0, 0)
    assert statuses(late_write_checks(cluster, [at], bool)) == [OK]
    cluster.log("orders", 0).append(application_batch([content(b"k", b"v")], [1]), now_ms=1)
    assert statuses(late_write_checks(cluster, [at, replace(at, partition=1)], lambda _id: False)) == [NOT_OK]


def test_a_partition_that_was_added_behind_a_fence_begins_at_0() -> None:
    cluster = west()
    topic_id = cluster.topic_by_name["orders"].topic_id
    ends = [Behind("orders", topic_id, partition, 0) for partition in (0, 1)]
    cluster.add_partitions("orders", total=3)
    assert statuses(late_write_checks(cluster, ends, bool)) == [OK]
    cluster.log("orders", 2).append(application_batch([content(b"k", b"v")], [1]), now_ms=1)
    [found] = late_write_checks(cluster, ends, lambda _id: False)
    assert (found.status, found.words) == (
        NOT_OK,
        "orders partition 2: an application has written at offset 0",
    )


def test_the_mirror_is_shut_out_as_it_was_proved() -> None:
    proof = ShutOutProof(
        flow="flow", topic="orders", partition=0, stopped="released", fences=("deny",), reason=None
    )
    made = MirrorShutOut(
        cluster="west",
        cluster_id="W",
        former="east",
        principal="User:mirror",
        flows={"flow": 1},
        topics=("orders",),
        rules=(RULE,),
        markers=(),
        proof=(proof,),
    )
    let_in = MirrorLetIn(cluster="west", cluster_id="W", former="east", topics=("orders",), rules=(RULE,))

    def status(
        *changes: MirrorShutOut | MirrorLetIn, rules: tuple[Permission, ...] = (RULE,), remembers: bool = True
    ) -> CheckStatus:
        outs = ShutOuts(changes)
        return shut_out_checks(outs, "W", "east", ("orders",), rules, lambda _marker: remembers)[0].status

    assert status(made) is OK
    assert status() is NOT_OK
    assert status(made, rules=()) is NOT_OK
    assert status(made, let_in) is status(made, replace(let_in, former="east")) is NOT_OK
    assert status(made, replace(let_in, former="north")) is OK, "another pair was demoted"
    assert status(replace(made, proof=None)) is NOT_OK
    assert status(replace(made, cluster_id="other")) is NOT_OK
    assert status(replace(made, proof=(replace(proof, reason="no principal"),))) is UNKNOWN
    marker = EpochMarker(
        flow="flow", producer_id=7, producer_epoch=1, topic="orders", topic_id="W1", partition=0
    )
    marked = replace(made, rules=(), markers=(marker,), proof=(replace(proof, fences=("marker",)),))
    assert (status(marked), status(marked, remembers=False)) == (OK, UNKNOWN)
    assert status(replace(made, markers=(marker,)), remembers=False) is OK, "it is denied"


def test_what_applications_lack_is_named_and_what_nobody_knows_is_unknown() -> None:
    complete = HandedOver(
        cluster="west",
        cluster_id="W",
        former="east",
        purpose=Purpose.APPLICATIONS,
        topics=(),
        permissions=(),
        unknown=(),
        manual=("create SCRAM user a",),
    )
    [ok] = hand_over_checks(complete)
    assert (ok.status, "create SCRAM user a" in ok.words) == (OK, True)
    assert statuses(hand_over_checks(replace(complete, unknown=("quotas",)))) == [UNKNOWN]
    change = TopicHandOver(
        topic="orders",
        topic_id="W1",
        change=SettingsChange({"retention.ms": "7"}),
        former={"retention.ms": None},
    )
    assert statuses(hand_over_checks(replace(complete, topics=(change,)))) == [NOT_OK]


# -- What lies in front of what came since ---------------------------------------------------------

WEST = Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=None)
BACK = Direction("west", "east")


def lies(start: int, end: int) -> dict[str, object]:
    where = {"status": "extra", "cluster": "east", "topic": "orders", "partition": 0}
    return {**where, "range_start": start, "range_end": end, "offsets": end - start}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([lies(3, 5)], {"orders": 2}),
        ([lies(10, 18)], {}),
        ([lies(3, 5), lies(10, 18)], {"orders": 2}),
        ([{**lies(3, 5), "status": "kept_local"}], {}),
    ],
)
def test_copies_in_flight_are_no_extras_however_far_the_flow_is_by_now(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]], found: dict[str, int]
) -> None:
    at_cut = {
        "one_sided_records": rows,
        "flow_positions": [{"target_topic": "orders", "source_partition": 0, "target_end": 10}],
    }

    def run_query(_at: object, name: str, _params: object) -> Any:
        return pa.Table.from_pylist(at_cut[name])

    monkeypatch.setattr(answers, "run_query", run_query)
    now = SimpleNamespace(target_topic="orders", partition=0, position=SimpleNamespace(target_offset=20))
    flows = [flow(positions=[now])]
    at = cast(DeltaSnapshot, None)
    assert seeing._extras(at, BACK, flows, Directions(((WEST, "by ana"),))) == found
    assert seeing._extras(at, BACK, flows, Directions()) == {}
