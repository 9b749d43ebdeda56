"""Keeps drivers of a ledger that was lost from a flow's target, before the flow is claimed on the restored ledger.

Such a driver may still be at work, or come back with its host, and knows nothing of the restored ledger. So before the
first claim abort markers end the epoch of every producer id that the flow has had there: leaders refuse what that
driver sends from then on, and what it has sent lies in front of the marker, where tail reconciliation reads it. The
flow continues with a new producer id, as it does behind the marker of a promotion.

Where the cluster lets nobody write markers, the flow continues with the producer id that it had: the target's check of
sequences lets each batch in once, whoever of the two sends it (GUARANTEES, "How *once* is carried").
"""

import logging
import time
from collections.abc import Iterable, Iterator

from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.fences import EpochMarker, FormerDriversShutOut
from ledger.facts.state import LedgerState, OperationLog
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import ShutOutCluster
from ledger.kafka.epoch_markers import markers_against, write_markers
from ledger.mirror.dead_letters import dead_letter_flow
from ledger.topics.naming import TopicSelection

log = logging.getLogger(__name__)


def shut_out_former_drivers(
    flow: FlowConfig,
    selection: TopicSelection,
    target: ShutOutCluster,
    state: LedgerState,
    operations: OperationLog,
    *,
    restored_by: str,
) -> None:
    """Once for the flow and the operation that restored the ledger last; where that was done already, nothing is.

    `target`: as who may write markers reaches it. Raises `PreconditionError` where some leaders have the markers and
    others do not: then the flow may write with neither producer id.
    """
    last = state.shut_outs().of_former_drivers.get((restored_by, flow.name))
    if last is not None and last.is_done:
        return
    cluster_id = target.cluster_id()
    markers = tuple(_wanted(flow, selection, target, state, cluster_id))
    if not markers:
        return

    def recorded(found: Iterable[EpochMarker], *, is_done: bool, reason: str | None) -> None:
        content = FormerDriversShutOut(
            restored_by=restored_by,
            cluster=flow.target,
            cluster_id=cluster_id,
            markers=tuple(found),
            is_done=is_done,
            reason=reason,
        )
        operations.record(content, flow=flow.name, reason=None)

    recorded(markers, is_done=False, reason=None)
    held, why = write_markers(target, markers, sleep=time.sleep, progress=lambda _line: None)
    if why is None:
        recorded(markers, is_done=True, reason=None)
        log.info(
            "%(flow)s: the ledger was restored: drivers of the lost one are shut out of %(partitions)d partitions of "
            "%(cluster)s",
            {
                "flow": flow.name,
                "partitions": len({(one.topic, one.partition) for one in markers}),
                "cluster": flow.target,
            },
        )
        return
    if held:
        raise PreconditionError(
            f"drivers of the ledger that was lost are not shut out of all of {flow.target}: {why}; nothing was copied. "
            "Start it again"
        )
    recorded((), is_done=True, reason=why)
    log.warning(
        "%(flow)s: the ledger was restored, and a driver of the lost one that is still at work can write to "
        "%(cluster)s: %(cause)s. End it; the target takes each batch once meanwhile",
        {"flow": flow.name, "cluster": flow.target, "cause": why},
    )


def _wanted(
    flow: FlowConfig, selection: TopicSelection, target: ShutOutCluster, state: LedgerState, cluster_id: str
) -> Iterator[EpochMarker]:
    """Of every id that the flow has had there, at every partition that it has copied to or would copy to."""
    producers = state.identities().producers(cluster_id)
    topics = target.topics()
    for name in (flow.name, dead_letter_flow(flow).name):
        if (producer := producers.get(name)) is None:
            continue
        copied = {at.target_topic for at in state.positions(name)}
        for topic in topics.values():
            source_topic = flow.naming.source_name(topic.name) if name == flow.name else None
            is_copied = source_topic is not None and selection.selects(source_topic)
            if topic.name not in copied and not (is_copied and not topic.internal):
                continue
            for number in range(topic.partitions):
                yield from markers_against(name, producer, TopicPartition(topic.name, topic.topic_id, number))
