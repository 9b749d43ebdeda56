"""What an apply has changed is taken back in reverse order, wherever the process ends in between."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.changeover.groups import MovedCommit, moved_commits, take_groups_back, why_at_work
from ledger.changeover.plans import Applies, Apply, ApplyState, PlannedTopic, StepName
from ledger.changeover.receipts import ApplyRecord, StepReports, StepResult, Waits
from ledger.changeover.role import continued
from ledger.changeover.undoing import UNDOABLE, OnFailure, Undoing, require_nobody_at_work, undoable
from ledger.changeover.waiting import Behind, application_offsets, written_behind
from ledger.errors import ClusterUnavailableError, PreconditionError, ShutOutError, UsageError
from ledger.facts.changeovers import Sheet
from ledger.facts.group_offsets import CommitResult, IntendedCommit, OffsetsSet, OffsetsSetResult
from ledger.facts.groups import CommitRefusal, NewCommit
from ledger.facts.operations import OperationContent, Why
from ledger.facts.roles import APPLY_WRITER
from ledger.facts.syncs import TopicPartition
from ledger.store.session import APPLY_TABLES, ClaimedOperations, WriterSession
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.simulation.kafka.stored_batches import Producer, StoredBatch, application_batch, content, marker
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.rows import MemoryRows
from tests.support.changeovers import Crash, Stage, claim, plan
from tests.support.fakes import FakeClock

_BACK = tuple(step for step in reversed(plan().steps) if step in UNDOABLE)


@dataclass
class Undo:
    """A stage whose apply is taken back; `crash` as there. `back`: steps that were taken back, in that order."""

    stage: Stage
    crash: Callable[[StepName, str], None] = lambda _step, _moment: None
    back: list[StepName] = field(default_factory=list)
    on_failure: OnFailure = OnFailure.STOP
    left: tuple[StepName, ...] = ()

    def undo(self, host: str = "host:1:1:") -> dict[str, str]:
        of = self.stage.last
        fact_log = MemoryFactLog(self.stage.ledger, self.stage.clock)
        session = WriterSession.claimed(fact_log, APPLY_WRITER, APPLY_TABLES, {**claim(), "host": host})
        with session:
            operations = ClaimedOperations(operator="ben")
            operations.begin(session)
            record = ApplyRecord(operations, self.stage.clock, Why("no", operation_id=of.operation_id))
            reports = StepReports(
                lambda _step: None, lambda _step, _words: None, lambda _step, _words, _done: None
            )
            undoing = Undoing(
                record, {step: self._action(step) for step in UNDOABLE}, reports, self.on_failure
            )
            done = undoing.undo(of, self.stage.plan, host=host)
            self.left = done.left
            return dict(done.words)

    def _action(self, step: StepName) -> Callable[[Waits], StepResult]:
        def act(waits: Waits) -> StepResult:
            self.crash(step, "before")
            waits("at it")
            self.back.append(step)
            self.crash(step, "after")
            return StepResult(f"{step} as before", {"mark": False})

        return act

    @property
    def kinds(self) -> list[str]:
        rows = MemoryRows(self.stage.ledger).rows("operations", [])
        return [row["kind"] for row in rows if row["kind"].startswith("und")]


def applied() -> Undo:
    stage = Stage(plan())
    stage.apply()
    return Undo(stage)


def test_steps_are_taken_back_in_reverse_order_under_the_same_operation() -> None:
    undo = applied()
    words = undo.undo()
    assert undo.back == list(_BACK) == [step for step in _BACK if str(step) in words]
    assert _BACK == (StepName.MOVE_GROUPS, StepName.HAND_OVER, StepName.PROMOTE, StepName.FENCE)
    assert undo.stage.last.state is ApplyState.UNDONE
    assert len(undo.stage.applies().by_id) == 1
    rows = MemoryRows(undo.stage.ledger).rows("operations", [("kind", "=", "undone")])
    assert json.loads(rows[0]["content"])["read_back"]["fence"] == {"mark": False}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", _BACK)
def test_a_crash_anywhere_is_continued_and_only_taken_back(step: StepName, moment: str) -> None:
    undo = applied()

    def crash(at: StepName, when: str) -> None:
        if (at, when) == (step, moment):
            raise Crash

    undo.crash = crash
    with pytest.raises(Crash):
        undo.undo()
    assert [one.state for one in undo.stage.applies().by_id.values()] == [ApplyState.UNDOING]
    with pytest.raises(PreconditionError, match="is being undone"):
        continued(undo.stage.applies(), undo.stage.plan.plan_id)
    undo.crash = lambda _step, _moment: None
    undo.undo(host="host:2:2:")
    assert undo.stage.last.state is ApplyState.UNDONE
    assert set(undo.back) == set(_BACK)
    assert undo.kinds == ["undo_begun", "undo_begun", "undone"]


def test_of_an_apply_that_failed_only_what_had_begun_is_taken_back() -> None:
    undo = Undo(Stage(plan()))
    undo.stage.failing[StepName.HAND_OVER] = PreconditionError("not permitted")
    with pytest.raises(PreconditionError):
        undo.stage.apply()
    undo.undo()
    assert undo.back == [StepName.HAND_OVER, StepName.PROMOTE, StepName.FENCE]
    assert undo.stage.applies().open() is None


def test_what_cannot_be_undone_is_left_and_named_where_that_was_asked_for() -> None:
    undo = applied()

    def fail(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.PROMOTE, "before"):
            raise ClusterUnavailableError("west does not answer")

    undo.crash = fail
    with pytest.raises(ClusterUnavailableError):
        undo.undo()
    assert (undo.stage.last.state, undo.back) == (ApplyState.UNDOING, list(_BACK[:2]))
    undo.on_failure = OnFailure.LEAVE
    words = undo.undo()
    assert words["promote"] == "left as it is: west does not answer"
    assert (
        "First mirror-ledger demote west --over east --reason WHY, then mirror-ledger unfence east"
        in words["fence"]
    )
    assert undo.left == (StepName.PROMOTE, StepName.FENCE), "nobody writes at both sides"
    assert StepName.FENCE not in undo.back
    assert undo.stage.applies().open() is None


def test_a_hand_over_that_is_left_keeps_no_fence() -> None:
    undo = applied()
    undo.on_failure = OnFailure.LEAVE

    def fail(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.HAND_OVER, "before"):
            raise ClusterUnavailableError("west does not answer")

    undo.crash = fail
    assert undo.undo()["fence"] == "fence as before"
    assert undo.left == (StepName.HAND_OVER,)


def test_of_two_at_once_one_is_shut_out() -> None:
    undo = applied()
    other: list[bool] = []

    def crash(step: StepName, moment: str) -> None:
        if (step, moment) == (StepName.MOVE_GROUPS, "after") and not other:
            other.append(True)
            undo.undo(host="host:2:2:")

    undo.crash = crash
    with pytest.raises(ShutOutError):
        undo.undo()
    assert undo.stage.last.state is ApplyState.UNDONE
    assert undo.back.count(StepName.PROMOTE) == 1


# What may be taken back -------------------------------------------------------------------------


def applies(*states: ApplyState) -> Applies:
    return Applies(
        {
            f"op{number}": Apply(f"op{number}", f"plan{number}", "ana", None, None, 1, state=state)
            for number, state in enumerate(states)
        }
    )


def test_an_unknown_operation_and_one_that_was_taken_back() -> None:
    found = applies(ApplyState.UNDONE)
    assert undoable(found, "op0", lambda _plan_id: plan()) is None
    with pytest.raises(UsageError, match=r"no plan was carried out by operation 'x'.*older copy"):
        undoable(found, "x", lambda _plan_id: plan())


def test_what_came_later_about_the_same_topics_is_taken_back_first() -> None:
    done = applies(ApplyState.DONE, ApplyState.DONE)
    with pytest.raises(PreconditionError, match="mirror-ledger undo op1"):
        undoable(done, "op0", lambda _plan_id: plan())
    others = PlannedTopic(flow="f", source_topic="a", source_topic_id="E2", topic="a", topic_id="W2")
    of_others = plan(topics=(others,))
    found = undoable(done, "op0", lambda plan_id: plan() if plan_id == "plan0" else of_others)
    assert found is not None
    assert found[0].operation_id == "op0"
    assert undoable(applies(ApplyState.DONE, ApplyState.UNDONE), "op0", lambda _plan_id: plan())
    for state in (ApplyState.OPEN, ApplyState.UNDOING):
        with pytest.raises(PreconditionError, match=r"op1 .*has not come to its end"):
            undoable(applies(ApplyState.DONE, state), "op0", lambda _plan_id: of_others)


def test_the_way_back_is_said_where_applications_are_at_work() -> None:
    require_nobody_at_work(plan(), [])
    with pytest.raises(PreconditionError, match=r"plan switchover --from west --to east") as refused:
        require_nobody_at_work(plan(), ["group 'a' has members"])
    assert "nothing was undone" in str(refused.value)


# Records behind the cut -------------------------------------------------------------------------


def west() -> MemoryCluster:
    cluster = ShareGroupCluster("west", FakeClock())
    cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})
    return cluster


def behind(cluster: MemoryCluster, offset: int) -> Behind:
    return Behind("orders", cluster.topic_by_name["orders"].topic_id, 0, offset)


def batch(producer: Producer = Producer()) -> StoredBatch:  # noqa: B008
    return application_batch([content(b"k", b"v")] * 2, [1] * 2, producer=producer)


def test_markers_and_mirrors_are_no_applications() -> None:
    cluster = west()
    log = cluster.log("orders", 0)
    log.append(batch(), now_ms=1)
    at = behind(cluster, 2)
    assert written_behind(cluster, [at], lambda _id: False) == []
    log.append(marker(7, 0, timestamp=1, commit=True), now_ms=1)
    log.append(batch(Producer(9, 0, 0)), now_ms=1)
    assert written_behind(cluster, [at], lambda producer_id: producer_id == 9) == []
    assert written_behind(cluster, [at], lambda _id: False) == [
        "orders partition 0: an application has written at offset 3"
    ]
    log.append(batch(), now_ms=1)
    found = written_behind(cluster, [at], lambda producer_id: producer_id == 9)
    assert found == ["orders partition 0: an application has written at offset 5"]


def test_offsets_of_applications_are_counted_between_two_ends() -> None:
    cluster = west()
    log = cluster.log("orders", 0)
    for one in (batch(), batch(Producer(9, 0, 0)), marker(7, 0, timestamp=1, commit=True), batch()):
        log.append(one, now_ms=1)
    at = TopicPartition("orders", behind(cluster, 0).topic_id, 0)

    def counted(start: int, end: int) -> int:
        return application_offsets(cluster, at, start, end, lambda producer_id: producer_id == 9)

    assert counted(0, 7) == 4
    assert counted(2, 5) == 0
    assert (counted(1, 7), counted(0, 6), counted(7, 9)) == (3, 3, 0)


def test_what_cannot_be_known_counts_as_written() -> None:
    cluster = west()
    assert "another topic" in written_behind(cluster, [replace(behind(cluster, 0), topic_id="x")], bool)[0]
    at = behind(cluster, 1)
    cluster.topic_by_name["orders"].leaders[0] = None
    assert "no leader" in written_behind(cluster, [at], bool)[0]
    cluster.topic_by_name["orders"].leaders[0] = 1
    cluster.log("orders", 0).append(batch(), now_ms=1)
    cluster.log("orders", 0).delete_before(2)
    assert "were deleted" in written_behind(cluster, [at], bool)[0]
    cluster.available = False
    with pytest.raises(ClusterUnavailableError):
        written_behind(cluster, [at], bool)


# Groups -----------------------------------------------------------------------------------------


def moved(cluster: MemoryCluster, **changed: object) -> MovedCommit:
    values: dict[str, object] = {
        "group": "billing",
        "is_of_share_group": False,
        "topic": "orders",
        "topic_id": cluster.topic_by_name["orders"].topic_id,
        "partition": 0,
        "former": None,
        "to": (7,),
    }
    return MovedCommit(**{**values, **changed})  # type: ignore[arg-type]  # a case changes any of them


def test_commits_that_are_what_was_set_go_back_and_the_rest_is_left() -> None:
    cluster = west()
    cluster.committed.update(
        {("billing", "orders", 0): 7, ("billing", "orders", 1): 7, ("b", "orders", 0): 3}
    )
    cluster.committed[("c", "orders", 0)] = 7
    of_all = [
        moved(cluster),
        moved(cluster, partition=1, former=4, to=(5, 7)),
        moved(cluster, group="b", former=2),
        moved(cluster, group="c", topic_id="another"),
    ]
    assert why_at_work(cluster, of_all) == []
    for _ in range(2):
        result = take_groups_back(cluster, of_all)
        assert cluster.committed == {
            ("billing", "orders", 1): 4,
            ("b", "orders", 0): 3,
            ("c", "orders", 0): 7,
        }
        assert "'b' at orders partition 0: somebody has set it to 3" in result.words
        assert "the topic is another one" in result.words
    assert take_groups_back(cluster, []).words == "0 groups as before: 0 commits restored"


def test_groups_that_read_on_or_have_members_or_are_hidden_keep_all_as_it_is() -> None:
    cluster = west()
    cluster.committed[("billing", "orders", 0)] = 8
    one = moved(cluster)
    assert why_at_work(cluster, [one]) == ["'billing' at orders partition 0 has committed 8, and 7 was set"]
    cluster.committed[("billing", "orders", 0)] = 7
    assert why_at_work(cluster, [one]) == []
    cluster.members.add("billing")
    assert why_at_work(cluster, [one]) == ["group 'billing' has members at west"]
    cluster.denied_groups.add("billing")
    assert why_at_work(cluster, [one]) == ["group 'billing' is not shown to the principal that asks"]


def test_a_group_that_joins_meanwhile_is_named_and_the_others_are_restored() -> None:
    cluster = west()
    cluster.committed.update({("a", "orders", 0): 7, ("b", "orders", 0): 7})
    cluster.members.add("a")
    of_all = [moved(cluster, group="a", former=2), moved(cluster, group="b", former=2)]
    with pytest.raises(PreconditionError, match=r"^1 commit .*\n  'a' at orders partition 0: has_members$"):
        take_groups_back(cluster, of_all)
    assert cluster.committed == {("a", "orders", 0): 7, ("b", "orders", 0): 2}


@pytest.mark.parametrize(
    ("former", "act", "needed"), [(None, "delete_commits", "DELETE"), (2, "set_commits", "READ")]
)
def test_a_permission_that_is_lacking_is_named(
    monkeypatch: pytest.MonkeyPatch, former: int | None, act: str, needed: str
) -> None:
    cluster = west()
    cluster.committed["a", "orders", 0] = 7
    refused = {("orders", 0): CommitRefusal.GROUP_DENIED}
    monkeypatch.setattr(type(cluster), act, lambda _cluster, _group, _commits: refused)
    with pytest.raises(
        PreconditionError, match=f"group_denied, the mirror's principal needs {needed} on the group$"
    ):
        take_groups_back(cluster, [moved(cluster, group="a", former=former)])


@pytest.mark.parametrize("answered", [0, 1, 2, 3])
def test_a_target_that_dies_between_two_groups_comes_to_the_same_end(answered: int) -> None:
    cluster = west()
    left = [answered]

    def reach() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ClusterUnavailableError("west does not answer")

    class Dying(MemoryCluster):
        def set_commits(
            self, group: str, commits: Sequence[NewCommit]
        ) -> dict[tuple[str, int], CommitRefusal]:
            reach()
            return MemoryCluster.set_commits(self, group, commits)

        def delete_commits(
            self, group: str, places: Sequence[tuple[str, int]]
        ) -> dict[tuple[str, int], CommitRefusal]:
            reach()
            return MemoryCluster.delete_commits(self, group, places)

    dying = Dying("west", cluster.clock, topic_by_name=cluster.topic_by_name)
    dying.committed.update({(group, "orders", partition): 7 for group in "ab" for partition in (0, 1)})
    of_all = [
        moved(dying, group=group, partition=partition, former=former)
        for group in "ab"
        for partition, former in ((0, 2), (1, None))
    ]
    with pytest.raises(ClusterUnavailableError):
        take_groups_back(dying, of_all)
    left[0] = 4
    assert why_at_work(dying, of_all) == []
    take_groups_back(dying, of_all)
    assert dying.committed == {("a", "orders", 0): 2, ("b", "orders", 0): 2}


def test_share_groups_go_back_to_a_start_offset_that_was_there() -> None:
    cluster = west()
    assert isinstance(cluster, ShareGroupCluster)
    cluster.set_share_offsets("s", [NewCommit("orders", 0, 7, None), NewCommit("orders", 1, 7, None)])
    of_all = [
        moved(cluster, group="s", is_of_share_group=True, former=3),
        moved(cluster, group="s", is_of_share_group=True, partition=1),
    ]
    result = take_groups_back(cluster, of_all)
    assert cluster.started == {("s", "orders", 0): 3, ("s", "orders", 1): 7}
    assert "kafka-share-groups.sh" in result.words


def test_of_several_attempts_the_first_knows_what_was_there_and_what_was_refused_is_none() -> None:
    def intended(former: int | None, to: int) -> OffsetsSet:
        commit = IntendedCommit(
            topic="orders",
            topic_id="W",
            partition=0,
            former=former,
            to=to,
            source_topic="orders",
            source_partition=0,
            source_offset=1,
            status="exact",
        )
        return OffsetsSet(
            group="g", source_cluster="east", target_cluster="west", cut="c", commits=(commit,), seen=()
        )

    def result(outcome: str) -> OffsetsSetResult:
        one = CommitResult(
            source_topic="orders",
            source_partition=0,
            topic="orders",
            partition=0,
            former=None,
            to=1,
            result=outcome,
        )
        return OffsetsSetResult(group="g", results=(one,))

    def reports(*contents: OperationContent) -> list[tuple[int | None, tuple[int, ...]]]:
        rows = [{"kind": str(one.kind), "content": json.dumps(one.content())} for one in contents]
        return [(one.former, one.to) for one in moved_commits(rows)]

    assert reports(intended(None, 5), intended(5, 7), result("set")) == [(None, (5, 7))]
    assert reports(intended(None, 5), result("has_members"), intended(3, 7), result("set")) == [(3, (7,))]
    assert reports(intended(2, 5), result("set"), intended(5, 7), result("refused")) == [(2, (5, 7))]
    assert reports(intended(2, 5)) == [(2, (5,))], "it may be there"
    assert reports(intended(2, 5), result("refused")) == []
    already = Sheet(plan_id="p", intended=intended(5, 5))
    assert reports(intended(2, 5), result("set"), already) == [(2, (5,))]
    assert reports(result("already_set"), already) == [(5, (5,))], (
        "nobody has set it, and who reads on is at work"
    )
