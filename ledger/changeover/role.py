"""The role of whoever carries out a plan, or undoes what it changed: claimed, recorded under, released.

What is read while the role is held cannot be changed by another process that carries out a plan: it was shut out.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ledger.changeover.plans import Applies, Apply, ApplyState, Plan, StepName, apply_command, undo_command
from ledger.changeover.receipts import ALIVE_EVERY_S, ApplyRecord
from ledger.clock import Clock, repeated
from ledger.errors import InvalidValueError, MirrorLedgerError, PreconditionError, ShutOutError
from ledger.facts.changeovers import PlanRecorded
from ledger.facts.cuts import Cut
from ledger.facts.operations import Why
from ledger.facts.roles import APPLY_WRITER, SILENT_HEARTBEATS, LastClaim, ProcessMark, ProcessTable
from ledger.facts.tables import OPERATIONS, Row
from ledger.machine import account
from ledger.store.session import APPLY_TABLES, ClaimedOperations, WriterSession, claim_row_of
from ledger.words import duration, instant

if TYPE_CHECKING:  # it brings the Kafka client, and whoever asks for open applies needs none
    from ledger.context import Context

_READ_EVERY_S = 1.0
"""Whether a row is due that says that the process is alive."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Role:
    """`host`: this process, as writers say it. `require_own`: raises `ShutOutError` once another process holds it."""

    operations: ClaimedOperations
    clock: Clock
    host: str
    require_own: Callable[[], None]

    def record(self, why: Why) -> ApplyRecord:
        """The rows of an operation, which are refused once another process has claimed the role."""
        return ApplyRecord(self.operations, self.clock, why)


@contextmanager
def claimed_role(context: "Context", plan: Plan, *, after: int) -> Iterator[Role]:
    """The role, for the body; `after`: the epoch that is followed, 0: none was claimed.

    It is released at the end, and where the body is refused before it has recorded anything. Where the body raises
    later it is kept: others see whether the process is alive.
    """
    host = str(context.processes.own())
    session = WriterSession.following(
        context.fact_log,
        APPLY_WRITER,
        APPLY_TABLES,
        _claim_row(plan, host),
        after=after,
        last_epoch=lambda: _epoch(context.state.last_claim(APPLY_WRITER)),
        sleep=time.sleep,
    )
    with session:
        operations = ClaimedOperations(operator=account())
        operations.begin(session)
        try:
            yield Role(operations, context.clock, host, partial(session.require_own, OPERATIONS.name))
        except ShutOutError:
            raise
        except MirrorLedgerError:
            if session.last_round == 0:
                session.release()
            raise
        session.release()


def beside(act: Callable[[], None]) -> AbstractContextManager[None]:
    """In a thread: a step that reads a large ledger, or waits for a cluster, says nothing itself for long.

    What such a thread fails with its step finds at its own next row.
    """
    return repeated(act, every_s=_READ_EVERY_S, failed=log.warning)


def _epoch(claim: LastClaim | None) -> int:
    return 0 if claim is None else claim.epoch


def _claim_row(plan: Plan, host: str) -> Row:
    """The row of `writers` of who carries out a plan, or undoes what it changed."""
    return claim_row_of(
        host,
        source_cluster=plan.from_cluster,
        source_cluster_id=plan.from_cluster_id,
        target_cluster=plan.to_cluster,
        target_cluster_id=plan.to_cluster_id,
    )


def followed_epoch(context: "Context", waits: Callable[[str], None]) -> int:
    """The epoch that a new claim is to follow; raises `PreconditionError` while another process carries out a plan."""
    state, processes = context.state, context.processes
    return require_nobody_at_work(
        lambda: state.last_claim(APPLY_WRITER), processes, context.clock, time.sleep, waits
    )


# Role ---------------------------------------------------------------------------------------------
# Who may carry out a plan: one process at a time, whatever plan it is.


_ASK_EVERY_S = 1.0


def continued(applies: Applies, plan_id: str) -> Apply | None:
    """The apply of this plan that is to be continued, None: it begins.

    Raises `PreconditionError` while an apply of another plan is open, or one is being undone.
    """
    open_one = applies.open()
    if open_one is not None and open_one.state is ApplyState.UNDOING:
        raise PreconditionError(
            f"plan {open_one.plan_id} (operation {open_one.operation_id}) is being undone, and that has not come "
            f"to its end; nothing was done. Continue it: {undo_command(open_one.operation_id)}; "
            "--leave ends it where a step cannot be undone"
        )
    if open_one is None or open_one.plan_id == plan_id:
        return open_one
    raise PreconditionError(
        f"plan {open_one.plan_id} is being carried out (operation {open_one.operation_id}, begun "
        f"{instant(open_one.begun_at_ms)} by {open_one.operator}) and has not come to its end; nothing was done. "
        f"Continue it: {apply_command(open_one.plan_id)}; or take it back: "
        f"{undo_command(open_one.operation_id)} (--leave, where a cluster that is needed for that is dead)"
    )


def require_not_done(applies: Applies, recorded: PlanRecorded) -> None:
    """Raise `PreconditionError` where the plan was carried out, and not planned again since.

    Plans that would do the same have one id: what holds after a way back may be what held before. What a plan was
    read from says whether it came after the end of an apply: clocks of hosts order nothing.
    """
    done = [one for one in applies.of_plan(recorded.plan_id) if one.state is ApplyState.DONE]
    known = _last_known(recorded.cut) if done else None
    later = [one for one in done if known is None or one.ended_at is None or one.ended_at > known]
    if later:
        raise PreconditionError(
            f"plan {recorded.plan_id} was carried out by operation {later[-1].operation_id}; nothing was done: plan "
            "again"
        )


def _last_known(token: str) -> tuple[int, int] | None:
    """Epoch and round of the last row of an apply that a cut counts; None: it counts none, or is no token."""
    try:
        last = Cut.parse(token).of_table(OPERATIONS.name)
    except InvalidValueError:
        return None
    return next(((one.epoch, one.round) for one in last if one.writer == APPLY_WRITER), None)


def require_nobody_at_work(
    last_claim: Callable[[], LastClaim | None],
    processes: ProcessTable,
    clock: Clock,
    sleep: Callable[[float], None],
    waits: Callable[[str], None],
) -> int:
    """Raise `PreconditionError` while another process carries out a plan; returns the epoch that is to be followed.

    A process of this host is seen. Of another host silence is measured, on this one's own clock.
    """
    claim = last_claim()
    if claim is None:
        return 0
    if claim.released:
        return claim.epoch
    mark = ProcessMark.parse(claim.host)
    if mark.is_beside(processes.own()):
        if processes.is_alive(mark) and mark != processes.own():
            raise _at_work(claim)
        return claim.epoch
    deadline = clock.monotonic() + SILENT_HEARTBEATS * ALIVE_EVERY_S
    while (left_s := deadline - clock.monotonic()) > 0:
        waits(
            f"process {mark.pid} on {mark.host}, the last that carried out a plan, is taken for dead in {left_s:.0f} s"
        )
        sleep(_ASK_EVERY_S)
        now = last_claim()
        if now is None or (now.epoch, now.last_recorded_at_ms) != (claim.epoch, claim.last_recorded_at_ms):
            raise _at_work(now or claim)
    return claim.epoch


def _at_work(claim: LastClaim) -> PreconditionError:
    return PreconditionError(
        f"another process carries out a plan: {claim.host}, since {instant(claim.claimed_at_ms)}; nothing was done. "
        "Wait until it ends; mirror-ledger plan list shows how far it is"
    )


# Open apply ---------------------------------------------------------------------------------------
# An apply, or its undoing, that has begun and has not come to its end: producers may be stopped, the source
# fenced.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApply:
    """What `status` says before all else, until it is ended.

    `step`: the one that it stands at, None: it began none; `failed`: why that failed, in words, None: it did not;
    `waits`: what it waits for; `progress`: `step 4 of 19`.
    `so_far`: what of it holds now, in words. `is_at_work`: whether its process is alive, None: nobody can tell.
    """

    operation_id: str
    plan_id: str
    kind: str
    from_cluster: str
    to_cluster: str
    flows: tuple[str, ...]
    state: str
    operator: str
    reason: str | None
    begun_at_ms: int
    last_recorded_at_ms: int
    step: str | None
    failed: str | None
    waits: str | None
    progress: str
    so_far: tuple[str, ...]
    is_at_work: bool | None

    @classmethod
    def of(cls, plan: Plan, one: Apply, *, last_recorded_at_ms: int, is_at_work: bool | None) -> "OpenApply":
        reached = [step for step in plan.steps if step in one.begun or step in one.done]
        step = next((at for at in reached if at in one.failed), reached[-1] if reached else None)
        return cls(
            operation_id=one.operation_id,
            plan_id=one.plan_id,
            kind=str(plan.kind),
            from_cluster=plan.from_cluster,
            to_cluster=plan.to_cluster,
            flows=plan.flows,
            state=str(one.state),
            operator=one.operator,
            reason=one.reason,
            begun_at_ms=one.begun_at_ms,
            last_recorded_at_ms=last_recorded_at_ms,
            step=None if step is None else str(step),
            failed=None if step is None or step not in one.failed else one.failed[step].words,
            waits=None if step is None else one.waits.get(step),
            progress=f"step {1 if step is None else plan.steps.index(step) + 1} of {len(plan.steps)}",
            so_far=tuple(_so_far(plan, one)),
            is_at_work=is_at_work,
        )

    @property
    def what(self) -> str:
        """`switchover from east to west`."""
        return f"{self.kind} from {self.from_cluster} to {self.to_cluster}"

    @property
    def is_left(self) -> bool:
        """Whether somebody has to act: no process is at work on it, or a step has failed."""
        return self.is_at_work is False or (self.failed is not None and self.state == ApplyState.OPEN)

    def state_words(self, at_ms: int) -> str:
        """`at work, step 4 of 19, 3 s ago`; `at_ms`: what the age is counted to."""
        if self.is_left:
            return "begun, not ended"
        at_work = f"{'' if self.is_at_work else 'perhaps '}at work, {self.progress}"
        return f"{at_work}, {duration(max(0, at_ms - self.last_recorded_at_ms) // 1000)} ago"

    @property
    def words(self) -> str:
        """Why `status --check` does not pass, with the first command to type where somebody has to act."""
        is_undone = self.state == ApplyState.UNDOING
        how = "is being undone, and has not come to an end" if is_undone else "has begun and has not ended"
        at = "" if self.step is None or is_undone else f", at step {self.step}"
        at += f" ({self.waits})" if at and self.waits else ""
        held = f": {', '.join(self.so_far)}" if self.so_far else ""
        next_ = [*self.commands, f"{'' if self.is_at_work else 'perhaps '}its process is at work"][0]
        return f"{self.what} {how}{at}, since {instant(self.begun_at_ms)}{held}; {next_}"

    @property
    def commands(self) -> tuple[str, ...]:
        """What continues it, and what undoes it; none while its process may be at work."""
        if not self.is_left:
            return ()
        undo = undo_command(self.operation_id)
        if self.state == ApplyState.UNDOING:
            return (undo,)
        return (apply_command(self.plan_id), undo)


def _so_far(plan: Plan, one: Apply) -> Sequence[str]:
    """While it is being undone nothing of it is known to hold."""
    if one.state is ApplyState.UNDOING:
        return ()
    held = {
        StepName.STOP_PRODUCERS: "producers are stopped",
        StepName.FENCE: f"{plan.from_cluster} is fenced",
        StepName.PROMOTE: f"{plan.to_cluster} is promoted",
        StepName.START_APPLICATIONS: "applications were started",
    }
    return [words for step, words in held.items() if step in one.done]
