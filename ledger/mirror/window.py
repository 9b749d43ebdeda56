"""What of one partition is to be sent, on its way to the target, or there and not settled yet."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from ledger.kafka.batches import next_sequence, patch_for_target
from ledger.mirror.assignment import OpenRequests, RequestKind
from ledger.mirror.steps import Copy, Planned, Skip, SmallBatches, Step
from ledger.mirror.sync_builder import SyncBuilder


@dataclass(slots=True)
class Sent:
    """A step on its way; `base_offset` is set by the acknowledgement."""

    step: Step
    expected_offset: int
    base_offset: int | None = None

    def land_at(self, base_offset: int) -> None:
        """It is acknowledged there."""
        self.base_offset = base_offset

    @property
    def landed_offset(self) -> int:
        """Where it lies, once it is acknowledged."""
        assert self.base_offset is not None
        return self.base_offset


class SendWindow:
    """Steps of one partition leave it in the order in which they came in (P1), to one node at a time (P5).

    Only what is acknowledged leaves it for the builder (P3).

    `requests` counts what is sent. `next_offset`, `next_sequence`: where the next batch is expected to land, and what
    it is sent with. `planned_bytes`: memory that what is not sent yet takes. `is_known_to_target`: the target has
    acknowledged a batch of this attempt.
    """

    def __init__(self, producer_id: int, requests: OpenRequests) -> None:
        self._producer_id = producer_id
        self._requests = requests
        self._node: int | None = None
        self.begin_again(next_offset=0, next_sequence=0)

    def begin_again(self, *, next_offset: int, next_sequence: int) -> None:
        """Nothing is planned or known to be there; the next batch is expected as `expect_next` says."""
        self._planned = deque[Planned]()
        self.planned_bytes = 0
        self._unsettled = deque[Sent]()
        self.is_known_to_target = False
        self.expect_next(offset=next_offset, sequence=next_sequence)

    def expect_next(self, *, offset: int, sequence: int) -> None:
        """Where the next batch is to land, and which sequence it is to have."""
        self.next_offset, self.next_sequence = offset, sequence

    def expect_behind(self, offset: int) -> None:
        """The next batch is to land behind that, at least."""
        self.next_offset = max(self.next_offset, offset)

    # -- what is planned -------------------------------------------------------------------------

    @property
    def first(self) -> Planned | None:
        """What comes next."""
        return self._planned[0] if self._planned else None

    @property
    def first_copy(self) -> Copy | None:
        """The next batch that is to be sent, by itself."""
        if isinstance(first := self.first, Copy):
            return first
        return next((step for step in self.copies() if isinstance(step, Copy)), None)

    def copies(self) -> Iterator[Step]:
        """From the next step that has a batch on, each batch by itself."""
        return dropwhile(lambda step: isinstance(step, Skip), self._singly())

    @property
    def planned(self) -> Sequence[Step]:
        """What is not sent yet, in order, each batch by itself."""
        return tuple(self._singly())

    def _singly(self) -> Iterator[Step]:
        """What is planned; small batches are no longer together as far as they were asked for."""
        at = 0
        while at < len(self._planned):
            step = self._planned[at]
            if isinstance(step, SmallBatches):
                together, step = step, step.single(step.take(1)[0])
                self._planned[at] = step
                if together.waiting:
                    self._planned.insert(at + 1, together)
            yield step
            at += 1

    def bring_together(self, may_follow: Callable[[Planned, Planned], bool], *, most_bytes: int) -> Planned:
        """What comes next: with those behind it that may follow it, as long as there are fewer bytes of them."""
        first = self._planned.popleft()
        while self._planned and first.held_bytes < most_bytes and may_follow(first, self._planned[0]):
            first = SmallBatches.of(first).joined(self._planned.popleft())
        self._planned.appendleft(first)
        return first

    @property
    def is_empty(self) -> bool:
        """Nothing is planned, and all that was sent is settled."""
        return not self._planned and self.is_settled

    @property
    def is_settled(self) -> bool:
        """Nothing that was sent waits."""
        return not self._unsettled

    def plan(self, step: Planned) -> None:
        """It comes behind all others."""
        self._planned.append(step)
        self.planned_bytes += step.held_bytes

    def replace_first_copy(self, parts: Sequence[Step]) -> None:
        """These come in place of the next step that has a batch."""
        at = next(index for index, step in enumerate(self._singly()) if isinstance(step, Copy))
        planned = list(self._planned)
        planned[at : at + 1] = parts
        self._planned = deque(planned)
        self.planned_bytes = sum(step.held_bytes for step in planned)

    def merge_first(self, parts: Sequence[Copy], merged: Copy) -> None:
        """The next steps that have a batch are `parts`, one behind the other: `merged` comes in their place."""
        before: list[Planned] = []
        while isinstance(self._planned[0], Skip):
            before.append(self._planned.popleft())
        for part in parts:
            taken = self.take_first()
            assert taken is part
        self._planned.extendleft([merged, *reversed(before)])
        self.planned_bytes += merged.held_bytes

    def merge_small(self, count: int, merged: Copy) -> None:
        """`merged` comes in place of so many small batches, which come next."""
        together = self._planned[0]
        assert isinstance(together, SmallBatches)
        self.planned_bytes += merged.held_bytes - sum(len(small.batch) for small in together.take(count))
        if not together.waiting:
            self._planned.popleft()
        self._planned.appendleft(merged)

    def take_first(self) -> Step:
        """The next step; it needs no sending."""
        step = self._planned.popleft()
        assert not isinstance(step, SmallBatches)
        self.planned_bytes -= step.held_bytes
        return step

    def pass_first(self) -> None:
        """The next step has nothing to send; it is settled behind what was sent."""
        self._unsettled.append(Sent(self.take_first(), self.next_offset))

    def drop_planned(self) -> None:
        """Nothing more is to be sent; what is on its way stays so."""
        self._planned.clear()
        self.planned_bytes = 0

    # -- what is sent ----------------------------------------------------------------------------

    def may_send_to(self, node: int) -> bool:
        """P5."""
        is_open = self._requests.is_open(RequestKind.WRITE)
        return not is_open or (self.is_known_to_target and self._node == node)

    def send_first(self, node: int) -> memoryview:
        """The batch of the next step as the target is to get it; call only for a `Copy`."""
        self._node = node
        self._requests.sent(RequestKind.WRITE)
        step = self.first_copy
        assert step is not None
        self.take_first()
        patch_for_target(
            step.batch, step.attributes, producer_id=self._producer_id, sequence=self.next_sequence
        )
        self._unsettled.append(Sent(step, self.next_offset))
        self.next_offset += step.count
        self.next_sequence = next_sequence(self.next_sequence, step.count)
        return step.batch

    @property
    def oldest_sent(self) -> Copy | None:
        """The oldest batch that waits for an answer, if all before it is settled."""
        oldest = self._unsettled[0] if self._unsettled else None
        step = None if oldest is None or oldest.base_offset is not None else oldest.step
        return step if isinstance(step, Copy) else None

    def take_acknowledgement(self) -> Sent:
        """The oldest batch that waits for one: the target answers in the order in which it was asked."""
        self.is_known_to_target = True
        return next(
            sent for sent in self._unsettled if isinstance(sent.step, Copy) and sent.base_offset is None
        )

    # -- what is there ---------------------------------------------------------------------------

    def settle(self, builder: SyncBuilder, *, waiting: Sent | None, only_adjacent: bool) -> None:
        """Record what is known to be there, as far as it goes: not up to `waiting`.

        `only_adjacent`: nor up to a batch that has others' records before it.
        """
        while self._unsettled and (oldest := self._unsettled[0]) is not waiting:
            if isinstance(oldest.step, Copy):
                if oldest.base_offset is None:
                    return
                if only_adjacent and oldest.base_offset != builder.position.target_offset:
                    return
            self.settle_oldest(builder)

    def settle_oldest(self, builder: SyncBuilder) -> None:
        """Record it: it is known to be there, or there is nothing to send of it."""
        sent = self._unsettled.popleft()
        if isinstance(sent.step, Skip):
            builder.skip(sent.step)
        else:
            builder.copied(sent.step, base_offset=sent.landed_offset, recovered=False)
