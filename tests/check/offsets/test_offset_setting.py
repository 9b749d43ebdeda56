"""Setting offsets at a target: what is refused, what is overwritten, what is recorded, and what is read back."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.changeover.groups import moved_commits, take_groups_back
from ledger.errors import ClusterUnavailableError, ShutOutError
from ledger.facts.groups import CommitRefusal, NewCommit
from ledger.facts.operations import Why
from ledger.offsets.setting import (
    ADVICE,
    Answer,
    Basis,
    Choice,
    EarlierAttempts,
    Outcome,
    Rules,
    Setting,
    SourceCommit,
    SourceCommits,
    TargetGroups,
    intentions,
    not_below_log_start,
    result_row,
    set_and_record,
)
from tests.simulation.kafka.cluster import Access, MemoryCluster
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import Dying, FakeClock
from tests.support.ledgers import operators

AT_SOURCE = ("billing", "orders", 0)
LEFT = SourceCommits("east", {AT_SOURCE: SourceCommit(topic_id="T", leader_epoch=3, made_after_ms=1700)})
BASIS = Basis("east-to-west", "v2.cut", LEFT, ())
WHY = Why("failover", "OPS-1")
ANSWER: Answer = {
    "group_id": "billing",
    "source_topic": "orders",
    "source_partition": 0,
    "committed_offset": 9,
    "target_topic": "east.orders",
    "target_partition": 0,
    "target_offset": 7,
    "status": "exact",
    "absence": None,
    "metadata": "a note",
}
AT = ("billing", "east.orders", 0)
RULES = Rules(Choice())


@dataclass
class Target:
    """A cluster with one topic of two partitions, and a ledger to which operators write."""

    cluster: MemoryCluster
    ledger: MemoryLedger

    def answer(self, **values: object) -> Answer:
        topic_id = self.cluster.topic_by_name["east.orders"].topic_id
        return {**ANSWER, "target_topic_id": topic_id, **values}

    def plan(self, *answers: Answer, choice: Choice | None = None) -> list[Setting]:
        shared = {row["group_id"] for row in answers if row.get("group_type") == "share"}
        groups = TargetGroups.read(self.cluster, {row["group_id"] for row in answers} - shared, shared)
        return Rules(choice or Choice()).judged(answers, groups)

    def set(self, *answers: Answer, choice: Choice | None = None, basis: Basis = BASIS) -> list[Setting]:
        log = operators(self.ledger, self.cluster.clock)
        _, done = set_and_record(
            self.cluster,
            self.plan(*answers, choice=choice),
            log,
            basis,
            WHY,
            Rules(choice or Choice()),
        )
        return done

    def recorded(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Operation id, kind and content of each row."""
        return [
            (row["operation_id"], row["kind"], json.loads(row["content"]))
            for row in self.ledger.rows("operations")
        ]


@pytest.fixture
def target() -> Target:
    cluster = MemoryCluster("west", FakeClock())
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    return Target(cluster, MemoryLedger())


def outcomes(settings: Sequence[Setting]) -> list[Outcome]:
    return [one.outcome for one in settings]


def test_an_offset_is_set_with_its_metadata_and_recorded_before_and_behind(target: Target) -> None:
    [done] = target.set(target.answer())
    assert (done.outcome, done.former) == (Outcome.SET, None)
    assert (target.cluster.committed[AT], target.cluster.committed_metadata[AT]) == (7, "a note")
    (intended_id, kind, intended), (result_id, result_kind, result) = target.recorded()
    assert (kind, result_kind) == ("offsets_set", "offsets_set_result")
    assert intended_id == result_id
    assert (intended["group"], intended["cut"]) == ("billing", "v2.cut")
    assert (intended["source_cluster"], intended["target_cluster"]) == ("east", "west")
    assert intended["commits"] == [
        {
            "topic": "east.orders",
            "topic_id": target.answer()["target_topic_id"],
            "partition": 0,
            "former": None,
            "to": 7,
            "source_topic": "orders",
            "source_topic_id": "T",
            "source_partition": 0,
            "source_offset": 9,
            "source_leader_epoch": 3,
            "source_made_after_ms": 1700,
            "status": "exact",
        }
    ]
    assert [(one["partition"], one["to"], one["result"]) for one in result["results"]] == [(0, 7, "set")]
    assert {(row["reason"], row["ticket"], row["flow"]) for row in target.ledger.rows("operations")} == {
        ("failover", "OPS-1", "east-to-west")
    }


@pytest.mark.parametrize(
    ("others", "topic_id"),
    [
        ({("billing", "orders", 1): "T", ("billing", "orders", 2): "T"}, "T"),
        ({("billing", "orders", 1): "T", ("billing", "orders", 2): "S"}, None),
        ({("audit", "orders", 1): "S", ("billing", "audit", 1): "S", ("billing", "orders", 1): "T"}, "T"),
    ],
    ids=["of one id", "of several", "not of other groups and topics"],
)
def test_without_a_commit_the_groups_others_on_the_topic_say_which_topic_it_was(
    target: Target, others: dict[tuple[str, str, int], str], topic_id: str | None
) -> None:
    left = SourceCommits(
        "east", {at: SourceCommit(topic_id=found, leader_epoch=3) for at, found in others.items()}
    )
    answer = target.answer(committed_offset=None, status="no_commit_empty")
    target.set(answer, basis=replace(BASIS, left=left))
    [(_, _, intended), _] = target.recorded()
    [commit] = intended["commits"]
    assert (commit["source_offset"], commit["source_topic_id"]) == (None, topic_id)
    assert (commit["source_leader_epoch"], commit["source_made_after_ms"]) == (None, None)


def test_what_is_set_already_is_left_and_nothing_is_recorded(target: Target) -> None:
    target.set(target.answer())
    rows = len(target.recorded())
    assert outcomes(target.set(target.answer())) == [Outcome.ALREADY_SET]
    assert len(target.recorded()) == rows


def test_a_commit_beyond_the_answer_is_taken_back_only_when_told(target: Target) -> None:
    target.cluster.committed[AT] = 8
    assert outcomes(target.set(target.answer())) == [Outcome.NEWER]
    assert target.cluster.committed[AT] == 8
    assert outcomes(target.set(target.answer(), choice=Choice(overwrite_newer=True))) == [Outcome.SET]
    assert target.cluster.committed[AT] == 7


def test_a_commit_beyond_the_answer_that_a_driver_has_synced_is_replaced(target: Target) -> None:
    target.cluster.committed[AT] = 8
    groups = TargetGroups.read(target.cluster, {"billing"})

    def plan(synced: dict[tuple[str, str, int], set[int]]) -> list[Outcome]:
        return outcomes(Rules(Choice(), synced).judged([target.answer()], groups))

    assert plan({AT: {8}}) == [Outcome.TO_BE_SET]
    assert plan({AT: {9}}) == [Outcome.NEWER]
    assert plan({("audit", "east.orders", 0): {8}}) == [Outcome.NEWER]


def test_a_commit_at_the_answer_that_a_driver_has_synced_is_set_so_that_the_move_is_recorded(
    target: Target,
) -> None:
    target.cluster.committed[AT] = 7
    groups = TargetGroups.read(target.cluster, {"billing"})
    [followed] = Rules(Choice(), {AT: {7}}).judged([target.answer()], groups)
    [by_itself] = Rules(Choice(), {}).judged([target.answer()], groups)
    assert (followed.outcome, by_itself.outcome) == (Outcome.TO_BE_SET, Outcome.ALREADY_SET)


def test_a_commit_below_the_answer_moves_on(target: Target) -> None:
    target.cluster.committed[AT] = 6
    [done] = target.set(target.answer())
    assert (done.outcome, done.former, target.cluster.committed[AT]) == (Outcome.SET, 6, 7)


def deny_topic(target: Target) -> None:
    target.cluster.denied.add(("east.orders", Access.READ))


@pytest.mark.parametrize(
    ("happen", "outcome"),
    [
        (lambda target: target.cluster.members.add("billing"), Outcome.HAS_MEMBERS),
        (lambda target: target.cluster.denied_groups.add("billing"), Outcome.GROUP_DENIED),
        (deny_topic, Outcome.TOPIC_DENIED),
        (lambda target: target.cluster.recreate_topic("east.orders"), Outcome.OTHER_TOPIC),
        (lambda target: target.cluster.delete_topic("east.orders"), Outcome.OTHER_TOPIC),
    ],
)
def test_what_the_target_does_not_allow_is_left_out_by_name(
    target: Target, happen: Callable[[Target], None], outcome: Outcome
) -> None:
    answer = target.answer()
    happen(target)
    assert outcomes(target.set(answer)) == [outcome]
    assert AT not in target.cluster.committed
    assert outcome in ADVICE


@pytest.mark.parametrize(
    ("values", "accepted", "outcome"),
    [
        ({"status": "no_map", "target_offset": None, "target_topic": None}, (), Outcome.NO_ANSWER),
        ({"status": "no_map", "target_offset": None, "target_topic": None}, ("no_map",), Outcome.LEFT),
        ({"status": "no_commit", "target_offset": None}, (), Outcome.NO_ANSWER),
        ({"status": "no_commit", "target_offset": None}, ("no_commit",), Outcome.LEFT),
        ({"status": "lost"}, (), Outcome.NOT_ACCEPTED),
        ({"status": "lost"}, ("lost",), Outcome.SET),
        ({"status": "lost", "absence": "gone"}, ("lost",), Outcome.NOT_ACCEPTED),
        ({"status": "no_commit", "committed_offset": None}, (), Outcome.NOT_ACCEPTED),
        ({"status": "no_commit", "committed_offset": None, "metadata": None}, ("no_commit",), Outcome.SET),
        ({"status": "no_commit_empty", "committed_offset": None}, (), Outcome.SET),
    ],
)
def test_what_is_odd_about_an_answer_is_to_be_accepted_as_for_a_file(
    target: Target, values: dict[str, object], accepted: tuple[str, ...], outcome: Outcome
) -> None:
    assert outcomes(target.set(target.answer(**values), choice=Choice(accepted))) == [outcome]


def test_a_member_that_joins_in_between_is_the_targets_refusal(target: Target) -> None:
    plan = target.plan(target.answer())
    target.cluster.members.add("billing")
    _, done = set_and_record(
        target.cluster, plan, operators(target.ledger, target.cluster.clock), BASIS, WHY, RULES
    )
    assert outcomes(done) == [Outcome.HAS_MEMBERS]


@dataclass
class Meddled(MemoryCluster):
    """Somebody else commits for the group right behind."""

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        refused = MemoryCluster.set_commits(self, group, commits)
        self.committed |= {(group, commit.topic, commit.partition): 99 for commit in commits}
        return refused


def test_what_is_read_back_is_what_counts() -> None:
    cluster = Meddled("west", FakeClock())
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    target = Target(cluster, MemoryLedger())
    assert outcomes(target.set(target.answer())) == [Outcome.NOT_KEPT]


@dataclass
class Busy(MemoryCluster):
    """`jobs`: by a group whose offsets are being set, what another one reads at that moment."""

    jobs: dict[str, Callable[[], None]] = field(default_factory=dict)

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        self.jobs.pop(group, lambda: None)()
        return MemoryCluster.set_commits(self, group, commits)


@pytest.fixture
def busy() -> tuple[Busy, Target]:
    cluster = Busy("west", FakeClock())
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    return cluster, Target(cluster, MemoryLedger())


def of_two_groups(target: Target, choice: Choice | None = None) -> dict[str, Setting]:
    """Both groups of a source are set: `audit` first."""
    left = SourceCommits("east", {(group, "orders", 0): SourceCommit(topic_id="T") for group in GROUPS})
    answers = [target.answer(group_id=group) for group in GROUPS]
    return {one.group_id: one for one in target.set(*answers, choice=choice, basis=replace(BASIS, left=left))}


GROUPS = ("audit", "billing")


@pytest.mark.parametrize("while_setting", GROUPS)
def test_what_a_job_has_read_meanwhile_is_never_taken_back(
    busy: tuple[Busy, Target], while_setting: str
) -> None:
    cluster, target = busy
    cluster.jobs[while_setting] = lambda: cluster.committed.update({AT: 9})
    found = of_two_groups(target)["billing"]
    assert (found.outcome, found.former, cluster.committed[AT]) == (Outcome.NEWER, 9, 9)
    [*_, (_, _, told)] = target.recorded()
    assert [(one["former"], one["result"]) for one in told["results"]] == [(9, "newer")]


@pytest.mark.parametrize("while_setting", GROUPS)
def test_what_is_overwritten_is_what_stood_there_last(busy: tuple[Busy, Target], while_setting: str) -> None:
    cluster, target = busy
    cluster.jobs[while_setting] = lambda: cluster.committed.update({AT: 5})
    found = of_two_groups(target)["billing"]
    assert (found.outcome, found.former, cluster.committed[AT]) == (Outcome.SET, 5, 7)
    [moved] = [one for one in moved_commits(target.ledger.rows("operations")) if one.group == "billing"]
    assert moved.former == 5, "an undo would remove what the job has committed"
    take_groups_back(cluster, [moved])
    assert cluster.committed[AT] == 5


def test_commits_that_go_on_moving_are_left_to_who_makes_them(busy: tuple[Busy, Target]) -> None:
    cluster, target = busy

    def reads() -> None:
        cluster.committed[AT] = cluster.committed.get(AT, 2) + 1
        cluster.jobs["billing"] = reads

    cluster.jobs["billing"] = reads
    found = of_two_groups(target)["billing"]
    assert found.outcome is Outcome.MOVED_BY_OTHERS
    assert cluster.committed[AT] == 4


def test_who_was_followed_by_another_process_sets_nothing_more(busy: tuple[Busy, Target]) -> None:
    cluster, target = busy
    followed: list[bool] = []

    def require_own() -> None:
        if followed:
            raise ShutOutError("another process goes on with it")

    cluster.jobs["audit"] = lambda: followed.append(True)
    groups = ["audit", *(f"billing-{number:02}" for number in range(25))]
    left = SourceCommits("east", {(group, "orders", 0): SourceCommit(topic_id="T") for group in groups})
    with pytest.raises(ShutOutError):
        set_and_record(
            cluster,
            target.plan(*(target.answer(group_id=group) for group in groups)),
            operators(target.ledger, cluster.clock),
            replace(BASIS, left=left),
            WHY,
            RULES,
            require_own=require_own,
        )
    assert {group for group, _, _ in cluster.committed} == {*groups[:-1]}, "those that were set at once"


def test_a_place_below_the_log_start_of_now_is_expired_and_to_be_accepted(
    busy: tuple[Busy, Target],
) -> None:
    cluster, target = busy
    plan = target.plan(target.answer())
    log = cluster.log("east.orders", 0)
    for _ in range(10):
        log.append(application_batch([content(b"k", b"v")], [1]), now_ms=1)
    log.delete_before(8)

    def set_now(*accepted: str, settings: Sequence[Setting]) -> Setting:
        rules = Rules(Choice(accepted))
        _, [done] = set_and_record(
            cluster, settings, operators(target.ledger, cluster.clock), BASIS, WHY, rules
        )
        return done

    done = set_now(settings=plan)
    assert (done.outcome, done.answer["status"]) == (Outcome.NOT_ACCEPTED, "expired_on_target")
    assert AT not in cluster.committed
    done = set_now("expired_on_target", settings=plan)
    assert (done.outcome, cluster.committed[AT]) == (Outcome.SET, 8)
    *_, (_, _, about), _ = target.recorded()
    assert [(one["to"], one["status"]) for one in about["commits"]] == [(8, "expired_on_target")]

    there = target.plan(*not_below_log_start([target.answer()], cluster))
    assert outcomes(there) == [Outcome.ALREADY_SET], "somebody has put it there, and so accepted it"
    assert [one.answer["expired"] for one in there] == [1]


def test_when_the_target_dies_the_intention_tells_what_may_have_been_set() -> None:
    cluster = Dying("west", FakeClock())
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    target = Target(cluster, MemoryLedger())
    with pytest.raises(ClusterUnavailableError):
        target.set(target.answer())
    assert [(kind, content["group"]) for _, kind, content in target.recorded()] == [
        ("offsets_set", "billing")
    ]
    cluster.available = True
    assert outcomes(target.plan(target.answer())) == [Outcome.ALREADY_SET]


def test_more_than_a_hundred_groups_are_set_in_parts_of_one_operation(target: Target) -> None:
    groups = [f"group-{number}" for number in range(101)]
    left = SourceCommits("east", {(group, "orders", 0): SourceCommit(topic_id="T") for group in groups})
    answers = [target.answer(group_id=group) for group in groups]
    assert set(outcomes(target.set(*answers, basis=replace(BASIS, left=left)))) == {Outcome.SET}
    told = target.recorded()
    assert len({operation_id for operation_id, *_ in told}) == 1
    about, became = ["offsets_set"], ["offsets_set_result"]
    assert [kind for _, kind, _ in told] == [*about * 100, *became * 100, *about, *became]
    assert len(target.ledger.rows("operations")) == 202


@pytest.fixture
def sharing() -> Target:
    """A target on which the share group `billing` has begun."""
    cluster = ShareGroupCluster("west", FakeClock())
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    cluster.started[AT] = 3
    return Target(cluster, MemoryLedger())


def test_start_offsets_of_share_groups_are_set_as_commits_are(sharing: Target) -> None:
    [done] = sharing.set(sharing.answer(group_type="share"))
    assert (done.outcome, done.former) == (Outcome.SET, 3)
    assert isinstance(sharing.cluster, ShareGroupCluster)
    assert (sharing.cluster.started, sharing.cluster.committed) == ({AT: 7}, {})
    assert sharing.recorded()[0][2]["group_type"] == "share"
    assert outcomes(sharing.set(sharing.answer(group_type="share"))) == [Outcome.ALREADY_SET]
    assert outcomes(sharing.plan(sharing.answer(group_type="share", target_offset=6))) == [Outcome.NEWER]
    sharing.cluster.members.add("billing")
    joined = sharing.answer(group_type="share", target_offset=8)
    assert outcomes(sharing.set(joined)) == [Outcome.HAS_MEMBERS]


def test_of_two_groups_of_a_name_one_is_no_share_group(sharing: Target, target: Target) -> None:
    assert outcomes(sharing.set(sharing.answer())) == [Outcome.OTHER_TYPE]
    target.cluster.committed[AT] = 1
    assert outcomes(target.set(target.answer(group_type="share"))) == [Outcome.OTHER_TYPE]
    assert target.recorded() == []


def test_two_answers_for_one_place_are_no_answer_unless_they_are_the_same(target: Target) -> None:
    other = target.answer(source_topic="orders_REPLICA", target_offset=6)
    assert set(outcomes(target.set(target.answer(), other))) == {Outcome.SEVERAL_ANSWERS}
    assert AT not in target.cluster.committed
    same = target.answer(source_topic="orders_REPLICA")
    assert set(outcomes(target.plan(target.answer(), same))) == {Outcome.TO_BE_SET}


def test_an_operation_that_is_carried_out_again_records_the_result_of_what_it_had_set(target: Target) -> None:
    log = operators(target.ledger, target.cluster.clock)
    answers = [target.answer(), target.answer(target_partition=1, source_partition=1, committed_offset=None)]
    log.record_parts(
        intentions(target.plan(*answers), target_cluster="west", basis=BASIS),
        Why(operation_id="apply-1"),
    )
    target.cluster.set_commits("billing", [target.plan(*answers)[0].commit])  # and then it died

    def again(operation_id: str) -> tuple[str | None, list[Outcome]]:
        rows = [row for row in target.ledger.rows("operations") if row["operation_id"] == operation_id]
        found, done = set_and_record(
            target.cluster,
            target.plan(*answers),
            log,
            BASIS,
            Why(operation_id=operation_id),
            RULES,
            attempts=EarlierAttempts.of_rows(rows),
        )
        return found, outcomes(done)

    assert again("apply-1") == ("apply-1", [Outcome.SET, Outcome.SET])
    *_, (operation_id, kind, told) = target.recorded()
    assert (operation_id, kind) == ("apply-1", "offsets_set_result")
    assert [one["result"] for one in told["results"]] == ["set", "set"]
    rows = len(target.recorded())
    assert again("apply-1") == (None, [Outcome.ALREADY_SET, Outcome.ALREADY_SET])
    assert again("apply-2") == (None, [Outcome.ALREADY_SET, Outcome.ALREADY_SET])
    assert len(target.recorded()) == rows


def test_partitions_of_a_group_are_judged_one_by_one(target: Target) -> None:
    target.cluster.committed[("billing", "east.orders", 1)] = 8
    done = target.set(target.answer(), target.answer(target_partition=1))
    assert outcomes(done) == [Outcome.SET, Outcome.NEWER]
    assert [result_row(one)["result"] for one in done] == ["set", "newer"]


def test_what_is_gone_unread_is_to_be_accepted_whatever_status_comes_first(target: Target) -> None:
    answer = target.answer(status="before_first", expired=2)
    assert outcomes(target.set(answer)) == [Outcome.NOT_ACCEPTED]
    assert outcomes(target.set(answer, choice=Choice(("expired_on_target",)))) == [Outcome.SET]
    assert outcomes(target.set(target.answer(status="before_first", expired=0))) == [Outcome.ALREADY_SET]


def test_every_outcome_that_is_not_as_wanted_has_advice() -> None:
    assert {outcome for outcome in Outcome if not outcome.is_as_wanted} == set(ADVICE)
