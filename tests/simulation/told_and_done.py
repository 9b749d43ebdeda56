"""Whether what `operations` tells is so: stops that a policy asks for are there, receipts were carried out.

A flow's drivers take the stamps of all their rows from one counter, so their rows have one order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ledger.config.values import FlowConfig, Policy
from ledger.facts.direction import DIRECTION_KINDS
from ledger.facts.every_kind import content_of
from ledger.facts.operations import PartitionResumed, PartitionStopped
from ledger.facts.requests import OperatorRequest, Receipt, RequestKind
from ledger.facts.syncs import SyncCause, SyncKind
from ledger.facts.tables import in_order

Row = Mapping[str, Any]
Partition = tuple[str, int]
"""Source topic id and number."""
_EVENTS = (PartitionStopped.kind, PartitionResumed.kind)
_POLICIES: Mapping[str, Callable[[FlowConfig], Policy]] = {
    SyncCause.RETENTION: lambda flow: flow.on_loss,
    SyncCause.DELETED_RECORDS: lambda flow: flow.on_loss,
    SyncCause.SOURCE_TRUNCATED: lambda flow: flow.on_source_truncated,
    SyncCause.MARKER_LOST: lambda flow: flow.on_source_truncated,
}
"""By cause of a row that only a reaction writes, what says whether the partition stops."""
_GOES_ON = frozenset({RequestKind.RESUME, RequestKind.ACCEPT_FOREIGN, RequestKind.RESYNC})


def check_stops_exist(flow: FlowConfig, syncs: Sequence[Row], operations: Sequence[Row]) -> None:
    """Raises `AssertionError` for a loss after which a partition went on against its policy."""
    stopped: set[Partition] = set()
    for row in in_order([*_events(flow, operations), *_losses(flow, syncs)]):
        if row.get("kind") in _EVENTS:
            _follow(stopped, row)
        else:
            partition = (row["source_topic_id"], row["source_partition"])
            assert partition in stopped, ("a loss that its policy stops for has no stop", row)


def check_receipts_are_true(flow: FlowConfig, operations: Sequence[Row], living: frozenset[str]) -> None:
    """Raises `AssertionError` for a partition that stood still when a request to go on was said to be done.

    What is promoted stands still all the same, and drivers take their time to see that it is so, or is so no longer.
    """
    if any(row["kind"] in DIRECTION_KINDS for row in operations):
        return
    asked = {
        row["operation_id"]: OperatorRequest.of_row(row)
        for row in operations
        if row["flow"] == flow.name and row["kind"] in set(_GOES_ON)
    }
    names: dict[str, str] = {}
    stopped: set[Partition] = set()
    for row in in_order(_events(flow, operations, Receipt.kind)):
        told = content_of(row)
        if isinstance(told, PartitionStopped | PartitionResumed):
            names[told.topic_id] = told.topic
            _follow(stopped, row)
        elif isinstance(told, Receipt) and told.request in asked and told.is_done:
            request = asked[told.request]
            left = [p for p in stopped if p[0] in living and request.concerns(names[p[0]], p[1])]
            assert not left, ("said to be done, and still stopped", row, left)


def _losses(flow: FlowConfig, syncs: Sequence[Row]) -> Iterator[Row]:
    for row in syncs:
        # What expired at a target is another kind of row with the same cause, and has no policy.
        is_loss = row["kind"] in (SyncKind.LOST, SyncKind.SUPERSEDED)
        policy = _POLICIES.get(row["cause"]) if is_loss else None
        if row["flow"] == flow.name and policy is not None and policy(flow) is Policy.STOP:
            yield row


def _events(flow: FlowConfig, operations: Sequence[Row], *others: str) -> list[Row]:
    kinds = (*_EVENTS, *others)
    return [row for row in operations if row["flow"] == flow.name and row["kind"] in kinds]


def _follow(stopped: set[Partition], event: Row) -> None:
    match content_of(event):
        case PartitionStopped() as told:
            stopped.add(told.place)
        case PartitionResumed() as told:
            stopped.discard(told.place)
