"""Who may carry out a plan: one process at a time, whatever plan it is."""

from collections.abc import Callable

from ledger.domain.changeover.applies import Applies, Apply, ApplyState, apply_command, undo_command
from ledger.domain.operations.promotion.changeovers import PlanRecorded
from ledger.domain.tables.cuts import Cut
from ledger.domain.words.time_words import instant
from ledger.domain.writer_roles import APPLY_WRITER, SILENT_HEARTBEATS, LastClaim, ProcessMark, ProcessTable
from ledger.errors import InvalidValueError, PreconditionError
from ledger.operations.changeover.applying import ALIVE_EVERY_S
from ledger.ports.clock import Clock
from ledger.schema import OPERATIONS

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
    """Epoch and round of the last row of an apply that a cut counts; None: none, or it is of a former program."""
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
    while clock.monotonic() < deadline:
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
