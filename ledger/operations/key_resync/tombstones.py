"""Writes tombstones to a target partition as records of the flow: one batch at a time, each acknowledged (acks=all).

An answer that did not come is asked for again with the same batch: its sequence makes the second one no second
write. What is acknowledged is returned as offset syncs of kind `unpaired`, also when a later batch fails. When the
process dies between an acknowledgement and the record of it, the flow's next run meets records of its own that
it cannot pair: the partition stops with `tail_mismatch` (or they are recorded as `lost_source`, where a loss
before them explains them), and `accept-foreign` records them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import OffsetSync, SyncCause
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.mirror.task.assignments import Assignment
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.ports.clock import Clock
from ledger.ports.network import Network, ProduceItem, answer_to
from ledger.wire.error_codes import TOPIC_GONE, TRANSIENT, ErrorCode, describe
from ledger.wire.record_batch import patch_for_target
from ledger.wire.record_fields import tombstone
from ledger.wire.records import Record, encode
from ledger.wire.requests import Produced

_BATCH_BYTES = 64 * 1024
_BATCH_RECORDS = 500
_UNCOMPRESSED = 0
_TIMEOUT_MS = 30_000
_GIVE_UP_AFTER_S = 60.0
_PAUSE_S = 0.2
_ASKED_AGAIN = TRANSIENT | TOPIC_GONE


@dataclass(frozen=True, slots=True)
class Written:
    """What the target acknowledged, and why it is not everything (None: it is)."""

    syncs: tuple[OffsetSync, ...]
    failure: str | None


def write_tombstones(
    keys: Sequence[bytes], assignment: Assignment, network: Network, clock: Clock
) -> Written:
    """A tombstone for each key, in order, at the end of the assignment's target partition."""
    builder = SyncBuilder(assignment)
    failure = None
    try:
        for batch_keys in _batches(keys):
            _write(batch_keys, builder, assignment, network, clock)
    except (PreconditionError, ClusterUnavailableError) as error:
        failure = str(error)
    return Written(tuple(replace(sync, recovered=False) for sync in builder.syncs()), failure)


def _batches(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start, size = 0, 0
    for index, key in enumerate(keys):
        if index > start and (index - start == _BATCH_RECORDS or size + len(key) > _BATCH_BYTES):
            yield keys[start:index]
            start, size = index, 0
        size += len(key)
    if keys:
        yield keys[start:]


def _write(
    keys: Sequence[bytes], builder: SyncBuilder, assignment: Assignment, network: Network, clock: Clock
) -> None:
    sequence, expected = builder.position.next_sequence, builder.position.target_offset
    now_ms = clock.now_ms()
    batch = memoryview(
        encode(
            [Record(offset, now_ms, 0, tombstone(key)) for offset, key in enumerate(keys)],
            codec=_UNCOMPRESSED,
        )
    )
    patch_for_target(batch, _UNCOMPRESSED, producer_id=assignment.producer_id, sequence=sequence)
    base_offset = _acknowledged(ProduceItem(assignment.target, batch), network, clock)
    if base_offset < expected:
        raise PreconditionError(
            f"tombstones were expected at target offset {expected} and landed at {base_offset}: the target lost "
            "what was there; they were not recorded"
        )
    builder.unpaired(
        first_sequence=sequence, target_start=base_offset, count=len(keys), cause=SyncCause.RESYNC
    )
    if base_offset > expected:
        raise PreconditionError(
            f"tombstones were expected at target offset {expected} and landed at {base_offset}: somebody else "
            "writes to this exclusive target; they were recorded, and nothing was written after them"
        )


def _acknowledged(item: ProduceItem, network: Network, clock: Clock) -> int:
    """The batch's first target offset. Raises `PreconditionError` when the target refuses it or does not answer."""
    give_up = clock.monotonic() + _GIVE_UP_AFTER_S
    trouble = "its target partition has no leader"
    while clock.monotonic() < give_up:
        produced, failure = _ask(item, network)
        if produced is not None and produced.error == ErrorCode.NONE:
            return produced.base_offset
        if produced is not None and produced.error not in _ASKED_AGAIN:
            raise PreconditionError(
                f"the target refused tombstones with error {describe(produced.error)}"
                f"{f' ({produced.message})' if produced.message else ''}; no more were written"
            )
        trouble = describe(produced.error) if produced is not None else failure or trouble
        network.poll(_PAUSE_S)
        network.target.refresh([item.partition.topic])
    raise PreconditionError(
        f"the target did not acknowledge tombstones within {_GIVE_UP_AFTER_S:.0f} s: {trouble}; whether they were "
        "written is not known, no more were"
    )


def _ask(item: ProduceItem, network: Network) -> tuple[Produced | None, str | None]:
    node = network.target.leader(item.partition)
    if node is None:
        return None, None
    completion = answer_to(network.target.produce(node, [item], timeout_ms=_TIMEOUT_MS), network)
    return (completion.produced[0] if completion.produced else None), completion.failure
