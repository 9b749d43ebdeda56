"""In which order a driver tells, records and reacts: whatever it is about to rely on is in the ledger before."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ledger.config.values import Policy
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError
from ledger.facts.requests import Pause, SkipTo, StopRequest
from ledger.facts.state import WriterClaim
from ledger.facts.tables import Row
from ledger.mirror.assignment import Assignment, Divergence, PartitionResult, StopCause
from ledger.mirror.progress import RunEnd
from ledger.mirror.states import Unreached
from ledger.topics.naming import TailPolicy
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.support.copy_tasks import BOTH_SEEN
from tests.support.ledgers import operators
from tests.support.memory_flows import Flow
from tests.support.stepped_drivers import (
    Driver,
    ToldFacts,
    WhenAwaited,
    all_of_it,
    asked,
    copied,
    nothing,
    stopped,
    write,
)


def test_where_a_partition_begins_is_recorded_before_a_task_writes_to_it() -> None:
    seen: list[object] = []

    def look(assignment: Assignment) -> PartitionResult:
        seen.extend(row["kind"] for row in driver.syncs())
        return nothing(assignment)

    driver = Driver([look], executor=WhenAwaited)
    driver.run()
    assert seen == ["started"]


def test_a_reaction_knows_what_was_copied_in_its_own_round() -> None:
    """Up to offset 7 both sides agree: the epoch there is that of the sync which was copied just now."""
    driver = Driver(
        [stopped(StopCause.SOURCE_TRUNCATED, 10, Divergence(1, 7)), nothing], executor=WhenAwaited
    )
    driver.run()
    superseded = driver.syncs()[-1]
    assert (superseded["kind"], superseded["source_start"]) == ("superseded", 7)
    assert superseded["source_leader_epoch"] == 1


def test_what_a_reaction_recorded_is_there_before_the_partition_goes_on() -> None:
    seen: list[object] = []

    def look(assignment: Assignment) -> PartitionResult:
        seen.extend(row["kind"] for row in driver.syncs())
        return nothing(assignment)

    driver = Driver([stopped(StopCause.SOURCE_TRUNCATED, 10, Divergence(1, 7)), look], executor=WhenAwaited)
    driver.run()
    assert seen == ["started", "copied", "superseded"]


def test_a_stop_is_told_before_the_facts_of_its_round() -> None:
    """A driver that dies in between must not leave facts from which the next one goes on."""
    driver = Driver([stopped(StopCause.TAIL_MISMATCH, 3)])
    driver.run()
    assert driver.told[-2:] == ["partition_stopped", "copied"]


def test_a_stop_by_policy_is_told_before_the_fact_that_it_is_about() -> None:
    step = stopped(StopCause.SOURCE_TRUNCATED, 3, Divergence(1, 2))
    driver = Driver([step], policy=Policy.STOP)
    driver.run()
    assert driver.told[-4:] == ["copied", "partition_stopped", "superseded", "finding_raised"]


def test_after_a_loss_the_same_run_knows_that_own_records_may_have_no_source() -> None:
    def meet_a_deletion(assignment: Assignment) -> PartitionResult:
        log.delete_before(3)
        return stopped(StopCause.SOURCE_OUT_OF_RANGE, 0)(assignment)

    driver = Driver([meet_a_deletion, nothing])
    log = driver.flow.east.log("t", 0)
    log.append(application_batch([content(b"k", b"v")] * 5, [0] * 5), now_ms=0)
    driver.run()
    first, second = driver.assigned
    assert [row["kind"] for row in driver.syncs()] == ["started", "lost"]
    assert (first.position.source_may_be_deleted, second.position.source_may_be_deleted) == (False, True)


def test_what_is_skipped_in_a_recreated_target_stays_skipped() -> None:
    """The supersession gets a round of its own: it would void what is lost in the same one."""
    driver = Driver([lambda assignment: copied(assignment, 4)])
    log = driver.flow.east.log("t", 0)
    log.append(application_batch([content(b"k", b"v")] * 9, [0] * 9), now_ms=0)
    driver.run()
    driver.flow.west.recreate_topic("east.t")
    operations = operators(driver.flow.ledger, driver.flow.clock)
    operations.record(SkipTo(topic="t", partition=0, offset=6), flow="f", reason="enough")
    again = Driver([nothing], driver.flow)
    again.run()
    assert [row["kind"] for row in again.syncs()] == ["started", "copied", "superseded", "lost"]
    assert again.assigned[0].position.source_offset == 6
    [position] = MemoryLedgerState(driver.flow.ledger).positions("f")
    assert position.position.source_offset == 6


@pytest.mark.parametrize("topic", [None, "t"])
def test_a_run_until_caught_up_of_what_is_paused_has_not_caught_up(topic: str | None) -> None:
    driver = Driver([], until_caught_up=True)
    write(driver, 9)
    operation = asked(driver, Pause(topic=topic))
    summary = driver.run()
    assert (summary.end, summary.is_unfinished) == (RunEnd.NOT_CAUGHT_UP, True)
    assert [request.operation_id for request in summary.paused] == [operation]
    assert summary.unreached == [Unreached("t", 0, position=0, end=9)]
    assert driver.assigned == []


def test_what_is_not_paused_is_copied_before_such_a_run_ends() -> None:
    driver = Driver([all_of_it(4)], until_caught_up=True)
    driver.flow.source("u")
    write(driver, 4)
    write(driver, 6, "u")
    asked(driver, Pause(topic="u"))
    asked(driver, Pause(topic="not of this flow"))
    summary = driver.run()
    assert (summary.end, summary.records) == (RunEnd.NOT_CAUGHT_UP, 4)
    assert [request.topic for request in summary.paused] == ["u"]
    assert summary.unreached == [Unreached("u", 0, position=0, end=6)]


def test_a_run_until_caught_up_says_what_ended_it() -> None:
    driver = Driver([lambda assignment: replace(copied(assignment, 4), tail=BOTH_SEEN)], until_caught_up=True)
    write(driver, 4)
    summary = driver.run()
    assert (summary.end, summary.is_unfinished) == (RunEnd.CAUGHT_UP, False)

    def ask_to_stop(assignment: Assignment) -> PartitionResult:
        asked(again, StopRequest())
        return copied(assignment, 2)

    again = Driver([ask_to_stop], driver.flow, until_caught_up=True)
    write(again, 5)
    summary = again.run()
    assert (summary.end, summary.is_unfinished) == (RunEnd.ASKED_TO_STOP, True)
    assert summary.unreached == [Unreached("t", 0, position=6, end=9)]
    assert summary.asked_by is not None
    assert ", a move; operation " in summary.asked_by


def test_a_slow_round_in_which_all_stopped_is_no_standstill() -> None:
    def slowly(assignment: Assignment) -> PartitionResult:
        driver.flow.clock.wait(40.0)
        return stopped(StopCause.TAIL_MISMATCH, 0)(assignment)

    driver = Driver([slowly], until_caught_up=True)
    write(driver, 4)
    summary = driver.run()
    assert (summary.end, len(summary.stopped)) == (RunEnd.NOT_CAUGHT_UP, 1)


def test_a_run_until_caught_up_does_not_wait_for_ever() -> None:
    def slowly(assignment: Assignment) -> PartitionResult:
        driver.flow.clock.wait(40.0)
        return nothing(assignment)

    driver = Driver([slowly], until_caught_up=True)
    write(driver, 4)
    with pytest.raises(
        ClusterUnavailableError, match=r"nothing could be copied for 40 s: t partition 0 at 0 of 4;"
    ):
        driver.run()


def test_stopped_partitions_are_told_at_the_end_with_what_to_do() -> None:
    driver = Driver([stopped(StopCause.TAIL_MISMATCH, 3)])
    summary = driver.run()
    [told] = summary.stopped
    assert (summary.end, told.cause, told.message) == (RunEnd.SIGNALLED, "tail_mismatch", "as told")
    assert summary.is_unfinished


@pytest.mark.parametrize(
    ("cleanup_policy", "given", "expected"),
    [
        ("compact", None, True),
        ("compact,delete", None, False),
        ("delete,compact", None, False),
        ("delete", None, False),
        (None, None, False),
        ("compact", TailPolicy.STOP, False),
        ("delete", TailPolicy.COPY_AGAIN, True),
    ],
)
def test_what_cannot_be_proved_is_copied_again_where_the_cleaner_keeps_last_values_or_the_flow_says_so(
    cleanup_policy: str | None, given: TailPolicy | None, expected: bool
) -> None:
    flow = Flow()
    settings = {} if cleanup_policy is None else {"cleanup.policy": cleanup_policy}
    flow.east.create_topic("t", partitions=1, replication_factor=1, configuration=settings)
    driver = Driver([nothing], flow, on_tail_lost=given)
    driver.run()
    assert [told.copies_tail_again for told in driver.assigned] == [expected]
    is_cleaned = "compact" in (cleanup_policy or "")
    assert [told.is_target_cleaned for told in driver.assigned] == [is_cleaned]


def test_that_a_tail_is_copied_again_is_told_before_the_facts_that_say_so() -> None:
    def again(assignment: Assignment) -> PartitionResult:
        return replace(copied(assignment, 4), copied_again="as told")

    driver = Driver([again])
    driver.run()
    told = [kind for kind in driver.told if kind in ("tail_copied_again", "copied")]
    assert told == ["tail_copied_again", "copied"]
    [row] = [row for row in driver.flow.ledger.rows("operations") if row["kind"] == "tail_copied_again"]
    assert json.loads(row["content"]) == {
        "topic": "t",
        "topic_id": driver.assigned[0].source.topic_id,
        "partition": 0,
        "message": "as told",
    }


def test_facts_that_cannot_be_appended_end_a_run_until_caught_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(
        log: MemoryFactLog, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]
    ) -> None:
        if table == "offset_syncs":
            raise LedgerUnavailableError(f"{table} does not answer; nothing was appended")
        MemoryFactLog.append(log, claim, table, round_number, rows)

    driver = Driver([nothing], until_caught_up=True, executor=WhenAwaited)
    monkeypatch.setattr(ToldFacts, "append", refuse)
    with pytest.raises(LedgerUnavailableError):
        driver.run()
    assert driver.assigned == []
    assert "ends, for the ledger is not there: offset_syncs does not answer" in caplog.text


# -- Tasks that continue ---------------------------------------------------------------------------


def test_tasks_continue_while_the_facts_of_their_rounds_are_recorded() -> None:
    driver = Driver([lambda one: copied(one, 4), lambda one: copied(one, 2), nothing], executor=WhenAwaited)
    driver.run()
    assert [job.rounds for job in driver.jobs] == [3]
    assert [(row["kind"], row["source_end"]) for row in driver.syncs()] == [
        ("started", 0),
        ("copied", 4),
        ("copied", 6),
    ]


def test_a_request_is_answered_when_no_task_has_its_partition() -> None:
    def ask(assignment: Assignment) -> PartitionResult:
        asked(driver, SkipTo(topic="t", partition=0, offset=6))
        return copied(assignment, 4)

    driver = Driver([ask, lambda one: copied(one, 3)])
    write(driver, 9)
    driver.run()
    assert [job.rounds for job in driver.jobs] == [1, 1]
    assert [one.position.source_offset for one in driver.assigned] == [0, 6]
    assert [row["kind"] for row in driver.syncs()] == ["started", "copied", "lost", "copied"]


def test_a_new_topic_is_taken_on_when_no_task_is_at_work() -> None:
    def create(assignment: Assignment) -> PartitionResult:
        driver.flow.source("u")
        driver.flow.clock.wait(20)
        return nothing(assignment)

    driver = Driver([create, nothing, nothing])
    driver.run()
    assert [job.rounds for job in driver.jobs] == [1, 1]
    assert [one.source.topic for one in driver.assigned] == ["t", "t", "u"]


MEGABYTES = 1_000_000


def brings(**megabytes: int) -> Callable[[Assignment], PartitionResult]:
    """A round of a task that copies two records of each topic, of so many megabytes."""

    def step(assignment: Assignment) -> PartitionResult:
        result = copied(assignment, 2)
        [sync] = result.syncs
        size = MEGABYTES * megabytes.get(assignment.source.topic, 0)
        return replace(result, syncs=(replace(sync, bytes=size),))

    return step


def shared(driver: Driver) -> list[list[list[tuple[str, int]]]]:
    """By job and task the topics that it began with, and where."""
    return [
        [[(one.source.topic, one.position.source_offset) for one in share] for share in job.begun]
        for job in driver.jobs
    ]


def test_load_that_has_moved_moves_partitions_once_their_tasks_have_ended() -> None:
    """What they copied while they ended is neither copied again nor left out, and says nothing of the load."""
    driver = Driver(
        [*[brings()] * 3, *[brings(t=40, v=30)] * 3, *[brings(t=40, v=30)] * 3],
        tasks=2,
        last=brings(),
        executor=WhenAwaited,
    )
    for topic in ("u", "v"):
        driver.flow.source(topic)
    driver.run()
    assert shared(driver) == [
        [[("t", 0), ("v", 0)], [("u", 0)]],
        [[("t", 6)], [("v", 6), ("u", 6)]],
    ], "t and v brought much, by one task: two rounds of two records, and two more while it ended"
    for topic in ("t", "u", "v"):
        rows = [row for row in driver.syncs() if row["source_topic"] == topic and row["records"]]
        assert [row["source_end"] for row in rows] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    "load", [{"t": 40}, {"t": 15, "v": 1}, {"t": 40, "u": 40}], ids=["one is heavy", "little", "even"]
)
def test_load_that_another_split_would_not_share_better_moves_nothing(load: dict[str, int]) -> None:
    driver = Driver([*[brings(**load)] * 9], tasks=2, last=brings(), executor=WhenAwaited)
    for topic in ("u", "v"):
        driver.flow.source(topic)
    driver.run()
    assert [job.rounds for job in driver.jobs] == [3]


def test_tasks_are_at_work_no_longer_than_their_driver() -> None:
    """It ends by an error: what they copied since is found by the next one."""

    def fail(_assignment: Assignment) -> PartitionResult:
        raise LedgerUnavailableError("no room")

    driver = Driver([nothing, fail])
    with pytest.raises(LedgerUnavailableError):
        driver.run()
    assert [job.is_over for job in driver.jobs] == [True]
