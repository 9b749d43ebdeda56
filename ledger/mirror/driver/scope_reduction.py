"""What a changed configuration would stop mirroring: refused at the start unless it is said to be meant.

A topic counts when the ledger has offset syncs of the flow for it and the flow would no longer select it,
or would copy it to a target topic of another name.
"""

from collections.abc import Mapping, Sequence

from ledger.domain.operations.flow_events import ScopeReduced
from ledger.domain.topics.naming import TopicSelection
from ledger.errors import PreconditionError
from ledger.ports.ledger import FlowPosition, OperationLog


def require_scope(
    flow: str,
    selection: TopicSelection,
    positions: Sequence[FlowPosition],
    accepted: Mapping[str, int],
    operations: OperationLog,
    *,
    allow_reduction: bool,
) -> None:
    """Raise `PreconditionError` with the topics that would be left out, or record that this is meant.

    `accepted`: by source topic, up to which offsets (summed over partitions) it had been copied when
    leaving it out was accepted; what was copied since has to be accepted again.
    """
    reached = _reached(positions)
    reasons = {
        topic: reason
        for topic, reason in _left_out(selection, positions).items()
        if accepted.get(topic) != reached[topic]
    }
    if not reasons:
        return
    if not allow_reduction:
        listed = "\n  ".join(f"{topic}: {reason}" for topic, reason in sorted(reasons.items()))
        raise PreconditionError(
            f"{flow} has mirrored topics that its configuration leaves out now; nothing was copied. If that is "
            f"meant, start it with --allow-scope-reduction:\n  {listed}"
        )
    reduced = ScopeReduced({topic: reached[topic] for topic in sorted(reasons)})
    operations.record(reduced, flow=flow, reason=None)


def _reached(positions: Sequence[FlowPosition]) -> dict[str, int]:
    reached: dict[str, int] = {}
    for known in positions:
        copied_end = known.position.source_offset
        reached[known.source_topic] = reached.get(known.source_topic, 0) + copied_end
    return reached


def _left_out(selection: TopicSelection, positions: Sequence[FlowPosition]) -> dict[str, str]:
    return {
        position.source_topic: reason
        for position in positions
        if (reason := _reason(selection, position)) is not None
    }


def _reason(selection: TopicSelection, position: FlowPosition) -> str | None:
    refusal = selection.refusal(position.source_topic)
    if refusal is not None:
        return f"not selected ({refusal})"
    target = selection.naming.target_name(position.source_topic)
    if target != position.target_topic:
        return f"copied to {position.target_topic} so far, to {target} from now on"
    return None
