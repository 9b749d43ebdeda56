"""Taking a cut: both sides of what flows between two clusters copy, as they stand when nobody writes there any more.

A cluster that answers is read itself; of one that does not the last recorded ends are taken, each with its time.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ledger.changeover.pairs import Pair, require_opposites
from ledger.clock import Clock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.facts.codec import encode
from ledger.facts.cut_offsets import Cut, CutOffset, CutSide
from ledger.facts.identity import ClusterIdentities
from ledger.facts.recreated import Recreations
from ledger.facts.roles import OPERATOR_WRITER
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import FlowPosition, HighWatermark, OffsetRange, TopicPartition
from ledger.facts.tables import CUT_OFFSETS
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, live_cluster
from ledger.mirror.starts import require_usable
from ledger.mirror.states import first_record
from ledger.topics.naming import NamingKind, TopicSelection
from ledger.words import by_topic, counted


@dataclass(frozen=True, slots=True)
class CutFlow:
    """A flow whose partitions are read; `topics`: names at the target, None: all."""

    flow: FlowConfig
    selection: TopicSelection
    topics: frozenset[str] | None = None

    def takes(self, source_topic: str) -> bool:
        if not self.selection.selects(source_topic):
            return False
        return self.topics is None or self.flow.naming.target_name(source_topic) in self.topics


@dataclass(frozen=True, slots=True)
class CutPorts:
    """Source and target of the flows, and the ledger."""

    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    fact_log: FactLog
    clock: Clock


def take_cut(
    flows: Sequence[CutFlow],
    ports: CutPorts,
    *,
    operation_id: str,
    pause: Callable[[], None] | None = None,
) -> Cut:
    """Read both sides and record them; the cut of an operation that has one already is returned as it is.

    `pause`: waits before the ends are read once more, which have to be the same; None: something else has proved that
    nobody writes. Raises `PreconditionError` where another cluster answers than the recorded one, where topics change
    or records come meanwhile, and where neither side answers; `UsageError` where the flows copy no such topic. Then
    nothing is recorded.
    """
    found = ports.state.cut(operation_id)
    if found.offsets:
        return found
    offsets = tuple(_Reading(flows, ports, operation_id).offsets())
    if not offsets:
        raise UsageError(
            "the flows copy no such topic, as far as clusters and ledger tell; nothing was recorded"
        )
    if not any(at.is_live for at in offsets):
        raise PreconditionError(
            f"neither {ports.source.alias} nor {ports.target.alias} answers: a cut would say no more than the ledger "
            "says already; nothing was recorded. Take it when one of them answers"
        )
    if pause is not None:
        pause()
        _require_still(offsets, ports)
    ports.fact_log.append_next(OPERATOR_WRITER, CUT_OFFSETS.name, list(map(encode, offsets)))
    return ports.state.cut(operation_id)


def _require_still(offsets: Sequence[CutOffset], ports: CutPorts) -> None:
    """What comes after a cut is never copied back: whoever writes still is to stop first."""
    for admin in (ports.source, ports.target):
        live = {(at.topic, at.partition): at for at in offsets if at.is_live and at.cluster == admin.alias}
        now = admin.ends(sorted(live))
        risen = {
            key: now[key].high_watermark - (at.high_watermark or 0)
            for key, at in live.items()
            if key in now and now[key].high_watermark != at.high_watermark
        }
        if risen:
            raise PreconditionError(
                f"{counted(sum(risen.values()), 'offset')} came to {by_topic(risen)} of {admin.alias} while the cut "
                "was taken: somebody writes there; nothing was recorded. Stop applications and flows that write to "
                "these topics, at both clusters, then take it again"
            )


@dataclass(frozen=True, slots=True)
class _Topic:
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """One cluster as it answered, or as it was recorded last (`admin` None)."""

    alias: str
    cluster_id: str | None
    topics: Mapping[str, _Topic]
    admin: ClusterAdmin | None


@dataclass(frozen=True, slots=True)
class _Reading:
    flows: Sequence[CutFlow]
    ports: CutPorts
    operation_id: str

    def offsets(self) -> Iterator[CutOffset]:
        positions = {one.flow.name: self.ports.state.positions(one.flow.name) for one in self.flows}
        every = [known for found in positions.values() for known in found]
        source = self._side(
            self.ports.source, [(at.source_topic, at.source_topic_id, at.partition) for at in every]
        )
        target = self._side(
            self.ports.target, [(at.target_topic, at.target_topic_id, at.partition) for at in every]
        )
        placed = {flow: _placed(found) for flow, found in positions.items()}
        begun = [
            replace(
                at, **placed[one.flow.name].get((cut_side, at.source_topic, at.topic_id, at.partition), {})
            )
            for one in self.flows
            for cut_side, side in ((CutSide.SOURCE, source), (CutSide.TARGET, target))
            for at in self._partitions(one, cut_side, side)
        ]
        ends = {CutSide.SOURCE: self._ends(begun, source), CutSide.TARGET: self._ends(begun, target)}
        read = [replace(at, **ends[at.side].get((at.topic, at.partition), {})) for at in begun]
        sources = {(at.flow, at.source_topic, at.partition): at for at in read if at.side is CutSide.SOURCE}
        flows = {one.flow.name: one.flow for one in self.flows}
        opposites = sorted({flow.opposite for flow in flows.values() if flow.opposite is not None})
        returned = {name: _read_to(self.ports.state.positions(name)) for name in opposites}
        behind = {name: self.ports.state.behind_others(name) for name in flows}
        identities, deficits = self.ports.state.identities(), self.ports.state.deficits()
        recreations = self.ports.state.recreations()
        for at in read:
            at_source, flow = sources.get((at.flow, at.source_topic, at.partition)), flows[at.flow]
            read_to = returned.get(flow.opposite or "", {}).get((at.topic_id, at.partition), 0)
            if at_source is not None and _is_without_copies(at_source, recreations):
                yield _with_start_of_all(at)
                continue
            stood = behind[at.flow].get((at.topic_id, at.partition))
            lacking = deficits.returning(flow.source, _partition(at))
            yield self._with_start(at, at_source, flow, read_to, stood, lacking, identities)

    # -- what is there ---------------------------------------------------------------------------

    def _side(self, admin: ClusterAdmin, copied: Sequence[tuple[str, str, int]]) -> _Side:
        identities = self.ports.state.identities()
        try:
            identities.require(admin.alias, live_cluster(admin))
            return _Side(admin.alias, admin.cluster_id(), _described(admin), admin)
        except ClusterUnavailableError:
            known = {**_known_topics(copied), **_recorded_topics(self._recorded(admin.alias))}
            return _Side(admin.alias, identities.recorded_id(admin.alias), known, None)

    def _recorded(self, alias: str) -> dict[tuple[str, int], HighWatermark]:
        return {(at.topic_id, at.partition): at for at in self.ports.state.last_high_watermarks(alias)}

    def _partitions(self, one: CutFlow, cut_side: CutSide, side: _Side) -> Iterator[CutOffset]:
        for name, topic in sorted(side.topics.items()):
            source_topic = name if cut_side is CutSide.SOURCE else one.flow.naming.source_name(name)
            if source_topic is None or not one.takes(source_topic):
                continue
            for partition in topic.partitions:
                yield CutOffset(
                    operation_id=self.operation_id,
                    flow=one.flow.name,
                    side=cut_side,
                    cluster=side.alias,
                    cluster_id=side.cluster_id,
                    source_topic=source_topic,
                    topic=name,
                    topic_id=topic.topic_id,
                    partition=partition,
                )

    # -- ends ------------------------------------------------------------------------------------

    def _ends(self, begun: Sequence[CutOffset], side: _Side) -> dict[tuple[str, int], dict[str, Any]]:
        """By topic and partition as read now, else as recorded."""
        wanted = {(at.topic, at.partition): at for at in begun if at.cluster == side.alias}
        found: dict[tuple[str, int], dict[str, Any]] = {}
        if side.admin is not None:
            read_at_ms = self.ports.clock.now_ms()
            live = side.admin.ends(sorted(wanted))
            if _described(side.admin) != side.topics:
                raise PreconditionError(
                    f"topics of {side.alias} changed while their ends were read; nothing was recorded. Try again"
                )
            found = {key: _said(ends, read_at_ms, is_live=True) for key, ends in live.items()}
        if found.keys() < wanted.keys():
            recorded = self._recorded(side.alias)
            for key in wanted.keys() - found.keys():
                if (known := recorded.get((wanted[key].topic_id, key[1]))) is not None:
                    found[key] = _said(known, known.read_at_ms, is_live=False)
        return found

    # -- where the way back begins ---------------------------------------------------------------

    def _with_start(
        self,
        at: CutOffset,
        source: CutOffset | None,
        flow: FlowConfig,
        returned: int,
        stood: int | None,
        lacking: Sequence[OffsetRange],
        identities: ClusterIdentities,
    ) -> CutOffset:
        """Nothing is said of partitions whose other side was not read itself, or of which a side has lost its end.

        `returned`: how far the flow of the way back has read it. `stood`: where the flow stood before it copied extras
        behind what others wrote; None: all that others wrote lies behind its map. `lacking`: what is decided to return,
        ascending: the source holds it no more.
        """
        is_known = at.is_live and source is not None and source.is_live
        if at.side is CutSide.SOURCE or not is_known or flow.topic_naming is not NamingKind.IDENTITY:
            return at
        assert source is not None, "it was read"
        source_is_short = (source.high_watermark or 0) < (source.map_source_end or 0)
        if source_is_short or (at.high_watermark or 0) < (at.map_target_end or 0):
            return at
        start = max(at.map_target_end or 0, at.log_start or 0, returned)
        own = identities.producers(at.cluster_id or "").get(at.flow)
        in_front = None
        if stood is not None and own is not None:
            in_front = first_record(
                self.ports.target,
                _partition(at),
                max(stood, at.log_start or 0, returned),
                start,
                is_decided=own.wrote,
            )
        found = first_record(
            self.ports.target, _partition(at), start, at.high_watermark or 0, is_decided=lambda _id: False
        )
        if found is not None and own is not None and own.wrote(found[1]):
            return at
        first = in_front or found
        starts = [at.high_watermark or 0 if first is None else first[0]]
        starts += [max(begin, returned, at.log_start or 0) for begin, end in lacking if end > returned]
        return replace(at, reverse_start=min(starts))


def _is_without_copies(source: CutOffset, recreations: Recreations) -> bool:
    """Whether the source was created again by decision, and nothing was copied from there since."""
    return source.map_source_end is None and recreations.is_new(source.topic_id)


def _with_start_of_all(at: CutOffset) -> CutOffset:
    """All comes back: it was to come to a topic that is there no more."""
    is_known = at.is_live and at.side is CutSide.TARGET
    return replace(at, reverse_start=at.log_start or 0) if is_known else at


def _placed(positions: Sequence[FlowPosition]) -> dict[tuple[CutSide, str, str, int], dict[str, Any]]:
    """By side, source topic, topic id and partition the ends of the map; at a target the furthest one counts."""
    found: dict[tuple[CutSide, str, str, int], dict[str, Any]] = {}
    for known in sorted(positions, key=lambda known: known.position.target_offset):
        ends = {
            "map_source_end": known.position.source_offset,
            "map_target_end": known.position.target_offset,
        }
        found[CutSide.SOURCE, known.source_topic, known.source_topic_id, known.partition] = ends
        found[CutSide.TARGET, known.source_topic, known.target_topic_id, known.partition] = ends
    return found


def _read_to(positions: Sequence[FlowPosition]) -> dict[tuple[str, int], int]:
    return {(known.source_topic_id, known.partition): known.position.source_offset for known in positions}


def _described(admin: ClusterAdmin) -> dict[str, _Topic]:
    return {
        name: _Topic(topic.topic_id, tuple(range(topic.partitions)))
        for name, topic in admin.topics().items()
        if not topic.internal
    }


def _known_topics(copied: Sequence[tuple[str, str, int]]) -> dict[str, _Topic]:
    """What a flow has copied: by topic, one of its incarnations and the partitions of that."""
    ids = {topic: topic_id for topic, topic_id, _ in copied}
    return {
        topic: _Topic(topic_id, tuple(sorted({at for _, found, at in copied if found == topic_id})))
        for topic, topic_id in ids.items()
    }


def _recorded_topics(recorded: Mapping[tuple[str, int], HighWatermark]) -> dict[str, _Topic]:
    """The incarnations that were read last."""
    last: dict[str, HighWatermark] = {}
    for at in recorded.values():
        if at.topic not in last or last[at.topic].read_at_ms < at.read_at_ms:
            last[at.topic] = at
    return {
        name: _Topic(
            newest.topic_id,
            tuple(sorted(partition for topic_id, partition in recorded if topic_id == newest.topic_id)),
        )
        for name, newest in last.items()
    }


def _said(ends: PartitionEnds | HighWatermark, read_at_ms: int, *, is_live: bool) -> dict[str, Any]:
    """What of a partition's row its ends say."""
    return {
        "leader_epoch": ends.leader_epoch,
        "log_start": ends.log_start,
        "last_stable": ends.last_stable,
        "high_watermark": ends.high_watermark,
        "read_at_ms": read_at_ms,
        "is_live": is_live,
    }


def _partition(at: CutOffset) -> TopicPartition:
    return TopicPartition(at.topic, at.topic_id, at.partition)


# Put together -------------------------------------------------------------------------------------
# Taking a cut of what is copied from one cluster to another.


def cut_of_pair(context: Context, pair: Pair, *, operation_id: str, quiet_s: float | None = None) -> Cut:
    """Read both sides of every partition that flows of the pair copy; raises as `take_cut`.

    `quiet_s`: for how many seconds nothing may come there; None: that is proved otherwise.
    """
    source, target = context.cluster(pair.former), context.cluster(pair.cluster)
    ports = CutPorts(source, target, context.state, context.fact_log, context.clock)
    pause = None if quiet_s is None else partial(time.sleep, quiet_s)
    return take_cut(flows_of_cut(context.config, pair), ports, operation_id=operation_id, pause=pause)


def ends_to_keep(context: Context, pair: Pair, flows: Sequence[FlowConfig], *, operation_id: str) -> Cut:
    """Of the opposites of flows of a pair that is demoted: where each of these continues, behind what they wrote.

    Raises `UsageError` where a flow has no opposite, `PreconditionError` while a driver of one may be at work, and
    where nobody knows where a flow is to continue.
    """
    for opposite in require_opposites(flows):
        require_stopped(context.config.flow(opposite), context.state)
    cut = cut_of_pair(context, Pair(pair.former, pair.cluster, pair.topics), operation_id=operation_id)
    for flow in flows:
        require_usable(flow, cut, undone="nothing was demoted")
    return cut


def flows_of_cut(config: MirrorConfig, pair: Pair) -> list[CutFlow]:
    """The flows of a pair with what a cut reads of them; raises `UsageError` where there is none."""
    chosen = None if pair.topics is None else frozenset(pair.topics)
    return [
        CutFlow(flow, config.topic_selection(flow.name), chosen)
        for flow in pair.flows_of(config.flows.values(), config.copies)
    ]
