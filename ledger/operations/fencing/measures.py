"""What stops writers, one class for each way: what would be made, making what is lacking, reading it back.

A measure is made twice without harm. What earlier rows of a fence that stands say was made for it counts as made for
it still; what was there before is left out, so that lifting the fence leaves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ledger.domain.fences.closing import closing
from ledger.domain.fences.proof import Proof
from ledger.domain.fences.receipts import Fence, FenceHow, HookRun
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.errors import PreconditionError, UsageError
from ledger.operations.fencing.parts import AskedFence, FenceParts
from ledger.ports.clusters import TopicDescription
from ledger.ports.hooks import HookCommand

LEAST_MESSAGE_BYTES = "78"
"""Fits the marker of a transaction and nothing else but tiny records. With less, transactions would stay open."""
SETTING = "max.message.bytes"
_NOTHING_CHANGED = "nothing was changed or recorded"


class Measure(Protocol):
    """One way of stopping writers."""

    is_enforced: bool
    """Whether brokers tell that they stop writers; else stillness alone tells."""

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        """What is about to be made, by topic. Raises `PreconditionError` or `UsageError`, and changes nothing."""
        ...

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        """Do what is lacking of it; returns it with what came of it. Raises when that failed."""
        ...

    def lacking(self, fences: Sequence[Fence]) -> str | None:
        """What leaders do not have yet, in words; None: each has everything."""
        ...


def measure_of(asked: AskedFence, parts: FenceParts) -> Measure:
    """Raises `UsageError` where an option is lacking that the way needs."""
    match asked.how:
        case FenceHow.CLOSED:
            return _Closed(asked, parts)
        case FenceHow.SHUT:
            if not asked.producers_stopped:
                raise UsageError(
                    "shut refuses what producers send, and drops it where they do not wait for an answer: stop them "
                    f"first, and say so by --producers-stopped; {_NOTHING_CHANGED}"
                )
            return _Shut(asked, parts)
        case FenceHow.HOOK:
            if asked.hook is None:
                raise UsageError(f"--how hook needs the command: --hook COMMAND; {_NOTHING_CHANGED}")
            return _Hook(asked, parts, asked.hook)


def began(asked: AskedFence, parts: FenceParts, topic: TopicDescription) -> Fence:
    """A fence of a topic that is about to be made, with what an earlier attempt had made of it."""
    new = Fence(
        cluster=asked.cluster,
        cluster_id=parts.reader.cluster_id(),
        topic=topic.name,
        topic_id=topic.topic_id,
        how=asked.how,
        proof=Proof.BEGUN,
    )
    stands = parts.fences.of(asked.cluster, topic.name)
    if stands is None:
        return new
    is_same_topic = stands.fence.topic_id in (topic.topic_id, None)
    return replace(
        new,
        denied=stands.fence.denied,
        former=stands.fence.former if is_same_topic else {},
        super_users=stands.fence.super_users,
        confirmed=stands.fence.confirmed,
        hook=stands.fence.hook,
    )


@dataclass(slots=True)
class _Closed:
    asked: AskedFence
    parts: FenceParts
    is_enforced: bool = True
    _rules: frozenset[TopicAcl] = frozenset()

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        control = self.parts.control
        authorizations = control.authorizations()
        if authorizations is None:
            raise PreconditionError(
                f"{self.asked.cluster} has no authorizer, so no rule stops anybody there: stop the producers and fence "
                f"by --how shut --producers-stopped, or by --how hook; {_NOTHING_CHANGED}"
            )
        acls = control.topic_acls()
        found = closing(
            list(topics),
            acls,
            authorizations,
            mirror=self.parts.mirror,
            confirmed=self.asked.confirmed_super_users,
        )
        if found.refusals:
            reasons = "".join(f"\n  {reason}" for reason in found.refusals)
            raise PreconditionError(
                f"{', '.join(sorted(topics))} of {self.asked.cluster} cannot be closed; {_NOTHING_CHANGED}:{reasons}"
            )
        self._rules = frozenset(rule for rules in found.rules.values() for rule in rules)
        known = [one.super_users for one in authorizations]
        users = None if None in known else tuple(sorted({user for some in known for user in some or ()}))
        return [self._begun(topic, found.rules[name], acls, users) for name, topic in sorted(topics.items())]

    def _begun(
        self,
        topic: TopicDescription,
        rules: frozenset[TopicAcl],
        acls: frozenset[TopicAcl],
        users: tuple[str, ...] | None,
    ) -> Fence:
        fence = began(self.asked, self.parts, topic)
        denied = {*fence.denied, *(rule.principal for rule in rules - acls)}
        return replace(
            fence, denied=tuple(sorted(denied)), super_users=users, confirmed=self.asked.confirmed_super_users
        )

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        if missing := sorted(self._rules - self.parts.control.topic_acls()):
            self.parts.control.create_acls(missing)
            self.parts.say(f"{len(missing)} rules created that deny writing")
        return list(begun)

    def lacking(self, fences: Sequence[Fence]) -> str | None:
        control = self.parts.control
        for broker in sorted(control.leaders([fence.topic for fence in fences])):
            if missing := self._rules - control.acls_at(broker):
                names = ", ".join(sorted({acl.name for acl in missing}))
                return (
                    f"broker {broker} does not have {len(missing)} of the rules that deny writing to {names}"
                )
        return None


@dataclass(slots=True)
class _Shut:
    asked: AskedFence
    parts: FenceParts
    is_enforced: bool = True

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        own = self.parts.control.configurations(sorted(topics))
        fences = [began(self.asked, self.parts, topic) for _, topic in sorted(topics.items())]
        return [
            fence
            if SETTING in fence.former
            else replace(fence, former={SETTING: own[fence.topic].get(SETTING)})
            for fence in fences
        ]

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        own = self.parts.control.configurations([fence.topic for fence in begun])
        for fence in begun:
            if own[fence.topic].get(SETTING) != LEAST_MESSAGE_BYTES:
                self.parts.control.change_settings(
                    fence.topic, to_set={SETTING: LEAST_MESSAGE_BYTES}, to_remove=[]
                )
                self.parts.say(f"{fence.topic}: {SETTING} is {LEAST_MESSAGE_BYTES}")
        return list(begun)

    def lacking(self, fences: Sequence[Fence]) -> str | None:
        names = [fence.topic for fence in fences]
        for broker in sorted(self.parts.control.leaders(names)):
            found = self.parts.control.settings_at(broker, names)
            for name in names:
                if found.get(name, {}).get(SETTING) != LEAST_MESSAGE_BYTES:
                    return f"broker {broker} does not have {SETTING} = {LEAST_MESSAGE_BYTES} for {name}"
        return None


@dataclass(slots=True)
class _Hook:
    asked: AskedFence
    parts: FenceParts
    hook: HookCommand
    is_enforced: bool = False

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        return [began(self.asked, self.parts, topic) for _, topic in sorted(topics.items())]

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        if all(self._has_run(fence) for fence in begun):
            return list(begun)
        names = [fence.topic for fence in begun]
        run = run_hook(self.parts, self.hook, "fence", self.asked.cluster, names)
        return [replace(fence, hook=run) for fence in begun]

    def _has_run(self, fence: Fence) -> bool:
        run = fence.hook
        return run is not None and run.command == self.hook.command and run.exit_code == 0

    def lacking(self, fences: Sequence[Fence]) -> str | None:
        for fence in fences:
            if fence.hook is not None and fence.hook.exit_code != 0:
                return failed_hook(fence.hook)
        return None


def run_hook(parts: FenceParts, hook: HookCommand, act: str, cluster: str, topics: Sequence[str]) -> HookRun:
    """Run it; it finds in its environment what it is about."""
    about = {
        "MIRROR_LEDGER_ACT": act,
        "MIRROR_LEDGER_CLUSTER": cluster,
        "MIRROR_LEDGER_TOPICS": ",".join(topics),
    }
    result = parts.hooks.run(replace(hook, environment={**hook.environment, **about}), parts.say)
    return HookRun(command=hook.command, exit_code=result.exit_code, output=result.output)


def failed_hook(run: HookRun) -> str:
    """How it ended, in words."""
    how = "was ended when its time was over" if run.exit_code is None else f"ended with {run.exit_code}"
    return f"the hook {run.command[0]} {how}: {run.output.strip() or 'it printed nothing'}"
