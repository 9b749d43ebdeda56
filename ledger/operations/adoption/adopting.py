"""Takes target partitions over for a flow: claims its writer epoch, compares, records the map, releases.

A target that is still written to cannot be taken over: its ends are looked up before the comparison and after
it, at least some seconds later, and must be the same. Each topic is one commit, so that a command that was
interrupted can be repeated: what is recorded already is refused as known.

A flow that reads the target looks up what was adopted there when its driver starts, and would take what is
adopted later for an application's: so no driver of one may be at work.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.facts import OffsetSync, PartitionPair
from ledger.domain.writer_roles import writer_of
from ledger.errors import PreconditionError, UsageError
from ledger.mirror.driver.flow_driver import claim_row
from ledger.operations.adoption.offset_syncs import adoption_syncs
from ledger.operations.adoption.other_mirrors import signs_of_mirror_maker
from ledger.operations.adoption.pairing import pair_partition
from ledger.operations.adoption.pairing_result import PairingResult, RefusedPartitionError
from ledger.operations.adoption.reading import PartitionLog, TargetLog
from ledger.operations.adoption.verdicts import Consent, PartitionAdoption, check_consent, judged
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FactLog, LedgerState
from ledger.ports.network import Network
from ledger.recording.sync_rows import FlowIdentity, sync_row
from ledger.recording.writer_session import FLOW_TABLES, WriterSession
from ledger.schema import OFFSET_SYNCS

log = logging.getLogger(__name__)

_WATCHED_S = 6.0  # a running MirrorMaker writes more often than that when its source does
Ends = Mapping[tuple[str, int], PartitionEnds]


@dataclass(frozen=True, slots=True)
class AdoptionPorts:
    """Everything that the command talks to."""

    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    network: Network
    clock: Clock


def of_topics(pairs: Sequence[PartitionPair], topics: Sequence[str]) -> list[PartitionPair]:
    """Those of the source topics asked for; all when none is."""
    unknown = set(topics) - {pair.source.topic for pair in pairs}
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: not a topic that the flow selects and that exists on both sides; "
            "nothing was taken over"
        )
    return [pair for pair in pairs if not topics or pair.source.topic in topics]


def preview(
    flow: FlowConfig,
    pairs: Sequence[PartitionPair],
    ports: AdoptionPorts,
    consent: Consent,
    *,
    wait: Callable[[float], None],
) -> list[PartitionAdoption]:
    """Compare and judge; nothing is claimed and nothing recorded."""
    comparison = _Comparison(flow, ports, consent, wait)
    comparison.require_unknown(pairs)
    return [adoption for topic in _by_topic(pairs) for adoption, _ in comparison.of_topic(topic)]


def adopt(
    flow: FlowConfig,
    pairs: Sequence[PartitionPair],
    ports: AdoptionPorts,
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
    row = claim_row(flow, source=ports.source, target=ports.target, state=ports.state, host=host)
    session = WriterSession.claimed(fact_log, writer_of(flow.name), FLOW_TABLES, row)
    log.debug("%s: writer epoch %d", flow.name, session.epoch)
    producer = ports.state.identities().producers(str(row["target_cluster_id"]))[flow.name]
    identity = FlowIdentity(flow.name, flow.source, flow.target, producer.current)
    adoptions: list[PartitionAdoption] = []
    for topic in _by_topic(pairs):
        compared = comparison.of_topic(topic)
        adoptions += [adoption for adoption, _ in compared]
        syncs = [sync for _, of_partition in compared for sync in of_partition]
        if syncs:
            require_readers_at_rest()
            session.append(OFFSET_SYNCS.name, [sync_row(identity, sync) for sync in syncs])
    session.release()
    return adoptions


def _by_topic(pairs: Sequence[PartitionPair]) -> Iterator[list[PartitionPair]]:
    for _, topic in groupby(pairs, key=lambda pair: pair.source.topic):
        yield list(topic)


Compared = tuple[PartitionAdoption, Sequence[OffsetSync]]


class _Comparison:
    """Compares topic by topic; knows what the ledger has of the flow, and who else writes to the clusters."""

    def __init__(
        self, flow: FlowConfig, ports: AdoptionPorts, consent: Consent, wait: Callable[[float], None]
    ) -> None:
        self._flow = flow
        self._ports = ports
        self._consent = consent
        self._wait = wait
        self._known = {(p.source_topic_id, p.partition) for p in ports.state.positions(flow.name)}
        identities = ports.state.identities()
        self._target_mirrors = identities.mirror_ids(ports.target.cluster_id())
        sources = frozenset() if flow.relay else identities.mirror_ids(ports.source.cluster_id())
        self._source_mirrors: frozenset[int] = sources
        self._signs = signs_of_mirror_maker(ports.target, ports.clock)

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
        return (pair.source.topic_id, pair.source.partition) in self._known

    def of_topic(self, pairs: Sequence[PartitionPair]) -> list[Compared]:
        """Every partition's verdict, and the rows of those that are taken over."""
        started = self._ports.clock.monotonic()
        source_ends, target_ends = self._source_ends(pairs), self._target_ends(pairs)
        compared = [self._compared(pair, source_ends, target_ends) for pair in pairs]
        if any(syncs for _, syncs in compared):
            self._wait(max(0.0, started + _WATCHED_S - self._ports.clock.monotonic()))
        after = self._target_ends(pairs)
        still = [
            (adoption, syncs) if not syncs else self._if_still(adoption, syncs, target_ends, after)
            for adoption, syncs in compared
        ]
        return [(adoption.remarked(self._signs), syncs) for adoption, syncs in still]

    def _source_ends(self, pairs: Sequence[PartitionPair]) -> Ends:
        return self._ports.source.ends([(pair.source.topic, pair.source.partition) for pair in pairs])

    def _target_ends(self, pairs: Sequence[PartitionPair]) -> Ends:
        return self._ports.target.ends([(pair.target.topic, pair.target.partition) for pair in pairs])

    def _if_still(
        self, adoption: PartitionAdoption, syncs: Sequence[OffsetSync], before: Ends, after: Ends
    ) -> Compared:
        at = (adoption.pair.target.topic, adoption.pair.target.partition)
        was, now = before[at].high_watermark, after[at].high_watermark if at in after else None
        if was == now:
            return adoption, syncs
        reason = (
            f"{at[0]} partition {at[1]} grew from {was} to {now} while it was compared: something still writes "
            "to it (stop MirrorMaker first); nothing of the partition was recorded"
        )
        return PartitionAdoption.refused(adoption.pair, reason), ()

    def _compared(self, pair: PartitionPair, source_ends: Ends, target_ends: Ends) -> Compared:
        source = source_ends.get((pair.source.topic, pair.source.partition))
        target = target_ends.get((pair.target.topic, pair.target.partition))
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
        log.info("%s: comparing %s partition %d", self._flow.name, pair.source.topic, pair.source.partition)
        findings = self._findings(pair, source, target)
        consent = Consent(
            self._consent.missing, self._consent.foreign or self._flow.target_mode is TargetMode.SHARED
        )
        check_consent(findings, consent, source)
        syncs = adoption_syncs(pair, findings, target_end=target.high_watermark)
        goes_on_at = (syncs[-1].source_end, syncs[-1].target_end)
        return judged(pair, findings, target=target, goes_on_at=goes_on_at), syncs

    def _findings(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> PairingResult:
        network, clock = self._ports.network, self._ports.clock
        network.source.refresh([pair.source.topic])
        network.target.refresh([pair.target.topic])
        source_log = PartitionLog(
            network,
            network.source,
            clock,
            pair.source,
            start=source.log_start,
            end=source.last_stable,
            mirror_producer_ids=self._source_mirrors,
            record_filter=self._flow.filter.record_filter,
        )
        target_log = PartitionLog(
            network,
            network.target,
            clock,
            pair.target,
            start=target.log_start,
            end=target.high_watermark,
            mirror_producer_ids=self._target_mirrors,
        )
        compacted = self._ports.target.configurations([pair.target.topic]).get(pair.target.topic, {})
        return pair_partition(
            source_log,
            TargetLog(target_log),
            is_target_compacted="compact" in compacted.get("cleanup.policy", ""),
        )
