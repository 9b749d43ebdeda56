"""What lies at the source of a flow because its opposite has brought it there: pairs though the flow has never run.

Applications that moved there write behind it. Where the cluster is lost before anything of that came back, this is all
that both sides have.
"""

from collections.abc import Collection, Iterator

from ledger.config.values import FlowConfig
from ledger.facts.state import LedgerState
from ledger.facts.syncs import FlowPosition, Position
from ledger.store.narrowed import summed
from ledger.store.sql import READ_FOR_INCARNATIONS, Snapshot, incarnations


def paired(state: LedgerState, flow: FlowConfig) -> list[FlowPosition]:
    """Where a flow stands, of topics that it has not begun with (`brought`) as well."""
    return [*state.positions(flow.name), *brought(state, flow)]


def brought(state: LedgerState, flow: FlowConfig) -> Iterator[FlowPosition]:
    """Of topics that its opposite has brought to where applications came then, and that the flow has not begun with: up
    to where both sides have the same."""
    if flow.opposite is None:
        return
    begun = {(at.source_topic_id, at.target_topic_id) for at in state.positions(flow.name)}
    directions, stood = state.directions(), state.behind_others(flow.opposite)
    deleted = state.recreations().rows
    for at in state.positions(flow.opposite):
        topic, topic_id = at.target_topic, at.target_topic_id
        way_back = directions.way_back(flow.target, flow.source, topic)
        is_promoted = directions.promotion(flow.target, flow.source, topic) is not None
        is_back = way_back is not None and way_back.holds(topic, topic_id)
        is_there = at.source_topic_id not in deleted
        if is_there and (is_promoted or is_back) and (topic_id, at.source_topic_id) not in begun:
            yield FlowPosition(
                source_topic=topic,
                source_topic_id=topic_id,
                partition=at.partition,
                target_topic=at.source_topic,
                target_topic_id=at.source_topic_id,
                position=Position(
                    source_offset=stood.get((topic_id, at.partition), at.position.target_offset),
                    target_offset=at.position.source_offset,
                    next_sequence=0,
                ),
            )


def last_incarnations(at: Snapshot, flow: FlowConfig, new: Collection[FlowPosition]) -> dict[str, str]:
    """By source topic the id of the one that a flow has copied last; of topics that it has not begun with (`new`) the
    one that was brought there last."""
    own = incarnations(at, flow.name, summed(at, READ_FOR_INCARNATIONS))
    if not new or flow.opposite is None:
        return own
    there = incarnations(at, flow.opposite, summed(at, READ_FOR_INCARNATIONS))
    last = {
        one.source_topic: one.source_topic_id
        for one in new
        if there.get(one.target_topic) == one.target_topic_id
    }
    return {**own, **last}
