"""Handing a cluster over: in which order it is recorded and done, and that a crash anywhere loses nothing of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import count
from typing import Any

import pytest

from ledger.changeover.hand_over import (
    ClusterChanges,
    hand_over_rows,
    planned_for_applications,
    planned_for_mirror,
    require_promoted,
)
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError
from ledger.facts.acls import denial
from ledger.facts.direction import Directions, Promoted
from ledger.facts.fences import Fence, Unfenced
from ledger.facts.hand_overs import HandedOver, HandOvers, Purpose, TopicHandOver
from ledger.facts.operations import Why
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind
from ledger.facts.tables import OFFSET_SYNCS, PERMISSIONS, TOPICS
from ledger.topics.following import REQUIRED_AT_TARGET, SettingsChange
from ledger.topics.naming import NamingKind
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.hand_overs import (
    AT_EAST,
    DEFAULTS,
    FLOW,
    QUOTA,
    THERE,
    WANTED,
    WHY,
    CrashedError,
    Log,
    MemoryPermissionAdmin,
    Pairs,
    record_east,
    record_topics,
)
from tests.support.ledger_rows import row


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Pairs:
    found = Pairs()
    change = MemoryCluster.change_settings

    def stepped(cluster: MemoryCluster, name: str, **changes: Any) -> None:
        found.step()
        change(cluster, name, **changes)
        found.step()

    monkeypatch.setattr(MemoryCluster, "change_settings", stepped)
    found.west.default_settings = DEFAULTS
    for topic in AT_EAST:
        found.west.create_topic(topic, partitions=1, replication_factor=1, configuration=REQUIRED_AT_TARGET)
    found.permissions.create_permissions([THERE])
    record_east(found)
    return found


AFTER = {
    "orders": {"message.timestamp.type": "LogAppendTime", "retention.ms": "900"},
    "users": {"compression.type": "zstd"},
}


def lacking(plan: HandedOver) -> list[tuple[object, object]]:
    """Names of what would be changed, and how."""
    rows = hand_over_rows(plan)
    return [(row["name"], row["change"]) for row in rows if row["part"] in ("setting", "permission")]


def kinds(pairs: Pairs) -> list[str]:
    return [kind for _, kind, _ in pairs.recorded()]


def test_it_is_recorded_before_and_behind_and_nothing_of_east_is_asked(pairs: Pairs) -> None:
    done = pairs.hand_over()
    assert pairs.now() == (AFTER, {*WANTED, THERE})
    (first, kind, content), (last, result, read_back) = pairs.recorded()
    assert (kind, result, first, last) == (
        "handed_over",
        "hand_over_result",
        done.operation_id,
        done.operation_id,
    )
    assert (content["cluster"], content["former"], content["purpose"]) == ("west", "east", "applications")
    orders, _ = content["topics"]
    assert orders["before"] == {name: REQUIRED_AT_TARGET.get(name) for name in orders["before"]}
    assert orders["before"]["retention.ms"] is None
    assert read_back == {"of": "handed_over", "cluster": "west", "failed": []}
    assert {(one["reason"], one["ticket"], one["flow"]) for one in pairs.ledger.rows("operations")} == {
        ("a fire", "OPS-1", None)
    }
    assert (done.permissions, done.unknown) == (3, ())
    assert done.words.startswith("west: 9 settings of 2 topics and 3 permissions are as at east")


def test_asked_again_there_is_nothing_to_do_and_nothing_is_recorded(pairs: Pairs) -> None:
    pairs.hand_over()
    rows = pairs.recorded()
    again = pairs.hand_over()
    assert (again.operation_id, pairs.recorded()) == (None, rows)
    assert lacking(pairs.plan()) == []


def test_a_crash_anywhere_comes_to_the_same_end_under_one_operation_and_is_undone_exactly(
    pairs: Pairs,
) -> None:
    before = pairs.now()
    crashed = 0
    said = set()
    for crash_at in count():
        pairs.steps, pairs.crash_at = count(), crash_at
        try:
            alone = pairs.hand_over()
        except CrashedError:
            crashed += 1
        else:
            break
        has_begun = "handed_over" in kinds(pairs)
        begun_with = {one for one, kind, _ in pairs.recorded() if kind == "handed_over"}
        pairs.crash_at = None
        done = pairs.hand_over()
        assert pairs.now() == (AFTER, {*WANTED, THERE})
        changed = {one for one, kind, _ in pairs.recorded() if kind == "handed_over"}
        assert len(changed) == 1, "all runs are one operation"
        assert not has_begun or begun_with == changed
        assert pairs.state.hand_overs().unfinished("west", "east", Purpose.APPLICATIONS) is None
        [operation_id] = changed
        assert done.operation_id in (operation_id, None)
        said |= {done.words} if done.operation_id else set()
        pairs.undo(operation_id)
        assert pairs.now() == before, f"a crash at step {crash_at}"
        pairs.ledger = MemoryLedger()
        record_east(pairs)
    assert crashed > 8, "before and behind each change and each row"
    assert said == {alone.words}, "all that was handed over, by whatever attempt"


def test_undoing_comes_to_an_end_after_a_crash_anywhere(pairs: Pairs) -> None:
    before = pairs.now()
    said = set()
    for crash_at in count():
        done = pairs.hand_over()
        assert done.operation_id is not None
        pairs.steps, pairs.crash_at = count(), crash_at
        try:
            alone = pairs.undo(done.operation_id)
        except CrashedError:
            pairs.crash_at = None
            said.add(pairs.undo(done.operation_id).words)
            assert pairs.now() == before
            assert pairs.state.hand_overs().undone(done.operation_id, "west").open_under is None
        else:
            break
        pairs.crash_at = None
    assert crash_at > 8
    assert said == {alone.words}, "all that was undone, by whatever attempt"
    assert pairs.now() == before


def test_undoing_leaves_what_somebody_has_changed_since_and_what_was_there_before(pairs: Pairs) -> None:
    done = pairs.hand_over()
    pairs.west.change_settings("orders", to_set={"retention.ms": "7"}, to_remove=[])
    pairs.permissions.create_permissions([Permission(**{**asdict(QUOTA), "kind": QUOTA.kind, "value": 5.0})])
    assert done.operation_id is not None
    undone = pairs.undo(done.operation_id)
    settings, permissions = pairs.now()
    assert settings == {"orders": {**REQUIRED_AT_TARGET, "retention.ms": "7"}, "users": REQUIRED_AT_TARGET}
    assert {one for one in permissions if one.kind is PermissionKind.ACL} == {THERE}
    assert [one.value for one in permissions if one.kind is PermissionKind.QUOTA] == [5.0]
    assert undone.manual == ("retention.ms of orders", "quota of client-id app: producer_byte_rate 1000000")
    again = pairs.undo(done.operation_id)
    assert again.operation_id is None


def test_permissions_that_cannot_be_read_are_not_taken_for_undone(pairs: Pairs) -> None:
    done = pairs.hand_over()
    assert done.operation_id is not None
    rows, at_west = pairs.recorded(), pairs.now()
    pairs.west.allowed.unread = {PermissionKind.ACL: PermissionEvent.NOT_PERMITTED}
    with pytest.raises(PreconditionError, match=r"kind acl cannot be read \(not_permitted\)"):
        pairs.undo(done.operation_id)
    pairs.west.allowed.unread = {}
    assert (pairs.recorded(), pairs.now()) == (rows, at_west)


def test_what_is_no_longer_as_it_was_made_is_lacking(pairs: Pairs) -> None:
    pairs.hand_over()
    assert lacking(pairs.plan()) == []
    pairs.west.change_settings("users", to_set={"compression.type": "gzip"}, to_remove=[])
    pairs.permissions.delete_permissions([WANTED[1]])
    assert lacking(pairs.plan()) == [
        ("users", "set compression.type to zstd (gzip now)"),
        ("User:app", "create: allow User:app read on group billing"),
    ]


def test_a_topic_that_was_created_again_is_left(pairs: Pairs) -> None:
    done = pairs.hand_over()
    pairs.west.recreate_topic("orders")
    own = pairs.west.configurations(["orders"])
    assert done.operation_id is not None
    assert "orders (another topic, or not shown)" in pairs.undo(done.operation_id).manual
    assert pairs.west.configurations(["orders"]) == own


def test_an_operation_of_a_plan_has_its_own_id_and_is_not_mistaken_for_another(pairs: Pairs) -> None:
    done = pairs.hand_over(Why(reason="r", operation_id="apply-1"))
    assert done.operation_id == "apply-1"
    assert {one for one, _, _ in pairs.recorded()} == {"apply-1"}
    with pytest.raises(PreconditionError, match="operation other changed nothing of cluster west"):
        pairs.undo("other")
    pairs.west.format("another")
    with pytest.raises(PreconditionError, match="with id another; nothing was undone"):
        pairs.undo("apply-1")


def test_what_is_refused_leaves_the_others_done_and_is_continued(
    pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = MemoryCluster.change_settings

    def refusing(cluster: MemoryCluster, name: str, **changes: Any) -> None:
        if name == "orders":
            raise PreconditionError("west does not allow this principal to change orders; not done")
        allowed(cluster, name, **changes)

    monkeypatch.setattr(MemoryCluster, "change_settings", refusing)
    with pytest.raises(
        UnsafeError, match=r"1 parts were not done.*\n  settings of orders: west does not allow"
    ):
        pairs.hand_over()
    assert pairs.now() == ({**AFTER, "orders": REQUIRED_AT_TARGET}, {*WANTED, THERE})
    assert pairs.recorded()[-1][2]["failed"] == [
        "settings of orders: west does not allow this principal to change orders; not done"
    ]
    with pytest.raises(PreconditionError):
        pairs.hand_over()
    monkeypatch.setattr(MemoryCluster, "change_settings", allowed)
    done = pairs.hand_over()
    assert {one for one, _, _ in pairs.recorded()} == {done.operation_id}


def test_what_is_not_read_back_is_not_done(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryCluster, "change_settings", lambda *_, **__: None)
    monkeypatch.setattr(MemoryPermissionAdmin, "create_permissions", lambda *_: None)
    with pytest.raises(PreconditionError) as caught:
        pairs.hand_over()
    assert "settings of users: not as they were set" in str(caught.value)
    assert "allow User:app write on topic orders: not there" in str(caught.value)


def test_what_takes_a_while_to_show_is_waited_for(pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    late = MemoryPermissionAdmin.create_permissions
    waiting: list[list[Permission]] = []
    monkeypatch.setattr(
        MemoryPermissionAdmin, "create_permissions", lambda _, permissions: waiting.append(list(permissions))
    )
    sleep = Pairs.sleep

    def slept(found: Pairs, seconds: float) -> None:
        sleep(found, seconds)
        late(found.permissions, waiting[0])

    monkeypatch.setattr(Pairs, "sleep", slept)
    assert pairs.hand_over().operation_id is not None


def test_a_cluster_that_does_not_answer_leaves_an_operation_that_is_continued(pairs: Pairs) -> None:
    plan = pairs.plan()
    pairs.west.available = False
    with pytest.raises(ClusterUnavailableError):
        pairs.changes.hand_over(plan, pairs.state.hand_overs(), WHY)
    assert kinds(pairs) == ["handed_over"]
    pairs.west.available = True
    pairs.hand_over()
    assert len({one for one, _, _ in pairs.recorded()}) == 1


# What is known ----------------------------------------------------------------------------------


def test_what_nobody_knows_is_unknown_and_never_nothing_to_do(pairs: Pairs) -> None:
    pairs.ledger = MemoryLedger()
    record_east(pairs, unread={PermissionKind.QUOTA: PermissionEvent.NOT_PERMITTED})
    pairs.west.delete_topic("users")
    plan = pairs.plan()
    assert plan.unknown == (
        "users: not at west, or not shown to the principal that asks",
        "client quotas of east: not_permitted: the principal that asks may not read them",
    )
    assert QUOTA not in plan.permissions
    assert [one["part"] for one in hand_over_rows(plan)].count("unknown") == 2
    done = pairs.hand_over()
    assert (done.unknown, done.facts["unknown"]) == (plan.unknown, list(plan.unknown))
    assert "2 unknown" in done.words


def test_of_a_topic_that_east_has_no_more_settings_are_unknown_when_it_was_copied(pairs: Pairs) -> None:
    gone = row(
        TOPICS.name,
        writer="recorder:east",
        writer_epoch=1,
        round=2,
        cluster="east",
        topic="orders",
        topic_id="E-orders",
        configuration="{}",
        event="deleted",
    )
    pairs.ledger.append(TOPICS.name, [gone])
    assert [topic.source for topic in pairs.known().topics] == ["users"]
    with pytest.raises(PreconditionError, match="knows no topic orders that was copied from east to west"):
        pairs.known("orders")
    copied = {
        "flow": "f",
        "source_topic": "orders",
        "target_topic": "orders",
        "kind": "copied",
        "target_end": 1,
    }
    pairs.ledger.append(OFFSET_SYNCS.name, [row(OFFSET_SYNCS.name, **copied, source_end=1)])
    assert "orders: settings at east are not recorded" in pairs.plan().unknown


def fence(pairs: Pairs, *, former: Mapping[str, str | None], denied: tuple[str, ...] = ()) -> None:
    """Of topic users at east."""
    made = Fence(
        cluster="east",
        cluster_id="E",
        topic="users",
        topic_id="E-users",
        how="closed",
        proof="proven",
        denied=denied,
        former=former,
    )
    Log(pairs).record(made, flow=None, reason="r")


def test_rules_that_a_fence_of_east_made_are_not_handed_over(pairs: Pairs) -> None:
    rules = [denial("users", who) for who in ("User:app", "User:b")]
    stamp = {"writer": "recorder:east", "writer_epoch": 1, "round": 2, "cluster": "east", "cluster_id": "E"}
    pairs.ledger.append(
        PERMISSIONS.name,
        [
            row(PERMISSIONS.name, **stamp, **{**asdict(one), "kind": one.kind.value}, event="present")
            for one in rules
        ],
    )
    fence(pairs, former={}, denied=("User:app",))
    assert [one for one in pairs.plan().permissions if one in rules] == rules[1:]
    lifted = Unfenced(cluster="east", cluster_id="E", topic="users", topic_id="E-users", how="closed")
    Log(pairs).record(replace(lifted, denied=("User:app",)), flow=None, reason="r")
    assert [one for one in pairs.plan().permissions if one in rules] == rules[1:], (
        "nobody has read them since"
    )


def test_the_limit_before_a_fence_of_east_is_handed_over(pairs: Pairs) -> None:
    fenced_with: list[tuple[str | None, dict[str, str]]] = [
        ("3000", {"max.message.bytes": "3000"}),
        (None, {}),
    ]
    for number, limit in enumerate(("4000", "78"), start=2):
        fenced = row(
            TOPICS.name,
            writer="recorder:east",
            writer_epoch=1,
            round=number,
            cluster="east",
            topic="users",
            topic_id="E-users",
            configuration=json.dumps({"max.message.bytes": limit}),
            event="configuration_changed",
        )
        pairs.ledger.append(TOPICS.name, [fenced])
    for before, settings in fenced_with:
        fence(pairs, former={"max.message.bytes": before})
        [users] = pairs.known("users").topics
        assert (users.settings, users.limit_is_known) == (settings, True), (
            "what a fence's receipt says counts"
        )
    fence(pairs, former={})
    pairs.hand_over()
    assert pairs.now()[0]["users"] == {"max.message.bytes": "4000"}


def test_only_named_topics_are_handed_over(pairs: Pairs) -> None:
    plan = planned_for_applications(pairs.known("users"), pairs.west, pairs.permissions)
    assert [topic.topic for topic in plan.topics] == ["users"]
    assert plan.permissions == (WANTED[1], QUOTA), "the principal has a rule about users"


def test_of_topics_with_other_names_settings_stay(pairs: Pairs) -> None:
    prefixed = FLOW.model_copy(update={"topic_naming": NamingKind.PREFIX})
    pairs.west.create_topic("east.orders", partitions=1, replication_factor=1, configuration={})
    plan = planned_for_applications(pairs.known(flow=prefixed), pairs.west, pairs.permissions)
    assert plan.topics == ()
    require_promoted(pairs.known(flow=prefixed), Directions())


def test_a_topic_that_is_not_promoted_is_refused(pairs: Pairs) -> None:
    promoted = Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=("orders",))
    directions = Directions(((promoted, "by anna"),))
    require_promoted(pairs.known("orders"), directions)
    with pytest.raises(
        PreconditionError, match=r"^users of west is not promoted over east.*nothing was changed"
    ):
        require_promoted(pairs.known(), directions)


def test_the_former_cluster_gets_what_a_copy_back_needs_and_its_own_settings_again(pairs: Pairs) -> None:
    pairs.hand_over()
    pairs.west.change_settings("orders", to_set={"max.message.bytes": "2000"}, to_remove=[])
    east = MemoryCluster("east", pairs.west.clock, default_settings=DEFAULTS)
    for topic, own in AT_EAST.items():
        east.create_topic(topic, partitions=1, replication_factor=1, configuration=own)
    before = east.configurations(list(AT_EAST))
    plan = planned_for_mirror(pairs.known(), east, pairs.west)
    assert (plan.cluster, plan.former, plan.permissions) == ("east", "west", ())
    changes = ClusterChanges(
        admin=east,
        permissions=MemoryPermissionAdmin(east),
        operations=Log(pairs),
        clock=pairs.west.clock,
        sleep=pairs.sleep,
    )
    wanted = planned_for_applications(pairs.known(), pairs.west, pairs.permissions)
    done = changes.hand_over(plan, pairs.state.hand_overs(), WHY)
    assert east.configurations(list(AT_EAST)) == {
        "orders": {
            "message.timestamp.type": "CreateTime",
            "retention.ms": "900",
            "max.message.bytes": "2000",
        },
        "users": {"compression.type": "producer"},
    }
    assert lacking(planned_for_mirror(pairs.known(), east, pairs.west)) == []
    ids = {name: topic.topic_id for name, topic in east.topic_by_name.items()}
    record_topics(pairs, east.configurations(list(AT_EAST)), ids, at_round=2)
    assert planned_for_applications(pairs.known(), pairs.west, pairs.permissions) == wanted, "none is carried"
    assert done.operation_id is not None
    changes.undo(done.operation_id, pairs.state.hand_overs(), WHY)
    assert east.configurations(list(AT_EAST)) == before
    assert pairs.state.hand_overs().given_to_mirror("east") == {}


def test_what_a_cluster_has_for_copies_is_known_until_applications_come_there() -> None:
    def given(*purposes: Purpose, cluster: str = "east") -> dict[str, object]:
        made = [handed_over(cluster, one, str(number)) for number, one in enumerate(purposes)]
        found = HandOvers(tuple(("operation", one) for one in made)).given_to_mirror("east")
        return {topic: dict(one.change.to_set) for (topic, _), one in found.items()}

    mirror, applications = Purpose.MIRROR, Purpose.APPLICATIONS
    assert given(mirror, mirror) == {"orders": {"retention.ms": "1"}}
    assert given(mirror, applications) == given(mirror, cluster="west") == {}
    assert given(mirror, applications, mirror) == {"orders": {"retention.ms": "2"}}


def handed_over(cluster: str, purpose: Purpose, value: str) -> HandedOver:
    """One setting of one topic."""
    change = SettingsChange({"retention.ms": value})
    topic = TopicHandOver(topic="orders", topic_id="T", change=change, former={"retention.ms": None})
    return HandedOver(
        cluster=cluster,
        cluster_id="C",
        former="other",
        purpose=purpose,
        topics=(topic,),
        permissions=(),
        unknown=(),
        manual=(),
    )
