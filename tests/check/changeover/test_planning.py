"""What stands against a plan, and what it would cost, from what was seen."""

from dataclasses import replace
from typing import Any

import pytest

from ledger.changeover.planning import planned
from ledger.changeover.plans import BlockerCode, ChangeoverKind, Choices, FenceChoice, PlannedTopic, StepName
from ledger.changeover.scope import Scope, Seen, SeenCluster
from ledger.changeover.step_context import changed_topics, require_no_later
from ledger.changeover.text import repeated_words
from ledger.config.values import Objective, TargetMode
from ledger.errors import PreconditionError, UsageError
from ledger.facts.direction import Directions, Promoted
from ledger.facts.operations import RecordedStop
from ledger.facts.roles import RoleVerdict
from ledger.facts.tables import Row
from ledger.offsets.setting import ADVICE, Outcome
from ledger.topics.naming import NamingKind
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.fakes import FakeClock
from tests.support.seen_pairs import (
    DEAD,
    EAST,
    FAILOVER,
    SEEN,
    SWITCHOVER,
    WEST,
    fence,
    flow,
    loss,
    made,
    place,
    position,
)


def test_nothing_stands_against_it() -> None:
    found = made()
    assert found.blockers == ()
    assert found.plan.flows == ("flow",)
    assert found.plan.topics[0].topic_id == "W-orders"
    assert StepName.PROMOTE in found.plan.steps
    assert found.forecast["repeated"] == 2


def test_topics_that_share_transactions_with_those_that_move_are_named() -> None:
    several = {"orders": frozenset({1, 2}), "audit": frozenset({2}), "alone": frozenset({3})}
    forecast = made(replace(SEEN, transactions=several)).forecast
    assert forecast["shared_transactions"] == {"audit": ["orders"]}
    assert made(replace(SEEN, transactions=None)).forecast["shared_transactions"] is None
    assert "shared_transactions" not in made(replace(SEEN, transactions={"orders": frozenset({1})})).forecast


def test_static_members_of_groups_that_move_are_named() -> None:
    members = {"billing": ("pod-1", "pod-2"), "elsewhere": ("pod-3",)}
    found = made(replace(SEEN, static_members=members)).forecast
    assert found["static_members"] == {"billing": ["pod-1", "pod-2"]}
    assert made(replace(SEEN, static_members=None)).forecast["static_members"] is None
    assert "static_members" not in made().forecast


def promoted(cluster: str, over: str) -> Directions:
    change = Promoted(cluster=cluster, cluster_id="C", former=over, former_id="F", topics=None)
    return Directions(((change, "by ana"),))


def test_a_cluster_that_applications_left_is_planned_for_like_any_other() -> None:
    """Whether the one that they came to answers or burns; what never left it stands against a planned return alone."""
    left = replace(SEEN, directions=promoted("east", "west"))
    assert made(left).blockers == ()
    burning = replace(left, source=DEAD, extras={"orders": 3})
    assert made(burning, FAILOVER).blockers == ()
    [extras] = made(replace(left, extras={"orders": 3})).blockers
    assert (extras.code, "orders (3 offsets)" in extras.words) == (BlockerCode.EXTRAS_AT_TARGET, True)


_BLOCKED: list[tuple[str, Seen, ChangeoverKind, BlockerCode]] = [
    (
        "target dead",
        replace(SEEN, target=replace(WEST, live_id=None)),
        SWITCHOVER,
        BlockerCode.TARGET_UNREACHABLE,
    ),
    ("source dead", replace(SEEN, source=DEAD), SWITCHOVER, BlockerCode.SOURCE_UNREACHABLE),
    ("source answers", SEEN, FAILOVER, BlockerCode.SOURCE_ANSWERS),
    (
        "other cluster",
        replace(SEEN, target=replace(WEST, identity_problem="no")),
        SWITCHOVER,
        BlockerCode.OTHER_CLUSTER,
    ),
    (
        "other target topic",
        replace(SEEN, target=replace(WEST, topic_ids={"orders": "new"})),
        SWITCHOVER,
        BlockerCode.OTHER_TOPIC,
    ),
    (
        "no target topic",
        replace(SEEN, target=replace(WEST, topic_ids={})),
        SWITCHOVER,
        BlockerCode.OTHER_TOPIC,
    ),
    (
        "other source topic",
        replace(SEEN, source=replace(EAST, topic_ids={"orders": "new"})),
        SWITCHOVER,
        BlockerCode.OTHER_TOPIC,
    ),
    (
        "promoted",
        replace(SEEN, directions=promoted("west", "east")),
        SWITCHOVER,
        BlockerCode.PROMOTED_ALREADY,
    ),
    (
        "extras",
        replace(SEEN, directions=promoted("east", "west"), extras={"orders": 3}),
        SWITCHOVER,
        BlockerCode.EXTRAS_AT_TARGET,
    ),
    ("unmirrored", replace(SEEN, flows=[flow(unmirrored=["users"])]), SWITCHOVER, BlockerCode.NOT_MIRRORED),
    (
        "stopped",
        replace(SEEN, flows=[flow(stopped={("E-orders", 0): RecordedStop("foreign_write", "x")})]),
        SWITCHOVER,
        BlockerCode.PARTITION_STOPPED,
    ),
    (
        "no driver",
        replace(SEEN, flows=[flow(driver=RoleVerdict.RELEASED)]),
        SWITCHOVER,
        BlockerCode.DRIVER_NOT_RUNNING,
    ),
    (
        "no place",
        replace(SEEN, places=[place(target_offset=None)]),
        SWITCHOVER,
        BlockerCode.GROUP_WITHOUT_PLACE,
    ),
    (
        "not accepted",
        replace(SEEN, places=[place(status="gone")]),
        SWITCHOVER,
        BlockerCode.GROUP_WITHOUT_PLACE,
    ),
    *(
        (
            str(outcome),
            replace(SEEN, hindered={("billing", "orders", 0): outcome}),
            SWITCHOVER,
            BlockerCode.GROUP_HINDERED_AT_TARGET,
        )
        for outcome in (Outcome.NEWER, Outcome.GROUP_DENIED, Outcome.OTHER_TYPE, Outcome.SEVERAL_ANSWERS)
    ),
    ("active", replace(SEEN, active=frozenset({"billing"})), SWITCHOVER, BlockerCode.GROUP_ACTIVE_AT_TARGET),
    (
        "a part of a group that is copied nowhere",
        replace(SEEN, places=[place(), place(source_topic="audit", target_topic=None, target_offset=None)]),
        SWITCHOVER,
        BlockerCode.GROUP_WITHOUT_PLACE,
    ),
    (
        "what it reads of the other side",
        replace(
            SEEN,
            places=[place(), place(source_topic="west.orders", status="gone")],
            elsewhere=frozenset({("west.orders", "orders")}),
        ),
        SWITCHOVER,
        BlockerCode.GROUP_WITHOUT_PLACE,
    ),
    (
        "groups not listed",
        replace(SEEN, source=DEAD, unread_groups={"": "permitted_listed"}),
        FAILOVER,
        BlockerCode.GROUPS_UNKNOWN,
    ),
    (
        "no groups recorded",
        replace(SEEN, unread_groups={"": "not_recorded"}),
        SWITCHOVER,
        BlockerCode.GROUPS_UNKNOWN,
    ),
    (
        "hidden group",
        replace(SEEN, unread_groups={"x": "hidden"}),
        SWITCHOVER,
        BlockerCode.GROUPS_UNKNOWN,
    ),
    (
        "no rule for the mirror",
        replace(SEEN, shut_out_problem="west has no authorizer"),
        SWITCHOVER,
        BlockerCode.MIRROR_NOT_SHUT_OUT,
    ),
    ("no fence", replace(SEEN, fence_refusal="east has no authorizer"), SWITCHOVER, BlockerCode.FENCE),
    (
        "a fence of the target where nothing is promoted",
        replace(SEEN, flows=[flow(config={"target_mode": TargetMode.SHARED})], target_fences=[fence("hook")]),
        SWITCHOVER,
        BlockerCode.TARGET_FENCED,
    ),
    (
        "lag",
        replace(SEEN, objectives={Objective.MAX_LAG_RECORDS: 3}, losses=[loss(4, 1.0)]),
        SWITCHOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "unknown lag",
        replace(SEEN, objectives={Objective.MAX_LAG_SECONDS: 3}, losses=[loss(None, None)]),
        SWITCHOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "loss",
        replace(SEEN, source=DEAD, objectives={Objective.MAX_LOSS_SECONDS: 3}, losses=[loss(4, 4.0)]),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "loss until now",
        replace(SEEN, source=DEAD, objectives={Objective.MAX_LOSS_SECONDS: 5}, losses=[loss(4, 4.0)]),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "loss of at least so long",
        replace(
            SEEN,
            source=DEAD,
            objectives={Objective.MAX_LOSS_SECONDS: 60},
            losses=[{**loss(4, 4.0), "seconds_bound": "at_least"}],
        ),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "loss with what came since",
        replace(
            SEEN,
            source=DEAD,
            objectives={Objective.MAX_LOSS_RECORDS: 10},
            losses=[{**loss(4, 4.0), "estimate": 7, "at_most": 11}],
        ),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "loss with an unknown estimate",
        replace(
            SEEN,
            source=DEAD,
            objectives={Objective.MAX_LOSS_RECORDS: 10},
            losses=[{**loss(4, 4.0), "estimate": None, "at_most": None}],
        ),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "downtime",
        replace(SEEN, objectives={Objective.MAX_DOWNTIME_SECONDS: 20}),
        SWITCHOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "unknown downtime",
        replace(SEEN, source=DEAD, objectives={Objective.MAX_DOWNTIME_SECONDS: 20}),
        FAILOVER,
        BlockerCode.OBJECTIVE,
    ),
    (
        "repeats",
        replace(SEEN, objectives={Objective.MAX_REPEATS_PER_GROUP: 1}),
        SWITCHOVER,
        BlockerCode.OBJECTIVE,
    ),
    ("no way back", replace(SEEN, reverse_flows={}), SWITCHOVER, BlockerCode.NO_REVERSE_FLOW),
    (
        "an old copy of the ledger",
        replace(
            SEEN, source=DEAD, flows=[flow(driver=RoleVerdict.HOLDER_SILENT, unrecorded=[("orders", 0)])]
        ),
        FAILOVER,
        BlockerCode.UNRECORDED_COPIES,
    ),
]


@pytest.mark.parametrize(
    ("seen", "kind", "code"), [case[1:] for case in _BLOCKED], ids=[case[0] for case in _BLOCKED]
)
def test_each_reason_alone_blocks_it_and_says_what_to_do(
    seen: Seen, kind: ChangeoverKind, code: BlockerCode
) -> None:
    found = made(seen, kind)
    assert {one.code for one in found.blockers} == {code}
    assert all(one.words and one.advice for one in found.recorded_blockers)
    assert found.plan.blockers == (code,)


@pytest.mark.parametrize(
    ("seen", "choices"),
    [
        (replace(SEEN, places=[place(status="gone")]), {"accepted": ("gone",)}),
        (replace(SEEN, objectives={Objective.MAX_REPEATS_PER_GROUP: 1}), {"despite_objectives": True}),
        (replace(SEEN, objectives={Objective.MAX_LOSS_RECORDS: 0}, losses=[loss(4, 1.0)]), {}),
        (replace(SEEN, reverse_flows={}), {"reverse": False}),
        (replace(SEEN, shut_out_problem="no authorizer"), {"abort_marker": True}),
        (replace(SEEN, shut_out_problem="no authorizer"), {"accept_unproven_shut_out": True}),
        (replace(SEEN, unread_groups={"x": "hidden"}), {"groups": ("billing",)}),
        (replace(SEEN, unread_groups={"": "permitted_listed"}), {"groups": ("billing",)}),
        (replace(SEEN, unread_groups={"": "permitted_listed"}), {"accepted": ("permitted_listed",)}),
        (replace(SEEN, places=[place(), place("other", target_offset=None)]), {"groups": ("billing",)}),
    ],
)
def test_what_is_accepted_or_left_out_does_not_block_it(seen: Seen, choices: dict[str, Any]) -> None:
    assert made(seen, **choices).blockers == ()


def test_what_a_group_at_work_read_first_is_copied_by_a_switchover_before_it_moves() -> None:
    at_work = replace(SEEN, places=[place(status="ahead")])
    assert made(at_work).blockers == ()


def test_of_a_failover_it_is_lost_and_no_reason_against_it() -> None:
    lost = made(replace(SEEN, source=DEAD, places=[place(status="ahead"), place("audit")]), FAILOVER)
    assert (lost.blockers, lost.forecast["groups_ahead"]) == ((), 1)
    assert repeated_words(lost.forecast) == (
        "at least 4 records by 2 groups (commits last recorded 1970-01-01 00:00:01Z, 2 s unseen); 1 group had read "
        "more than is copied"
    )


def nowhere(group: str, **changed: Any) -> Row:
    """A commit on a topic that no flow copies to the target."""
    return place(
        group,
        source_topic="audit",
        target_topic=None,
        target_offset=None,
        status="no_map",
        repeated=None,
        **changed,
    )


def test_groups_move_with_all_that_they_read_and_others_stay() -> None:
    back = place(source_topic="west.orders", target_topic="orders", repeated=1)
    replica = place("shipping", source_topic="orders_here", target_topic="orders", repeated=0)
    rows = [
        place(target_topic="east.orders"),
        back,
        replica,
        nowhere("auditors"),
        nowhere("billing", absence="gone"),
    ]
    positions = [position(target="east.orders", target_id="W-east.orders")]
    topics = {"east.orders": "W-east.orders"}
    prefixed = flow(positions=positions, config={"topic_naming": NamingKind.PREFIX})
    ways = frozenset({("west.orders", "orders"), ("orders_here", "orders")})
    seen = replace(
        SEEN, flows=[prefixed], places=rows, target=replace(WEST, topic_ids=topics), elsewhere=ways
    )
    found = made(seen)
    assert found.blockers == ()
    assert (found.forecast["groups"], found.forecast["repeated"]) == (3, 3)
    assert found.forecast["groups_without_place"] == 1, "it stays, and is told of"
    scope = Scope(topics=found.plan.topics, choices=Choices(), elsewhere=ways)
    assert scope.moving(rows) == rows[:3]
    assert scope.read_topics(rows) == {"orders", "west.orders", "orders_here"}
    of_topic = replace(scope, choices=Choices(topics=("east.orders",)))
    assert of_topic.moving(rows) == rows[:1]
    same = replace(scope, topics=made().plan.topics, choices=Choices(topics=("orders",)))
    assert [row["source_topic"] for row in same.moving(rows)] == ["orders", "west.orders", "orders_here"], (
        "one topic, from wherever it comes to both"
    )
    assert made(seen, groups=("auditors",)).plan.blockers == (BlockerCode.GROUP_WITHOUT_PLACE,)


def test_partitions_of_a_topic_on_which_a_group_has_no_place_for_one_reason_are_one_blocker() -> None:
    places = [
        *(
            place(source_partition=at, target_partition=at, status="no_commit", target_offset=None)
            for at in (9, 0, 1, 2)
        ),
        place(source_partition=3, target_partition=3, status="gone"),
        place("auditors", source_partition=4, target_partition=4, status="no_commit", target_offset=None),
        place(source_partition=5, target_partition=5),
        place(source_partition=6, target_partition=7),
    ]
    hindered = {("billing", "orders", at): Outcome.GROUP_DENIED for at in (5, 7)}
    found = made(replace(SEEN, places=places, hindered=hindered)).blockers
    denied = f"{Outcome.GROUP_DENIED}, {ADVICE[Outcome.GROUP_DENIED]}"
    assert [one.words for one in found] == [
        f"billing at orders partitions 5, 7: {denied}",
        "auditors at orders partition 4: no_commit",
        "billing at orders partition 3: gone is not accepted",
        "billing at orders partitions 0-2, 9: no_commit",
    ]


def test_no_fence_at_all_needs_a_reason() -> None:
    assert made(fence=FenceChoice.NONE).plan.blockers == (BlockerCode.FENCE,)
    assert made(fence=FenceChoice.NONE, unproven="it burns").blockers == ()


@pytest.mark.parametrize(
    ("kind", "step", "choices", "words"),
    [
        (FAILOVER, StepName.STOP_GROUPS, {}, "this plan has no such step"),
        (SWITCHOVER, StepName.FENCE, {}, "with --fence closed it would never run"),
        (SWITCHOVER, StepName.FENCE, {"fence": FenceChoice.SHUT}, "with --fence shut it would never run"),
    ],
)
def test_a_hook_that_would_never_run_is_refused(
    kind: ChangeoverKind, step: StepName, choices: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=f"--hook {step}.*{words}.*nothing was planned"):
        planned(kind, SEEN, Choices(**choices), {step: "/opt/stop"})
    runs = {StepName.STOP_PRODUCERS: "/opt/stop", StepName.FENCE: "/opt/fence"}
    made_of_both = planned(kind, SEEN, Choices(fence=FenceChoice.HOOK), runs)
    assert made_of_both.plan.hooks == runs


def test_a_failover_needs_neither_the_source_nor_its_driver() -> None:
    seen = replace(SEEN, source=DEAD, flows=[flow(driver=RoleVerdict.HOLDER_DEAD)])
    assert made(seen, FAILOVER).blockers == ()
    assert made(SEEN, FAILOVER, source_given_up=True).blockers == ()


@pytest.mark.parametrize("config", [{"target_mode": TargetMode.SHARED}, {"topic_naming": NamingKind.PREFIX}])
def test_where_nothing_can_be_promoted_only_groups_and_producers_move(config: dict[str, Any]) -> None:
    found = made(
        replace(SEEN, flows=[flow(config=config)], reverse_flows={}, shut_out_problem="no authorizer")
    )
    assert found.blockers == ()
    assert StepName.PROMOTE not in found.plan.steps
    assert {StepName.FENCE, StepName.DRAIN, StepName.MOVE_GROUPS} <= set(found.plan.steps)


def test_a_fence_of_the_target_is_lifted_for_applications_where_it_is_promoted() -> None:
    closed = replace(SEEN, target_fences=[fence("closed")])
    assert made(closed).blockers == ()
    assert StepName.HAND_OVER in made(closed).plan.steps
    shared = replace(closed, flows=[flow(config={"target_mode": TargetMode.SHARED})], reverse_flows={})
    assert made(shared).plan.blockers == (BlockerCode.TARGET_FENCED,)
    assert made(replace(shared, target_fences=[fence("closed", "users")])).blockers == ()


def test_flows_of_both_kinds_are_planned_apart() -> None:
    prefixed = flow("other", config={"topic_naming": NamingKind.PREFIX}, positions=[position("users")])
    seen = replace(SEEN, flows=[flow(), prefixed])
    with pytest.raises(UsageError, match="each kind apart"):
        made(seen)
    assert made(seen, topics=("orders",)).plan.flows == ("flow",)


def test_there_has_to_be_something_to_plan_about() -> None:
    with pytest.raises(UsageError, match="no flow of the configuration"):
        made(replace(SEEN, flows=[]))
    with pytest.raises(UsageError, match="what --topic names"):
        made(topics=("none",))
    with pytest.raises(PreconditionError, match="copied nothing yet"):
        made(replace(SEEN, flows=[flow(positions=[])]))


def test_of_a_recreated_topic_the_incarnation_that_was_copied_last_is_meant() -> None:
    seen = replace(SEEN, flows=[flow(positions=[position(), position(source="old")])])
    assert [one.source_topic_id for one in made(seen).plan.topics] == ["E-orders"]


@pytest.mark.parametrize(
    ("losses", "records", "seconds"),
    [
        ([loss(3, 2.0), loss(4, 9.0), loss(0, 0.0)], 7, 9.0),
        ([loss(3, 2.0), loss(None, None)], None, None),
        ([loss(0, 0.0)], 0, 0),
    ],
)
def test_what_would_be_lost_is_summed_and_unknown_stays_unknown(
    losses: list[Row], records: int | None, seconds: float | None
) -> None:
    forecast = made(replace(SEEN, losses=losses)).forecast
    assert (forecast["records_lost"], forecast["seconds_lost"]) == (records, seconds)


def test_groups_at_earlier_commits_are_counted_and_said() -> None:
    earlier = place("shipping", outputs="earlier_commit", repeated=5)
    found = made(replace(SEEN, places=[place(outputs="copied"), earlier, {**earlier, "source_partition": 1}]))
    assert found.forecast["groups_at_earlier_commits"] == 1
    assert "1 group at an earlier commit" in repeated_words(found.forecast)
    assert "earlier commit" not in repeated_words(made().forecast)


# -- Objectives ------------------------------------------------------------------------------------


def test_state_of_a_streams_application_is_none_after_a_failover() -> None:
    names = ("orders", "billing-totals-changelog", "audit-totals-changelog")
    topics = {name: f"W-{name}" for name in names}
    copied = flow(
        positions=[position(name) for name in names], incarnations={name: f"E-{name}" for name in names}
    )
    east = replace(EAST, topic_ids={name: f"E-{name}" for name in names})
    seen = replace(SEEN, source=east, target=replace(WEST, topic_ids=topics), flows=[copied])
    assert made(seen).blockers == (), "all of it is drained"
    dead = replace(seen, source=DEAD)
    [blocker] = made(dead, FAILOVER).blockers
    assert blocker.code is BlockerCode.CHANGELOG
    assert blocker.words.startswith("billing-totals-changelog is state of 'billing'")
    assert made(dead, FAILOVER, accepted=("changelog",)).blockers == ()


@pytest.mark.parametrize(("kind", "source"), [(SWITCHOVER, EAST), (FAILOVER, DEAD)])
def test_every_objective_is_compared_by_one_kind_of_plan(kind: ChangeoverKind, source: SeenCluster) -> None:
    allowed = dict.fromkeys(Objective, -1.0)
    seen = replace(SEEN, source=source, objectives=allowed, downtimes={SWITCHOVER: 1.0, FAILOVER: 1.0})
    found = {word for one in made(seen, kind).blockers for word in one.words.split() if word in {*Objective}}
    other = "max_loss" if kind is SWITCHOVER else "max_lag"
    assert found == {str(one) for one in Objective if not one.startswith(other)}
    assert made(replace(seen, objectives=dict.fromkeys(Objective, 100.0)), kind).blockers == ()


# -- Topics while it is carried out ----------------------------------------------------------------


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
