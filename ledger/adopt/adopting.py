"""Takes target partitions over for a flow: claims its writer epoch, compares, records the map, releases.

A target that is still written to cannot be taken over: its ends are looked up before the comparison and after
it, at least some seconds later, and must be the same. Each topic is one commit, so that a command that was
interrupted can be repeated: what is recorded already is refused as known.

A flow that reads the target looks up what was adopted there when its driver starts, and would take what is
adopted later for an application's: so no driver of one may be at work.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import merge
from itertools import groupby

from ledger.adopt.pairing import PairingResult, Ranges, Run, pair_partition
from ledger.adopt.reading import BothSides, TargetLog, both_sides
from ledger.adopt.synced_groups import SyncedGroups
from ledger.clock import Clock
from ledger.config.values import FlowConfig, TargetMode
from ledger.context import Context, driver_operations
from ledger.errors import PreconditionError, RefusedPartitionError, UsageError
from ledger.facts.roles import LastClaim, ProcessTable, writer_of
from ledger.facts.state import FactLog
from ledger.facts.syncs import (
    Gap,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    SyncCause,
    SyncKind,
    overlapping,
    without,
)
from ledger.facts.tables import GROUP_SYNCS
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.assignment import StopCause
from ledger.mirror.driver import claimed_beside_no_driver
from ledger.mirror.flow_topics import flow_topics
from ledger.mirror.other_mirrors import signs_of_mirror_maker
from ledger.mirror.states import PartitionState
from ledger.mirror.stops import StopEvents
from ledger.roles import require_free
from ledger.store.session import WriterSession

# Verdicts -----------------------------------------------------------------------------------------
# What a comparison means for the operator: may the partition be taken over, and how sure is its map?


_SHOWN_RANGES = 5


class Verdict(StrEnum):
    """How a partition came out."""

    EXACT = "exact"  # every source record of the map has its copy, or a cause why not
    BOUNDED = "bounded"  # taken over; some translations land before the true copy, or records are missing
    EMPTY = "empty"  # the target holds nothing: the flow begins there as with any new partition
    REFUSED = "refused"  # nothing of it was recorded


@dataclass(frozen=True, slots=True)
class Consent:
    """What the operator accepts. `missing`: source records that the target lacks; `foreign`: others' at its end."""

    missing: bool
    foreign: bool


@dataclass(frozen=True, slots=True)
class PartitionAdoption:
    """One partition's line of the result."""

    pair: PartitionPair
    verdict: Verdict
    findings: PairingResult | None
    continues_at: tuple[int, int] | None
    remarks: tuple[str, ...]

    @classmethod
    def refused(cls, pair: PartitionPair, reason: str) -> "PartitionAdoption":
        return cls(pair, Verdict.REFUSED, None, None, (reason,))

    @classmethod
    def empty(cls, pair: PartitionPair) -> "PartitionAdoption":
        return cls(pair, Verdict.EMPTY, None, None, ("the target holds no record",))

    def remarked(self, remarks: Sequence[str]) -> "PartitionAdoption":
        """With more remarks; a refusal has one reason."""
        if self.verdict is Verdict.REFUSED:
            return self
        return replace(self, remarks=(*self.remarks, *remarks))


def check_consent(findings: PairingResult, consent: Consent, source: PartitionEnds) -> None:
    """Raises `RefusedPartitionError` for what the operator has not accepted."""
    if findings.missing and not consent.missing:
        raise RefusedPartitionError(
            f"the target lacks {findings.missing.records:,} records of source offsets {shown(findings.missing)} "
            "between others that it has, and nothing proves that this is harmless; nothing of the partition was "
            "recorded (--accept-missing records them as lost)"
        )
    if findings.foreign and not consent.foreign:
        unstable = source.high_watermark - source.last_stable
        reason = f"; {unstable:,} source offsets belong to open transactions" if unstable else ""
        raise RefusedPartitionError(
            f"target offsets {shown(findings.foreign)} behind the last pair hold records that the source does "
            f"not{reason}; nothing of the partition was recorded (--accept-foreign continues after them)"
        )


def judged(
    pair: PartitionPair, findings: PairingResult, *, target: PartitionEnds, continues_at: tuple[int, int]
) -> PartitionAdoption:
    """The verdict of a partition that may be taken over."""
    is_bounded = findings.missing or findings.ambiguous or (findings.before and target.log_start > 0)
    verdict = Verdict.BOUNDED if is_bounded else Verdict.EXACT
    return PartitionAdoption(pair, verdict, findings, continues_at, tuple(_remarks(findings, target)))


def _remarks(findings: PairingResult, target: PartitionEnds) -> Iterator[str]:
    if findings.before:
        expired = ", its copies may have expired" if target.log_start > 0 else ""
        yield f"the map begins after source offsets {shown(findings.before)}{expired}"
    if findings.missing:
        yield f"lost: source offsets {shown(findings.missing)}"
    if findings.ambiguous:
        yield f"ambiguous (equal records): source offsets {shown(findings.ambiguous)}"
    if findings.uncommitted:
        yield f"copies of aborted or mirrored records: target offsets {shown(findings.uncommitted)}"
    if findings.foreign:
        yield f"records of others at the end: target offsets {shown(findings.foreign)}"
    if findings.is_stamped:
        yield "the target stamps its own times: compared without them"


def shown(ranges: Ranges) -> str:
    """The first few ranges, last offset included, for people."""
    listed = list(ranges)
    texts = [
        str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in listed[:_SHOWN_RANGES]
    ]
    more = len(listed) - _SHOWN_RANGES
    return ", ".join(texts) + (f" and {more} more stretches" if more > 0 else "")


def result_row(adoption: PartitionAdoption) -> dict[str, object]:
    """A line of the result table; null where nothing was compared or paired."""
    findings = adoption.findings
    runs = findings.runs if findings is not None else []
    source_continues, target_continues = adoption.continues_at or (None, None)
    return {
        "source_topic": adoption.pair.source.topic,
        "partition": adoption.pair.source.partition,
        "target_topic": adoption.pair.target.topic,
        "verdict": str(adoption.verdict),
        "paired": findings.paired if findings is not None else None,
        "source_first": runs[0].source_start if runs else None,
        "source_last": runs[-1].source_end - 1 if runs else None,
        "target_first": runs[0].target_start if runs else None,
        "target_last": runs[-1].target_end - 1 if runs else None,
        "duplicates": findings.duplicates.records if findings is not None else None,
        "unmatched_source": shown(findings.missing) or None if findings is not None else None,
        "unmatched_target": _unmatched_target(findings) if findings is not None else None,
        "source_goes_on": source_continues,
        "target_goes_on": target_continues,
        "remarks": "; ".join(adoption.remarks) or None,
    }


def _unmatched_target(findings: PairingResult) -> str | None:
    parts = (findings.target_before, findings.target_between, findings.foreign)
    return ", ".join(shown(part) for part in parts if part) or None


# Offset syncs -------------------------------------------------------------------------------------
# A comparison's findings as offset syncs.


_GAPS_PER_ROW = 10_000


def adoption_syncs(pair: PartitionPair, findings: PairingResult, *, target_end: int) -> list[OffsetSync]:
    """`started`, then what was paired and what is missing, in order; the last row ends at `target_end`.

    The rows tile the source from `findings.source_start` on (L1). What the target holds behind the last pair
    (repeats, others' records, markers) is `unpaired`, without a record of the flow. The flow has written
    nothing yet, so its next sequence is 0 in all rows.
    """
    start = findings.runs[0].target_start if findings.runs else target_end
    syncs = syncs_of_pieces(pair, _pieces(findings), source_start=findings.source_start, target_start=start)
    last = syncs[-1]
    if last.target_end != target_end:
        rows = _Rows(pair, source_start=last.source_end, target_start=last.target_end)
        rows.target_end = target_end
        rows.add(SyncKind.UNPAIRED, SyncCause.ACCEPTED)
        syncs += rows.finished
    return syncs


Piece = Run | Gap | OffsetRange
"""What is paired, what is left out for a cause, and what is missing."""


def syncs_of_pieces(
    pair: PartitionPair, pieces: Iterable[Piece], *, source_start: int, target_start: int
) -> list[OffsetSync]:
    """`started`, then what tiles the source from there on, in order."""
    rows = _Rows(pair, source_start=source_start, target_start=target_start)
    rows.add(SyncKind.STARTED, SyncCause.EARLIEST)
    for piece in pieces:
        rows.take(piece)
    rows.close()
    return rows.finished


def _pieces(findings: PairingResult) -> Iterator[Piece]:
    """Runs, gaps and missing stretches (as ranges) in source order, without an overlap."""
    missing = list(findings.missing)
    sides: list[Iterable[Piece]] = [findings.runs, _without(findings.gaps, missing), missing]
    yield from merge(*sides, key=start_of)


def start_of(piece: Piece) -> int:
    return piece[0] if isinstance(piece, tuple) else piece.source_start


def _without(gaps: Iterable[Gap], taken_out: Sequence[OffsetRange]) -> Iterator[Gap]:
    for gap in gaps:
        out = overlapping(taken_out, gap.source_start, gap.source_end)
        for start, end in without((gap.source_start, gap.source_end), out):
            yield Gap(start, end, gap.cause)


class _Rows:
    """Offset syncs in the making; a row is one contiguous target range of one leader epoch of the source."""

    def __init__(self, pair: PartitionPair, *, source_start: int, target_start: int) -> None:
        self._pair = pair
        self.finished: list[OffsetSync] = []
        self.target_start = self.target_end = target_start
        self._source_start = self._source_end = source_start
        self._open()

    def _open(self) -> None:
        self._source_start = self._source_end
        self.target_start = self.target_end
        self._gaps: list[Gap] = []
        self._runs: list[Run] = []

    def take(self, piece: Piece) -> None:
        match piece:
            case Run():
                self._take_run(piece)
            case Gap():
                if len(self._gaps) >= _GAPS_PER_ROW:
                    self.close()
                self._gaps.append(piece)
                self._source_end = piece.source_end
            case (_, end):
                self.close()
                self._source_end = end
                self.add(SyncKind.LOST, SyncCause.SKIPPED)
                self._open()

    def _take_run(self, run: Run) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.target_end, last.leader_epoch) != (run.target_start, run.leader_epoch):
            self.close()
        if not self._runs:
            self.target_start = run.target_start
        self._runs.append(run)
        self._source_end = run.source_end
        self.target_end = run.target_end

    def close(self) -> None:
        if self._source_end > self._source_start:
            self.add(SyncKind.ADOPTED, None)
        self._open()

    def add(self, kind: SyncKind, cause: SyncCause | None) -> None:
        runs = self._runs
        self.finished.append(
            OffsetSync(
                source=self._pair.source,
                target=self._pair.target,
                source_leader_epoch=runs[-1].leader_epoch if runs else None,
                source_start=self._source_start,
                source_end=self._source_end,
                target_start=self.target_start,
                target_end=self.target_end,
                first_sequence=0,
                gaps=tuple(self._gaps),
                kind=kind,
                cause=cause,
                first_timestamp_ms=runs[0].first_timestamp_ms if runs else None,
                last_timestamp_ms=max((run.last_timestamp_ms for run in runs), default=None),
                records=sum(run.records for run in runs),
            )
        )


# Adopting -----------------------------------------------------------------------------------------


log = logging.getLogger(__name__)

_WATCHED_S = 6.0  # a running MirrorMaker writes more often than that when its source does
Ends = Mapping[tuple[str, int], PartitionEnds]


def of_topics(pairs: Sequence[PartitionPair], topics: Sequence[str]) -> list[PartitionPair]:
    """Those of the source topics asked for; all when none is."""
    unknown = set(topics) - {pair.source.topic for pair in pairs}
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: not a topic that the flow selects and that exists on both sides; "
            "nothing was taken over"
        )
    return [pair for pair in pairs if not topics or pair.source.topic in topics]


def adopt(
    flow: FlowConfig,
    pairs: Sequence[PartitionPair],
    ports: BothSides,
    consent: Consent,
    *,
    fact_log: FactLog,
    host: str,
    wait: Callable[[float], None],
    require_readers_at_rest: Callable[[], None],
) -> list[PartitionAdoption]:
    """Compare, judge and record. Raises `PreconditionError` when the flow knows all partitions already.

    `require_readers_at_rest` is asked before each record, too: comparing takes its time.
    """
    require_readers_at_rest()
    comparison = _Comparison(flow, ports, consent, wait)
    comparison.require_unknown(pairs)
    claimed = claimed_beside_no_driver(flow, ports.source, ports.target, ports.state, fact_log, host=host)
    adoptions: list[PartitionAdoption] = []
    with claimed.session.held(flow.heartbeat_seconds) as session:
        for topic in _by_topic(pairs):
            compared = comparison.of_topic(topic)
            adoptions += [adoption for adoption, _ in compared]
            syncs = [sync for _, of_partition in compared for sync in of_partition]
            if not syncs:
                continue
            require_readers_at_rest()
            taken = {adoption.pair: of_partition[0] for adoption, of_partition in compared if of_partition}
            again = [
                fact for pair, started in taken.items() for fact in comparison.begun_again(pair, started)
            ]
            begun = {fact.source.key for fact in again}
            rest = [
                sync for sync in syncs if sync.kind is not SyncKind.STARTED or sync.source.key not in begun
            ]
            claimed.append(again)
            claimed.append(rest)
            if synced := comparison.groups.rows(taken.keys()):
                session.append(GROUP_SYNCS.name, synced)
            _resume(flow, list(taken), ports, session)
    return adoptions


def _resume(
    flow: FlowConfig, taken: Sequence[PartitionPair], ports: BothSides, session: WriterSession
) -> None:
    """A stop at the records that were taken over is over."""
    operations = driver_operations()
    operations.begin(session)
    stopped = ports.state.stopped_partitions(flow.name)
    StopEvents(flow.name, operations).resumed(
        [
            pair
            for pair in taken
            if (stop := stopped.get(pair.source.key)) and stop.cause == StopCause.FOREIGN_WRITE
        ]
    )


def _by_topic(pairs: Sequence[PartitionPair]) -> Iterator[list[PartitionPair]]:
    for _, topic in groupby(pairs, key=lambda pair: pair.source.topic):
        yield list(topic)


Compared = tuple[PartitionAdoption, Sequence[OffsetSync]]


class _Comparison:
    """Compares topic by topic; knows what the ledger has of the flow, and who else writes to the clusters."""

    def __init__(
        self, flow: FlowConfig, ports: BothSides, consent: Consent, wait: Callable[[float], None]
    ) -> None:
        self._flow = flow
        self._ports = ports
        self._consent = consent
        self._wait = wait
        self._known = {p.pair.source.key: p for p in ports.state.positions(flow.name)}
        identities = ports.state.identities()
        self._producer = identities.producers(ports.target.cluster_id()).get(flow.name)
        self._target_mirrors = identities.mirror_ids(ports.target.cluster_id())
        sources = frozenset() if flow.relay else identities.mirror_ids(ports.source.cluster_id())
        self._source_mirrors: frozenset[int] = sources
        self._signs = signs_of_mirror_maker(ports.target, ports.clock)
        self.groups = SyncedGroups(flow, ports)

    def require_unknown(self, pairs: Sequence[PartitionPair]) -> None:
        if not pairs:
            raise PreconditionError(
                f"{self._flow.name}: no selected topic exists on both sides; nothing was taken over"
            )
        if all(self._is_known(pair) for pair in pairs):
            raise PreconditionError(
                f"{self._flow.name}: the ledger has offset syncs of all {len(pairs)} partitions already; "
                "nothing was taken over"
            )

    def _is_known(self, pair: PartitionPair) -> bool:
        """Whether the flow has more of it than that it began: a driver that found others' records has only that."""
        known = self._known.get(pair.source.key)
        if known is None:
            return False
        if not self._ports.state.has_only_begun(self._flow.name, known):
            return True
        return self._producer is not None and any(
            self._ports.target.next_sequence(pair.target, producer_id) is not None
            for producer_id in (self._producer.current, *self._producer.former)
        )

    def begun_again(self, pair: PartitionPair, started: OffsetSync) -> list[OffsetSync]:
        """What is recorded instead of `started` where the flow has begun before: that it begins there."""
        known = self._known.get(pair.source.key)
        if known is None:
            return []
        state = PartitionState(pair, known.position)
        first = min(known.position.source_offset, started.source_start)
        facts = [state.supersede(replace(known.position, source_offset=first), SyncCause.RESYNC)]
        if first < started.source_start:
            facts.append(state.lose(started.source_start, SyncCause.RETENTION))
        return facts

    def of_topic(self, pairs: Sequence[PartitionPair]) -> list[Compared]:
        """Every partition's verdict, and the rows of those that are taken over."""
        started = self._ports.clock.monotonic()
        targets = [pair.target.place for pair in pairs]
        source_ends = self._ports.source.ends([pair.source.place for pair in pairs])
        target_ends = self._ports.target.ends(targets)
        compared = [self._compared(pair, source_ends, target_ends) for pair in pairs]
        if any(syncs for _, syncs in compared):
            self._wait(max(0.0, started + _WATCHED_S - self._ports.clock.monotonic()))
        after = self._ports.target.ends(targets)
        still = [
            (adoption, syncs) if not syncs else self._if_still(adoption, syncs, target_ends, after)
            for adoption, syncs in compared
        ]
        return [
            (adoption.remarked([*self._signs, *self._of_groups(adoption)]), syncs)
            for adoption, syncs in still
        ]

    def _of_groups(self, adoption: PartitionAdoption) -> Iterator[str]:
        return self.groups.remarks(adoption.pair) if adoption.continues_at is not None else iter(())

    def _if_still(
        self, adoption: PartitionAdoption, syncs: Sequence[OffsetSync], before: Ends, after: Ends
    ) -> Compared:
        at = adoption.pair.target.place
        was, now = before[at].high_watermark, after[at].high_watermark if at in after else None
        if was == now:
            return adoption, syncs
        reason = (
            f"{at[0]} partition {at[1]} grew from {was} to {now} while it was compared: something still writes "
            "to it (stop MirrorMaker first); nothing of the partition was recorded"
        )
        return PartitionAdoption.refused(adoption.pair, reason), ()

    def _compared(self, pair: PartitionPair, source_ends: Ends, target_ends: Ends) -> Compared:
        source = source_ends.get(pair.source.place)
        target = target_ends.get(pair.target.place)
        if source is None or target is None:
            return PartitionAdoption.refused(pair, "a side has no leader; nothing was compared"), ()
        if self._is_known(pair):
            reason = "the ledger has offset syncs of it already; nothing was compared"
            return PartitionAdoption.refused(pair, reason), ()
        if target.log_start == target.high_watermark:
            return PartitionAdoption.empty(pair), ()
        try:
            return self._paired(pair, source, target)
        except RefusedPartitionError as error:
            return PartitionAdoption.refused(pair, str(error)), ()

    def _paired(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> Compared:
        if target.last_stable < target.high_watermark:
            raise RefusedPartitionError(
                f"a transaction is open at the target from offset {target.last_stable} on: something still writes "
                "to it; nothing of the partition was recorded"
            )
        log.info(
            "%(flow)s: comparing %(topic)s partition %(partition)d",
            {"flow": self._flow.name, "topic": pair.source.topic, "partition": pair.source.partition},
        )
        findings = self._findings(pair, source, target)
        consent = Consent(
            self._consent.missing, self._consent.foreign or self._flow.target_mode is TargetMode.SHARED
        )
        check_consent(findings, consent, source)
        syncs = adoption_syncs(pair, findings, target_end=target.high_watermark)
        continues_at = (syncs[-1].source_end, syncs[-1].target_end)
        return judged(pair, findings, target=target, continues_at=continues_at), syncs

    def _findings(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> PairingResult:
        ports = self._ports
        source_log = ports.log(
            ports.network.source,
            pair.source,
            source.log_start,
            source.last_stable,
            mirror_producer_ids=self._source_mirrors,
            record_filter=self._flow.filter.record_filter,
        )
        target_log = ports.log(
            ports.network.target,
            pair.target,
            target.log_start,
            target.high_watermark,
            mirror_producer_ids=self._target_mirrors,
        )
        compacted = ports.target.configurations([pair.target.topic]).get(pair.target.topic, {})
        return pair_partition(
            source_log,
            TargetLog(target_log),
            is_target_compacted="compact" in compacted.get("cleanup.policy", ""),
        )


# Readers ------------------------------------------------------------------------------------------
# Flows that read what is being adopted must have ended: they read it when their driver starts.


def require_at_rest(
    flow: FlowConfig,
    readers: Sequence[FlowConfig],
    last_claim: Callable[[str], LastClaim | None],
    processes: ProcessTable,
    clock: Clock,
) -> None:
    """Raises `PreconditionError` while a driver may be at work that would copy on what `flow` adopts."""
    for reader in readers:
        require_free(
            reader,
            last_claim(writer_of(reader.name)),
            processes,
            now_ms=clock.now_ms(),
            way_out=f"It would copy on what {flow.name} adopts. Stop it first: mirror-ledger stop {reader.name}",
        )


# Adoption -----------------------------------------------------------------------------------------
# Taking over what something else has mirrored.


def adopt_flow(
    context: Context, flow_name: str, *, topics: Sequence[str], consent: Consent, dry_run: bool = False
) -> list[PartitionAdoption]:
    """Take over what something else has mirrored for a flow; in a dry run nothing is claimed or recorded."""
    config, state, flow = context.config, context.state, context.config.flow(flow_name)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    with both_sides(context, flow) as ports:
        existing = flow_topics(config, flow, source, target, state, driver_operations()).existing()
        pairs = of_topics(existing, topics)
        if dry_run:
            comparison = _Comparison(flow, ports, consent, time.sleep)
            comparison.require_unknown(pairs)
            return [adoption for topic in _by_topic(pairs) for adoption, _ in comparison.of_topic(topic)]
        return adopt(
            flow,
            pairs,
            ports,
            consent,
            fact_log=context.fact_log,
            host=str(context.processes.own()),
            wait=time.sleep,
            require_readers_at_rest=lambda: require_at_rest(
                flow,
                config.readers_of(flow.target, [pair.target.topic for pair in pairs]),
                state.last_claim,
                context.processes,
                context.clock,
            ),
        )
