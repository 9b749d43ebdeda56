"""Tells the tasks of a flow which records to leave out, and which of a mirror's writes to copy all the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ledger.config.flow import FlowConfig
from ledger.domain.offsets.adopted import adopted_ranges, not_returning
from ledger.domain.offsets.offset_ranges import OffsetRange, from_offset
from ledger.domain.offsets.restored_history import returning_ranges
from ledger.mirror.task.assignments import Assignment
from ledger.ports.ledger import LedgerState

RestoredByOtherFlow = Callable[[str], frozenset[str]]
"""By target topic: clusters from which a flow that goes before this one copies to it."""

_Key = tuple[str, int, str]


class LoopPrevention:
    """What returns, and what was adopted, is looked up once for a source partition and an incarnation of its target.

    What returns cannot grow: the earlier incarnation was deleted, so nobody copies more of it. What is adopted does
    not grow either while a driver is at work that reads it: adopting waits for its end.
    """

    def __init__(
        self, flow: FlowConfig, state: LedgerState, restored_by_other_flow: RestoredByOtherFlow
    ) -> None:
        self._flow = flow
        self._state = state
        self._returned_elsewhere = restored_by_other_flow
        self._filter = flow.filter.record_filter
        self._returning: dict[_Key, tuple[OffsetRange, ...]] = {}
        self._adopted: dict[_Key, tuple[OffsetRange, ...]] = {}

    def applied_to(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        if not self._flow.relay:
            self._look_up(
                [assignment for assignment in assignments if _key(assignment) not in self._returning]
            )
        return [self._applied(assignment) for assignment in assignments]

    def _applied(self, assignment: Assignment) -> Assignment:
        return replace(
            assignment,
            record_filter=self._filter,
            returning=self._returning.get(_key(assignment), ()),
            adopted=from_offset(self._adopted.get(_key(assignment), ()), assignment.position.source_offset),
        )

    def _look_up(self, unknown: Sequence[Assignment]) -> None:
        if not unknown:
            return
        current = {assignment.target.topic: assignment.target.topic_id for assignment in unknown}
        copies = self._state.former_copies(self._flow.target, current)
        histories = self._state.adoptions(frozenset(assignment.source.topic_id for assignment in unknown))
        for assignment in unknown:
            returning = returning_ranges(
                [copy for copy in copies if copy.source_topic == assignment.target.topic],
                held=assignment.source,
                elsewhere=self._returned_elsewhere(assignment.target.topic),
            )
            self._returning[_key(assignment)] = returning
            self._adopted[_key(assignment)] = not_returning(
                adopted_ranges(histories, held=assignment.source), returning
            )


def _key(assignment: Assignment) -> _Key:
    return assignment.source.topic_id, assignment.source.partition, assignment.target.topic_id
