"""What stops writers, one class for each way: what would be made, making what is lacking, what leaders show of it.

A measure is made twice without harm. What earlier rows of a fence that stands say was made for it counts as made for
it still; what was there before is left out, so that lifting the fence leaves it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ledger.changeover.plans import Choices, FenceChoice
from ledger.clock import Clock
from ledger.errors import PreconditionError, UsageError
from ledger.facts.acls import closing, closing_for_reading
from ledger.facts.fences import (
    Evidence,
    Fence,
    FenceHow,
    Fences,
    HookRun,
    Proof,
    QuietBounds,
    Unfenced,
    least,
)
from ledger.facts.identity import ClusterIdentities
from ledger.facts.permissions import Permission
from ledger.facts.state import OperationLog
from ledger.kafka.cluster import FenceControl, FenceReader, Place, Refusal, TopicDescription
from ledger.machine import HookCommand, Hooks, words_of
from ledger.topics.following import is_fence
from ledger.words import listed

# Parts --------------------------------------------------------------------------------------------
# What is asked of a fence, what it is carried out with, and what comes of it.


Say = Callable[[str], None]
"""Takes a line about progress."""
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFence:
    """A fence of topics of a cluster.

    `known_ids`: what the ledger knows of the topics' ids, for a cluster that does not answer. `producers_stopped`: the
    operator's word, which `shut` needs. `reading`: groups are kept out as well. `abort_after_s`: open transactions are
    aborted so long after the fence was closed, None: never. `unproven`: why to continue without a proof, None: without
    one it fails. `ended_before`: where logs ended before, and since when on this process's clock they were seen to.
    """

    cluster: str
    topics: tuple[str, ...]
    how: FenceHow
    known_ids: Mapping[str, str] = field(default_factory=dict)
    confirmed_super_users: tuple[str, ...] = ()
    producers_stopped: bool = False
    reading: bool = False
    hook: HookCommand | None = None
    ended_before: Mapping[Place, tuple[int, float]] = field(default_factory=dict)
    abort_after_s: float | None = None
    unproven: str | None = None
    quiet: QuietBounds = field(default_factory=QuietBounds)
    wait_s: float = 300.0


def asked_fence(cluster: str, topics: Sequence[str], choices: Choices, hook: str | None) -> AskedFence | None:
    """What of a fence the operator chose, None: none."""
    if choices.fence is FenceChoice.NONE:
        return None
    return AskedFence(
        cluster=cluster,
        topics=tuple(topics),
        how=FenceHow(str(choices.fence)),
        confirmed_super_users=choices.confirmed_super_users,
        producers_stopped=choices.producers_stopped,
        hook=None if hook is None else HookCommand(words_of(hook), choices.hook_seconds),
        abort_after_s=choices.abort_transactions_after,
        unproven=choices.unproven,
        quiet=choices.quiet,
        wait_s=choices.drain_seconds,
    )


@dataclass(frozen=True, slots=True)
class FenceParts:
    """`mirror`: the principal that must not be denied; `administrator`: nor this one to read, None: nobody knows it.

    `pauses`: the longest, in seconds, by topic id and partition.

    `recorded_limits`: by topic its own `max.message.bytes`, None: the cluster's default, as it was recorded last when
    no fence had set it.
    """

    reader: FenceReader
    control: FenceControl
    operations: OperationLog
    hooks: Hooks
    clock: Clock
    sleep: Sleep
    say: Say
    mirror: str | None
    identities: ClusterIdentities
    fences: Fences
    pauses: Callable[[], Mapping[tuple[str, int], float]]
    administrator: str | None = None
    recorded_limits: Callable[[], Mapping[str, str | None]] = dict

    @property
    def mirrors(self) -> frozenset[int]:
        """Producer ids of mirrors at the cluster: what they write there, no application wrote."""
        return self.identities.mirror_ids(self.reader.cluster_id())


@dataclass(frozen=True, slots=True)
class FenceResult:
    """What stands now, by topic; `operation_id` None: it stood like this before, and nothing was recorded."""

    operation_id: str | None
    words: str
    fences: tuple[Fence, ...]

    @property
    def proof(self) -> Proof:
        return least(Proof(one.proof) for one in self.fences)

    @property
    def facts(self) -> list[dict[str, object]]:
        """For a receipt, as JSON has it."""
        return [one.content() for one in self.fences]


@dataclass(frozen=True, slots=True)
class UnfenceResult:
    """What was lifted, by topic; `operation_id` None: nothing stood, and nothing was recorded."""

    operation_id: str | None
    words: str
    lifted: tuple[Unfenced, ...]

    @property
    def facts(self) -> list[dict[str, object]]:
        """For a receipt, as JSON has it."""
        return [one.content() for one in self.lifted]


# Measures -----------------------------------------------------------------------------------------


LEAST_MESSAGE_BYTES = "78"
"""Fits the marker of a transaction and nothing else but tiny records. With less, transactions would stay open."""
SETTING = "max.message.bytes"
_CLEANUP = "cleanup.policy"
_NOTHING_CHANGED = "nothing was changed or recorded"


@dataclass(frozen=True, slots=True)
class Shown:
    """What leaders show of a fence: by partition who showed it (None: it is no matter who leads) and what it is worth.

    `lacking`: what some do not have yet, in words; None: each has everything.
    """

    evidence: Mapping[Place, tuple[int | None, Evidence]]
    lacking: str | None = None


class Measure(Protocol):
    """One way of stopping writers."""

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        """What is about to be made, by topic. Raises `PreconditionError` or `UsageError`, and changes nothing."""
        ...

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        """Do what is lacking of it; returns it with what came of it. Raises when that failed."""
        ...

    def shown(self, made: Sequence[Fence], places: Sequence[Place], /) -> Shown:
        """Asked of each leader of these partitions now."""
        ...


def measure_of(asked: AskedFence, parts: FenceParts) -> Measure:
    """Raises `UsageError` where an option is lacking that the way needs, or that it cannot follow."""
    if asked.reading and asked.how is not FenceHow.CLOSED:
        raise UsageError(
            f"only rules keep groups from reading: --reading goes with --how {FenceHow.CLOSED}; {_NOTHING_CHANGED}"
        )
    match asked.how:
        case FenceHow.CLOSED:
            return _Closed(asked, parts)
        case FenceHow.SHUT:
            if not asked.producers_stopped:
                raise UsageError(
                    "shut refuses what producers send, and drops it where they do not wait for an answer: stop them "
                    f"first, and say so by --accept producers_stopped; {_NOTHING_CHANGED}"
                )
            return _Shut(asked, parts)
        case FenceHow.HOOK:
            if asked.hook is None:
                raise UsageError(f"a fence by hook needs its command (--hook); {_NOTHING_CHANGED}")
            return _Hook(asked, parts, asked.hook)


def places_of(topics: Mapping[str, TopicDescription]) -> list[Place]:
    """All partitions, in order."""
    return sorted((name, number) for name, one in topics.items() for number in range(one.partitions))


def began(asked: AskedFence, parts: FenceParts, topics: Mapping[str, TopicDescription]) -> list[Fence]:
    """Fences that are about to be made, by topic, with what an earlier attempt had made of them."""
    cluster_id = parts.reader.cluster_id()
    return [_began(asked, parts, topic, cluster_id) for _, topic in sorted(topics.items())]


def _began(asked: AskedFence, parts: FenceParts, topic: TopicDescription, cluster_id: str) -> Fence:
    new = Fence(
        cluster=asked.cluster,
        cluster_id=cluster_id,
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
        denied_reading=stands.fence.denied_reading,
        former=stands.fence.former if is_same_topic else {},
        super_users=stands.fence.super_users,
        confirmed=stands.fence.confirmed,
        hook=stands.fence.hook,
    )


@dataclass(slots=True)
class _Closed:
    asked: AskedFence
    parts: FenceParts
    _rules: frozenset[Permission] = frozenset()

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        control = self.parts.control
        authorizations = control.authorizations()
        if authorizations is None:
            raise PreconditionError(
                f"{self.asked.cluster} has no authorizer, so no rule stops anybody there; {_NOTHING_CHANGED}"
            )
        acls = control.topic_acls()
        fences = began(self.asked, self.parts, topics)
        found = closing(
            list(topics),
            acls,
            authorizations,
            mirror=self.parts.mirror,
            confirmed=self.asked.confirmed_super_users,
            mirrored_back=self._closed_before() if self.asked.reading else (),
        )
        read_by_nobody = [one.topic for one in fences if self.asked.reading or one.is_for_reading]
        reading = closing_for_reading(
            read_by_nobody, acls, mirror=self.parts.mirror, administrator=self.parts.administrator
        )
        if refusals := (*found.refusals, *reading.refusals):
            raise PreconditionError(
                f"{', '.join(sorted(topics))} of {self.asked.cluster} cannot be closed; {_NOTHING_CHANGED}:",
                *listed(refusals),
            )
        self._rules = frozenset().union(*found.rules.values(), *reading.rules.values())
        known = [one.super_users for one in authorizations]
        users = None if None in known else tuple(sorted({user for some in known for user in some or ()}))
        return [
            self._begun(fence, found.rules[fence.topic], reading.rules.get(fence.topic), acls, users)
            for fence in fences
        ]

    def _closed_before(self) -> list[str]:
        """Topics of the cluster whose fence was proved: what it let by for good is copies alone."""
        active = [one.fence for one in self.parts.fences.at(self.asked.cluster)]
        return [one.topic for one in active if one.how == FenceHow.CLOSED and not one.is_open]

    def _begun(
        self,
        fence: Fence,
        rules: frozenset[Permission],
        reading: frozenset[Permission] | None,
        acls: frozenset[Permission],
        users: tuple[str, ...] | None,
    ) -> Fence:
        """`reading` None: groups may read."""
        return replace(
            fence,
            denied=_denied(fence.denied, rules - acls),
            denied_reading=None if reading is None else _denied(fence.denied_reading or (), reading - acls),
            super_users=users,
            confirmed=self.asked.confirmed_super_users,
        )

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        if missing := sorted(self._rules - self.parts.control.topic_acls()):
            self.parts.control.create_acls(missing)
            what = "writing and reading" if any(one.is_for_reading for one in begun) else "writing"
            self.parts.say(f"{len(missing)} rules created that deny {what}")
        return list(begun)

    def shown(self, _made: Sequence[Fence], places: Sequence[Place], /) -> Shown:
        control = self.parts.control
        leaders = control.leaders(sorted({topic for topic, _ in places}))
        for broker in sorted(set(leaders.values())):
            if missing := self._rules - control.acls_at(broker):
                names = ", ".join(sorted({acl.resource_name for acl in missing}))
                rules = f"{len(missing)} of the rules that fence {names}"
                return Shown({}, f"broker {broker} does not have {rules}")
        return Shown({place: (leaders[place], Evidence.RULES) for place in places if place in leaders})


def _denied(before: Collection[str], new: Collection[Permission]) -> tuple[str, ...]:
    """Principals that were denied before, and those that these rules deny."""
    return tuple(sorted({*before, *(rule.entity for rule in new)}))


@dataclass(slots=True)
class _Shut:
    """`_passing`: topics in which lies what such a limit lets pass, so that no refusal proves that nothing passes."""

    asked: AskedFence
    parts: FenceParts
    _passing: set[str] = field(default_factory=set)

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        """A topic that is shut already, by a fence that nobody has recorded, gets back what was recorded before."""
        own = self.parts.control.configurations(sorted(topics))
        limits = {topic: own[topic].get(SETTING) for topic in topics}
        if shut := [topic for topic, value in limits.items() if is_fence(SETTING, value)]:
            recorded = self.parts.recorded_limits()
            limits |= {topic: recorded.get(topic) for topic in shut}
        return [
            fence if SETTING in fence.former else replace(fence, former={SETTING: limits[fence.topic]})
            for fence in began(self.asked, self.parts, topics)
        ]

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        self._find_passing([fence.topic for fence in begun])
        own = self.parts.control.configurations([fence.topic for fence in begun])
        lacking = [fence.topic for fence in begun if own[fence.topic].get(SETTING) != LEAST_MESSAGE_BYTES]
        if lacking:
            self.parts.control.change_setting(SETTING, dict.fromkeys(lacking, LEAST_MESSAGE_BYTES))
            self.parts.say(f"{SETTING} is {LEAST_MESSAGE_BYTES} for {', '.join(lacking)}")
        return list(begun)

    def _find_passing(self, names: Sequence[str]) -> None:
        """By the last batches of each log, and for the tombstones of topics that are compacted."""
        control = self.parts.control
        leaders = control.leaders(names)
        small = {
            topic: size
            for (topic, _), size in self.parts.reader.smallest_batches(sorted(leaders)).items()
            if size <= int(LEAST_MESSAGE_BYTES)
        }
        settings = control.settings_at(min(leaders.values()), names, [_CLEANUP]) if leaders else {}
        compacted = {name for name in names if "compact" in settings.get(name, {}).get(_CLEANUP, "")}
        self._passing = small.keys() | compacted
        for name in sorted(self._passing):
            what = f"a batch of {small[name]} bytes lies there" if name in small else "it is compacted"
            self.parts.say(
                f"{name}: {what}, and records as small, tombstones above all, pass {SETTING}: stillness is watched"
            )

    def shown(self, _made: Sequence[Fence], places: Sequence[Place], /) -> Shown:
        """A setting that a broker tells is no proof: it may tell it before its logs have it."""
        answers = self.parts.control.refusals(places)
        missing = [place for place in places if answers.get(place, _NOBODY)[1] is Refusal.NOT_YET]
        if missing:
            topic, number = missing[0]
            return Shown(
                {},
                f"{len(missing)} partitions take batches still, {topic} partition {number} the first of them",
            )
        evidence: dict[Place, tuple[int | None, Evidence]] = {
            place: (broker, self._worth(place, Evidence.REFUSAL)) for place, (broker, _) in answers.items()
        }
        reported = {place: broker for place, (broker, one) in answers.items() if one is Refusal.NOT_KNOWN}
        return self._of_settings(reported, evidence) if reported else Shown(evidence)

    def _worth(self, place: Place, evidence: Evidence) -> Evidence:
        return Evidence.STILLNESS if place[0] in self._passing else evidence

    def _of_settings(
        self, reported: Mapping[Place, int], evidence: Mapping[Place, tuple[int | None, Evidence]]
    ) -> Shown:
        """Where no refusal can be had: with ZooKeeper, brokers tell what that has, and no log need have it."""
        control = self.parts.control
        worth = Evidence.SETTING if control.keeps_metadata() else Evidence.STILLNESS
        for broker in sorted(set(reported.values())):
            names = sorted({topic for (topic, _), led_by in reported.items() if led_by == broker})
            found = control.settings_at(broker, names, [SETTING])
            for name in names:
                if found.get(name, {}).get(SETTING) != LEAST_MESSAGE_BYTES:
                    what = f"does not have {SETTING} = {LEAST_MESSAGE_BYTES} for {name}"
                    return Shown({}, f"broker {broker} {what}")
        return Shown(
            {**evidence, **{place: (broker, self._worth(place, worth)) for place, broker in reported.items()}}
        )


_NOBODY = (-1, Refusal.NOT_YET)


@dataclass(slots=True)
class _Hook:
    asked: AskedFence
    parts: FenceParts
    hook: HookCommand

    def begun(self, topics: Mapping[str, TopicDescription]) -> list[Fence]:
        return began(self.asked, self.parts, topics)

    def make(self, begun: Sequence[Fence]) -> list[Fence]:
        if all(self._has_run(fence) for fence in begun):
            return list(begun)
        names = [fence.topic for fence in begun]
        run = run_hook(self.parts, self.hook, "fence", self.asked.cluster, names)
        return [replace(fence, hook=run) for fence in begun]

    def _has_run(self, fence: Fence) -> bool:
        run = fence.hook
        return run is not None and run.command == self.hook.command and run.exit_code == 0

    def shown(self, made: Sequence[Fence], places: Sequence[Place], /) -> Shown:
        for fence in made:
            if fence.hook is not None and fence.hook.exit_code != 0:
                return Shown({}, failed_hook(fence.hook))
        return Shown(dict.fromkeys(places, (None, Evidence.STILLNESS)))


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
