"""Drives one run of a flow: claims its writer epoch, lets its rounds run, releases the epoch."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, repeat

from ledger.clock import AGAIN_S
from ledger.config.values import FlowConfig
from ledger.errors import (
    ClaimBegunError,
    ClusterUnavailableError,
    DamagedLedgerError,
    LedgerUnavailableError,
    MirrorLedgerError,
    PreconditionError,
    RefusedIdError,
    ShutOutError,
)
from ledger.facts.identity import ClusterIdentities, FlowProducer, LiveCluster
from ledger.facts.roles import writer_of
from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import OffsetSync
from ledger.facts.tables import OFFSET_SYNCS, Row
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.mirror.dead_letters import DeadLetters, dead_letter_flow
from ledger.mirror.direction import DirectionWatch
from ledger.mirror.progress import RunEnd, RunSummary, config_hash
from ledger.mirror.rounds import FlowRun, RoundLoop
from ledger.store.session import CLAIMED_WITHIN_S, FLOW_TABLES, WriterSession, claim_row_of

log = logging.getLogger(__name__)


def run_flow(run: FlowRun) -> RunSummary:
    """Copy until caught up with the ends as of now, or until asked to stop.

    Once the flow is claimed, a run that is not until caught up waits where its ledger is away: nothing is copied that
    cannot be recorded. When the ledger is there again it claims the flow again, where nobody else has, and finds at the
    target what it could not record, as every driver that follows another.

    Raises `PreconditionError` when the flow may not start and `ShutOutError` when another driver has
    taken over; what was copied until then is found by that driver. `UnsafeError`: there was nothing to catch up with.
    """
    if run.last_stop is None:
        run = replace(run, last_stop=run.state.requests(run.flow.name).last_stop)
    own: int | None = None
    claims_again = False

    def claimed(epoch: int) -> None:
        nonlocal own, claims_again
        own, claims_again = epoch, False

    while True:
        try:
            return _run_claimed(run, claimed)
        except RefusedIdError as error:
            log.warning("%(cause)s; this process claims it again", {"cause": error})
            run, after = replace(run, takes_given=True), own
        except ClaimBegunError as error:
            if own is None or not claims_again:
                raise
            # Its own claim was cut short, or another process is about to claim: that has so long to end it.
            _wait_for_ledger(run, own, error, [CLAIMED_WITHIN_S])
            after = error.epoch
        except (ClusterUnavailableError, LedgerUnavailableError) as error:
            if own is None or not _waits(run, error, claims_again=claims_again):
                raise
            _wait_for_ledger(run, own, error)
            after = own
        claims_again = True
        run = replace(run, on_claimed=lambda: None, after=after)


def _waits(run: FlowRun, error: MirrorLedgerError, *, claims_again: bool = False) -> bool:
    """Whether the ledger may be there again by itself, and somebody waits for what this run is to do; a cluster is
    waited for that is away when it `claims_again`."""
    if isinstance(error, ClusterUnavailableError):
        return claims_again
    return not (run.until_caught_up or run.stop.is_set() or isinstance(error, DamagedLedgerError))


def _wait_for_ledger(run: FlowRun, own: int, error: MirrorLedgerError, first: Sequence[float] = ()) -> None:
    """Until the ledger says whose the flow is; raises `ShutOutError` where it is not this driver's, of epoch `own`,
    any more, and the error for which it waits where it is asked to stop before."""
    flow, began = run.flow.name, run.clock.monotonic()
    with run.while_away():
        for seconds in chain(first, AGAIN_S, repeat(AGAIN_S[-1])):
            if run.stop.wait(seconds):
                log.error(_ENDS, {"flow": flow, "cause": error})
                raise error
            try:
                last = run.state.last_claim(writer_of(flow))
                break
            except DamagedLedgerError:
                raise
            except LedgerUnavailableError as again:
                error = again
    if last is None or last.epoch != own:
        now_of = (
            "nobody, for it is as it was before" if last is None else f"{last.host}, as epoch {last.epoch}"
        )
        raise ShutOutError(
            f"{flow} is claimed by {now_of}, since the ledger was away from epoch {own}: nothing more is copied here, "
            "and who copies it next finds what was"
        )
    waited_s = run.clock.monotonic() - began
    log.info("%(flow)s: claims again, after %(seconds).0f s", {"flow": flow, "seconds": waited_s})


_ENDS = "%(flow)s: ends, for the ledger is not there: %(cause)s; the next run finds what was copied"
_WAITS = "%(flow)s: waits for the ledger, which is not there: %(cause)s; nothing is copied until it can be recorded"


def _run_claimed(run: FlowRun, claimed: Callable[[int], None]) -> RunSummary:
    """Under one claim, whose epoch `claimed` gets."""
    flow, state, last_stop = run.flow, run.state, run.last_stop
    assert last_stop is not None, "read before the first claim"
    directions = DirectionWatch(flow, state, run.from_cut, state.directions())
    positions = state.positions(flow.name)
    written, identities = {position.target_topic for position in positions}, state.identities()
    fenced = identities.fenced_topics(flow.name, identities.recorded_id(flow.target) or "")
    row = claim_row(
        flow,
        source=live_cluster(run.source),
        target=run.target,
        state=state,
        host=run.host,
        is_renewed=lambda known: any(map(run.at_cut(directions, known).needs_another_producer, positions)),
        is_kept=bool(written) and directions.are_promoted(written | fenced),
        takes_given=run.takes_given,
    )
    is_first_run = not state.has_run(flow.name)
    session = WriterSession.claimed(
        run.fact_log, writer_of(flow.name), FLOW_TABLES, row, executor=run.executor(), after=run.after
    )
    claimed(session.epoch)
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
                log.error(_WAITS if _waits(run, error) else _ENDS, {"flow": flow.name, "cause": error})
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


@dataclass(frozen=True, slots=True)
class ClaimedFlow:
    """A flow that a command appends to itself, beside no driver; `producer`: what the flow writes with."""

    flow: FlowConfig
    session: WriterSession
    producer: FlowProducer

    def append(self, syncs: Sequence[OffsetSync]) -> None:
        """Append rows of the flow's map as one round; nothing for none."""
        if syncs:
            identity = FlowIdentity(self.flow.name, self.flow.source, self.flow.target, self.producer.current)
            self.session.append(OFFSET_SYNCS.name, [sync_row(identity, sync) for sync in syncs])


def claimed_beside_no_driver(
    flow: FlowConfig,
    source: ClusterAdmin,
    target: ClusterAdmin,
    state: LedgerState,
    fact_log: FactLog,
    *,
    host: str,
) -> ClaimedFlow:
    """The flow claimed, whoever had claimed it before."""
    row = claim_row(flow, source=live_cluster(source), target=target, state=state, host=host)
    return claimed_behind(flow, fact_log, state, row, after=None)


def claimed_behind(
    flow: FlowConfig,
    fact_log: FactLog,
    state: LedgerState,
    row: Row,
    *,
    after: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> ClaimedFlow:
    """The flow claimed with a row of `claim_row`, behind the epoch of a driver that has ended (`after` None: any)."""
    writer = writer_of(flow.name)

    def last_epoch() -> int:
        claim = state.last_claim(writer)
        return 0 if claim is None else claim.epoch

    session = (
        WriterSession.claimed(fact_log, writer, FLOW_TABLES, row)
        if after is None
        else WriterSession.following(
            fact_log, writer, FLOW_TABLES, row, after=after, last_epoch=last_epoch, sleep=sleep
        )
    )
    log.debug("%s: writer epoch %d", flow.name, session.epoch)
    producer = state.identities().producers(str(row["target_cluster_id"]))[flow.name]
    return ClaimedFlow(flow, session, producer)


def claim_row(
    flow: FlowConfig,
    *,
    source: LiveCluster,
    target: ClusterAdmin,
    state: LedgerState,
    host: str,
    is_renewed: Callable[[FlowProducer], bool] = lambda _known: False,
    is_kept: bool = False,
    takes_given: bool = False,
) -> Row:
    """The row of `writers` by which a driver claims the flow; may have another producer id than the last one.

    `is_renewed`: whether the flow needs another id than those that it has, for another reason than that markers have
    shut its id out of topics, or that applications may have it too. `is_kept`: these do not count, for nothing is
    written there. `takes_given`: the target takes no id that it has not given.

    Raises `PreconditionError` when another cluster answers behind an alias than the recorded one.
    """
    at_target = live_cluster(target)
    identities = state.identities()
    identities.require(flow.source, source)
    identities.require(flow.target, at_target)
    producers = identities.producers(at_target.cluster_id)
    known = producers.get(flow.name)
    takes_given = takes_given or any(one.was_refused for one in producers.values())
    if known is not None and not is_renewed(known):
        fenced = identities.fenced_topics(flow.name, at_target.cluster_id)
        if is_kept or not (fenced or known.is_drawn == takes_given):
            return claim_row_with(flow, source, at_target, host=host, producer_id=known.current)
    allocated = _allocated(flow, target, identities, at_target.cluster_id)
    return claim_row_with(
        flow,
        source,
        at_target,
        host=host,
        producer_id=allocated if takes_given else _drawn(target, identities),
        former_producer_id=None if known is None else known.current,
        allocated_producer_id=allocated,
    )


def claim_row_with(
    flow: FlowConfig,
    at_source: LiveCluster,
    at_target: LiveCluster,
    *,
    host: str,
    producer_id: int,
    former_producer_id: int | None = None,
    allocated_producer_id: int | None = None,
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
        allocated_producer_id=allocated_producer_id,
        source_metadata_offset=at_source.metadata_offset,
        target_metadata_offset=at_target.metadata_offset,
        config_hash=config_hash(flow),
    )


def _drawn(target: ClusterAdmin, identities: ClusterIdentities) -> int:
    """A producer id that no flow has had at any cluster, and that no cluster gives to an application."""
    known = {row["producer_id"] for row in identities.writers}
    return next(drawn for drawn in iter(target.draw_producer_id, None) if drawn not in known)


def _allocated(
    flow: FlowConfig, target: ClusterAdmin, identities: ClusterIdentities, target_cluster_id: str
) -> int:
    """A producer id that the target gives: that it does so shows its permission, and which one, that it is as it was.

    Brokers hand ids out in blocks of their own, so the next id may be lower than the last; one that was given
    before proves that the cluster was formatted again.
    """
    allocated = target.allocate_producer_id()
    if allocated in identities.given_ids(target_cluster_id):
        raise PreconditionError(
            f"cluster {flow.target} gave producer id {allocated}, which the ledger has for the same cluster id "
            f"{target_cluster_id} already: the cluster was formatted again, so ownership of batches cannot be proved; "
            f"nothing was copied. If that is meant: mirror-ledger accept-cluster {flow.target} --cluster-id "
            f"{target_cluster_id} --rebuilt --reason WHY"
        )
    return allocated
