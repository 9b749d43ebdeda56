"""The fence that a plan asks for."""

from collections.abc import Sequence

from ledger.domain.changeover.plans import Choices, FenceChoice
from ledger.domain.fences.proof import QuietBounds
from ledger.domain.fences.receipts import FenceHow
from ledger.operations.fencing.parts import AskedFence
from ledger.ports.hooks import HookCommand, words_of


def asked_fence(cluster: str, topics: Sequence[str], choices: Choices, hook: str | None) -> AskedFence | None:
    """What of a fence the operator chose, None: none; why it is made is not said yet."""
    if choices.fence is FenceChoice.NONE:
        return None
    return AskedFence(
        cluster=cluster,
        topics=tuple(topics),
        how=FenceHow(str(choices.fence)),
        reason="",
        confirmed_super_users=choices.confirmed_super_users,
        producers_stopped=choices.producers_stopped,
        hook=None if hook is None else HookCommand(words_of(hook), choices.hook_seconds),
        abort_after_s=choices.abort_transactions_after,
        unproven=choices.unproven,
        quiet=QuietBounds(least_s=choices.quiet_seconds, most_s=choices.most_quiet_seconds),
        wait_s=choices.drain_seconds,
    )
