"""What the judge of simulated lives does not hold against a flow, and what it does, on logs put together by hand."""

from dataclasses import replace

import pytest

from ledger.facts.syncs import GapCause
from tests.simulation.accounts import Account, At, Expired
from tests.simulation.checks import (
    Copied,
    check_cleaned_records_are_gone,
    check_expired_records_are_counted,
    check_foreign_records_were_noticed,
    check_gaps_have_their_cause,
    check_l3_once,
    check_records_are_the_same,
)
from tests.simulation.chronicles import Chronicles
from tests.simulation.faults import Promise
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.simulation.workload import TopicKind

FLOW_ID, MIRROR_ID = 1000, 999


class Life:
    """Topic `t` at both sides; the flow's rows are put together by the test."""

    def __init__(self) -> None:
        self.clusters = [MemoryCluster(alias, Schedule()) for alias in ("east", "west")]
        for cluster in self.clusters:
            cluster.create_topic("t", partitions=1, replication_factor=1, configuration={})
        self.source, self.target = (cluster.log("t", 0) for cluster in self.clusters)
        self.account = Account("f", "t", (self.clusters[0].topic_by_name["t"].topic_id, 0))
        self.account.target_topic_id = self.clusters[1].topic_by_name["t"].topic_id

    def at(self, offset: int) -> At:
        return At(self.account.target_topic_id, offset)

    def copied(self) -> Copied:
        chronicles = [Chronicles(cluster) for cluster in self.clusters]
        return Copied(
            account=self.account,
            kind=TopicKind.PLAIN,
            source=chronicles[0].at(self.account.source),
            targets=chronicles[1],
            producer_ids=frozenset({FLOW_ID}),
            mirror_ids=frozenset({MIRROR_ID}),
            is_relayed=False,
            is_exclusive=False,
            is_source_living=True,
            is_reopened=True,
            is_accepted=False,
            promise=Promise.ONCE,
            stop=None,
            stops_told=frozenset(),
            told=frozenset(),
            returning=frozenset(),
        )


def write(log: PartitionLog, count: int, *, producer_id: int = -1, sequence: int = 0) -> None:
    producer = Producer(producer_id, 0, sequence) if producer_id >= 0 else Producer()
    contents = [content(b"k", b"%d" % number) for number in range(count)]
    log.append(application_batch(contents, [5] * count, producer=producer), now_ms=5)


def life_with_a_straddled_batch(*, log_start: int) -> Life:
    """A mirror's batch of ten lies at the source up to offset 12; its start is deleted, then its end is lost."""
    life = Life()
    write(life.source, 2)
    write(life.source, 10, producer_id=MIRROR_ID)
    life.source.delete_before(log_start)
    life.source.lose_end(7)
    return life


def test_of_a_batch_whose_start_was_deleted_and_whose_end_was_lost_nothing_is_asked() -> None:
    life = life_with_a_straddled_batch(log_start=5)
    life.account.gaps = dict.fromkeys(range(2, 5), GapCause.MIRROR_WRITE)
    life.account.pairs = {2: life.at(0)}
    check_gaps_have_their_cause(life.copied())
    check_records_are_the_same(life.copied())


@pytest.mark.parametrize("offset", [1, 5])
def test_of_what_lies_around_it_all_is(offset: int) -> None:
    """Offset 5 can be read again, and offset 1 was an application's."""
    life = life_with_a_straddled_batch(log_start=5)
    life.account.gaps = {offset: GapCause.MIRROR_WRITE}
    with pytest.raises(AssertionError):
        check_gaps_have_their_cause(life.copied())
    life.account.pairs = {offset: life.at(0)}
    with pytest.raises(AssertionError):
        check_records_are_the_same(life.copied())


@pytest.mark.parametrize("cause", [GapCause.MIRROR_WRITE, GapCause.COMPACTED])
@pytest.mark.parametrize(
    ("offset", "epoch", "is_source_living", "is_right"),
    [(2, 0, False, True), (2, 0, True, False), (1, 0, False, False), (2, 1, False, False)],
)
def test_what_a_topic_lost_at_its_end_before_it_was_deleted_is_told_as_it_was_read(
    cause: GapCause, offset: int, epoch: int, is_source_living: bool, is_right: bool
) -> None:
    """Leader epoch 0 ends at offset 2 now; the application's record there is of epoch 1."""
    life = Life()
    write(life.source, 2)
    write(life.source, 3, producer_id=MIRROR_ID)
    life.source.lose_end(2)
    write(life.source, 3)
    life.account.gaps = {offset: cause}
    copied_row = {"kind": "copied", "cause": None, "source_leader_epoch": epoch}
    life.account.rows = [{**copied_row, "source_start": 0, "source_end": 5}]
    copied = replace(life.copied(), is_source_living=is_source_living)
    if is_right:
        check_gaps_have_their_cause(copied)
    else:
        with pytest.raises(AssertionError):
            check_gaps_have_their_cause(copied)


def life_with_a_late_batch(*, is_truncated: bool) -> Life:
    """The target lost eleven records of the flow, and took and deleted nine that follow them."""
    life = Life()
    if is_truncated:
        write(life.target, 11, producer_id=FLOW_ID)
        life.target.lose_end(0)
    write(life.target, 9, producer_id=FLOW_ID, sequence=11)
    life.target.delete_before(9)
    return life


@pytest.mark.parametrize(
    ("is_truncated", "sequence", "is_right"),
    [(True, 20, True), (True, 19, False), (True, 9, True), (False, 20, False), (False, 9, True)],
)
def test_records_that_a_target_lost_at_its_end_count_as_expired_behind_it(
    is_truncated: bool, sequence: int, is_right: bool
) -> None:
    life = life_with_a_late_batch(is_truncated=is_truncated)
    life.account.expired = [Expired(life.at(0), 9, sequence, sequence)]
    if is_right:
        check_expired_records_are_counted(life.copied())
    else:
        with pytest.raises(AssertionError):
            check_expired_records_are_counted(life.copied())


@pytest.mark.parametrize(
    ("is_truncated", "key", "is_right"), [(True, b"k", True), (True, b"other", False), (False, b"k", False)]
)
def test_what_a_target_lost_may_look_as_if_a_cleaner_had_taken_it_where_its_key_has_a_later_record(
    is_truncated: bool, key: bytes, is_right: bool
) -> None:
    """The copy of offset 0 went with the target's end, that of offset 1 came late and lies there now."""
    life = Life()
    for name, value in ((b"k", b"first"), (key, b"later")):
        life.source.append(application_batch([content(name, value)], [5]), now_ms=5)
    if is_truncated:
        write(life.target, 1, producer_id=FLOW_ID)
        life.target.lose_end(0)
    late = application_batch([content(key, b"later")], [5], producer=Producer(FLOW_ID, 0, 1))
    life.target.append(late, now_ms=6)
    life.account.gaps, life.account.pairs = {0: GapCause.COMPACTED}, {1: life.at(0)}
    life.account.cleaned = {(life.account.target_topic_id, 0)}
    if is_right:
        check_gaps_have_their_cause(life.copied())
        check_cleaned_records_are_gone(life.copied())
    else:
        with pytest.raises(AssertionError):
            check_gaps_have_their_cause(life.copied())
    if not is_truncated:
        with pytest.raises(AssertionError):
            check_cleaned_records_are_gone(life.copied())


@pytest.mark.parametrize(("log_start", "is_right"), [(9, True), (5, True), (4, False)])
def test_two_flows_may_claim_a_place_that_a_target_lost_and_deleted_since(
    log_start: int, is_right: bool
) -> None:
    """One flow's record at offset 4 went with the target's end, the other one's came there; nobody can read it now."""
    life, other = Life(), Account("g", "t", ("other", 0))
    write(life.target, 9, producer_id=FLOW_ID)
    life.target.lose_end(0)
    write(life.target, 9, producer_id=FLOW_ID + 1)
    life.target.delete_before(log_start)
    life.account.pairs, other.pairs = {4: life.at(4)}, {0: life.at(4)}
    claims = [life.account, other]
    if is_right:
        check_l3_once(claims, life.copied().targets)
    else:
        with pytest.raises(AssertionError):
            check_l3_once(claims, life.copied().targets)


@pytest.mark.parametrize(("target_start", "is_right"), [(2, True), (1, False)])
def test_what_was_deleted_before_a_flow_came_to_a_target_nobody_notices(
    target_start: int, is_right: bool
) -> None:
    """Somebody else wrote two records there."""
    life = Life()
    write(life.target, 2)
    write(life.target, 3, producer_id=FLOW_ID)
    life.target.delete_before(2)
    life.account.rows = [{"target_topic_id": life.account.target_topic_id, "target_start": target_start}]
    life.account.pairs = {0: life.at(4)}
    copied = replace(life.copied(), is_exclusive=True)
    if is_right:
        check_foreign_records_were_noticed(copied)
    else:
        with pytest.raises(AssertionError):
            check_foreign_records_were_noticed(copied)


@pytest.mark.parametrize(
    ("kind", "sequence", "is_right"),
    [(TopicKind.COMPACTED, 3, True), (TopicKind.COMPACTED, 4, False), (TopicKind.PLAIN, 3, False)],
)
def test_what_a_cleaner_took_behind_expired_records_counts_with_them(
    kind: TopicKind, sequence: int, is_right: bool
) -> None:
    """Of the flow's records at 0 to 4 retention took the first two, and a cleaner the next one."""
    life = Life()
    write(life.target, 2, producer_id=FLOW_ID)
    write(life.target, 1, producer_id=FLOW_ID, sequence=2)
    write(life.target, 1, producer_id=FLOW_ID, sequence=3)
    write(life.target, 1, producer_id=FLOW_ID, sequence=4)
    life.target.delete_before(2)
    life.target.compact(4)
    life.account.expired = [Expired(life.at(0), 2, sequence, sequence)]
    copied = replace(life.copied(), kind=kind)
    if is_right:
        check_expired_records_are_counted(copied)
    else:
        with pytest.raises(AssertionError):
            check_expired_records_are_counted(copied)
