"""Where a flow begins or continues after a change of direction: at the cut that was taken of the other direction.

What the other flow copied to here, as its rows or its producer ids prove, is passed unread, and what the target holds
up to its end at the cut is neither read nor foreign. So nothing is read twice, and nothing copied twice: the flow's own
records there are all recorded, for else the cut says of no offset that the way back may begin there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.config.flow import FlowConfig
from ledger.domain.cluster_identity import FlowProducer
from ledger.domain.facts import OffsetSync, PartitionPair, SyncCause, TopicPartition
from ledger.domain.offsets.cut_offsets import Cut, CutOffset
from ledger.domain.offsets.offset_ranges import joined, without
from ledger.domain.offsets.position import Position
from ledger.domain.offsets.supersession import holding
from ledger.errors import PreconditionError, UsageError
from ledger.mirror.partitions.first_records import first_record
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.task.assignments import Stop, StopCause
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FlowPosition, LedgerState

CutOf = Callable[[str], Cut | None]
"""By target topic the cut that a flow's partitions begin or continue at; None: as always."""


@dataclass(frozen=True, slots=True)
class CutPlace:
    """Where a partition begins or continues: the ends of both sides as they were at the cut."""

    operation_id: str
    here: CutOffset
    there: CutOffset
    source_offset: int
    target_offset: int

    def is_ahead_of(self, position: Position) -> bool:
        """Whether the flow has yet to come there."""
        at_cut = (self.source_offset, self.target_offset)
        at = (position.source_offset, position.target_offset)
        return at != at_cut and at[0] <= at_cut[0] and at[1] <= at_cut[1]


@dataclass(frozen=True, slots=True)
class TakenAtCut:
    """A partition that continues behind a cut, with the row that says so; or a stop, with or without one."""

    state: PartitionState
    facts: tuple[OffsetSync, ...] = ()
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class CutStarts:
    """Of a flow with an opposite; of another one nothing begins at a cut."""

    flow: FlowConfig
    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    producer: FlowProducer
    cut_of: CutOf

    def place(self, pair: PartitionPair) -> CutPlace | None:
        """Where the partition is to begin or continue; None: no cut is about both of these incarnations."""
        found = place_of(self.flow, self.cut_of(pair.target.topic), pair.source.topic, pair.source.partition)
        if found is None:
            return None
        are_these = (found.here.topic_id, found.there.topic_id) == (
            pair.source.topic_id,
            pair.target.topic_id,
        )
        return found if are_these else None

    def take_on(
        self, pair: PartitionPair, recorded: Position | None, source: PartitionEnds, target: PartitionEnds
    ) -> TakenAtCut | None:
        """Begin at the cut, or continue behind it; None: no cut is about it, or the flow has come behind it before."""
        place = self.place(pair)
        if place is None or (recorded is not None and not place.is_ahead_of(recorded)):
            return None
        refusal = _shrunk(place, source, target)
        if recorded is None:
            begin = Position(
                source_offset=place.source_offset, target_offset=place.target_offset, next_sequence=0
            )
            state = PartitionState(pair, begin, is_waiting=True)
            if refusal is not None:
                return self._refused(state, place, refusal)
            return TakenAtCut(state, (state.started(SyncCause.CUT),), self._written_since(place, target))
        state = PartitionState(pair, recorded, is_waiting=True)
        proven_end = recorded.source_offset if refusal else self._proven_end(pair, place, recorded, source)
        if refusal is None and proven_end < place.source_offset and not self._is_complete(pair, recorded):
            refusal = (
                f"{self.flow.source} holds at offset {proven_end} what flow {self.flow.opposite} has not copied there, "
                f"and flow {self.flow.name} may have copied some of it and not recorded that"
            )
        if refusal is not None:
            return self._refused(state, place, refusal)
        state.is_waiting = False
        return TakenAtCut(state, (_passing(state, place, proven_end),), self._written_since(place, target))

    def needs_another_producer(self, known: FlowPosition) -> bool:
        """Whether the flow has written with its id where it is to continue behind what others wrote.

        The last record there is not its own then. With a new id none of its own is searched behind a cut.
        """
        if not known.position.next_sequence or known.producer_id not in (None, self.producer.current):
            return False
        pair = PartitionPair(
            TopicPartition(known.source_topic, known.source_topic_id, known.partition),
            TopicPartition(known.target_topic, known.target_topic_id, known.partition),
        )
        place = self.place(pair)
        return place is not None and place.is_ahead_of(known.position)

    # -- what is proved --------------------------------------------------------------------------

    def _proven_end(
        self, pair: PartitionPair, place: CutPlace, recorded: Position, source: PartitionEnds
    ) -> int:
        """Up to where all that the source holds was written by mirrors, or is a control record.

        What its log start has passed cannot be read any more. Nothing else can have been there where the flow had come
        to the source's end at a cut of its own: from then on only the other flow wrote there.
        """
        passed = (recorded.source_offset, place.source_offset)
        claims = joined(
            sorted(
                (sync.target_start, sync.target_end)
                for sync in holding(
                    self.state.recorded_syncs(place.here.flow, place.there.topic, pair.source.partition)
                )
                if sync.records and sync.target == pair.source
            )
        )
        unclaimed = list(without(passed, claims))
        mirrors = self.state.identities().mirror_ids(self.source.cluster_id()) if unclaimed else frozenset()
        for start, end in unclaimed:
            if start < source.log_start and not self._is_complete(pair, recorded):
                return start
            found = first_record(
                self.source, pair.source, max(start, source.log_start), end, is_decided=mirrors.__contains__
            )
            if found is not None:
                return found[0]
        return place.source_offset

    def _is_complete(self, pair: PartitionPair, recorded: Position) -> bool:
        """Whether a cut was taken of this flow where it stands: nothing of it at the target was unrecorded then.

        What had been settled then stood at the source where the flow had been before, and was paired with it since.
        """
        ends = {recorded.source_offset} | self._settled_from(pair)
        return any(
            at.reverse_start is not None
            and at.topic_id == pair.target.topic_id
            and at.map_target_end == recorded.target_offset
            and at.map_source_end in ends
            for at in self.state.cut_targets(self.flow.name, pair.target.topic, pair.target.partition)
        )

    def _settled_from(self, pair: PartitionPair) -> set[int]:
        """Source offsets behind which what was settled is paired by now."""
        rows = self.state.recorded_syncs(self.flow.name, pair.source.topic, pair.source.partition)
        return {
            one.sync.source_start
            for one in rows
            if one.sync.cause is SyncCause.SETTLED
            and (one.sync.source, one.sync.target) == (pair.source, pair.target)
        }

    def _written_since(self, place: CutPlace, target: PartitionEnds) -> Stop | None:
        """What somebody wrote at the target after the cut: the flow's records would lie behind it."""
        found = first_record(
            self.target,
            _partition(place.there),
            place.target_offset,
            target.high_watermark,
            is_decided=self.producer.wrote,
        )
        if found is None:
            return None
        return Stop(
            StopCause.FOREIGN_WRITE,
            f"{place.there.name} of {self.flow.target} ended at {place.target_offset} at cut {place.operation_id}, and "
            f"was written to since, from offset {found[0]} on: applications were not kept from it; nothing was written",
        )

    def _refused(self, state: PartitionState, place: CutPlace, why: str) -> TakenAtCut:
        message = f"cut {place.operation_id}: {why}; nothing was copied"
        return TakenAtCut(state, stop=Stop(StopCause.CUT_NOT_HELD, message))


def place_of(flow: FlowConfig, cut: Cut | None, source_topic: str, partition: int) -> CutPlace | None:
    """What a cut says of a partition of a flow that goes the way back of the one that it was taken of."""
    if cut is None or flow.opposite is None:
        return None
    pair = cut.pairs(flow.opposite).get((source_topic, partition))
    if pair is None or pair.source is None or pair.target is None:
        return None
    start, end = pair.reverse_start, pair.source.high_watermark
    if start is None or end is None:
        return None
    return CutPlace(cut.operation_id, pair.target, pair.source, start, end)


def require_usable(flow: FlowConfig, cut: Cut, *, undone: str = "nothing was started") -> None:
    """Raise unless the flow may begin at the cut: `UsageError` where it is of other flows, else `PreconditionError`.

    `undone`: what was not done because of that.
    """
    if flow.opposite is None:
        raise UsageError(
            f"flow {flow.name} has no opposite: only the way back of another flow begins at a cut of that. Give both "
            f"flows the key `opposite`; {undone}"
        )
    pairs = cut.pairs(flow.opposite)
    if not pairs:
        raise UsageError(
            f"operation {cut.operation_id} took no cut of flow {flow.opposite}"
            + (f", but of {', '.join(cut.flows)}" if cut.flows else "")
            + f"; {undone}"
        )
    without_start = [
        f"{pair.name}: {why}"
        for pair in pairs.values()
        if None not in (pair.source, pair.target) and (why := pair.why_no_start()) is not None
    ]
    if not any(pair.source is not None and pair.source.is_live for pair in pairs.values()):
        without_start = without_start or [f"{flow.target} was not read itself"]
    if without_start:
        listed = "\n  ".join(without_start[:10])
        more = f"\n  and {len(without_start) - 10} more" if len(without_start) > 10 else ""
        raise PreconditionError(
            f"flow {flow.name} cannot begin at cut {cut.operation_id}; {undone}. Take another one when that "
            f"is mended (mirror-ledger cut --from {flow.target} --to {flow.source}), of other topics where "
            f"only some are concerned:\n  {listed}{more}"
        )


def _shrunk(place: CutPlace, source: PartitionEnds, target: PartitionEnds) -> str | None:
    """Why a log that ends before the cut keeps the flow from it."""
    for at, ends, offset in (
        (place.here, source, place.source_offset),
        (place.there, target, place.target_offset),
    ):
        if ends.high_watermark < offset:
            return f"{at.name} of {at.cluster} ended at {offset} then, and ends at {ends.high_watermark} now"
    return None


def _passing(state: PartitionState, place: CutPlace, proven_end: int) -> OffsetSync:
    if proven_end > state.position.source_offset:
        return state.pass_copies(proven_end, target_end=place.target_offset)
    return state.pass_target(place.target_offset)


def _partition(at: CutOffset) -> TopicPartition:
    return TopicPartition(at.topic, at.topic_id, at.partition)
