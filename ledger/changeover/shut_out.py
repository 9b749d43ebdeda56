"""Shutting the mirror itself out of what is promoted, proving it, and letting it in again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ledger.changeover.pairs import Copies, Pair
from ledger.clock import Clock
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.acls import denial
from ledger.facts.fences import EpochMarker, MirrorLetIn, MirrorShutOut, ShutOutProof
from ledger.facts.operations import PartitionStopped, Why
from ledger.facts.permissions import Permission
from ledger.facts.roles import LastClaim, ProcessMark, ProcessTable, RoleVerdict, writer_of
from ledger.facts.state import FactLog, LedgerState, OperationLog
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import ShutOutCluster, WriteProbe, require_recorded
from ledger.kafka.epoch_markers import markers_against, write_markers
from ledger.mirror.assignment import StopCause
from ledger.roles import driver_verdict
from ledger.store.session import FLOW_TABLES, WriterSession
from ledger.words import counted

# Scope --------------------------------------------------------------------------------------------
# What a shut-out is about, and what it is made with.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutOut:
    """A pair of which the mirror is shut out, or let in again, and what that is done with.

    `cluster`: the promoted one as who may change rules reaches it, `mirror`: as the mirror does. `progress` gets a line
    for people whenever something changes. To shut out: `flows`: those of the pair that copy to its topics, `others`:
    all others into the cluster. `principal`: the mirror's at the cluster, None: not configured. `with_markers`: abort
    markers are wanted as well. `limit_s`: how long to wait for drivers, and for brokers to know of the rules.
    """

    pair: Pair
    cluster: ShutOutCluster
    mirror: WriteProbe
    state: LedgerState
    operations: OperationLog
    fact_log: FactLog
    processes: ProcessTable
    clock: Clock
    sleep: Callable[[float], None]
    progress: Callable[[str], None]
    copies: Copies
    flows: Sequence[FlowConfig] = ()
    others: Sequence[FlowConfig] = ()
    principal: str | None = None
    with_markers: bool = False
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PromotedPartitions:
    """Partitions of the promoted cluster that flows of the pair copy to, as they are there now.

    `topics`: those of all of them, and those that were promoted by name and are not there.
    """

    by_flow: dict[str, tuple[TopicPartition, ...]]
    topics: tuple[str, ...]


def promoted_partitions(of: ShutOut) -> PromotedPartitions:
    """What is promoted now; raises `PreconditionError` where the ledger does not say so of a topic that is named."""
    pair, directions = of.pair, of.state.directions()
    named = set(pair.topics or ())
    if not all(directions.active(pair.former, pair.cluster, topic) for topic in named):
        raise PreconditionError(
            f"not all of {pair.words} is promoted now: the mirror is to write to the rest; nothing more was denied. "
            "Promote it first"
        )
    there = [
        topic
        for _, topic in sorted(of.cluster.topics().items())
        if pair.names(topic.name)
        and not topic.internal
        and directions.active(pair.former, pair.cluster, topic.name)
    ]
    by_flow = {
        flow.name: tuple(
            TopicPartition(topic.name, topic.topic_id, number)
            for topic in there
            if of.copies(flow, topic.name)
            for number in range(topic.partitions)
        )
        for flow in of.flows
    }
    topics = named | {at.topic for partitions in by_flow.values() for at in partitions}
    return PromotedPartitions(by_flow, tuple(sorted(topics)))


# Stopping -----------------------------------------------------------------------------------------
# Proof that the drivers of flows write no more to what is promoted.
#
# What counts, of a flow's last writer epoch
#    it was released, or nobody ever claimed one
#    its process is dead, or silent for three heartbeats: the next epoch is claimed for it, and released
#    each partition has stopped: by a row that names a promotion that holds; or by one of another cause, or nothing was
#    ever begun there, and either was seen for two rounds (a request that was granted before the driver read of the
#    promotion would have ended the stop by then, and what is begun is recorded before it is written)
#
# A driver that claims later reads the promotion before it writes.


_STOP_POLL_S = 0.5
_SAY_EVERY_S = 10.0
_NEVER_RAN = 0


@dataclass(frozen=True, slots=True)
class StoppedFlows:
    """By flow its last writer epoch (0: it never ran), and by flow and partition how it is known that it stopped."""

    epochs: dict[str, int]
    words: dict[tuple[str, str, int], str]
    partitions: PromotedPartitions


@dataclass(slots=True)
class StopWatch:
    """Waits until all flows of a scope have stopped."""

    of: ShutOut
    _seen_since: dict[tuple[str, str, int], tuple[str, float]] = field(default_factory=dict)
    _said: tuple[float, str] = 0.0, ""

    def wait(self) -> StoppedFlows:
        """Raises `PreconditionError` when drivers are still at work after the limit, or it is demoted."""
        deadline = self.of.clock.monotonic() + self.of.limit_s
        while True:
            stopped, pending = self._read()
            if not pending and self.are_last(stopped):
                return stopped
            self._tell("; ".join(pending))
            if self.of.clock.monotonic() >= deadline:
                left = "; ".join(pending) or "it began again"
                raise PreconditionError(
                    f"the mirror has not stopped within {self.of.limit_s:g} s: {left}; nothing was denied. Find "
                    "out about that driver, or end it, then try again"
                )
            self.of.sleep(_STOP_POLL_S)

    def are_last(self, stopped: StoppedFlows) -> bool:
        """Whether nobody claimed a flow since."""
        return stopped.epochs == {name: self._epoch(writer_of(name)) for name in stopped.epochs}

    def _epoch(self, writer: str) -> int:
        claim = self.of.state.last_claim(writer)
        return _NEVER_RAN if claim is None else claim.epoch

    def _tell(self, waiting: str) -> None:
        now = self.of.clock.monotonic()
        if waiting and (waiting != self._said[1] or now - self._said[0] >= _SAY_EVERY_S):
            self._said = now, waiting
            self.of.progress(f"waiting until the mirror has stopped: {waiting}")

    def _read(self) -> tuple[StoppedFlows, list[str]]:
        found = promoted_partitions(self.of)
        stopped, pending = StoppedFlows({}, {}, found), []
        for flow in self.of.flows:
            left = self._judge(flow, found.by_flow[flow.name], stopped)
            if left is not None:
                pending.append(left)
        return stopped, pending

    def _judge(
        self, flow: FlowConfig, partitions: tuple[TopicPartition, ...], stopped: StoppedFlows
    ) -> str | None:
        """Take down how the flow stopped; returns what it is still at, in words."""
        claim = self.of.state.last_claim(writer_of(flow.name))
        stopped.epochs[flow.name] = _NEVER_RAN if claim is None else claim.epoch
        if claim is None:
            words = dict.fromkeys(partitions, "no driver ever ran")
        elif claim.released:
            words = dict.fromkeys(partitions, f"its driver ended: epoch {claim.epoch} was released")
        else:
            words = self._stops(flow, partitions)
        left = [at for at in partitions if at not in words]
        if claim is not None and left and (verdict := self._death(flow, claim)) is not None:
            stopped.epochs[flow.name] = epoch = self._claim_for_dead(flow, claim, verdict)
            said = f"its driver is dead ({verdict}): epoch {epoch} was claimed in its place"
            words.update(dict.fromkeys(left, said))
            left = []
        stopped.words.update({(flow.name, at.topic, at.partition): said for at, said in words.items()})
        if claim is None or not left:
            return None
        ends = f"until its round ends or mirror-ledger stop {flow.name}"
        return f"{_driver(flow, claim)} still has {_listed(left)}, {ends}"

    def _death(self, flow: FlowConfig, claim: LastClaim) -> RoleVerdict | None:
        """How it is known that the last driver is dead; None: it may be at work."""
        now_ms = self.of.clock.now_ms()
        verdict = driver_verdict(flow, claim, self.of.processes, now_ms=now_ms)
        return verdict if verdict.is_free and not self._is_alive_here(claim) else None

    def _is_alive_here(self, claim: LastClaim) -> bool:
        holder = ProcessMark.parse(claim.host)
        return holder.is_beside(self.of.processes.own()) and self.of.processes.is_alive(holder)

    def _stops(self, flow: FlowConfig, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, str]:
        """By partition how it stopped; those without an entry are not known to have."""
        directions = self.of.state.directions()
        stops: dict[tuple[str, int], list[PartitionStopped]] = {}
        for stop in self.of.state.last_stops(flow.name):
            stops.setdefault((stop.topic, stop.partition), []).append(stop)
        copied = {(p.target_topic, p.partition) for p in self.of.state.positions(flow.name)}
        words: dict[TopicPartition, str] = {}
        for at in partitions:
            here = stops.get((flow.naming.source_name(at.topic) or "", at.partition), [])
            promotions = directions.active(flow.source, flow.target, at.topic)
            if any(_is_of(stop, promotions) for stop in here):
                words[at] = "its driver stopped it for the promotion"
                continue
            if any(stop.cause == StopCause.PROMOTED for stop in here):
                said = ""  # for an earlier promotion, which was taken back
            elif here:
                said = f"it had stopped ({', '.join(sorted(stop.cause for stop in here))})"
            elif (at.topic, at.partition) not in copied:
                said = "no driver ever began there"
            else:
                said = ""
            if self._lasts(flow, at, said):
                words[at] = said
        return words

    def _lasts(self, flow: FlowConfig, at: TopicPartition, said: str) -> bool:
        """Whether something that proves that nothing is written there was seen for two rounds."""
        key, now = (flow.name, at.topic, at.partition), self.of.clock.monotonic()
        before, since = self._seen_since.get(key, (said, now))
        since = since if before == said else now
        self._seen_since[key] = (said, since)
        return bool(said) and now - since >= 2 * flow.round_seconds

    def _claim_for_dead(self, flow: FlowConfig, claim: LastClaim, verdict: RoleVerdict) -> int:
        """The next epoch, claimed with what the last driver claimed with, and released.

        Its host too: a standby follows that driver, and none that never began.
        """
        writer = writer_of(flow.name)
        [last] = [
            row
            for row in self.of.state.identities().writers
            if row["writer"] == writer and row["writer_epoch"] == claim.epoch
        ]
        mine = {**{name: value for name, value in last.items() if name not in _STAMP}, "shut_out": None}
        session = WriterSession.following(
            self.of.fact_log,
            writer,
            FLOW_TABLES,
            mine,
            after=claim.epoch,
            last_epoch=lambda: self._epoch(writer),
            sleep=self.of.sleep,
        )
        with session:
            session.release()
        self.of.progress(
            f"the driver of flow {flow.name} is dead ({verdict}): epoch {session.epoch} was claimed in its place"
        )
        return session.epoch


_STAMP = frozenset({"writer", "writer_epoch", "round", "recorded_at_ms"})


def _is_of(stop: PartitionStopped, promotions: tuple[str, ...]) -> bool:
    return stop.cause == StopCause.PROMOTED and any(words in stop.message for words in promotions)


def _driver(flow: FlowConfig, claim: LastClaim) -> str:
    holder = ProcessMark.parse(claim.host)
    return f"flow {flow.name} (epoch {claim.epoch}, process {holder.pid} on host {holder.host})"


def _listed(partitions: list[TopicPartition]) -> str:
    by_topic: dict[str, list[str]] = {}
    for at in partitions:
        by_topic.setdefault(at.topic, []).append(str(at.partition))
    return ", ".join(f"{topic} partition {', '.join(found)}" for topic, found in by_topic.items())


# Fences -------------------------------------------------------------------------------------------
# What keeps a mirror out that does not know of the promotion: rules of the cluster, and abort markers.
#
# Each is recorded before it is made (`mirror_shut_out` without a proof), so that `demote` finds it after a
# crash at any place. Rules that others had made are left to them.


_POLL_S = 0.25
_LEARNED_WITHIN_S = 5.0
"""Brokers learn of a rule within milliseconds."""


@dataclass(frozen=True, slots=True)
class Fences:
    """What is to be made for promoted partitions.

    `rules`: those that are the shut-out's own; `lacking`: of these those that are not there. `markers`: all that are
    wanted. `impossible`: why no rule keeps the mirror out, None: rules may.
    """

    rules: tuple[Permission, ...]
    lacking: tuple[Permission, ...]
    markers: tuple[EpochMarker, ...]
    impossible: str | None


def wanted_fences(of: ShutOut, found: PromotedPartitions) -> Fences:
    """What of the fences is there, and what is to be made. Raises `PreconditionError` for a blocker."""
    cluster_id = of.cluster.cluster_id()
    markers = _wanted_markers(of, found, cluster_id) if of.with_markers else ()
    if of.principal is None:
        return Fences((), (), markers, f"clusters.{of.pair.cluster} has no mirror_principal")
    _require_alone(of, found)
    wanted = frozenset(denial(topic, of.principal) for topic in found.topics)
    try:
        there = of.cluster.topic_acls()
    except PreconditionError as error:
        return Fences((), (), markers, str(error))
    own = (of.state.shut_outs().rules(cluster_id, found.topics) & wanted) | (wanted - there)
    return Fences(tuple(sorted(own)), tuple(sorted(wanted - there)), markers, None)


def _require_alone(of: ShutOut, found: PromotedPartitions) -> None:
    """The principal of one cluster is that of all flows that write there; not of one whose opposite holds."""
    directions = of.state.directions()

    def is_held(flow: FlowConfig, topic: str) -> bool:
        way = {"source": flow.source, "target": flow.target, "topic": topic}
        return directions.held_back(flow.name, flow.opposite, **way) is not None

    for flow in of.others:
        topics = [one for one in found.topics if of.copies(flow, one) and not is_held(flow, one)]
        if topics:
            raise PreconditionError(
                f"flow {flow.name} writes to {', '.join(topics)} of {of.pair.cluster} as {of.principal} as well: "
                "what shuts one out shuts out both; nothing was denied. Promote other topics, or disable that flow"
            )


def _wanted_markers(of: ShutOut, found: PromotedPartitions, cluster_id: str) -> tuple[EpochMarker, ...]:
    producers = of.state.identities().producers(cluster_id)
    return tuple(
        marker
        for flow, partitions in sorted(found.by_flow.items())
        if flow in producers
        for at in partitions
        for marker in markers_against(flow, producers[flow], at)
    )


def _deny(of: ShutOut, fences: Fences, topics: Sequence[str]) -> str | None:
    """Returns why the mirror's principal may write nevertheless; None: it may not, at any broker."""
    try:
        if fences.lacking:
            of.cluster.create_acls(fences.lacking)
            of.progress(f"denied WRITE to {of.principal} on {', '.join(topics)}")
        return _why_open(of, fences, topics)
    except PreconditionError as error:
        return str(error)


def _why_open(of: ShutOut, fences: Fences, topics: Sequence[str]) -> str | None:
    """What is read back once brokers have had time to learn of the rules."""
    deadline = of.clock.monotonic() + _LEARNED_WITHIN_S
    while True:
        writable = of.mirror.writable_topics(topics)
        missing = set(fences.rules) - of.cluster.topic_acls()
        if not writable and not missing:
            return None
        if of.clock.monotonic() >= deadline:
            break
        of.sleep(_POLL_S)
    if missing:
        return (
            f"{of.pair.cluster} accepted rules and does not show them: {len(missing)} of {len(fences.rules)}"
        )
    return (
        f"{of.pair.cluster} lets the mirror write to {', '.join(sorted(writable))} in spite of the rule: it is a "
        f"super user, or logs in as another principal than {of.principal}"
    )


# Shutting out -------------------------------------------------------------------------------------
# Shutting the mirror out of what was promoted: it stops, then it is denied, then markers; what proves it is
# recorded.
#
# Each step does what is lacking and reads back, so a shut-out that broke off is made again, to the same
# end.


@dataclass(frozen=True, slots=True)
class ShutOutResult:
    """`recorded`: what the receipt has; nothing was there to be shut out of where it names no partition."""

    operation_id: str
    recorded: MirrorShutOut

    @property
    def unproven(self) -> tuple[ShutOutProof, ...]:
        return tuple(proof for proof in self.recorded.proof or () if not proof.is_proven)

    @property
    def words(self) -> str:
        proof = self.recorded.proof or ()
        unproven = len(self.unproven)
        return (
            f"the mirror has stopped at {counted(len(proof), 'partition')} of {self.recorded.cluster}: "
            f"{len(proof) - unproven} proven, {unproven} unproven; rules {len(self.recorded.rules)}, "
            f"markers {len(self.recorded.markers)}"
        )

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return self.recorded.content()


def shut_mirror_out(of: ShutOut, why: Why) -> ShutOutResult:
    """Wait until the drivers have stopped, fence them, and record what proves it.

    Raises `PreconditionError` when a driver is still at work after the limit, the topics are not promoted (any more),
    or another flow writes to them with the same principal: then nothing (more) was denied. `ClusterUnavailableError`
    when the cluster does not answer: to be tried again. What cannot be denied is no error: it is unproven.
    """
    watch = StopWatch(of)
    while True:
        stopped = watch.wait()
        fences = wanted_fences(of, stopped.partitions)
        if fences.lacking or fences.markers:
            intended = _content(of, stopped, fences, proof=None)
            why = replace(why, operation_id=of.operations.record_parts([intended], why))
        without_rules = fences.impossible or _deny(of, fences, stopped.partitions.topics)
        held, without_markers = write_markers(
            of.cluster, fences.markers, sleep=of.sleep, progress=of.progress
        )
        if watch.are_last(stopped):
            break
        of.progress("a driver claimed a flow meanwhile: waiting for it as well")
    if not of.with_markers:
        without_markers = "no marker was asked for"
    proof = _proof(stopped, fences, held, without_rules, without_markers)
    done = _content(of, stopped, fences, proof=proof)
    return ShutOutResult(of.operations.record_parts([done], why), done)


def _content(
    of: ShutOut,
    stopped: StoppedFlows,
    fences: Fences,
    *,
    proof: tuple[ShutOutProof, ...] | None,
) -> MirrorShutOut:
    return MirrorShutOut(
        cluster=of.pair.cluster,
        cluster_id=of.cluster.cluster_id(),
        former=of.pair.former,
        principal=of.principal,
        flows=stopped.epochs,
        topics=stopped.partitions.topics,
        rules=fences.rules,
        markers=fences.markers,
        proof=proof,
    )


def _proof(
    stopped: StoppedFlows,
    fences: Fences,
    held: set[EpochMarker],
    without_rules: str | None,
    without_markers: str | None,
) -> tuple[ShutOutProof, ...]:
    """`held`: markers that leaders know of. `without_rules`, `without_markers`: why these keep nobody out."""
    marked = {(one.flow, one.topic, one.partition) for one in held}
    unmarked = {(one.flow, one.topic, one.partition) for one in fences.markers if one not in held}
    reason = (
        "nothing keeps a mirror out that goes by an older copy of the ledger: "
        f"{without_rules}; {without_markers or 'the ledger knows no producer id of the flow there'}"
    )
    found = []
    for flow, partitions in sorted(stopped.partitions.by_flow.items()):
        for at in partitions:
            place = flow, at.topic, at.partition
            kept_by = [] if without_rules else ["deny"]
            kept_by += ["marker"] if place in marked - unmarked else []
            found.append(
                ShutOutProof(
                    flow=flow,
                    topic=at.topic,
                    partition=at.partition,
                    stopped=stopped.words[place],
                    fences=tuple(kept_by),
                    reason=None if kept_by else reason,
                )
            )
    return tuple(found)


# Letting in ---------------------------------------------------------------------------------------
# Letting the mirror in again: exactly the rules that a shut-out had created are removed.


_REMOVED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class LetInResult:
    """`operation_id` None: there was nothing to remove, and nothing was recorded."""

    operation_id: str | None
    rules: tuple[Permission, ...]

    @property
    def words(self) -> str:
        if self.operation_id is None:
            return "no rule had shut the mirror out"
        return f"the mirror may write again: {counted(len(self.rules), 'rule')} removed"


def let_mirror_in(of: ShutOut, why: Why) -> LetInResult:
    """Remove what shut the mirror out of the topics of a pair, and record it; what keeps others out as well stays.

    Raises `PreconditionError` where the cluster refuses to, `ClusterUnavailableError` where it does not answer.
    """
    cluster_id = of.cluster.cluster_id()
    shut_outs = of.state.shut_outs()
    rules = tuple(sorted(shut_outs.rules(cluster_id, of.pair.ruled, of.pair.former)))
    if not rules:
        return LetInResult(None, ())
    to_remove = shut_outs.only_of(cluster_id, of.pair.former, rules)
    of.cluster.delete_acls(sorted(to_remove))
    _wait_until_removed(to_remove, of)
    let_in = MirrorLetIn(
        cluster=of.cluster.alias,
        cluster_id=cluster_id,
        former=of.pair.former,
        topics=tuple(sorted({rule.resource_name for rule in rules})),
        rules=rules,
    )
    return LetInResult(of.operations.record_parts([let_in], why), tuple(sorted(to_remove)))


def _wait_until_removed(rules: frozenset[Permission], of: ShutOut) -> None:
    deadline = of.clock.monotonic() + _REMOVED_WITHIN_S
    of.progress(
        f"{of.cluster.alias}: that rules are removed is read back, for {_REMOVED_WITHIN_S:g} s at most"
    )
    while left := _left_of(rules, of):
        if of.clock.monotonic() >= deadline:
            names = ", ".join(sorted(rule.resource_name for rule in left))
            raise PreconditionError(
                f"{of.cluster.alias} still has the rules that shut the mirror out of {names}, though it accepted "
                "their removal; nothing was recorded. Try again"
            )
        of.sleep(_POLL_S)


def _left_of(rules: frozenset[Permission], of: ShutOut) -> frozenset[Permission]:
    """What the cluster still has of them, or a leader: a driver that writes there now would be denied, and stop."""
    topics = sorted({rule.resource_name for rule in rules} & of.cluster.topics().keys())
    brokers = sorted(set(of.cluster.leaders(topics).values())) if topics else []
    return rules & frozenset().union(of.cluster.topic_acls(), *map(of.cluster.acls_at, brokers))


# Shut out -----------------------------------------------------------------------------------------
# Shutting the mirror out of a promoted cluster, and letting it in again, as `promote` and `demote` do it.


def shut_out(
    context: Context, pair: Pair, *, with_markers: bool, limit_s: float, say: Callable[[str], None]
) -> ShutOutResult:
    """Shut the mirror out of what of the pair is promoted, and record what proves it."""
    config = context.config
    flows = pair.flows_of(config.flows.values(), config.copies)
    of = replace(
        _of(context, pair),
        progress=say,
        flows=flows,
        others=[flow for flow in config.enabled_flows if flow.target == pair.cluster and flow not in flows],
        principal=config.cluster(pair.cluster).mirror_principal,
        with_markers=with_markers,
        limit_s=limit_s,
    )
    return shut_mirror_out(of, context.why)


def let_in(context: Context, pair: Pair) -> LetInResult:
    """Remove the rules that shut the mirror out of the pair's topics."""
    return let_mirror_in(_of(context, pair), context.why)


def _of(context: Context, pair: Pair) -> ShutOut:
    cluster = context.administered(pair.cluster)
    require_recorded(context.state, cluster)
    return ShutOut(
        pair=pair,
        cluster=cluster,
        mirror=context.cluster(pair.cluster),
        state=context.state,
        operations=context.operations,
        fact_log=context.fact_log,
        processes=context.processes,
        clock=context.clock,
        sleep=time.sleep,
        progress=lambda _line: None,
        copies=context.config.copies,
    )
