"""What the steps of one apply share: the plan, both clusters, the ledger, and what the operator said."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from ledger.changeover import pairs
from ledger.changeover.auditing import LedgerAudit
from ledger.changeover.directions import is_done
from ledger.changeover.plans import Apply, Plan, PlannedTopic, StepName, undo_command
from ledger.changeover.receipts import Waits
from ledger.changeover.scope import Scope, promoted_pair
from ledger.changeover.seeing import make_plan
from ledger.changeover.waiting import GroupsAtRest, Patience
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.direction import Promoted
from ledger.facts.roles import writer_of
from ledger.facts.ways import Direction
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, Place, live_cluster
from ledger.kafka.leaders import KafkaFencing
from ledger.roles import is_at_work
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.state import DeltaLedgerState

# Planned topics -----------------------------------------------------------------------------------
# The topics of a plan, compared with those that its clusters have while it is carried out.


def require_no_later(
    planned: Iterable[PlannedTopic], copied: Iterable[tuple[str, str]], *, operation_id: str
) -> None:
    """Raise `PreconditionError` where flows have begun with topics that the plan does not have.

    `copied`: flows and the topics of the source that they copy by now. Of a plan that names no topics all of the pair
    is promoted: what began since would be, without having been fenced, drained or moved.
    """
    known = {(one.flow, one.source_topic) for one in planned}
    if later := sorted({topic for flow, topic in copied if (flow, topic) not in known}):
        raise PreconditionError(
            f"{', '.join(later)} began to be copied since the plan was made, so the plan is not about all that would "
            f"change direction: nothing of this step was done. Undo what was done before: "
            f"{undo_command(operation_id)}; then plan again"
        )


def changed_topics(cluster: ClusterAdmin, topic_ids: Mapping[str, str]) -> dict[str, str]:
    """By name what became of topics that do not have the id any more that a plan is about.

    Offsets, commits and rules of another incarnation are not what the plan was made from: it cannot be continued.
    """
    there = cluster.topics()
    found = {}
    for name, planned_id in sorted(topic_ids.items()):
        live = there.get(name)
        if live is None:
            found[name] = f"{cluster.alias} has no topic {name} any more, or does not show it"
        elif live.topic_id != planned_id:
            found[name] = (
                f"topic {name} of {cluster.alias} was created again: its topic id is {live.topic_id}, the plan is "
                f"about {planned_id}"
            )
    return found


# Context of steps ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanContext:
    """A plan, and what a command works with that carries it out, reads it back or undoes it: `context` has the id of
    the operation, where there is one."""

    context: Context
    plan: Plan

    @property
    def operation_id(self) -> str:
        assert self.context.why.operation_id is not None, "an apply has one"
        return self.context.why.operation_id

    @property
    def state(self) -> DeltaLedgerState:
        return self.context.state

    @property
    def topics(self) -> tuple[PlannedTopic, ...]:
        """Those of the plan; of one that it creates again with the id that the new one has, once it is there."""
        made = self.state.recreations().ids(self.plan.to_cluster)
        return tuple(
            replace(one, topic_id=one.topic_id or made.get(one.topic, "")) for one in self.plan.topics
        )

    @property
    def source(self) -> KafkaFencing:
        """The former source, as the mirror reaches it."""
        return self.context.cluster(self.plan.from_cluster)

    @property
    def target(self) -> KafkaFencing:
        """Where applications come to."""
        return self.context.cluster(self.plan.to_cluster)


Confirm = Callable[[str, Waits], str]
"""Asks a person whether something is done, and waits for the answer as a step does; returns what the receipt says."""


@dataclass(slots=True)
class Kept:
    """What one process keeps from step to step; None: not begun. `audit` is begun while applications are at work,
    `audited_rest` once the mirror has stopped. `ends`: where logs of the source end, and since when."""

    at_rest: GroupsAtRest | None = None
    audit: LedgerAudit | None = None
    audited_rest: Future[tuple[DeltaSnapshot, list[str]]] | None = None
    ends: dict[Place, tuple[int, float]] = field(default_factory=dict)

    def see_ends(self, ends: Mapping[Place, PartitionEnds], at_s: float) -> None:
        """`at_s`: when they were answered."""
        for place, end in ends.items():
            if self.ends.get(place, (None,))[0] != end.high_watermark:
                self.ends[place] = end.high_watermark, at_s


@dataclass(frozen=True, slots=True)
class StepContext(PlanContext):
    """`former`: what an earlier process did of this operation, None: it begins now. `scope`: made when it began here,
    and asked by all steps. `require_own`: raises `ShutOutError` once another process carries out plans."""

    former: Apply | None
    begun_at_ms: int
    scope: Scope
    confirm: Confirm
    require_own: Callable[[], None]
    kept: Kept = field(default_factory=Kept)

    @property
    def config(self) -> MirrorConfig:
        return self.context.config

    @property
    def pair(self) -> Direction:
        return Direction(self.plan.from_cluster, self.plan.to_cluster)

    @property
    def promoted_pair(self) -> pairs.Pair:
        """What `promote` is about."""
        return promoted_pair(self.plan)

    @property
    def source_pair(self) -> pairs.Pair:
        """What of the source was promoted, where applications had come there before: of the same names."""
        return replace(self.promoted_pair, cluster=self.plan.from_cluster, former=self.plan.to_cluster)

    @property
    def is_promoted(self) -> bool:
        return is_done(self.promoted_pair, Promoted, self.state.directions())

    def idle_flows(self) -> list[str]:
        """Flows of the plan whose driver is not at work."""
        last = {name: self.state.last_claim(writer_of(name)) for name in self.plan.flows}
        return [name for name, claim in last.items() if not is_at_work(self.config.flow(name), claim)]

    def copied_by(self) -> str:
        """Who copies, behind what is left; what is typed where nobody does."""
        if idle := self.idle_flows():
            return "; no driver is at work: " + "; ".join(f"mirror-ledger run {one}" for one in idle)
        return f"; {', '.join(self.plan.flows)} copies"

    def patience(self, seconds: float) -> Patience:
        return Patience(self.context.clock, time.sleep, seconds)

    def require_current(self, planned_at_ms: int) -> None:
        """Raise `PreconditionError` where the plan is stale, or other clusters answer than it was made for.

        Of an apply that is continued only the latter can be asked: its own steps have changed what the plan read. To
        be asked while the role is held: then it stays so as far as plans are concerned.
        """
        for admin, cluster_id in (
            (self.source, self.plan.from_cluster_id),
            (self.target, self.plan.to_cluster_id),
        ):
            self._require_cluster(admin, cluster_id)
        if self.former is None:
            self._require_same_plan(planned_at_ms)

    def _require_same_plan(self, planned_at_ms: int) -> None:
        """What a source that is away would have taken since is no reason: it grows with the time alone."""
        made = self.plan
        now = make_plan(
            self.context, made.kind, self.pair, made.choices, made.hooks, lost_at_ms=planned_at_ms
        )
        if now.plan == self.plan:
            return
        what = (
            "; ".join(f"{one.code}: {one.words}" for one in now.blockers)
            or "nothing stands against a new one"
        )
        raise PreconditionError(
            f"plan {self.plan.plan_id} is stale: {', '.join(self.plan.differences(now.plan))} would be different now "
            f"({what}); nothing was done. Plan again"
        )

    def require_no_later_topics(self) -> None:
        """Raise `PreconditionError` where topics began to be copied that the plan does not have, and would change."""
        if not self.promoted_pair.is_whole:
            return
        there = self.target.topics().keys() - set(self.plan.choices.left_out)
        copied = [
            (flow.name, at.source_topic)
            for flow in pairs.enabled_between(self.config, self.pair)
            for at in self.state.positions(flow.name)
            if at.target_topic in there and self.config.topic_selection(flow.name).selects(at.source_topic)
        ]
        require_no_later(self.plan.topics, copied, operation_id=self.operation_id)

    def _require_cluster(self, admin: KafkaAdmin, cluster_id: str) -> None:
        try:
            live = live_cluster(admin)
        except ClusterUnavailableError:
            if admin is self.target:
                raise
            return
        if admin is not self.target or StepName.ACCEPT_CLUSTER not in self.plan.steps:
            self.state.identities().require(admin.alias, live)
        if live.cluster_id != cluster_id:
            raise PreconditionError(
                f"another cluster answers behind {admin.alias}: its Kafka cluster id is {live.cluster_id}, the plan is "
                f"about {cluster_id}; nothing was done. Correct bootstrap_servers, or plan again"
            )

    def is_source_there(self) -> bool:
        """Whether the former source answers now."""
        return self.context.is_reached(self.plan.from_cluster)
