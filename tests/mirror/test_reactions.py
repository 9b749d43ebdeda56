"""What a driver does about a partition that a task could not go on with: facts, then the policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from ledger.config import FlowConfig, Policy
from ledger.domain.facts import Gap, GapCause, OffsetSync, SyncCause, SyncKind
from ledger.domain.supersession import RecordedSync
from ledger.mirror.assignments import Divergence, PartitionResult, Stop, StopCause
from ledger.mirror.flow_topics import PartitionPair
from ledger.mirror.loss_cause import loss_cause
from ledger.mirror.reactions import TRY_AGAIN, Reaction, Reactions
from ledger.mirror.standing import Standing
from ledger.ports import PartitionEnds, TopicDescription
from tests.domain.test_supersession import row
from tests.mirror.sources import RECORDED, SOURCE, TARGET, TOPICS, assignment

COPIED = [
    RecordedSync(1, 1, row((0, 20), (0, 20), 0, epoch=1)),
    RecordedSync(1, 2, row((20, 30), (20, 25), 20, epoch=2, gaps=(Gap(25, 30, GapCause.CONTROL),))),
]


@dataclass
class Ends:
    """A cluster that only knows where one partition starts and ends."""

    now: PartitionEnds | None = None
    alias: str = "either"
    described: Mapping[str, TopicDescription] = field(default_factory=lambda: TOPICS)
    asked: list[object] = field(default_factory=list)

    def ends(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        self.asked += partitions
        return {} if self.now is None else {partitions[0]: self.now}

    def topics(self) -> Mapping[str, TopicDescription]:
        return self.described


def flow(policy: Policy) -> FlowConfig:
    return FlowConfig(
        name="flow",
        source="east",
        target="west",
        topics=(".*",),
        on_loss=policy,
        on_source_truncated=policy,
        on_target_truncated=policy,
    )


def react(
    cause: StopCause,
    *,
    source: PartitionEnds | None = None,
    target: PartitionEnds | None = None,
    divergence: Divergence | None = None,
    lost_from: int | None = None,
    described: Mapping[str, TopicDescription] = TOPICS,
    policy: Policy = Policy.STOP,
) -> tuple[Reaction, Standing]:
    standing = Standing.recorded(PartitionPair(SOURCE, TARGET), RECORDED)
    stop = Stop(cause, "as told")
    result = PartitionResult(
        assignment=assignment(),
        syncs=(),
        position=30,
        target_end=25,
        next_sequence=24,
        stop=stop,
        trouble=None,
        divergence=divergence,
        target_lost_from=lost_from,
    )
    reactions = Reactions(
        flow(policy),
        Ends(source, described=described),
        Ends(target, described=described),
        lambda _: COPIED,
        lambda _: SyncCause.DELETED_RECORDS,
    )
    return reactions.to(standing, result, stop), standing


def ends(start: int, end: int) -> PartitionEnds:
    return PartitionEnds(start, end, end, 0)


def told(fact: OffsetSync) -> tuple[object, ...]:
    return fact.kind, fact.cause, fact.source_start, fact.source_end, fact.target_start, fact.first_sequence


BOTH = pytest.mark.parametrize("policy", list(Policy))


@BOTH
def test_what_is_gone_is_lost_whatever_the_policy(policy: Policy) -> None:
    reaction, standing = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(60, 80), policy=policy)
    [fact] = reaction.facts
    assert told(fact) == (SyncKind.LOST, SyncCause.DELETED_RECORDS, 30, 60, 25, 24)
    assert (standing.position, standing.target_end, standing.leader_epoch) == (60, 25, None)
    assert (reaction.stop is None) == (policy is Policy.CONTINUE)
    if reaction.stop is not None:
        assert reaction.stop.cause is StopCause.LOST
    else:
        assert "30 to 60" in str(reaction.notice)


@BOTH
@pytest.mark.parametrize(
    ("divergence", "position", "epoch"),
    [(Divergence(2, 27), 27, 2), (Divergence(1, 27), 20, 1), (Divergence(1, 12), 12, 1)],
)
def test_what_the_source_took_back_is_superseded(
    divergence: Divergence, position: int, epoch: int, policy: Policy
) -> None:
    reaction, standing = react(StopCause.SOURCE_TRUNCATED, divergence=divergence, policy=policy)
    [fact] = reaction.facts
    assert told(fact) == (SyncKind.SUPERSEDED, SyncCause.SOURCE_TRUNCATED, position, 30, 25, 24)
    assert (standing.position, standing.target_end, standing.leader_epoch) == (position, 25, epoch)
    assert (reaction.stop is None) == (policy is Policy.CONTINUE)


def test_a_source_that_ends_before_the_position_took_records_back() -> None:
    reaction, standing = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(0, 22))
    assert told(reaction.facts[0])[1:4] == (SyncCause.SOURCE_TRUNCATED, 22, 30)
    assert standing.position == 22


def test_other_records_at_the_same_offsets_stop_without_a_guess() -> None:
    reaction, standing = react(StopCause.SOURCE_OUT_OF_RANGE, source=ends(0, 50), policy=Policy.CONTINUE)
    assert reaction.facts == ()
    assert reaction.stop is not None
    assert reaction.stop.cause is StopCause.SOURCE_TRUNCATED
    assert standing.position == 30


@BOTH
@pytest.mark.parametrize(("end", "position"), [(24, 24), (20, 20), (7, 7)])
def test_what_the_target_lost_is_copied_again(end: int, position: int, policy: Policy) -> None:
    reaction, standing = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, end), policy=policy)
    [fact] = reaction.facts
    assert told(fact) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED, position, 30, end, position)
    assert (standing.position, standing.target_end, standing.next_sequence) == (position, end, position)
    assert (reaction.stop is None) == (policy is Policy.CONTINUE)


def test_what_landed_below_says_where_the_target_went_back_to() -> None:
    """Its log has grown past the recorded end again by then."""
    reaction, standing = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 60), lost_from=7)
    assert told(reaction.facts[0])[1:5] == (SyncCause.TARGET_TRUNCATED, 7, 30, 7)
    assert (standing.position, standing.target_end, standing.next_sequence) == (7, 7, 7)


@pytest.mark.parametrize("cause", [StopCause.SOURCE_OUT_OF_RANGE, StopCause.TARGET_OUT_OF_RANGE])
@pytest.mark.parametrize("described", [{}, {name: replace(t, topic_id="new") for name, t in TOPICS.items()}])
def test_ends_of_another_incarnation_prove_nothing(
    cause: StopCause, described: Mapping[str, TopicDescription]
) -> None:
    reaction, standing = react(cause, source=ends(60, 80), target=ends(0, 7), described=described)
    assert reaction == TRY_AGAIN
    assert standing.position == 30


def test_a_target_whose_start_moved_past_the_end_stops() -> None:
    reaction, _ = react(StopCause.TARGET_OUT_OF_RANGE, target=ends(40, 60), policy=Policy.CONTINUE)
    assert reaction.stop == Stop(StopCause.TARGET_OUT_OF_RANGE, "as told")
    assert reaction.facts == ()


@pytest.mark.parametrize("cause", [StopCause.SOURCE_OUT_OF_RANGE, StopCause.TARGET_OUT_OF_RANGE])
def test_without_a_leader_it_is_tried_again(cause: StopCause) -> None:
    assert react(cause)[0] == TRY_AGAIN


def test_a_target_that_shows_its_end_again_is_tried_again() -> None:
    assert react(StopCause.TARGET_OUT_OF_RANGE, target=ends(0, 25))[0] == TRY_AGAIN


@pytest.mark.parametrize("cause", [StopCause.DENIED, StopCause.FOREIGN_WRITE, StopCause.TAIL_MISMATCH])
def test_what_no_policy_covers_stops(cause: StopCause) -> None:
    assert react(cause, policy=Policy.CONTINUE)[0] == Reaction(stop=Stop(cause, "as told"))


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
