"""Rounds that follow each other within one job: what its tasks hand over, who records it, and who is believed."""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from ledger.clock import SystemClock
from ledger.errors import MirrorLedgerError
from ledger.facts.syncs import TailKnowledge
from ledger.mirror.assignment import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.contact import DriverAddress, ListeningJob
from ledger.mirror.continuing import JobRounds, Last, Results, continued, copy_in_rounds
from ledger.mirror.spark import copied_last
from tests.support.copy_tasks import assignment
from tests.support.stepped_drivers import copied

ENDS_WITHIN_S = 20.0


def partition(number: int, **changed: object) -> Assignment:
    one = assignment(tail=TailKnowledge())
    at = replace(one.source, partition=number), replace(one.target, partition=number)
    return replace(one, source=at[0], target=at[1], **changed)  # type: ignore[arg-type]


def a_round(assignments: Sequence[Assignment]) -> Results:
    return [copied(one, 5) for one in assignments]


def offsets(results: Sequence[PartitionResult]) -> list[tuple[int, int]]:
    """Partition, and where its round began."""
    return [(one.assignment.source.partition, one.assignment.position.source_offset) for one in results]


# -- Whether a task continues ----------------------------------------------------------------------


def test_a_task_continues_behind_what_it_copied_and_knows_of_the_tail() -> None:
    one = partition(0, adopted=((0, 3), (4, 9)), kept_local=((2, 4), (7, 8)))
    result = replace(copied(one, 5), tail=TailKnowledge(start=4, leader_epoch=7, both_sides_seen=True))
    [following] = continued([result]) or []
    assert following == replace(
        one, position=result.position, tail=result.tail, adopted=((4, 9),), kept_local=((7, 8),)
    )


@pytest.mark.parametrize(
    "met",
    [
        {"stop": Stop(StopCause.FOREIGN_WRITE, "somebody")},
        {"target_lost_from": 3},
        {"copied_again": "from there on"},
    ],
)
def test_what_the_driver_decides_on_ends_the_task_with_all_its_partitions(met: dict[str, object]) -> None:
    results = a_round([partition(0), partition(1)])
    assert continued(results) is not None
    assert continued([results[0], replace(results[1], **met)]) is None  # type: ignore[arg-type]


def test_a_partition_at_the_end_that_it_is_to_reach_ends_its_task() -> None:
    assert continued([copied(partition(0, end_offset=5), 5)]) is None
    assert continued([copied(partition(0, end_offset=6), 5)]) is not None
    assert continued([]) is None


# -- Who is believed -------------------------------------------------------------------------------


def test_an_attempt_begins_behind_what_the_last_one_handed_over_and_that_one_is_not_heard_any_more() -> None:
    rounds = JobRounds([[partition(0)]])
    first = rounds.begin(0)
    assert rounds.take(first, a_round(first.assignments))
    second = rounds.begin(0)
    assert (second.assignments[0].position.source_offset, second.handed_over) == (5, 1)
    assert not rounds.take(first, a_round(second.assignments))
    assert rounds.take(second, a_round(second.assignments))
    assert [offsets(rounds.next()) for _ in range(2)] == [[(0, 0)], [(0, 5)]]


def test_a_round_is_complete_with_that_of_the_last_task_and_the_next_one_waits() -> None:
    rounds = JobRounds([[partition(0)], [partition(1)]])
    quick, slow = rounds.begin(0), rounds.begin(1)
    for start in (quick.assignments, [partition(0, position=copied(partition(0), 5).position)]):
        rounds.take(quick, a_round(start))
    assert not rounds.is_complete
    rounds.take(slow, a_round(slow.assignments))
    assert rounds.is_complete
    assert offsets(rounds.next()) == [(0, 0), (1, 0)]
    assert offsets([copied(one, 0) for share in rounds.shares for one in share]) == [(0, 5), (1, 5)]
    assert not rounds.is_complete


def test_last_results_that_were_handed_over_after_all_do_not_count_twice() -> None:
    """The connection broke behind them, so the task did not know."""
    rounds = JobRounds([[partition(0)], [partition(1)]])
    handed, kept = rounds.begin(0), rounds.begin(1)
    rounds.take(handed, a_round(handed.assignments))
    last: list[Last] = [(0, 0, a_round(handed.assignments)), (1, 0, a_round(kept.assignments))]
    assert offsets(rounds.last(last)) == [(1, 0)]


# -- Over a connection -----------------------------------------------------------------------------


class Tasks:
    """Tasks of a job on threads of this process, each round of which waits until it is let."""

    def __init__(self, shares: int = 1) -> None:
        self.given = [[partition(number)] for number in range(shares)]
        self.job = ListeningJob(JobRounds(self.given), host="127.0.0.1", bind="127.0.0.1", seconds=1.0)
        self.lets = [threading.Semaphore(0) for _ in self.given]
        self.job.begin(self._collected)

    def _collected(self) -> list[Last]:
        found: list[Last] = []
        running = [
            threading.Thread(target=self._copy, args=(index, found)) for index in range(len(self.lets))
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return found

    def _copy(self, index: int, found: list[Last]) -> None:
        def copy_round(share: Sequence[Assignment], is_to_end: Callable[[], bool]) -> Results:
            while not self.lets[index].acquire(timeout=0.01) and not is_to_end():
                pass
            return a_round(share)

        found.append(copied_last(self.job.address, index, self.given[index], copy_round))

    def let(self, *indexes: int) -> None:
        for index in indexes:
            self.lets[index].release()


@contextmanager
def tasks(shares: int = 1) -> Iterator[Tasks]:
    made = Tasks(shares)
    try:
        yield made
    finally:
        made.job.abandon()


def test_tasks_hand_rounds_over_while_they_copy_and_the_last_one_when_they_are_to_end() -> None:
    with tasks(2) as running:
        for start in (0, 5, 10):
            running.let(0, 1)
            assert offsets(running.job.next_round()) == [(0, start), (1, start)]
            assert not running.job.is_over
            running.job.recorded()
        running.job.end()
        assert sorted(offsets(running.job.next_round())) == [(0, 15), (1, 15)]
        assert running.job.is_over


def test_a_round_is_not_handed_over_before_the_last_one_is_recorded() -> None:
    """So the task ends with it, and the driver gets it as its last one: two are unrecorded, and never three."""
    with tasks() as running:
        running.let(0, 0)
        assert offsets(running.job.next_round()) == [(0, 0)]
        assert offsets(running.job.next_round()) == [(0, 5)]
        assert running.job.is_over


def test_a_task_that_ends_has_all_others_end() -> None:
    with tasks(2) as running:
        running.let(0, 0)
        assert offsets(running.job.next_round()) == [(0, 0)]
        assert sorted(offsets(running.job.next_round())) == [(0, 5), (1, 0)]
        assert running.job.is_over


def test_who_does_not_know_the_token_is_not_heard() -> None:
    with tasks() as running:
        stranger = replace(running.job.address, token=b"another")
        with stranger.contact(0) as contact:
            assert contact is None
        running.let(0)
        assert offsets(running.job.next_round()) == [(0, 0)]


def test_who_says_nothing_keeps_no_task_away_and_takes_few_threads_of_the_driver() -> None:
    before = threading.active_count()
    job = ListeningJob(JobRounds([[partition(0)]]), host="127.0.0.1", bind="127.0.0.1", seconds=1.0)
    with ExitStack() as silent:
        lines = [
            silent.enter_context(socket.create_connection((job.address.host, job.address.port), timeout=5))
            for _ in range(100)
        ]
        with job.address.contact(0) as contact:
            assert contact is not None
            assert contact.hand_over(a_round(contact.turn.assignments))
            assert offsets(job.next_round()) == [(0, 0)]
            assert waited_for(lambda: threading.active_count() - before < 40)
            lines[0].settimeout(5)
            while lines[0].recv(100):
                pass
    job.begin(list)
    job.abandon()


def test_who_says_nothing_is_cut_off_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.mirror.contact._PROVE_WITHIN_S", 1)
    job = ListeningJob(JobRounds([[partition(0)]]), host="127.0.0.1", bind="127.0.0.1", seconds=1.0)
    with socket.create_connection((job.address.host, job.address.port), timeout=5) as silent:
        while silent.recv(100):
            pass
    job.begin(list)
    job.abandon()


def test_a_driver_that_had_no_file_left_is_reached_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [OSError(errno.EMFILE, "Too many open files")] * 2
    accept = socket.socket.accept

    def scarce(listener: socket.socket) -> tuple[socket.socket, object]:
        if left:
            raise left.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    with tasks() as running:
        running.let(0)
        assert offsets(running.job.next_round()) == [(0, 0)]
    assert not left


def test_another_attempt_is_told_how_far_the_job_is_and_the_first_one_ends() -> None:
    rounds = JobRounds([[partition(0)]])
    job = ListeningJob(rounds, host="127.0.0.1", bind="127.0.0.1", seconds=1.0)
    with job.address.contact(0) as first:
        assert first is not None
        assert first.hand_over(a_round(first.turn.assignments))
        assert offsets(job.next_round()) == [(0, 0)]
        job.recorded()
        with job.address.contact(0) as second:
            assert second is not None
            assert second.turn.assignments[0].position.source_offset == 5
            assert waited_for(first.is_to_end)
            assert not first.hand_over(a_round(second.turn.assignments))
            assert second.hand_over(a_round(second.turn.assignments))
            assert offsets(job.next_round()) == [(0, 5)]
    job.begin(list)
    job.abandon()


def test_a_driver_that_cannot_be_reached_gets_a_single_round_of_the_first_attempt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = DriverAddress("127.0.0.1", closed.getsockname()[1], os.urandom(8))
    rounds: list[Sequence[Assignment]] = []

    def copy_round(share: Sequence[Assignment], is_to_end: Callable[[], bool]) -> Results:
        assert not is_to_end()
        rounds.append(share)
        return a_round(share)

    assert copied_last(nowhere, 0, [partition(0)], copy_round)[:2] == (0, 0)
    assert len(rounds) == 1


def test_what_a_task_fails_with_is_raised_where_its_round_is_waited_for() -> None:
    def fail() -> list[Last]:
        raise MirrorLedgerError("a round failed")

    job = ListeningJob(JobRounds([[partition(0)]]), host="127.0.0.1", bind="127.0.0.1", seconds=1.0)
    job.begin(fail)
    with pytest.raises(MirrorLedgerError, match="a round failed"):
        job.next_round()
    assert job.is_over


def waited_for(is_so: Callable[[], bool]) -> bool:
    clock = SystemClock()
    until = clock.monotonic() + ENDS_WITHIN_S
    while not is_so() and clock.monotonic() < until:
        time.sleep(0.01)
    return is_so()


def test_copying_in_rounds_begins_each_where_the_last_one_ended() -> None:
    heard: list[Results] = []

    class Listener:
        def is_to_end(self) -> bool:
            return len(heard) == 2

        def hand_over(self, results: Results) -> bool:
            heard.append(results)
            return True

    last = copy_in_rounds([partition(0)], Listener(), a_round)
    assert [offsets(one) for one in [*heard, last]] == [[(0, 0)], [(0, 5)], [(0, 10)]]
