"""What every kind of request has: a judgement before it is recorded, and a grant by the driver that takes it up."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync
from ledger.domain.operations.requests import OperatorRequest, Request
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions

Granted = tuple[list[OffsetSync], str]
"""The facts to record first, and what was done, in words."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a request would do, in words; with nothing to do nothing is to be recorded."""

    is_needed: bool
    words: str


def needed(words: str) -> Judgement:
    return Judgement(is_needed=True, words=words)


def nothing(words: str) -> Judgement:
    return Judgement(is_needed=False, words=words)


class RequestRules(ABC):
    """Of one kind of request; where it can be granted its own class says (`Request.is_possible`)."""

    @abstractmethod
    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        """What it would do; raises `PreconditionError` for what cannot be done as things stand."""

    @abstractmethod
    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        """Move the states; raises `RefusedError`, and moves nothing, when it cannot be granted.

        `earlier`: what had been asked of the flow before, for its pauses.
        """

    def named(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        """What the request is about."""
        return partitions.concerned(request)

    def accepting(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        """Where the request, when it is granted, accepts what the target holds."""
        del request, partitions
        return ()

    def required(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        """What the request is about; raises `RefusedError` when that is nothing, or not for requests to move."""
        found = self.named(request, partitions)
        partitions.require_movable(request, found)
        return found
