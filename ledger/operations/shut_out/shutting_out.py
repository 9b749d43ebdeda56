"""Shutting the mirror out of what was promoted: it stops, then it is denied, then markers; what proves it is recorded.

Each step does what is lacking and reads back, so a shut-out that broke off is made again, to the same end.
"""

from dataclasses import dataclass

from ledger.domain.operations.promotion.shut_outs import MirrorShutOut, ShutOutProof
from ledger.domain.words.count_words import counted
from ledger.operations.shut_out.fences import Fenced, Fences, make_fences, wanted_fences
from ledger.operations.shut_out.scope import ShutOutPorts, ShutOutScope
from ledger.operations.shut_out.stopping import StoppedFlows, StopWatch


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


def shut_mirror_out(
    scope: ShutOutScope,
    ports: ShutOutPorts,
    *,
    reason: str,
    ticket: str | None = None,
    operation_id: str | None = None,
) -> ShutOutResult:
    """Wait until the drivers have stopped, fence them, and record what proves it.

    Raises `PreconditionError` when a driver is still at work after the limit, the topics are not promoted (any more),
    or another flow writes to them with the same principal: then nothing (more) was denied. `ClusterUnavailableError`
    when the cluster does not answer: to be tried again. What cannot be denied is no error: it is unproven.
    """
    watch = StopWatch(scope, ports)
    while True:
        stopped = watch.wait()
        fences = wanted_fences(scope, ports, stopped.partitions)
        if fences.lacking or fences.markers:
            intended = _content(scope, ports, stopped, fences, proof=None)
            operation_id = ports.operations.record_parts(
                [intended], operation_id=operation_id, flow=None, reason=reason, ticket=ticket
            )
        fenced = make_fences(scope, ports, fences, stopped.partitions)
        if watch.are_last(stopped):
            break
        ports.progress("a driver claimed a flow meanwhile: waiting for it as well")
    done = _content(scope, ports, stopped, fences, proof=_proof(stopped, fenced))
    operation_id = ports.operations.record_parts(
        [done], operation_id=operation_id, flow=None, reason=reason, ticket=ticket
    )
    return ShutOutResult(operation_id, done)


def _content(
    scope: ShutOutScope,
    ports: ShutOutPorts,
    stopped: StoppedFlows,
    fences: Fences,
    *,
    proof: tuple[ShutOutProof, ...] | None,
) -> MirrorShutOut:
    return MirrorShutOut(
        cluster=scope.pair.cluster,
        cluster_id=ports.cluster.cluster_id(),
        former=scope.pair.former,
        principal=scope.principal,
        flows=stopped.epochs,
        topics=stopped.partitions.topics,
        rules=fences.rules,
        markers=fences.markers,
        proof=proof,
    )


def _proof(stopped: StoppedFlows, fenced: Fenced) -> tuple[ShutOutProof, ...]:
    return tuple(
        _proof_of(stopped, fenced, flow, at.topic, at.partition)
        for flow, partitions in sorted(stopped.partitions.by_flow.items())
        for at in partitions
    )


def _proof_of(stopped: StoppedFlows, fenced: Fenced, flow: str, topic: str, partition: int) -> ShutOutProof:
    fences = (
        *(("deny",) if topic in fenced.topics else ()),
        *(("marker",) if (flow, topic, partition) in fenced.partitions else ()),
    )
    reason = (
        "nothing keeps a mirror out that goes by an older copy of the ledger: "
        f"{fenced.without_rules}; {fenced.without_markers or 'the ledger knows no producer id of the flow there'}"
    )
    return ShutOutProof(
        flow=flow,
        topic=topic,
        partition=partition,
        stopped=stopped.words[(flow, topic, partition)],
        fences=fences,
        reason=None if fences else reason,
    )
