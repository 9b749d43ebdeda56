"""What keeps a mirror out that does not know of the promotion: rules of the cluster, and abort markers.

Each is recorded before it is made (`mirror_shut_out` without a proof), so that `demote` finds it after a crash at any
place. Rules that others had made are left to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.facts import TopicPartition
from ledger.domain.operations.promotion.shut_outs import EpochMarker
from ledger.domain.topics.topic_acls import AclPattern, AclPermission, TopicAcl
from ledger.errors import PreconditionError
from ledger.operations.shut_out.scope import PromotedPartitions, ShutOutPorts, ShutOutScope

MARKER_EPOCH = 1
"""The mirror writes with producer epoch 0."""
_POLL_S = 0.25
_LEARNED_WITHIN_S = 5.0
"""Brokers learn of a rule within milliseconds."""
_ATTEMPTS = 10
"""To write markers where leaders could not at first."""


@dataclass(frozen=True, slots=True)
class Fences:
    """What is to be made for promoted partitions.

    `rules`: those that are the shut-out's own; `lacking`: of these those that are not there. `markers`: all that are
    wanted. `impossible`: why no rule keeps the mirror out, None: rules may.
    """

    rules: tuple[TopicAcl, ...]
    lacking: tuple[TopicAcl, ...]
    markers: tuple[EpochMarker, ...]
    impossible: str | None


@dataclass(frozen=True, slots=True)
class Fenced:
    """Topics that the mirror's principal may write to no more, and partitions of flows that markers hold.

    `without_rules`, `without_markers`: why not.
    """

    topics: frozenset[str]
    partitions: frozenset[tuple[str, str, int]]
    without_rules: str | None
    without_markers: str | None


def wanted_fences(scope: ShutOutScope, ports: ShutOutPorts, found: PromotedPartitions) -> Fences:
    """What of the fences is there, and what is to be made. Raises `PreconditionError` for a blocker."""
    cluster_id = ports.cluster.cluster_id()
    markers = _wanted_markers(ports, found, cluster_id) if scope.with_markers else ()
    if scope.principal is None:
        return Fences((), (), markers, f"clusters.{scope.pair.cluster} has no mirror_principal")
    _require_alone(scope, found)
    wanted = frozenset(_rule(topic, scope.principal) for topic in found.topics)
    try:
        there = ports.cluster.topic_acls()
    except PreconditionError as error:
        return Fences((), (), markers, str(error))
    own = (ports.state.shut_outs().rules(cluster_id, found.topics) & wanted) | (wanted - there)
    return Fences(tuple(sorted(own)), tuple(sorted(wanted - there)), markers, None)


def _rule(topic: str, principal: str) -> TopicAcl:
    return TopicAcl(AclPattern.LITERAL, topic, principal, "*", "write", AclPermission.DENY)


def _require_alone(scope: ShutOutScope, found: PromotedPartitions) -> None:
    """The principal of one cluster is that of all flows that write there."""
    for flow in scope.others:
        topics = [topic for topic in found.topics if scope.copies(flow, topic)]
        if topics:
            raise PreconditionError(
                f"flow {flow.name} writes to {', '.join(topics)} of {scope.pair.cluster} as {scope.principal} as well: "
                "what shuts one out shuts out both; nothing was denied. Promote other topics, or disable that flow"
            )


def _wanted_markers(
    ports: ShutOutPorts, found: PromotedPartitions, cluster_id: str
) -> tuple[EpochMarker, ...]:
    """Of all ids that a flow ever had there: an older copy of the ledger may name an earlier one."""
    producers = ports.state.identities().producers(cluster_id)
    return tuple(
        EpochMarker(
            flow=flow,
            producer_id=producer_id,
            producer_epoch=MARKER_EPOCH,
            topic=at.topic,
            topic_id=at.topic_id,
            partition=at.partition,
        )
        for flow, partitions in sorted(found.by_flow.items())
        if flow in producers
        for at in partitions
        for producer_id in sorted({producers[flow].current, *producers[flow].former})
    )


def make_fences(
    scope: ShutOutScope, ports: ShutOutPorts, fences: Fences, found: PromotedPartitions
) -> Fenced:
    """Make what is lacking, and read back what holds."""
    without_rules = fences.impossible or _deny(scope, ports, fences, found.topics)
    held, without_markers = _mark(ports, fences.markers)
    asked = {(one.flow, one.topic, one.partition) for one in fences.markers}
    open_ = {(one.flow, one.topic, one.partition) for one in fences.markers if one not in held}
    return Fenced(
        topics=frozenset() if without_rules else frozenset(found.topics),
        partitions=frozenset(asked - open_),
        without_rules=without_rules,
        without_markers=without_markers if scope.with_markers else "no marker was asked for",
    )


def _deny(scope: ShutOutScope, ports: ShutOutPorts, fences: Fences, topics: Sequence[str]) -> str | None:
    """Returns why the mirror's principal may write nevertheless; None: it may not, at any broker."""
    try:
        if fences.lacking:
            ports.cluster.create_acls(fences.lacking)
            ports.progress(f"denied WRITE to {scope.principal} on {', '.join(topics)}")
        return _why_open(scope, ports, fences, topics)
    except PreconditionError as error:
        return str(error)


def _why_open(scope: ShutOutScope, ports: ShutOutPorts, fences: Fences, topics: Sequence[str]) -> str | None:
    """What is read back once brokers have had time to learn of the rules."""
    deadline = ports.clock.monotonic() + _LEARNED_WITHIN_S
    while True:
        writable = ports.mirror.writable_topics(topics)
        missing = set(fences.rules) - ports.cluster.topic_acls()
        if not writable and not missing:
            return None
        if ports.clock.monotonic() >= deadline:
            break
        ports.sleep(_POLL_S)
    if missing:
        return f"{scope.pair.cluster} accepted rules and does not show them: {len(missing)} of {len(fences.rules)}"
    return (
        f"{scope.pair.cluster} lets the mirror write to {', '.join(sorted(writable))} in spite of the rule: it is a "
        f"super user, or logs in as another principal than {scope.principal}"
    )


def _mark(ports: ShutOutPorts, markers: Sequence[EpochMarker]) -> tuple[set[EpochMarker], str | None]:
    """Write what the leaders do not know of; returns those that they know of, and why others are lacking."""
    held: set[EpochMarker] = set()
    try:
        for producer_id in sorted({one.producer_id for one in markers}):
            held |= _mark_id(ports, [one for one in markers if one.producer_id == producer_id])
    except PreconditionError as error:
        return held, str(error)
    lacking = len(markers) - len(held)
    return held, f"{lacking} of {len(markers)} markers could not be written" if lacking else None


def _mark_id(ports: ShutOutPorts, markers: Sequence[EpochMarker]) -> set[EpochMarker]:
    """The same of one producer id; returns those that leaders know of in the end."""
    held = _marked(ports, markers)
    before = len(held)
    for _ in range(_ATTEMPTS):
        lacking = [one for one in markers if one not in held]
        if not lacking:
            break
        ports.cluster.write_abort_markers(
            [_at(one) for one in lacking],
            producer_id=lacking[0].producer_id,
            producer_epoch=MARKER_EPOCH,
        )
        held = _marked(ports, markers)
        if len(held) < len(markers):
            ports.sleep(_POLL_S)  # a leader that moved
    ports.progress(f"abort markers: {len(held) - before} written, {before} were there")
    return held


def _marked(ports: ShutOutPorts, markers: Sequence[EpochMarker]) -> set[EpochMarker]:
    known = ports.cluster.producer_epochs([_at(one) for one in markers], markers[0].producer_id)
    return {one for one in markers if known.get(_at(one), 0) >= one.producer_epoch}


def _at(marker: EpochMarker) -> TopicPartition:
    return TopicPartition(marker.topic, marker.topic_id, marker.partition)
