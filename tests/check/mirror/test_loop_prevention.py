"""What a driver tells its tasks to leave out: what was adopted at the source, less what goes back from there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ledger.config.values import FlowConfig
from ledger.facts.history import FormerCopy
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import OffsetSync, Position, SyncKind, TopicPartition
from ledger.mirror.assignment import Assignment
from ledger.mirror.progress import LoopPrevention
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.offset_syncs import LOST, sync

AT_EAST, AT_WEST = TopicPartition("orders", "east-id", 0), TopicPartition("orders", "west-id", 0)
BACK = FlowConfig(name="west-to-east", source="west", target="east", topics=("orders",))
FORTH = FlowIdentity("east-to-west", "east", "west")


class CountingState(MemoryLedgerState):
    """Counts how often it is asked."""

    asked = 0

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        self.asked += 1
        return super().former_copies(cluster, topic_ids)


def state(*syncs: OffsetSync) -> CountingState:
    ledger = MemoryLedger()
    stamp = {"writer": "flow:east-to-west", "writer_epoch": 1, "round": 1, "recorded_at_ms": 1}
    ledger.append("offset_syncs", [{**stamp, **sync_row(FORTH, found)} for found in syncs])
    return CountingState(ledger)


def selection(found: MemoryLedgerState, flow: FlowConfig = BACK) -> LoopPrevention:
    return LoopPrevention(flow, found, lambda _topic: frozenset())


def told(position: int = 0, *, partition: int = 0) -> Assignment:
    return Assignment(
        source=replace(AT_WEST, partition=partition),
        target=replace(AT_EAST, partition=partition),
        position=Position(source_offset=position, target_offset=0, next_sequence=0),
        producer_id=1,
        end_offset=None,
        exclusive=False,
    )


def adopted(source: tuple[int, int], target_start: int, origin: TopicPartition = AT_EAST) -> OffsetSync:
    return sync(source, target_start, origin=origin, target=AT_WEST, kind=SyncKind.ADOPTED)


def ranges(assignments: Sequence[Assignment]) -> list[tuple[tuple[int, int], ...]]:
    return [assignment.adopted for assignment in assignments]


def test_what_the_opposite_flow_adopted_is_left_out() -> None:
    chosen = selection(state(adopted((0, 5), 0), adopted((5, 7), 9)))
    assert ranges(chosen.applied_to([told(), told(partition=1)])) == [((0, 5), (9, 11)), ()]


def test_it_is_looked_up_once_for_a_partition_and_told_as_far_as_it_lies_ahead() -> None:
    found = state(adopted((0, 5), 0), adopted((5, 7), 9))
    chosen = selection(found)
    assert ranges(chosen.applied_to([told(4)])) == [((0, 5), (9, 11))]
    assert ranges(chosen.applied_to([told(5)])) == [((9, 11),)]
    assert ranges(chosen.applied_to([told(11)])) == [()]
    assert found.asked == 1


def test_a_relaying_flow_leaves_nothing_out() -> None:
    relaying = BACK.model_copy(update={"relay": True})
    assert ranges(selection(state(adopted((0, 5), 0)), relaying).applied_to([told()])) == [()]


def test_adopted_copies_of_a_topic_that_is_gone_go_back() -> None:
    """The topic at east was recreated: what was adopted of its earlier life is all that is left of that."""
    chosen = selection(state(adopted((0, 5), 0, LOST), adopted((0, 3), 7)))
    [applied] = chosen.applied_to([told()])
    assert (applied.returning, applied.adopted) == (((0, 5),), ((7, 10),))
