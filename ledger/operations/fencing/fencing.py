"""`fence`: stop applications from writing to topics of a cluster, and prove it.

What is about to be made is recorded before it is made, so that a fence which was begun and not finished is known, and
`unfence` finds all that is to be removed. A second `fence` continues the first: it makes what is lacking, and proves
what is not proved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.domain.changeover.applies import undo_command
from ledger.domain.fences.proof import PartitionWatch, Proof, least
from ledger.domain.fences.receipts import Fence, FencedPartition, FenceHow
from ledger.domain.words.count_words import counted
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError, UsageError
from ledger.operations.fencing.measures import Measure, Shown, measure_of, places_of
from ledger.operations.fencing.parts import AskedFence, FenceParts, FenceResult
from ledger.operations.fencing.standing import doubts
from ledger.operations.fencing.watching import Watching
from ledger.ports.clusters import TopicDescription, live_cluster

_READ_BACK_S = 30.0
_POLL_S = 0.1


def fence(asked: AskedFence, parts: FenceParts, *, operation_id: str | None = None) -> FenceResult:
    """Fence the topics, prove it and record it.

    Raises `UsageError` and `PreconditionError` where it is refused, with all reasons; `ClusterUnavailableError` where
    the cluster does not answer, and `UnsafeError` where no proof was found in time: both are recorded as unproven
    instead, when `asked.unproven` says why.
    """
    _require_one_way(asked, parts)
    attempt = _Attempt(
        asked, parts, measure_of(asked, parts), operation_id, _Again.of(asked.cluster, operation_id)
    )
    try:
        return attempt.carried_out()
    except ClusterUnavailableError as error:
        if asked.unproven is None:
            raise ClusterUnavailableError(
                f"{error}. The fence is not proved: when the cluster answers, {attempt.again.command}; to continue "
                f"without a proof, {attempt.again.unproven}",
                trouble=error.trouble,
            ) from error
        return attempt.given_up()


def leave_open(asked: AskedFence, parts: FenceParts, *, operation_id: str | None = None) -> FenceResult:
    """Make none, and record that nothing is proved and why to continue (`asked.unproven`); the cluster is not asked.

    What stands is left as it is, so twice is as once.
    """
    stands = {topic: parts.fences.of(asked.cluster, topic) for topic in sorted(asked.topics)}
    lacking = tuple(
        replace(_unmade(asked, parts, topic), override=asked.unproven)
        for topic, one in stands.items()
        if one is None
    )
    standing = tuple(one.fence for one in stands.values() if one is not None)
    if lacking:
        operation_id = parts.operations.record_parts(
            list(lacking), operation_id=operation_id, flow=None, reason=asked.reason, ticket=asked.ticket
        )
    words = [f"{_named(lacking)} of {asked.cluster} is not fenced: {asked.unproven}"] if lacking else []
    if standing:
        words.append(f"the fence of {_named(standing)} of {asked.cluster} is left as it is")
    return FenceResult(operation_id if lacking else None, "; ".join(words), (*lacking, *standing))


def _unmade(asked: AskedFence, parts: FenceParts, topic: str) -> Fence:
    return Fence(
        cluster=asked.cluster,
        cluster_id=parts.identities.recorded_id(asked.cluster),
        topic=topic,
        topic_id=asked.known_ids.get(topic),
        how=asked.how,
        proof=Proof.UNPROVEN,
    )


def refusal(asked: AskedFence, parts: FenceParts) -> str | None:
    """Why such a fence would be refused now, with all reasons; None: it would not. Changes and records nothing."""
    try:
        _require_one_way(asked, parts)
        attempt = _Attempt(asked, parts, measure_of(asked, parts), None, _Again.of(asked.cluster, None))
        attempt.measure.begun(attempt.topics())
    except ClusterUnavailableError as error:
        return None if asked.unproven is not None else str(error)
    except (PreconditionError, UsageError) as error:
        return str(error)
    return None


def _require_one_way(asked: AskedFence, parts: FenceParts) -> None:
    """What another way has made for a topic would be forgotten."""
    for topic in asked.topics:
        stands = parts.fences.of(asked.cluster, topic)
        if stands is None or stands.fence.how == asked.how:
            continue
        made = stands.fence
        if made.denied or made.former or made.hook is not None:
            raise PreconditionError(
                f"{topic} of {asked.cluster} is fenced by --how {made.how} already, {stands.made_by}: lift that first "
                f"(mirror-ledger unfence {asked.cluster} --topic {topic} --reason WHY); nothing was changed or recorded"
            )


@dataclass(frozen=True, slots=True)
class _Again:
    """What people type behind an attempt that failed: to continue, without a proof, of other topics, to lift it."""

    command: str
    unproven: str
    anew: str
    lift: str

    @classmethod
    def of(cls, cluster: str, operation_id: str | None) -> "_Again":
        """`operation_id`: of the apply that the fence is a step of; None: it is a command of its own."""
        if operation_id is None:
            command, lift = "run fence again", f"lift it: mirror-ledger unfence {cluster} --reason WHY"
            return cls(command, "--unproven REASON", command, lift)
        undo = f"undo it ({undo_command(operation_id)})"
        return cls(
            "apply the plan again", f"{undo} and plan with --unproven REASON", f"{undo} and plan again", undo
        )


@dataclass(slots=True)
class _Attempt:
    asked: AskedFence
    parts: FenceParts
    measure: Measure
    operation_id: str | None
    again: _Again
    _recorded: dict[str, Fence] = field(default_factory=dict)
    """By topic what this attempt has recorded last."""

    def carried_out(self) -> FenceResult:
        parts, asked = self.parts, self.asked
        parts.identities.require(asked.cluster, live_cluster(parts.reader))
        topics = self.topics()
        begun = self.measure.begun(topics)
        if proved := self._proved_before(begun):
            return proved
        self._record_begun(begun)
        made = self.measure.make(begun)
        if made != begun:
            self._record(made)
        watching = Watching(asked, parts, self.measure, made, topics, self._required(made, topics))
        watches = watching.watched()
        self._required(made, topics)
        self._require_same(topics)
        return self._concluded(made, list(watches.values()), watching)

    def given_up(self) -> FenceResult:
        """Unproven, by the operator's word; what was made of it, by this attempt or an earlier one, stays recorded."""
        rows = [
            replace(self._known(topic), proof=Proof.UNPROVEN, override=self.asked.unproven)
            for topic in sorted(self.asked.topics)
        ]
        self._record(rows)
        away = f"{self.asked.cluster} did not answer; continued without a proof"
        words = f"{_named(rows)} is not proved to be fenced: {away}"
        return FenceResult(self.operation_id, words, tuple(rows))

    def _known(self, topic: str) -> Fence:
        asked, stands = self.asked, self.parts.fences.of(self.asked.cluster, topic)
        if topic in self._recorded:
            return self._recorded[topic]
        if stands is not None:
            return stands.fence
        return _unmade(asked, self.parts, topic)

    def topics(self) -> dict[str, TopicDescription]:
        found = self.parts.reader.topics()
        if missing := [name for name in self.asked.topics if name not in found]:
            raise UsageError(
                f"{self.asked.cluster} has no topic {', '.join(missing)}, or does not show it; nothing was changed or "
                "recorded"
            )
        return {name: found[name] for name in sorted(self.asked.topics)}

    def _require_same(self, topics: Mapping[str, TopicDescription]) -> None:
        now = self.topics()
        for name, before in topics.items():
            if (now[name].topic_id, now[name].partitions) != (before.topic_id, before.partitions):
                raise UnsafeError(
                    f"{name} of {self.asked.cluster} was created again, or given partitions, while it was watched: the "
                    f"fence is not proved; {self.again.anew}"
                )

    def _proved_before(self, begun: Sequence[Fence]) -> FenceResult | None:
        """What stands, where it is proved and nothing has changed since."""
        found = []
        for fence_ in begun:
            stands = self.parts.fences.of(fence_.cluster, fence_.topic)
            if stands is None or stands.fence.is_open:
                return None
            made = stands.fence
            of_this = (made.cluster_id, made.topic_id) == (fence_.cluster_id, fence_.topic_id)
            if not of_this or set(made.denied) != set(fence_.denied):
                return None
            found.append(made)
        if doubts(found, self.parts):
            return None
        return FenceResult(None, f"{_named(found)} is fenced and proved already", tuple(found))

    def _record_begun(self, begun: Sequence[Fence]) -> None:
        """Unless it stands so already, from an attempt that did not end."""
        of_each = [self.parts.fences.of(one.cluster, one.topic) for one in begun]
        last = [stands for stands in of_each if stands is not None]
        if [stands.fence for stands in last] == list(begun) and self.operation_id is None:
            [*_, self.operation_id] = [stands.operation_id for stands in last]
            return
        self._record(begun)

    def _record(self, rows: Sequence[Fence]) -> None:
        self.operation_id = self.parts.operations.record_parts(
            list(rows),
            operation_id=self.operation_id,
            flow=None,
            reason=self.asked.reason,
            ticket=self.asked.ticket,
        )
        self._recorded |= {one.topic: one for one in rows}

    def _required(self, made: Sequence[Fence], topics: Mapping[str, TopicDescription]) -> Shown:
        """What leaders show, once each has everything: brokers learn of a change one after the other."""
        clock = self.parts.clock
        deadline_s = clock.monotonic() + _READ_BACK_S
        while lacking := (shown := self.measure.shown(made, places_of(topics))).lacking:
            has_failed = any(one.hook is not None and one.hook.exit_code != 0 for one in made)
            if has_failed or clock.monotonic() >= deadline_s:
                raise PreconditionError(
                    f"the fence of {_named(made)} of {self.asked.cluster} is not complete: {lacking}. It is recorded "
                    f"as begun; {self.again.command}, or {self.again.lift}"
                )
            self.parts.sleep(_POLL_S)
        return shown

    def _concluded(
        self, made: Sequence[Fence], watches: Sequence[PartitionWatch], watching: Watching
    ) -> FenceResult:
        proved = [self._proved(one, watches) for one in made]
        left = [one for one in watches if not one.is_still]
        if not left:
            self._record(proved)
            return FenceResult(self.operation_id, self._words(proved), tuple(proved))
        reasons = "".join(f"\n  {reason}" for reason in map(watching.why_not, left))
        if self.asked.unproven is not None:
            overridden = [
                replace(one, override=self.asked.unproven) if one.is_open else one for one in proved
            ]
            self._record(overridden)
            words = f"{_named(proved)} is not proved, and continued without:{reasons}"
            return FenceResult(self.operation_id, words, tuple(overridden))
        if done := [one for one in proved if not one.is_open]:
            self._record(done)
        waited = "" if watching.short else f" after {self.asked.wait_s:g} s"
        raise UnsafeError(
            f"{counted(len(left), 'partition')} of {self.asked.cluster} not proved{waited}:"
            f"{reasons}\nWhat was made stays. To continue, {self.again.command}; to continue without a proof, "
            f"{self.again.unproven}"
        )

    def _proved(self, made: Fence, watches: Sequence[PartitionWatch]) -> Fence:
        partitions = tuple(
            FencedPartition(
                partition=one.partition,
                end=one.end,
                last_stable=one.reading.last_stable,
                quiet_ms=int(one.quiet.seconds * 1000),
                is_telling=one.quiet.is_telling,
                proof=str(one.proof),
                evidence=str(one.evidence),
                leader_epoch=one.reading.leader_epoch,
            )
            for one in watches
            if one.topic == made.topic
        )
        return replace(made, proof=least(Proof(one.proof) for one in partitions), partitions=partitions)

    def _words(self, proved: Sequence[Fence]) -> str:
        by_proof = {proof: [one for one in proved if one.proof == proof] for proof in Proof}
        parts = [f"{_named(found)} is fenced: {proof}" for proof, found in by_proof.items() if found]
        known = all(one.super_users is not None for one in proved)
        hidden = "" if known or self.asked.how != FenceHow.CLOSED else _HIDDEN_SUPER_USERS
        return "; ".join(parts) + hidden


_HIDDEN_SUPER_USERS = "; the brokers do not say who is a super user: no rule stops these"


def _named(fences: Sequence[Fence]) -> str:
    return ", ".join(one.topic for one in fences)
