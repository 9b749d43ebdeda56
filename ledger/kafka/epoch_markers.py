"""Abort markers with a later producer epoch: leaders refuse what earlier epochs of that producer send behind them."""

from collections.abc import Callable, Sequence

from ledger.errors import PreconditionError
from ledger.facts.fences import EpochMarker
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import ShutOutCluster

MARKER_EPOCH = 1
"""The mirror writes with producer epoch 0."""
_POLL_S = 0.25
_ATTEMPTS = 10
"""To write markers where leaders could not at first."""


def markers_against(flow: str, producer: FlowProducer, at: TopicPartition) -> list[EpochMarker]:
    """Those that end the epoch of every id a flow ever had: an older copy of the ledger may name an earlier one."""
    return [
        EpochMarker(
            flow=flow,
            producer_id=producer_id,
            producer_epoch=MARKER_EPOCH,
            topic=at.topic,
            topic_id=at.topic_id,
            partition=at.partition,
        )
        for producer_id in sorted({producer.current, *producer.former})
    ]


def write_markers(
    cluster: ShutOutCluster,
    markers: Sequence[EpochMarker],
    *,
    sleep: Callable[[float], None],
    progress: Callable[[str], None],
) -> tuple[set[EpochMarker], str | None]:
    """Write what the leaders do not know of; returns those that they know of, and why others are lacking."""
    held: set[EpochMarker] = set()
    try:
        for producer_id in sorted({one.producer_id for one in markers}):
            of_one = [one for one in markers if one.producer_id == producer_id]
            held |= _write_of_one_id(cluster, of_one, sleep, progress)
    except PreconditionError as error:
        return held, str(error)
    lacking = len(markers) - len(held)
    return held, f"{lacking} of {len(markers)} markers could not be written" if lacking else None


def _write_of_one_id(
    cluster: ShutOutCluster,
    markers: Sequence[EpochMarker],
    sleep: Callable[[float], None],
    progress: Callable[[str], None],
) -> set[EpochMarker]:
    """The same of one producer id; returns those that leaders know of in the end."""
    held = _known(cluster, markers)
    before = len(held)
    for _ in range(_ATTEMPTS):
        lacking = [one for one in markers if one not in held]
        if not lacking:
            break
        cluster.write_abort_markers(
            [_at(one) for one in lacking],
            producer_id=lacking[0].producer_id,
            producer_epoch=MARKER_EPOCH,
        )
        held = _known(cluster, markers)
        if len(held) < len(markers):
            sleep(_POLL_S)  # a leader that moved
    progress(f"abort markers: {len(held) - before} written, {before} were there")
    return held


def _known(cluster: ShutOutCluster, markers: Sequence[EpochMarker]) -> set[EpochMarker]:
    known = cluster.producer_epochs([_at(one) for one in markers], markers[0].producer_id)
    return {one for one in markers if known.get(_at(one), 0) >= one.producer_epoch}


def _at(marker: EpochMarker) -> TopicPartition:
    return TopicPartition(marker.topic, marker.topic_id, marker.partition)
