"""Drives one run of a flow: claims its writer epoch, lets its rounds run, releases the epoch."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger.config.values import FlowConfig
from ledger.errors import LedgerUnavailableError, PreconditionError
from ledger.facts.identity import ClusterIdentities, FlowProducer, LiveCluster
from ledger.facts.roles import writer_of
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.tables import Row
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.mirror.dead_letters import DeadLetters, dead_letter_flow
from ledger.mirror.direction import DirectionWatch
from ledger.mirror.progress import RunEnd, RunSummary, config_hash
from ledger.mirror.rounds import FlowRun, RoundLoop
from ledger.store.session import FLOW_TABLES, WriterSession, claim_row_of

log = logging.getLogger(__name__)


def run_flow(run: FlowRun) -> RunSummary:
    """Copy until caught up with the ends as of now, or until asked to stop.

    Raises `PreconditionError` when the flow may not start and `ShutOutError` when another driver has
    taken over; what was copied until then is found by that driver. `UnsafeError`: there was nothing to catch up with.
    """
    flow, state = run.flow, run.state
    last_stop = state.requests(flow.name).last_stop if run.last_stop is None else run.last_stop
    directions = DirectionWatch(flow, state, run.from_cut, state.directions())
    positions = state.positions(flow.name)
    row = claim_row(
        flow,
        source=live_cluster(run.source),
        target=run.target,
        state=state,
        host=run.host,
        is_renewed=lambda known: any(map(run.at_cut(directions, known).needs_another_producer, positions)),
        is_kept=directions.are_promoted({position.target_topic for position in positions}),
    )
    is_first_run = not state.has_run(flow.name)
    session = WriterSession.claimed(
        run.fact_log, writer_of(flow.name), FLOW_TABLES, row, executor=run.executor, after=run.after
    )
    log.info("%(flow)s: begins as writer epoch %(epoch)d", {"flow": flow.name, "epoch": session.epoch})
    run.operations.begin(session)
    run.on_claimed()
    with session, _dead_letters(run) as dead_letters:
        loop = RoundLoop(
            run,
            session,
            directions,
            str(row["target_cluster_id"]),
            is_first_run=is_first_run,
            last_stop=last_stop,
            dead_letters=dead_letters,
        )
        with run.probing(loop.reach), run.beside(session):
            try:
                summary = loop.run(until_caught_up=run.until_caught_up, stop=run.stop)
            except LedgerUnavailableError as error:
                # At once: it cannot be recorded, and what is under way may take its time to end.
                text = "%(flow)s: ends, for the ledger is not there: %(cause)s; the next run finds what was copied"
                log.error(text, {"flow": flow.name, "cause": error})
                raise
            finally:
                loop.abandon()
    if summary.end is not RunEnd.RELOADED:
        session.release()  # the same process continues otherwise, and nobody else is to come in between
    if run.until_caught_up:
        run.topics.require_selected()
    return summary


@contextmanager
def _dead_letters(run: FlowRun) -> Iterator[DeadLetters | None]:
    """The internal flow of one that puts aside what its target refuses, claimed behind the flow itself."""
    pattern = run.flow.dead_letters
    if pattern is None:
        yield None
        return
    flow = dead_letter_flow(run.flow)
    row = claim_row(flow, source=live_cluster(run.source), target=run.target, state=run.state, host=run.host)
    with WriterSession.claimed(run.fact_log, writer_of(flow.name), FLOW_TABLES, row) as session:
        producer = run.state.identities().producers(str(row["target_cluster_id"]))[flow.name]
        yield DeadLetters(flow, pattern, run.target, run.state, run.runner, session, producer)
    session.release()


def claimed_beside_no_driver(
    flow: FlowConfig,
    source: ClusterAdmin,
    target: ClusterAdmin,
    state: LedgerState,
    fact_log: FactLog,
    *,
    host: str,
) -> tuple[WriterSession, FlowProducer]:
    """The flow claimed by a command that appends to it itself, and what the flow writes with."""
    row = claim_row(flow, source=live_cluster(source), target=target, state=state, host=host)
    session = WriterSession.claimed(fact_log, writer_of(flow.name), FLOW_TABLES, row)
    log.debug("%s: writer epoch %d", flow.name, session.epoch)
    return session, state.identities().producers(str(row["target_cluster_id"]))[flow.name]


def claim_row(
    flow: FlowConfig,
    *,
    source: LiveCluster,
    target: ClusterAdmin,
    state: LedgerState,
    host: str,
    is_renewed: Callable[[FlowProducer], bool] = lambda _known: False,
    is_kept: bool = False,
) -> Row:
    """The row of `writers` by which a driver claims the flow; may allocate the flow's producer id.

    `is_renewed`: whether the flow needs another id than those that it has, for another reason than that markers have
    shut its id out of partitions. `is_kept`: these do not count, for nothing is written there.

    Raises `PreconditionError` when another cluster answers behind an alias than the recorded one.
    """
    at_target = live_cluster(target)
    identities = state.identities()
    identities.require(flow.source, source)
    identities.require(flow.target, at_target)
    known = identities.producers(at_target.cluster_id).get(flow.name)
    is_fenced = identities.is_fenced(flow.name, at_target.cluster_id)
    if known is not None and not (is_renewed(known) or (is_fenced and not is_kept)):
        return claim_row_with(flow, source, at_target, host=host, producer_id=known.current)
    return claim_row_with(
        flow,
        source,
        at_target,
        host=host,
        producer_id=_new_producer_id(flow, target, identities, at_target.cluster_id),
        former_producer_id=None if known is None else known.current,
    )


def claim_row_with(
    flow: FlowConfig,
    at_source: LiveCluster,
    at_target: LiveCluster,
    *,
    host: str,
    producer_id: int,
    former_producer_id: int | None = None,
) -> Row:
    """The same where it is known already which clusters answer, and the producer id."""
    return claim_row_of(
        host,
        flow=flow.name,
        source_cluster=flow.source,
        source_cluster_id=at_source.cluster_id,
        target_cluster=flow.target,
        target_cluster_id=at_target.cluster_id,
        producer_id=producer_id,
        former_producer_id=former_producer_id,
        source_metadata_offset=at_source.metadata_offset,
        target_metadata_offset=at_target.metadata_offset,
        config_hash=config_hash(flow),
    )


def _new_producer_id(
    flow: FlowConfig, target: ClusterAdmin, identities: ClusterIdentities, target_cluster_id: str
) -> int:
    """A producer id for the flow at this target: recorded with the claim, before any write.

    Brokers hand ids out in blocks of their own, so the next id may be lower than the last; one that was given
    before proves that the cluster was formatted again.
    """
    allocated = target.allocate_producer_id()
    if allocated in identities.mirror_ids(target_cluster_id):
        raise PreconditionError(
            f"cluster {flow.target} gave producer id {allocated}, which the ledger has for the same cluster id "
            f"{target_cluster_id} already: the cluster was formatted again, so ownership of batches cannot be proved; "
            f"nothing was copied. If that is meant: mirror-ledger accept-cluster {flow.target} --cluster-id "
            f"{target_cluster_id} --rebuilt --reason WHY"
        )
    return allocated
