"""`unfence`: remove exactly the rules that the rows of a fence list, set back exactly what it has changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.fences.receipts import Fence, FenceHow, HookRun, StandingFence, Unfenced
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.errors import PreconditionError
from ledger.operations.fencing.measures import LEAST_MESSAGE_BYTES, SETTING, failed_hook, run_hook
from ledger.operations.fencing.parts import FenceParts, UnfenceResult
from ledger.ports.clusters import live_cluster
from ledger.ports.hooks import HookCommand

_READ_BACK_S = 30.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLifting:
    """Which fences of a cluster are lifted; `topics` None: all of it. `hook`: ends what another hook has stopped."""

    cluster: str
    topics: tuple[str, ...] | None
    reason: str
    ticket: str | None = None
    hook: HookCommand | None = None


def unfence(asked: AskedLifting, parts: FenceParts, *, operation_id: str | None = None) -> UnfenceResult:
    """Lift the fences that stand, and record it; twice is as once. Where nothing was made no cluster is asked.

    Raises `PreconditionError` when another cluster answers than the recorded one, the hook fails, or a broker still has
    a rule after 30 s: then nothing is recorded, and the fence stands as far as the ledger knows.
    """
    chosen = [
        one
        for one in parts.fences.at(asked.cluster)
        if asked.topics is None or one.fence.topic in asked.topics
    ]
    if not chosen:
        return UnfenceResult(None, f"no topic of {asked.cluster} that was named is fenced", ())
    if asked.hook is not None or any(one.fence.is_made for one in chosen):
        parts.identities.require(asked.cluster, live_cluster(parts.reader))
    hook = _hook_run(asked, parts, chosen)
    _remove_rules(parts, [one.fence for one in chosen])
    restored = _set_back(parts, [one.fence for one in chosen if SETTING in one.fence.former])
    lifted = [_lifted(parts, one.fence, hook, restored.get(one.fence.topic, {})) for one in chosen]
    recorded = parts.operations.record_parts(
        lifted, operation_id=operation_id, flow=None, reason=asked.reason, ticket=asked.ticket
    )
    return UnfenceResult(recorded, _words(lifted), tuple(lifted))


def _hook_run(asked: AskedLifting, parts: FenceParts, chosen: Sequence[StandingFence]) -> HookRun | None:
    if asked.hook is None:
        return None
    run = run_hook(parts, asked.hook, "unfence", asked.cluster, [one.fence.topic for one in chosen])
    if run.exit_code != 0:
        raise PreconditionError(
            f"{failed_hook(run)}; the fences of {asked.cluster} stand, nothing was recorded"
        )
    return run


def _remove_rules(parts: FenceParts, fences: Sequence[Fence]) -> None:
    rules = frozenset(rule for one in fences for rule in one.rules)
    if not rules:
        return
    if there := sorted(rules & parts.control.topic_acls()):
        parts.control.delete_acls(there)
    described = parts.reader.topics()
    names = [one.topic for one in fences if one.topic in described]
    deadline_s = parts.clock.monotonic() + _READ_BACK_S
    while left := _still_there(parts, rules, names):
        if parts.clock.monotonic() >= deadline_s:
            raise PreconditionError(
                f"{left} still has rules that were deleted; the fences stand as far as the ledger knows: run unfence "
                "again"
            )
        parts.sleep(_POLL_S)


def _still_there(parts: FenceParts, rules: frozenset[TopicAcl], topics: Sequence[str]) -> str | None:
    for broker in sorted(set(parts.control.leaders(topics).values())) if topics else ():
        if rules & parts.control.acls_at(broker):
            return f"broker {broker}"
    return "the cluster" if rules & parts.control.topic_acls() else None


def _lifted(
    parts: FenceParts, fence: Fence, hook: HookRun | None, restored: Mapping[str, str | None]
) -> Unfenced:
    return Unfenced(
        cluster=fence.cluster,
        cluster_id=parts.reader.cluster_id() if fence.is_made else fence.cluster_id or "",
        topic=fence.topic,
        topic_id=fence.topic_id,
        how=fence.how,
        denied=fence.denied,
        restored=restored,
        hook=hook if fence.how == FenceHow.HOOK else None,
    )


def _set_back(parts: FenceParts, fences: Sequence[Fence]) -> dict[str, dict[str, str | None]]:
    """By topic; nothing, where the topic is another one by now or somebody has changed the setting since."""
    described = parts.reader.topics() if fences else {}
    former = {
        one.topic: one.former[SETTING]
        for one in fences
        if one.topic in described and described[one.topic].topic_id == one.topic_id
    }
    now = parts.control.configurations(sorted(former)) if former else {}
    own = {topic: now[topic].get(SETTING) for topic in former}
    if ours := {
        topic: former[topic] for topic in former if own[topic] == LEAST_MESSAGE_BYTES != former[topic]
    }:
        parts.control.change_setting(SETTING, ours)
    for topic in sorted(former):
        if own[topic] not in (former[topic], LEAST_MESSAGE_BYTES):
            parts.say(f"{topic}: {SETTING} was changed since, to {own[topic]}: it is left so")
    return {
        topic: {SETTING: value} for topic, value in former.items() if topic in ours or own[topic] == value
    }


def _words(lifted: Sequence[Unfenced]) -> str:
    rules = sum(len(one.denied) for one in lifted)
    names = ", ".join(one.topic for one in lifted)
    return f"{names} of {lifted[0].cluster} is fenced no more: {rules} rules removed"
