"""Proof that the drivers of flows write no more to what is promoted.

What counts, of a flow's last writer epoch
    it was released, or nobody ever claimed one
    its process is dead, or silent for three heartbeats: the next epoch is claimed for it, and released
    each partition has stopped: by a row that names a promotion that holds; or by one of another cause, or nothing was
    ever begun there, and either was seen for two rounds (a request that was granted before the driver read of the
    promotion would have ended the stop by then, and what is begun is recorded before it is written)

A driver that claims later reads the promotion before it writes.
"""

from dataclasses import dataclass, field

from ledger.config.flow import FlowConfig
from ledger.domain.facts import TopicPartition
from ledger.domain.operations.partition_events import PartitionStopped
from ledger.domain.writer_roles import LastClaim, ProcessMark, RoleVerdict, writer_of
from ledger.errors import PreconditionError
from ledger.mirror.driver.take_over import driver_verdict
from ledger.mirror.task.assignments import StopCause
from ledger.operations.shut_out.scope import (
    PromotedPartitions,
    ShutOutPorts,
    ShutOutScope,
    promoted_partitions,
)
from ledger.recording.writer_session import FLOW_TABLES, WriterSession

_POLL_S = 0.5
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

    scope: ShutOutScope
    ports: ShutOutPorts
    _seen_since: dict[tuple[str, str, int], tuple[str, float]] = field(default_factory=dict)
    _told: str = ""

    def wait(self) -> StoppedFlows:
        """Raises `PreconditionError` when drivers are still at work after the limit, or it is demoted."""
        deadline = self.ports.clock.monotonic() + self.scope.limit_s
        while True:
            stopped, pending = self._read()
            if not pending and self.are_last(stopped):
                return stopped
            self._tell("; ".join(pending))
            if self.ports.clock.monotonic() >= deadline:
                left = "; ".join(pending) or "it began again"
                raise PreconditionError(
                    f"the mirror has not stopped within {self.scope.limit_s:g} s: {left}; nothing was denied. Find "
                    "out about that driver, or end it (mirror-ledger stop FLOW), then try again"
                )
            self.ports.sleep(_POLL_S)

    def are_last(self, stopped: StoppedFlows) -> bool:
        """Whether nobody claimed a flow since."""
        return stopped.epochs == {name: self._epoch(writer_of(name)) for name in stopped.epochs}

    def _epoch(self, writer: str) -> int:
        claim = self.ports.state.last_claim(writer)
        return _NEVER_RAN if claim is None else claim.epoch

    def _tell(self, waiting: str) -> None:
        if waiting and waiting != self._told:
            self._told = waiting
            self.ports.progress(f"waiting until the mirror has stopped: {waiting}")

    def _read(self) -> tuple[StoppedFlows, list[str]]:
        found = promoted_partitions(self.scope, self.ports)
        stopped, pending = StoppedFlows({}, {}, found), []
        for flow in self.scope.flows:
            left = self._judge(flow, found.by_flow[flow.name], stopped)
            if left is not None:
                pending.append(left)
        return stopped, pending

    def _judge(
        self, flow: FlowConfig, partitions: tuple[TopicPartition, ...], stopped: StoppedFlows
    ) -> str | None:
        """Take down how the flow stopped; returns what it is still at, in words."""
        claim = self.ports.state.last_claim(writer_of(flow.name))
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
        return None if claim is None or not left else f"{_driver(flow, claim)} still has {_listed(left)}"

    def _death(self, flow: FlowConfig, claim: LastClaim) -> RoleVerdict | None:
        """How it is known that the last driver is dead; None: it may be at work."""
        now_ms = self.ports.clock.now_ms()
        verdict = driver_verdict(flow, claim, self.ports.processes, now_ms=now_ms)
        return verdict if verdict.is_free and not self._is_alive_here(claim) else None

    def _is_alive_here(self, claim: LastClaim) -> bool:
        holder = ProcessMark.parse(claim.host)
        return holder.is_beside(self.ports.processes.own()) and self.ports.processes.is_alive(holder)

    def _stops(self, flow: FlowConfig, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, str]:
        """By partition how it stopped; those without an entry are not known to have."""
        directions = self.ports.state.directions()
        stops: dict[tuple[str, int], list[PartitionStopped]] = {}
        for stop in self.ports.state.last_stops(flow.name):
            stops.setdefault((stop.topic, stop.partition), []).append(stop)
        copied = {(p.target_topic, p.partition) for p in self.ports.state.positions(flow.name)}
        words: dict[TopicPartition, str] = {}
        for at in partitions:
            here = stops.get((flow.naming.source_name(at.topic) or "", at.partition), [])
            promotions = directions.standing(flow.source, flow.target, at.topic)
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
        key, now = (flow.name, at.topic, at.partition), self.ports.clock.monotonic()
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
            for row in self.ports.state.identities().writers
            if row["writer"] == writer and row["writer_epoch"] == claim.epoch
        ]
        mine = {**{name: value for name, value in last.items() if name not in _STAMP}, "shut_out": None}
        session = WriterSession.following(
            self.ports.fact_log,
            writer,
            FLOW_TABLES,
            mine,
            after=claim.epoch,
            last_epoch=lambda: self._epoch(writer),
            sleep=self.ports.sleep,
        )
        with session:
            session.release()
        self.ports.progress(
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
