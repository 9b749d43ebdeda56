"""What of one partition is to be sent, on its way to the target, or there and not settled yet."""

from collections import deque
from dataclasses import dataclass

from ledger.kafka.batches import next_sequence, patch_for_target
from ledger.mirror.assignment import Asked, OpenRequests
from ledger.mirror.batches import Copy, Step

# Sent ---------------------------------------------------------------------------------------------
# What of a partition is on its way to the target, or there and not settled yet.


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


# Send window --------------------------------------------------------------------------------------


class SendWindow:
    """P1, P5: steps leave it in the order in which they came in, and to one node at a time.

    `requests` counts what is sent.
    """

    def __init__(self, producer_id: int, requests: OpenRequests) -> None:
        self._producer_id = producer_id
        self._requests = requests
        self._node: int | None = None
        self.begin_again(next_offset=0, next_sequence=0)

    def begin_again(self, *, next_offset: int, next_sequence: int) -> None:
        """Nothing is planned or known to be there; the next batch is expected as `expect_next` says."""
        self._planned = deque[Step]()
        self._planned_bytes = 0
        self._unsettled = deque[Sent]()
        self._is_known_to_target = False
        self.expect_next(offset=next_offset, sequence=next_sequence)

    def expect_next(self, *, offset: int, sequence: int) -> None:
        """Where the next batch is to land, and which sequence it is to have."""
        self._next_offset, self._next_sequence = offset, sequence

    def expect_behind(self, offset: int) -> None:
        """The next batch is to land behind that, at least."""
        self._next_offset = max(self._next_offset, offset)

    @property
    def next_offset(self) -> int:
        """Where the next batch is expected to land."""
        return self._next_offset

    @property
    def next_sequence(self) -> int:
        """What the next batch is sent with."""
        return self._next_sequence

    # -- what is planned -------------------------------------------------------------------------

    @property
    def planned_bytes(self) -> int:
        """Memory that what is not sent yet takes."""
        return self._planned_bytes

    @property
    def first(self) -> Step | None:
        """The step that comes next."""
        return self._planned[0] if self._planned else None

    @property
    def first_copy(self) -> Copy | None:
        """The next one that has a batch."""
        return next((step for step in self._planned if isinstance(step, Copy)), None)

    @property
    def is_empty(self) -> bool:
        """Nothing is planned, and all that was sent is settled."""
        return not self._planned and not self._unsettled

    def plan(self, step: Step) -> None:
        """It comes behind all others."""
        self._planned.append(step)
        self._planned_bytes += step.held_bytes

    def take_first(self) -> Step:
        """The next step; it needs no sending."""
        step = self._planned.popleft()
        self._planned_bytes -= step.held_bytes
        return step

    def pass_first(self) -> None:
        """The next step has nothing to send; it is settled behind what was sent."""
        self._unsettled.append(Sent(self.take_first(), self._next_offset))

    def drop_planned(self) -> None:
        """Nothing more is to be sent; what is on its way stays so."""
        self._planned.clear()
        self._planned_bytes = 0

    # -- what is sent ----------------------------------------------------------------------------

    def may_send_to(self, node: int) -> bool:
        """P5."""
        return not self._requests.is_open(Asked.WRITE) or (self._is_known_to_target and self._node == node)

    def send_first(self, node: int) -> memoryview:
        """The batch of the next step as the target is to get it; call only for a `Copy`."""
        self._node = node
        self._requests.sent(Asked.WRITE)
        step = self.take_first()
        assert isinstance(step, Copy)
        patch_for_target(
            step.batch, step.attributes, producer_id=self._producer_id, sequence=self._next_sequence
        )
        self._unsettled.append(Sent(step, self._next_offset))
        self._next_offset += step.count
        self._next_sequence = next_sequence(self._next_sequence, step.count)
        return step.batch

    @property
    def is_known_to_target(self) -> bool:
        """The target has acknowledged a batch of this attempt (P5)."""
        return self._is_known_to_target

    def take_acknowledgement(self) -> Sent:
        """The oldest batch that waits for one: the target answers in the order in which it was asked."""
        self._is_known_to_target = True
        return next(
            sent for sent in self._unsettled if isinstance(sent.step, Copy) and sent.base_offset is None
        )

    # -- what is there ---------------------------------------------------------------------------

    @property
    def oldest(self) -> Sent | None:
        """What is to be settled next."""
        return self._unsettled[0] if self._unsettled else None

    def settle_oldest(self) -> Sent:
        """It is proved to be there, or skipped; the caller records it."""
        return self._unsettled.popleft()
