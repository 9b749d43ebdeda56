"""Whole copy tasks against in-memory clusters: one fault each, in simulated time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from ledger.errors import LedgerUnavailableError
from ledger.facts.findings import Side
from ledger.facts.syncs import Gap, GapCause
from ledger.kafka.batches import TRANSACTIONAL
from ledger.kafka.requests import Fetched, FetchItem
from ledger.mirror.assignment import StopCause
from ledger.mirror.partition import PartitionCopy
from ledger.topics.naming import RecordFilter
from tests.simulation.kafka.network import CalmWeather, Fate, MemoryLink
from tests.simulation.kafka.partition_log import Garbling, Replication
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.copy_tasks import FOREIGN, NOW_MS, OWN_PRODUCER_ID, Bench, cause, moved


def test_partitions_on_different_nodes_are_copied_until_their_ends() -> None:
    bench = Bench()
    bench.write(3, 4, 5)
    bench.write(1, 2, partition=1)
    results = bench.run(bench.assignment(0), bench.assignment(1))
    assert [
        (r.position.source_offset, r.position.target_offset, r.position.next_sequence) for r in results
    ] == [(12, 12, 12), (3, 3, 3)]
    assert bench.is_copied(0)
    assert bench.is_copied(1)
    assert bench.schedule.monotonic() < 1, "the task ends when everything has reached its end"


def test_a_deadline_ends_a_task_that_has_no_end() -> None:
    bench = Bench()
    bench.write(3)
    [result] = bench.run(bench.assignment(end_offset=99), seconds=2.0)
    assert (result.position.source_offset, cause(result)) == (3, None)
    assert 2.0 <= bench.schedule.monotonic() < 2.2


def test_a_task_waits_at_each_node_for_records_though_their_answers_come_at_different_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    fetch = MemoryLink.fetch

    def noted(link: MemoryLink, node: int, items: Sequence[FetchItem], **how: Any) -> int:
        asked.append(how["max_wait_ms"])
        return fetch(link, node, items, **how)

    monkeypatch.setattr(MemoryLink, "fetch", noted)
    bench = Bench()
    nodes = {bench.source.topic_by_name["orders"].leaders[partition] for partition in (0, 1)}
    bench.write(3)
    first, second = bench.assignment(0, end_offset=99), bench.assignment(1, end_offset=99)
    bench.schedule.after(1.01, partial(bench.write, 1))
    bench.run(first, second, seconds=5.0, max_wait_ms=500)
    assert len(nodes) == 2
    assert bench.is_copied(0)
    assert len(asked) < 40, asked


def test_records_that_follow_each_other_closely_share_fetches_and_one_that_comes_alone_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answered = list[float](), list[float]()
    fetch, take_fetched = MemoryLink.fetch, PartitionCopy.take_fetched
    bench = Bench()

    def taken(copy: PartitionCopy, fetched: Fetched, **how: Any) -> None:
        if fetched.records:
            answered.append(bench.schedule.monotonic())
        take_fetched(copy, fetched, **how)

    def noted(link: MemoryLink, node: int, items: Sequence[FetchItem], **how: Any) -> int:
        if how["committed"]:
            asked.append(bench.schedule.monotonic())
        return fetch(link, node, items, **how)

    monkeypatch.setattr(MemoryLink, "fetch", noted)
    monkeypatch.setattr(PartitionCopy, "take_fetched", taken)
    stream = [1.0 + number / 1000 for number in range(50)]
    for at in (*stream, 2.0):
        bench.schedule.after(at, partial(bench.write, 1))
    bench.run(bench.assignment(0, end_offset=99), seconds=3.0, max_wait_ms=500, gather_ms=5)
    of_stream = [at for at in asked if 1.0 <= at <= 1.1]
    assert 8 <= len(of_stream) <= 13, asked
    assert answered[-1] >= 2.0
    assert answered[-1] in asked, "who has waited for a record asks for the next one at once"
    assert bench.is_copied()


def test_who_has_sent_comes_behind_the_others_where_a_request_has_no_room_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    send_next = PartitionCopy.send_next

    def noted(copy: PartitionCopy, node: int) -> memoryview:
        sent.append(copy.assignment.source.partition)
        return send_next(copy, node)

    monkeypatch.setattr(PartitionCopy, "send_next", noted)
    bench = Bench()
    for cluster in (bench.source, bench.target):
        cluster.topic_by_name["orders"].leaders = [1, 1]
    for partition in (0, 1):
        bench.write(*[1] * 20, partition=partition)
    bench.run(bench.assignment(0), bench.assignment(1), produce_request_bytes=1)
    assert bench.is_copied(0)
    assert bench.is_copied(1)
    assert sorted(sent) == [0] * 20 + [1] * 20
    assert sent[10:30] in ([0, 1] * 10, [1, 0] * 10), "once both may have several on their way"


@dataclass(frozen=True)
class LosesOne(CalmWeather):
    """The n-th produce request meets a fate of its own."""

    lost: int = 1
    how: Fate = Fate.LOST_AFTER
    requests: list[None] = field(default_factory=list)

    def fate(self, *, is_fetch: bool) -> Fate:
        if is_fetch:
            return Fate.ANSWERED
        self.requests.append(None)
        return self.how if len(self.requests) == self.lost else Fate.ANSWERED


@pytest.mark.parametrize("how", [Fate.LOST_BEFORE, Fate.LOST_AFTER])
@pytest.mark.parametrize("lost", [1, 2, 4])
def test_28_a_lost_answer_is_looked_up_at_the_target(lost: int, how: Fate) -> None:
    bench = Bench(weather=LosesOne(lost=lost, how=how))
    bench.write(*[2] * 8)
    [result] = bench.run(bench.assignment())
    assert bench.is_copied()
    assert [sync.recovered for sync in result.syncs].count(True) <= 1
    assert (result.position.source_offset, result.position.next_sequence, cause(result)) == (16, 16, None)


def test_30_a_second_attempt_finds_what_the_first_has_written() -> None:
    bench = Bench()
    bench.write(2, 3, 4)
    told = bench.assignment()
    bench.run(told)
    bench.write(5)
    [again] = bench.run(bench.assignment())
    assert [(s.source_start, s.source_end, s.recovered) for s in again.syncs] == [
        (0, 9, True),
        (9, 14, False),
    ]
    assert bench.is_copied()


@pytest.mark.parametrize("copied", [0, 1, 3])
def test_a_task_that_pairs_finds_what_was_written_and_writes_nothing(copied: int) -> None:
    """Others have written behind it since; it ends as soon as it has read the target's log."""
    bench = Bench()
    bench.write(*[2] * copied)
    bench.run(bench.assignment())
    bench.write(4, 5)
    bench.target_log().append(FOREIGN, now_ms=NOW_MS)
    before = bench.target_log().end
    asked = replace(bench.assignment(exclusive=False), end_offset=None, pairs_below=before)
    [result] = bench.run(asked, seconds=60.0)
    assert (cause(result), result.trouble, bench.target_log().end) == (None, None, before)
    assert result.has_paired
    assert (result.position.source_offset, result.position.next_sequence) == (2 * copied, 2 * copied)
    assert [(s.source_start, s.source_end, s.recovered) for s in result.syncs] == (
        [(0, 2 * copied, True)] if copied else []
    )
    assert bench.schedule.monotonic() < 2.0


def test_a_task_that_pairs_waits_for_no_record_that_an_application_wrote_with_the_flows_id() -> None:
    """Behind the end that was promoted, with the next sequence, and in the same answer: the source has none such."""
    bench = Bench()
    bench.write(2)
    bench.run(bench.assignment())
    before = bench.target_log().end
    contents, producer = [content(b"not", b"ours")] * 3, Producer(OWN_PRODUCER_ID, 0, before)
    bench.target_log().append(application_batch(contents, [NOW_MS] * 3, producer=producer), now_ms=NOW_MS)
    asked = replace(bench.assignment(exclusive=False), end_offset=None, pairs_below=before)
    [result] = bench.run(asked, seconds=60.0)
    assert (cause(result), result.has_paired, result.position.source_offset) == (None, True, before)
    assert [(s.source_start, s.source_end, s.recovered) for s in result.syncs] == [(0, before, True)]
    assert bench.schedule.monotonic() < 2.0


def test_25_a_full_disk_is_trouble_until_there_is_room() -> None:
    bench = Bench()
    bench.write(2, 3)
    bench.target_log().replication = Replication.NO_ROOM
    [result] = bench.run(bench.assignment(), seconds=1.0)
    assert (cause(result), result.syncs, bench.target_log().end) == (None, (), 0)
    assert "KAFKA_STORAGE_ERROR" in str(result.trouble)
    assert result.unreached == ((Side.TARGET, result.trouble),)
    bench.target_log().replication = Replication.FULL
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset, bench.is_copied()) == (None, 5, True)


@pytest.mark.parametrize("refused_s", [0.0005, 0.0025, 0.0045, 0.0065, 0.0085, 0.0105])
def test_p5_no_batch_overtakes_one_that_was_refused(refused_s: float) -> None:
    """A new partition knows no producer: it would take the second batch where the first was refused."""
    bench = Bench()
    bench.write(2, 3, 4, 5)
    log = bench.target_log()
    log.replication = Replication.REFUSED
    bench.schedule.after(refused_s, lambda: setattr(log, "replication", Replication.FULL))
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset) == (None, 14)
    assert bench.is_copied()


@dataclass(frozen=True)
class Uneven(CalmWeather):
    """Requests that are sent together arrive one after another."""

    asked: list[None] = field(default_factory=list)

    def delay_s(self) -> float:
        self.asked.append(None)
        return 0.001 * (1 + len(self.asked) * 7 % 5)


@pytest.mark.parametrize("held_s", [0.02 + 0.002 * n for n in range(10)])
def test_p4_what_was_sent_before_a_doubt_and_is_taken_after_it_is_found_in_the_tail(held_s: float) -> None:
    """Replicas do not follow for a moment: one batch is there and not acknowledged, those behind it are."""
    bench = Bench(weather=Uneven())
    bench.write(*[2] * 12)
    log = bench.target_log()
    bench.schedule.after(held_s, log.hold)
    bench.schedule.after(held_s + 0.003, lambda: log.fail_over(keep_held=True))
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset, result.position.next_sequence) == (None, 24, 24)
    assert bench.is_copied()


class SlowFirstNode(CalmWeather):
    """Answers take turns in being slow, so that two nodes overtake each other."""

    ways = (0.001, 0.050)
    turn = 0

    def delay_s(self) -> float:
        SlowFirstNode.turn += 1
        return self.ways[SlowFirstNode.turn % 2]


@pytest.mark.parametrize("moved_s", [0.02 * n for n in range(1, 12)])
def test_2_a_leader_that_moves_does_not_mix_up_acknowledgements(moved_s: float) -> None:
    bench = Bench(weather=SlowFirstNode())
    bench.write(*[3] * 20)
    bench.write(*[3] * 20, partition=1)
    for partition in (0, 1):
        move = partial(bench.target.move_leader, "orders", partition, 3 - partition)
        bench.schedule.after(moved_s + partition * 0.01, move)
    results = bench.run(bench.assignment(0), bench.assignment(1), seconds=20)
    assert [(cause(r), r.position.source_offset, r.position.target_offset) for r in results] == [
        (None, 60, 60)
    ] * 2
    assert bench.is_copied(0)
    assert bench.is_copied(1)


@pytest.mark.parametrize(
    ("side", "gone"), [("source", StopCause.SOURCE_TOPIC_GONE), ("target", StopCause.TARGET_TOPIC_GONE)]
)
@pytest.mark.parametrize("recreate", [True, False])
def test_14_16_a_topic_that_is_gone_stops_its_partitions_within_a_round(
    side: str, gone: StopCause, recreate: bool
) -> None:
    bench = Bench()
    bench.write(3)
    told = bench.assignment(end_offset=99)
    cluster = bench.source if side == "source" else bench.target

    def disappear() -> None:
        cluster.delete_topic("orders")
        if recreate:
            cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})
        elif side == "target":
            bench.write(1)

    bench.schedule.after(0.5, disappear)
    if side == "target":
        bench.schedule.after(0.6, lambda: bench.write(4))
    [result] = bench.run(told)
    assert cause(result) is gone
    assert result.unreached == (), "it is not out of reach"
    assert result.position.source_offset == 3
    if recreate:
        assert cluster.log("orders", 0).end == 0, "nothing is written to another incarnation"


def test_14_a_target_that_is_gone_from_the_start_stops_an_idle_partition() -> None:
    bench = Bench()
    told = bench.assignment(end_offset=99)
    bench.target.delete_topic("orders")
    [result] = bench.run(told)
    assert cause(result) is StopCause.TARGET_TOPIC_GONE


def test_a_partition_without_a_leader_is_trouble_and_no_stop() -> None:
    bench = Bench()
    bench.write(3)
    bench.target.move_leader("orders", 0, None)
    [result] = bench.run(bench.assignment())
    assert (result.position.source_offset, cause(result)) == (0, None)
    assert result.trouble == "a partition without a leader at the target"


@pytest.mark.parametrize("side", ["source", "target"])
def test_78_a_topic_that_may_not_be_described_stops_its_partitions(side: str) -> None:
    bench = Bench()
    bench.write(3)
    told = bench.assignment()
    getattr(bench, side).undescribable.add("orders")
    [result] = bench.run(told)
    assert cause(result) is StopCause.DENIED
    assert result.stop is not None
    assert f"the {side} denies DESCRIBE" in result.stop.message
    assert result.position.source_offset == 0


def test_12_retention_that_overtakes_stops_the_partition_where_it_stood() -> None:
    bench = Bench()
    bench.write(3, 3)
    told = bench.assignment()
    bench.source_log().delete_before(4)
    [result] = bench.run(told)
    assert cause(result) is StopCause.SOURCE_OUT_OF_RANGE
    assert (result.position.source_offset, result.syncs) == (0, ())


def test_12_what_was_fetched_before_retention_came_is_still_copied() -> None:
    bench = Bench()
    bench.write(5, 5)
    told = bench.assignment(end_offset=99)

    arrived: list[int] = []

    def overtake() -> None:
        arrived.append(bench.target_log().end)
        bench.write(7, 7)
        bench.source_log().delete_before(24)

    bench.schedule.after(0.005, overtake)
    [result] = bench.run(told)
    assert cause(result) is StopCause.SOURCE_OUT_OF_RANGE
    assert arrived[0] < 10, "nothing was on its way when retention came"
    assert (result.position.source_offset, bench.target_log().end) == (10, 10)


def test_a_target_that_lost_its_end_is_not_written_to() -> None:
    bench = Bench()
    bench.write(3)
    [result] = bench.run(moved(bench.assignment(), target_offset=7))
    assert cause(result) is StopCause.TARGET_OUT_OF_RANGE
    assert bench.target_log().end == 0


def test_a_target_whose_retention_deleted_all_that_was_written_goes_on() -> None:
    """Its log starts behind the flow's last record, which is looked for in vain."""
    bench = Bench()
    bench.write(5)
    [first] = bench.run(bench.assignment())
    bench.target_log().delete_before(5)
    bench.write(2)
    told = replace(bench.assignment(), position=first.position)
    [result] = bench.run(told)
    assert (cause(result), result.position.source_offset, result.position.target_offset) == (None, 7, 7)


def test_33_a_fenced_producer_id_stops_the_partition() -> None:
    bench = Bench()
    bench.write(3)
    bench.target_log().end_transaction(OWN_PRODUCER_ID, 1, commit=False, now_ms=NOW_MS)
    [result] = bench.run(bench.assignment())
    assert cause(result) is StopCause.SHUT_OUT


def test_23_a_record_above_the_limit_stops_the_partition_and_all_before_it_is_copied() -> None:
    bench = Bench()
    bench.target_log().max_message_bytes = 300
    contents = [content(b"k", b"v" * size) for size in (9, 9, 500, 9, 9)]
    bench.source_log().append(application_batch(contents, [NOW_MS] * 5), now_ms=NOW_MS)
    [result] = bench.run(bench.assignment())
    assert (cause(result), result.position.source_offset, bench.target_log().end) == (StopCause.REFUSED, 2, 2)
    assert "10 (MESSAGE_TOO_LARGE); max.message.bytes" in str(result.stop)
    bench.target_log().max_message_bytes = 700
    [again] = bench.run(replace(bench.assignment(), position=result.position, end_offset=5))
    assert (cause(again), bench.is_copied()) == (None, True)


def test_an_unreachable_cluster_is_trouble_until_it_answers() -> None:
    bench = Bench()
    bench.write(3)
    bench.target.available = False
    [result] = bench.run(bench.assignment(), seconds=1.0)
    assert result.trouble == "cluster 'west': no broker answers"
    bench.schedule.after(0.5, lambda: setattr(bench.target, "available", True))
    [result] = bench.run(bench.assignment())
    assert (result.position.source_offset, result.trouble) == (3, None)


def test_small_responses_reach_every_partition() -> None:
    """A response is filled in the order asked; whoever comes late in one is first in another."""
    bench = Bench()
    for topic in ("source", "target"):
        cluster = getattr(bench, topic)
        for partition in (0, 1):
            cluster.move_leader("orders", partition, 1)
    bench.write(*[9] * 40)
    bench.write(*[9] * 40, partition=1)
    results = bench.run(bench.assignment(0), bench.assignment(1), seconds=20)
    assert [r.position.source_offset for r in results] == [360, 360]


class FailingDirectory:
    """A ledger that is away until it is back."""

    def __init__(self, *mirrors: int) -> None:
        self.mirrors = frozenset(mirrors)
        self.asked = 0
        self.is_away = True

    def is_mirror(self, producer_id: int) -> bool:
        self.asked += 1
        if self.is_away and producer_id != -1:
            raise LedgerUnavailableError("the ledger is away")
        return producer_id in self.mirrors


def write_as(bench: Bench, producer_id: int, count: int) -> None:
    contents = [content(b"of-%d" % producer_id, b"v")] * count
    producer = Producer(producer_id, 0, 0)
    bench.source_log().append(application_batch(contents, [NOW_MS] * count, producer=producer), now_ms=NOW_MS)


def test_a_partition_waits_while_writers_cannot_be_looked_up_and_says_so() -> None:
    directory = FailingDirectory()
    bench = Bench(writers=directory)
    bench.write(3)
    write_as(bench, 7, 2)
    (result,) = bench.run(bench.assignment(), seconds=5.0)
    assert (result.position.source_offset, result.stop, result.trouble) == (3, None, "the ledger is away")
    assert bench.target_log().end == 3
    assert 2 < directory.asked < 20, "it is asked again, less and less often"


def test_a_partition_goes_on_when_writers_can_be_looked_up_again() -> None:
    directory = FailingDirectory(41)
    bench = Bench(writers=directory)
    for producer_id in (41, 7):
        write_as(bench, producer_id, 2)
    bench.schedule.after(1.0, lambda: setattr(directory, "is_away", False))
    (result,) = bench.run(bench.assignment(), seconds=5.0)
    assert (result.position.source_offset, result.trouble) == (4, None)
    assert [gap.cause for sync in result.syncs for gap in sync.gaps] == [GapCause.MIRROR_WRITE]
    assert bench.target_log().end == 2


def test_what_a_flow_adopted_at_the_source_is_left_out_in_the_middle_of_batches() -> None:
    """A reverse flow's view: MirrorMaker wrote offsets 1 to 5, applications what lies around."""
    bench = Bench()
    bench.write(3, 2, 4)
    (result,) = bench.run(replace(bench.assignment(), adopted=((1, 6),)))
    assert (result.position.source_offset, result.position.target_offset, result.stop) == (9, 4, None)
    assert [gap for sync in result.syncs for gap in sync.gaps] == [Gap(1, 6, GapCause.MIRROR_WRITE)]
    source = [record.content for record in bench.source_log().readable()]
    assert [record.content for record in bench.target_log().readable()] == [source[0], *source[6:]]


def test_what_nobody_foresaw_halts_one_partition_and_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the program itself is wrong: the others are copied, and the reason is told."""
    taken = PartitionCopy.take_fetched

    def fails_on_the_first(copy: PartitionCopy, fetched: Fetched, *, of_replica: bool) -> None:
        if copy.assignment.source.partition == 0:
            raise KeyError("nobody thought of this")
        taken(copy, fetched, of_replica=of_replica)

    monkeypatch.setattr(PartitionCopy, "take_fetched", fails_on_the_first)
    bench = Bench()
    bench.write(3)
    bench.write(2, partition=1)
    failed, other = bench.run(bench.assignment(0), bench.assignment(1))
    assert cause(failed) is StopCause.FAILED
    assert failed.stop is not None
    assert "KeyError: 'nobody thought of this'" in failed.stop.message
    assert failed.syncs == ()
    assert (cause(other), bench.is_copied(1)) == (None, True)


def test_a_task_that_has_many_gaps_to_record_ends_before_its_time() -> None:
    """A filter leaves out every second record: what is to be recorded grows with every record."""
    bench = Bench()
    bench.write(*[40] * 50)
    every_second = RecordFilter(exclude_keys=("[0-9]*[02468]",))
    told = replace(bench.assignment(), record_filter=every_second)
    position, rounds = 0, 0
    while position < 2_000:
        [result] = bench.run(
            moved(
                told,
                source_offset=position,
                target_offset=bench.target_log().end,
                next_sequence=bench.target_log().end,
            ),
            gaps=300,
        )
        gaps = sum(len(sync.gaps) for sync in result.syncs)
        assert 0 < gaps < 300 + 3 * 20 * 5, "what was on its way when it had enough is recorded as well"
        position, rounds = result.position.source_offset, rounds + 1
    assert rounds > 1
    assert bench.target_log().end == 1_000


@pytest.mark.parametrize("garbling", [Garbling.LENGTH, Garbling.MAGIC])
def test_where_the_source_answers_a_comparison_with_no_batch_that_partition_alone_stops(
    garbling: Garbling,
) -> None:
    bench = Bench()
    for partition in (0, 1):
        bench.write(5, 5, partition=partition)
    first = bench.run(bench.assignment(0), bench.assignment(1))
    for partition in (0, 1):
        bench.write(5, partition=partition)
    for cluster in (bench.source, bench.target):  # one broker answers for both
        cluster.move_leader("orders", 1, cluster.topic_by_name["orders"].leaders[0])
    bench.source_log(0).garbling = garbling  # which is answered behind the other one
    again = [
        replace(bench.assignment(at), position=result.position, compares_source=True)
        for at, result in enumerate(first)
    ]
    assert [cause(result) for result in bench.run(*again, fetch_bytes=1_000)] == [StopCause.CORRUPT, None]
    assert (bench.target_log(0).end, bench.is_copied(1)) == (10, True)


def test_where_markers_alone_are_left_before_the_position_the_flow_continues_uncompared() -> None:
    bench = Bench()
    bench.write(5, 5)
    log = bench.source_log()
    for producer in (70, 71):
        own = Producer(producer, 0, 0)
        batch = application_batch([content(b"k", b"v")], [NOW_MS], attributes=TRANSACTIONAL, producer=own)
        log.append(batch, now_ms=NOW_MS)
    for producer in (70, 71):
        log.end_transaction(producer, 0, commit=False, now_ms=NOW_MS)
    [first] = bench.run(bench.assignment())
    assert first.position.source_offset == log.end == 14
    log.delete_before(12)
    bench.write(3)
    told = replace(bench.assignment(), position=first.position, compares_source=True)
    [result] = bench.run(told)
    assert (cause(result), result.uncompared) == (None, True)
    assert (result.position.source_offset, bench.target_log().end) == (17, 13)
