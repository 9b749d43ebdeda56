"""Up to where one partition's source was read in a task, and what is to be done about what was read."""

from collections.abc import Iterator

from ledger.domain.offsets.position import Position
from ledger.mirror.task.assignments import Assignment, Divergence
from ledger.mirror.task.batch_plan import Step, plan_batches
from ledger.mirror.task.record_rules import RecordRules
from ledger.ports.ledger import MirrorProducers
from ledger.wire.requests import Fetched


class SourceReading:
    """Plans what is fetched, in source order (P1)."""

    def __init__(self, assignment: Assignment, writers: MirrorProducers) -> None:
        self._stop_at = assignment.end_offset
        self._rules = RecordRules(
            writers.is_mirror, assignment.returning, assignment.record_filter, assignment.adopted
        )
        self._ends: tuple[int, int] | None = None
        self._divergence: Divergence | None = None
        self.go_back_to(assignment.position)

    def go_back_to(self, position: Position) -> None:
        """Read on from there."""
        self._position = position.source_offset
        self._leader_epoch = position.leader_epoch
        self._is_drained = False

    @property
    def position(self) -> int:
        """The offset to fetch next."""
        return self._position

    @property
    def leader_epoch(self) -> int | None:
        """That of the last batch before it, None when unknown."""
        return self._leader_epoch

    @property
    def ends(self) -> tuple[int, int] | None:
        """Last stable offset and high watermark as of the last answer, None before the first one."""
        return self._ends

    @property
    def divergence(self) -> Divergence | None:
        """What the source said when it no longer knew the end of the leader epoch."""
        return self._divergence

    @property
    def is_drained(self) -> bool:
        """The last answer had no more records after what it brought."""
        return self._is_drained

    @property
    def has_all(self) -> bool:
        """There is nothing more to read, at present or up to where the task goes."""
        return self._is_drained or self.is_at_end

    @property
    def is_at_end(self) -> bool:
        """Where the task goes, if it goes anywhere."""
        return self._stop_at is not None and self._position >= self._stop_at

    def note(self, fetched: Fetched) -> Divergence | None:
        """Take what an answer says of the source; returns what it says of records that are not those read before."""
        self._ends = fetched.last_stable, fetched.high_watermark
        if fetched.diverging_end is not None and fetched.diverging_epoch is not None:
            self._divergence = Divergence(fetched.diverging_epoch, fetched.diverging_end)
        return self._divergence

    def steps(self, fetched: Fetched) -> Iterator[Step]:
        """What is to be done about an answer's records, one after the other; each is behind us when it is returned.

        Raises `ProtocolError` at bytes that are no batch and `LedgerUnavailableError` at a batch whose writer cannot
        be looked up, when those before it were returned.
        """
        try:
            for step in plan_batches(
                fetched, position=self._position, end_offset=self._stop_at, rules=self._rules
            ):
                self._position = step.source_end
                if step.leader_epoch is not None:
                    self._leader_epoch = step.leader_epoch
                yield step
        finally:
            self._is_drained = self._position >= fetched.last_stable
