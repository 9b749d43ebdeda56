"""What a driver does about a partition that a task could not go on with: facts, then the policy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.config.values import FlowConfig, Policy, TargetMode
from ledger.errors import ClusterUnavailableError
from ledger.facts.identity import FlowProducer
from ledger.facts.state import LedgerState
from ledger.facts.syncs import (
    NOTHING_KNOWN,
    Gap,
    GapCause,
    OffsetSync,
    PartitionPair,
    RecordedSync,
    SyncCause,
    SyncKind,
    TailKnowledge,
    TopicPartition,
)
from ledger.kafka.batches import BatchHeader, WholeBatch, build, patch_for_target, read_header
from ledger.kafka.cluster import PartitionEnds, TopicDescription
from ledger.mirror.assignment import Divergence, PartitionResult, Stop, StopCause
from ledger.mirror.states import PartitionState
from ledger.mirror.stops import TRY_AGAIN, PolicyOutcome, StopPolicies, loss_cause
from tests.support.copy_tasks import RECORDED, SOURCE, TARGET, TOPICS, assignment
from tests.support.offset_syncs import row
from tests.support.unasked_cluster import UnaskedCluster


def recorded_as(number: int, sync: OffsetSync) -> RecordedSync:
    return RecordedSync(1, number, replace(sync, source=SOURCE, target=TARGET))


COPIED = [
    recorded_as(1, row((0, 20), (0, 20), 0, epoch=1)),
    recorded_as(2, row((20, 30), (20, 25), 20, epoch=2, gaps=(Gap(25, 30, GapCause.CONTROL),))),
]


OWN = 7
FOREIGN = 8
REMEMBERED = 31


@dataclass
class Ends(UnaskedCluster):
    """A cluster that only knows where one partition starts and ends, and the batches that lie in it."""

    now: PartitionEnds | None = None
    batches: Sequence[BatchHeader] = ()
    alias: str = "either"
    described: Mapping[str, TopicDescription] = field(default_factory=lambda: TOPICS)
    asked: list[object] = field(default_factory=list)
    answered: Iterator[None] = field(default_factory=lambda: repeat(None))
    """One for each question that is answered; where it ends the cluster does not answer."""

    def _answers(self) -> None:
        if next(self.answered, self) is self:
            raise ClusterUnavailableError("no broker answers")

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        self._answers()
        self.asked += partitions
        return {} if self.now is None else {partitions[0]: self.now}

    def topics(self) -> dict[str, TopicDescription]:
        self._answers()
        return dict(self.described)

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Of topics without retention: what is gone was deleted by somebody."""
        self._answers()
        return {topic: {"cleanup.policy": "compact"} for topic in topics}

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        self._answers()
        assert (partition, producer_id) == (TARGET, OWN)
        return REMEMBERED

    def whole_batches_at(self, _partition: TopicPartition, _offset: int) -> list[WholeBatch]:
        return []

    def batches_at(self, partition: TopicPartition, offset: int) -> list[BatchHeader]:
        self._answers()
        assert partition == TARGET
        return [header for header in self.batches if header.end_offset > offset]


def batch(start: int, end: int, *, sequence: int, producer_id: int = OWN) -> BatchHeader:
    """The header of a batch that covers `[start, end)`."""
    built = build(attributes=0, base_timestamp=0, max_timestamp=0, count=end - start, payload=b"")
    patch_for_target(memoryview(built), 0, producer_id=producer_id, sequence=sequence)
    return replace(read_header(memoryview(built)), base_offset=start)


WRITTEN = (batch(0, 20, sequence=0), batch(20, 25, sequence=20))


def flow(policy: Policy, mode: TargetMode = TargetMode.EXCLUSIVE) -> FlowConfig:
    return FlowConfig(
        name="flow",
        source="east",
        target="west",
        topics=(".*",),
        target_mode=mode,
        on_loss=policy,
        on_source_truncated=policy,
        on_target_truncated=policy,
    )


@dataclass
class Reaction:
    """A driver that comes to a partition which a task could not continue."""

    cause: StopCause
    source: PartitionEnds | None = None
    target: PartitionEnds | None = None
    divergence: Divergence | None = None
    lost_from: int | None = None
    whole_below: int | None = None
    described: Mapping[str, TopicDescription] = field(default_factory=lambda: TOPICS)
    policy: Policy = Policy.STOP
    mode: TargetMode = TargetMode.EXCLUSIVE
    accepted_below: int = 0
    batches: Sequence[BatchHeader] = WRITTEN
    recorded: Sequence[RecordedSync] = field(default_factory=lambda: COPIED)
    answered: Iterator[None] = field(default_factory=lambda: repeat(None))

    def __post_init__(self) -> None:
        self.state = PartitionState(PartitionPair(SOURCE, TARGET), RECORDED.position)
        self.state.accepted_below = self.accepted_below
        self.state.tail = TailKnowledge(leader_epoch=4)

    def outcome(self) -> PolicyOutcome:
        stop = Stop(self.cause, "as told")
        result = PartitionResult(
            assignment=assignment(),
            syncs=(),
            position=RECORDED.position,
            tail=NOTHING_KNOWN,
            stop=stop,
            trouble=None,
            divergence=self.divergence,
            target_lost_from=self.lost_from,
            target_whole_below=self.whole_below,
        )
        stop_policies = StopPolicies(
            flow(self.policy, self.mode),
            Ends(self.source, described=self.described, answered=self.answered),
            Ends(self.target, self.batches, described=self.described, answered=self.answered),
            FlowProducer(OWN),
            cast(LedgerState, SimpleNamespace(recorded_syncs=lambda *_partition: self.recorded)),
        )
        return stop_policies.to(self.state, result, stop)


def react(cause: StopCause, **situation: Any) -> tuple[PolicyOutcome, PartitionState]:
    reaction = Reaction(cause, **situation)
    return reaction.outcome(), reaction.state


def ends(start: int, end: int) -> PartitionEnds:
    return PartitionEnds(start, end, end, 0)


def told(fact: OffsetSync) -> tuple[object, ...]:
    return fact.kind, fact.cause, fact.source_start, fact.source_end, fact.target_start, fact.first_sequence


def placed(state: PartitionState) -> tuple[int, int, int]:
    """From where it is copied on: at the source, at the target, by which sequence."""
    at = state.position
    return at.source_offset, at.target_offset, at.next_sequence


BOTH = pytest.mark.parametrize("policy", list(Policy))


@BOTH
def test_what_is_gone_is_lost_whatever_the_policy(policy: Policy) -> None:
    outcome, state = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(60, 80), policy=policy)
    [fact] = outcome.facts
    assert told(fact) == (SyncKind.LOST, SyncCause.DELETED_RECORDS, 30, 60, 25, 24)
    assert (*placed(state)[:2], state.position.leader_epoch) == (60, 25, None)
    assert (outcome.stop is None) == (policy is Policy.CONTINUE)
    if outcome.stop is not None:
        assert outcome.stop.cause is StopCause.LOST
    else:
        assert "30 to 60" in str(outcome.notice)


@BOTH
@pytest.mark.parametrize(
    ("divergence", "position", "epoch"),
    [(Divergence(2, 27), 27, 2), (Divergence(1, 27), 20, 1), (Divergence(1, 12), 12, 1)],
)
def test_what_the_source_took_back_is_superseded(
    divergence: Divergence, position: int, epoch: int, policy: Policy
) -> None:
    outcome, state = react(StopCause.SOURCE_TRUNCATED, divergence=divergence, policy=policy)
    [fact] = outcome.facts
    assert told(fact) == (SyncKind.SUPERSEDED, SyncCause.SOURCE_TRUNCATED, position, 30, 25, 24)
    assert (*placed(state)[:2], state.position.leader_epoch) == (position, 25, epoch)
    assert (outcome.stop is None) == (policy is Policy.CONTINUE)


def test_a_source_that_ends_before_the_position_took_records_back() -> None:
    outcome, state = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(0, 22))
    assert told(outcome.facts[0])[1:4] == (SyncCause.SOURCE_TRUNCATED, 22, 30)
    assert state.position.source_offset == 22


def test_other_records_at_the_same_offsets_stop_without_a_guess() -> None:
    outcome, state = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(0, 50), policy=Policy.CONTINUE)
    [fact] = outcome.facts
    assert told(fact)[1:4] == (SyncCause.SOURCE_TRUNCATED, 30, 30), "nothing is taken back but the epoch"
    assert outcome.stop is not None
    assert outcome.stop.cause is StopCause.SOURCE_TRUNCATED
    assert (state.position.source_offset, state.position.leader_epoch) == (30, None)


@pytest.mark.parametrize(
    ("batches", "log_start", "held_end"),
    [
        (WRITTEN, 0, 25),
        ((WRITTEN[0], batch(20, 22, sequence=4, producer_id=FOREIGN), batch(22, 25, sequence=22)), 0, 20),
        ((batch(0, 7, sequence=0), batch(7, 20, sequence=4, producer_id=FOREIGN), WRITTEN[1]), 0, 7),
        ((batch(0, 7, sequence=0), batch(7, 9, sequence=1, producer_id=FOREIGN)), 0, 7),
        ((), 25, 25),
        (WRITTEN[1:], 22, 25),
    ],
)
def test_what_a_target_lost_in_the_middle_is_found_though_it_has_the_last_record(
    batches: Sequence[BatchHeader], log_start: int, held_end: int
) -> None:
    """The flow has written again behind it. Where all is there, the log is not asked by that leader epoch again.

    What retention took there proves nothing.
    """
    outcome, state = react(
        StopCause.TARGET_OUT_OF_RANGE,
        target=ends(log_start, 60),
        whole_below=7,
        batches=batches,
        policy=Policy.CONTINUE,
    )
    assert (state.position.target_offset, state.tail.leader_epoch) == (held_end, None)
    assert (outcome == TRY_AGAIN) == (held_end == 25)


@BOTH
@pytest.mark.parametrize(("end", "position"), [(24, 24), (20, 20), (7, 7)])
def test_what_the_target_lost_is_copied_again(end: int, position: int, policy: Policy) -> None:
    outcome, state = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, end), policy=policy)
    [fact] = outcome.facts
    assert told(fact) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, position, 30, end, position)
    assert placed(state) == (position, end, position)
    assert (outcome.stop is None) == (policy is Policy.CONTINUE)


def test_what_landed_below_says_where_the_target_went_back_to() -> None:
    """Its log has grown past the recorded end again by then."""
    outcome, state = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 60), lost_from=7)
    assert told(outcome.facts[0])[1:5] == (SyncCause.TARGET_TRUNCATED, 7, 30, 7)
    assert placed(state) == (7, 7, 7)


@pytest.mark.parametrize(
    ("batches", "held_end"),
    [
        (WRITTEN, 25),
        ((WRITTEN[0], batch(20, 60, sequence=4, producer_id=FOREIGN)), 20),
        ((WRITTEN[0], batch(20, 22, sequence=20), batch(22, 60, sequence=4, producer_id=FOREIGN)), 20),
        ((WRITTEN[0], batch(20, 60, sequence=40)), 20),
        ((batch(0, 60, sequence=0, producer_id=FOREIGN),), 0),
        ((batch(0, 5, sequence=0), batch(5, 60, sequence=5, producer_id=FOREIGN)), 0),
        ((WRITTEN[0], batch(30, 60, sequence=4, producer_id=FOREIGN)), 25),
    ],
)
def test_a_target_that_has_grown_again_is_held_against_what_was_recorded(
    batches: Sequence[BatchHeader], held_end: int
) -> None:
    """Its end says nothing; what remains of a row that was lost in part is found as the tail. A hole proves nothing."""
    outcome, state = react(
        StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 60), batches=batches, policy=Policy.CONTINUE
    )
    assert (state.position.target_offset, state.position.next_sequence) == (held_end, min(held_end, 24))
    assert (outcome == TRY_AGAIN) == (held_end == 25)


@BOTH
def test_a_position_in_a_topic_that_the_flow_never_wrote_to_does_not_stay_there(policy: Policy) -> None:
    """Tried again it would be found so for ever: the task meets another record there each time."""
    former = replace(TARGET, topic_id="former")
    recorded = [RecordedSync(1, n, replace(r.sync, target=former)) for n, r in enumerate(COPIED, 1)]
    batches = (batch(3, 60, sequence=4, producer_id=FOREIGN),)
    outcome, state = react(
        StopCause.TARGET_OUT_OF_RANGE,
        target=ends(3, 60),
        batches=batches,
        recorded=recorded,
        policy=policy,
    )
    assert told(outcome.facts[0]) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, 30, 30, 3, 24)
    assert placed(state) == (30, 3, 24)
    assert (outcome.stop is None) == (policy is Policy.CONTINUE)
    again, _ = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(25, 60), batches=batches, recorded=recorded)
    assert again == TRY_AGAIN


def test_what_was_superseded_before_is_not_copied_again() -> None:
    """The source took it back: the flow goes on where it stood, at the end that the target has now."""
    superseded = row((20, 30), (25, 25), 25, kind=SyncKind.SUPERSEDED)
    recorded = [*COPIED, recorded_as(3, superseded)]
    outcome, state = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 20), recorded=recorded)
    assert told(outcome.facts[0]) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, 30, 30, 20, 20)
    assert placed(state) == (30, 20, 20)


def test_what_the_target_lost_of_an_earlier_incarnation_is_told_as_gone() -> None:
    former = replace(SOURCE, topic_id="former")
    recorded = [RecordedSync(1, n, replace(r.sync, source=former)) for n, r in enumerate(COPIED, 1)]
    outcome, state = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 20), recorded=recorded)
    own, gone = outcome.facts
    assert (own.source, gone.source) == (SOURCE, former)
    assert told(gone) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, 20, 30, 20, 20)
    assert told(own) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, 30, 30, 20, 20)
    assert placed(state) == (30, 20, 20)
    assert outcome.stop is not None
    assert "20 to 30 of topic id former" in outcome.stop.message


@pytest.mark.parametrize("cause", [StopCause.SOURCE_OUT_OF_RANGE, StopCause.TARGET_OUT_OF_RANGE])
@pytest.mark.parametrize("described", [{}, {name: replace(t, topic_id="new") for name, t in TOPICS.items()}])
def test_ends_of_another_incarnation_prove_nothing(
    cause: StopCause, described: Mapping[str, TopicDescription]
) -> None:
    outcome, state = react(cause, source=ends(60, 80), target=ends(0, 7), described=described)
    assert outcome == TRY_AGAIN
    assert state.position.source_offset == 30


@pytest.mark.parametrize("accepted_below", [0, 39])
def test_an_exclusive_target_whose_start_moved_past_the_end_stops(accepted_below: int) -> None:
    outcome, state = react(
        StopCause.TARGET_OUT_OF_RANGE,
        target=ends(40, 60),
        policy=Policy.CONTINUE,
        accepted_below=accepted_below,
    )
    assert outcome.stop is not None
    assert outcome.stop.cause is StopCause.TARGET_OUT_OF_RANGE
    assert "begins at 40 and this flow is recorded up to 25" in outcome.stop.message
    assert (outcome.facts, state.target_log_start) == ((), 0)


@pytest.mark.parametrize(
    ("mode", "accepted_below"),
    [(TargetMode.SHARED, 0), (TargetMode.EXCLUSIVE, 40)],
    ids=["shared", "accepted"],
)
def test_otherwise_it_goes_on_where_the_target_begins(mode: TargetMode, accepted_below: int) -> None:
    outcome, state = react(
        StopCause.TARGET_OUT_OF_RANGE, target=ends(40, 60), mode=mode, accepted_below=accepted_below
    )
    assert (outcome.facts, outcome.stop) == ((), None)
    assert "continuing there" in str(outcome.notice)
    assert (state.target_log_start, state.remembered_sequence) == (40, REMEMBERED)
    assert state.position.target_offset == 25, "the task that reads the log records what became of the rest"


def test_a_sequence_that_only_the_target_remembers_is_taken_where_its_records_may_be_deleted() -> None:
    outcome, state = react(StopCause.SEQUENCE_REFUSED, target=ends(25, 60))
    (fact,) = outcome.facts
    assert (fact.kind, fact.cause, fact.first_sequence) == (
        SyncKind.UNPAIRED,
        SyncCause.RETENTION,
        REMEMBERED,
    )
    assert (fact.source_start, fact.source_end, fact.target_start, fact.target_end) == (30, 30, 25, 25)
    assert (outcome.stop, state.position.next_sequence, state.position.source_offset) == (
        None,
        REMEMBERED,
        30,
    )
    assert f"remembers that {REMEMBERED} is next" in str(outcome.notice)


@pytest.mark.parametrize("target", [ends(0, 60), ends(24, 60)])
def test_a_refused_sequence_that_nothing_explains_stops(target: PartitionEnds) -> None:
    assert react(StopCause.SEQUENCE_REFUSED, target=target)[0] == PolicyOutcome(
        stop=Stop(StopCause.SEQUENCE_REFUSED, "as told")
    )


@pytest.mark.parametrize(
    "situation",
    [
        {"cause": StopCause.SOURCE_OUT_OF_RANGE, "source": ends(60, 80)},
        {"cause": StopCause.SOURCE_OUT_OF_RANGE, "source": ends(0, 22)},
        {"cause": StopCause.SOURCE_TRUNCATED, "source": ends(0, 22), "divergence": Divergence(2, 22)},
        {"cause": StopCause.TARGET_OUT_OF_RANGE, "target": ends(0, 20)},
        {"cause": StopCause.TARGET_OUT_OF_RANGE, "target": ends(40, 60), "mode": TargetMode.SHARED},
        {"cause": StopCause.SEQUENCE_REFUSED, "target": ends(25, 60)},
    ],
    ids=["lost", "source ends before", "source truncated", "target truncated", "expired", "sequence refused"],
)
@BOTH
def test_a_state_moves_with_its_fact_or_not_at_all(situation: dict[str, Any], policy: Policy) -> None:
    """Whichever question of those that it takes is the first without an answer."""
    whole = Reaction(**situation, policy=policy)
    before, expected = repr(whole.state), whole.outcome()
    assert repr(whole.state) != before
    for questions in range(100):
        reaction = Reaction(**situation, policy=policy, answered=repeat(None, questions))
        try:
            outcome = reaction.outcome()
        except ClusterUnavailableError:
            assert repr(reaction.state) == before
            continue
        assert (outcome, repr(reaction.state)) == (expected, repr(whole.state))
        assert questions > 1
        return
    pytest.fail("it asks for ever")


@pytest.mark.parametrize("cause", [StopCause.SOURCE_OUT_OF_RANGE, StopCause.TARGET_OUT_OF_RANGE])
def test_without_a_leader_it_is_tried_again(cause: StopCause) -> None:
    assert react(cause)[0] == TRY_AGAIN


def test_a_target_that_shows_its_end_again_is_tried_again() -> None:
    assert react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 25))[0] == TRY_AGAIN


@pytest.mark.parametrize("cause", [StopCause.DENIED, StopCause.FOREIGN_WRITE, StopCause.TAIL_MISMATCH])
def test_what_no_policy_covers_stops(cause: StopCause) -> None:
    assert react(cause, policy=Policy.CONTINUE)[0] == PolicyOutcome(stop=Stop(cause, "as told"))


@pytest.mark.parametrize(
    ("configuration", "cause"),
    [
        ({}, SyncCause.RETENTION),
        ({"cleanup.policy": "compact"}, SyncCause.DELETED_RECORDS),
        ({"cleanup.policy": "compact,delete"}, SyncCause.RETENTION),
        ({"retention.ms": "-1"}, SyncCause.RETENTION),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, SyncCause.DELETED_RECORDS),
        ({"retention.ms": "60000", "retention.bytes": "-1"}, SyncCause.RETENTION),
    ],
)
def test_only_what_rules_retention_out_is_called_deleted(
    configuration: Mapping[str, str], cause: SyncCause
) -> None:
    assert loss_cause(configuration) is cause
