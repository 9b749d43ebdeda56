"""Changing a cluster as planned, with a receipt before and one behind; and changing it back.

What is about to be changed is recorded before, with the values until then, and what was read back behind it, under one
operation id. So where there is an intention without a result, each of its parts is done or not; carrying it out again
does what is lacking under the same operation, and undoing it finds all parts.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ledger.domain.hand_over.permissions import in_words
from ledger.domain.hand_over.receipts import HandedOver, HandOverResult, HandOvers, HandOverUndone
from ledger.domain.hand_over.settings import Settings, TopicHandOver, merged
from ledger.domain.operations.content import OperationContent
from ledger.domain.permissions import Permission, PermissionEvent, PermissionKind
from ledger.domain.words.count_words import counted
from ledger.errors import PreconditionError, UnsafeError
from ledger.operations.hand_over.planning import HandOver
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PermissionAdmin
from ledger.ports.ledger import OperationLog

READ_BACK_S = 15.0
"""How long brokers may take to show what was changed."""
_POLL_S = 0.2
_PERMISSIONS_AT_ONCE = 500
_TOPICS_AT_ONCE = 100


def _silent(_words: str) -> None:
    """For who follows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What became of it; `operation_id` None: nothing was to be done, and nothing was recorded."""

    operation_id: str | None
    words: str
    settings: int = 0
    permissions: int = 0
    unknown: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {
            "settings": self.settings,
            "permissions": self.permissions,
            "unknown": list(self.unknown),
            "manual": list(self.manual),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What its rows say: under which operation (None: one of its own), and the operator's words."""

    reason: str
    ticket: str | None = None
    operation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChanges:
    """Changes one cluster, reads back, and records both.

    `permissions`: with the credentials that may change them. `progress`: gets a line for each part.
    """

    admin: ClusterAdmin
    permissions: PermissionAdmin
    operations: OperationLog
    clock: Clock
    sleep: Callable[[float], None]
    progress: Callable[[str], None] = _silent
    read_back_s: float = READ_BACK_S

    def hand_over(self, plan: HandOver, recorded: HandOvers, why: Why) -> Ready:
        """Carry out a plan. An operation that did not end for the same clusters is continued, unless `why` names one.

        Raises `UnsafeError` when parts of it were refused, or not read back, and `PreconditionError` when all were;
        both after the others are done and recorded.
        """
        begun = recorded.unfinished(plan.cluster, plan.former, plan.purpose)
        why = replace(why, operation_id=why.operation_id or begun)
        before = (
            [] if why.operation_id is None else recorded.parts(why.operation_id, plan.cluster, plan.purpose)
        )
        if not plan:
            is_begun = begun is not None and begun == why.operation_id
            return self._nothing_lacking(plan, before, why, is_begun=is_begun)
        operation_id = self._record(plan.content, why)
        failed = self._changed(plan.topics, plan.permissions, create=True)
        self._record_result(HandedOver, failed, replace(why, operation_id=operation_id))
        self._require(failed, len(plan.topics) + len(plan.permissions), operation_id)
        return self._ready(operation_id, plan, [*before, plan.content])

    def _nothing_lacking(
        self, plan: HandOver, before: Sequence[HandedOver], why: Why, *, is_begun: bool
    ) -> Ready:
        if is_begun:
            self._record_result(HandedOver, [], why)
        return self._ready(why.operation_id if is_begun else None, plan, before)

    def _ready(self, operation_id: str | None, plan: HandOver, parts: Sequence[HandedOver]) -> Ready:
        """`parts`: all that the operation has changed there, earlier attempts among them."""
        topics = merged(topic for part in parts for topic in part.topics)
        permissions = {one for part in parts for one in part.permissions}
        words = (
            f"{self.admin.alias}: {_counted(topics, permissions)} as at {plan.former}"
            if topics or permissions
            else f"{self.admin.alias} lacks nothing that is known of {plan.former}"
        )
        more = [f"{len(plan.unknown)} unknown"] * bool(plan.unknown)
        more += [f"{len(plan.manual)} left to people"] * bool(plan.manual)
        return Ready(
            operation_id=operation_id,
            words="; ".join([words, *more]),
            settings=sum(len(topic.former) for topic in topics),
            permissions=len(permissions),
            unknown=plan.unknown,
            manual=plan.manual,
        )

    def undo(self, operation_id: str, recorded: HandOvers, why: Why) -> Ready:
        """Undo what the rows of an operation list of this cluster, and is still as it was made.

        What somebody has changed since then stays, and is named. Raises as `hand_over`, and `PreconditionError` where
        the operation did nothing to this cluster, or another cluster answers behind its alias now.
        """
        parts = recorded.parts(operation_id, self.admin.alias)
        live_id = self.admin.cluster_id()
        if not parts or {one.cluster_id for one in parts} != {live_id}:
            raise PreconditionError(
                f"operation {operation_id} changed nothing of cluster {self.admin.alias} with id {live_id}; nothing "
                "was undone"
            )
        undoing = self._undoing(operation_id, parts)
        before = recorded.undone(operation_id, self.admin.alias)
        if undoing.topics or undoing.permissions:
            undo_id = self._record(undoing, why)
            why = replace(why, operation_id=undo_id)
            failed = self._changed(undoing.topics, undoing.permissions, create=False)
            self._record_result(HandOverUndone, failed, why)
            self._require(failed, len(undoing.topics) + len(undoing.permissions), undo_id)
            return self._undone(undo_id, undoing, [*before.parts, undoing])
        if before.open_under is not None:
            self._record_result(HandOverUndone, [], replace(why, operation_id=before.open_under))
        return self._undone(None, undoing, before.parts)

    def _undone(self, undo_id: str | None, undoing: HandOverUndone, parts: Sequence[HandOverUndone]) -> Ready:
        """`parts`: all that was undone there, by earlier attempts too."""
        topics = merged(topic for part in parts for topic in part.topics)
        permissions = {one for part in parts for one in part.permissions}
        done = f"{self.admin.alias}: {_counted(topics, permissions)} as before"
        return Ready(
            operation_id=undo_id,
            words="; ".join([done, *(["left: " + ", ".join(undoing.left)] if undoing.left else [])]),
            settings=sum(len(topic.former) for topic in topics),
            permissions=len(permissions),
            manual=undoing.left,
        )

    def _undoing(self, operation_id: str, parts: Sequence[HandedOver]) -> HandOverUndone:
        last = parts[-1]
        topics = merged(topic for part in parts for topic in part.topics)
        created = {permission for part in parts for permission in part.permissions}
        own, found = self._own(topics), self._found({one.kind for one in created})
        kept = [topic for topic in topics if topic.key in own]
        changed = {one.identity for one in found - created if one.kind is PermissionKind.QUOTA}
        left = [
            *(f"{topic.topic} (another topic, or not shown)" for topic in topics if topic.key not in own),
            *(f"{name} of {topic.topic}" for topic in kept for name in topic.changed_since(own[topic.key])),
            *sorted(in_words(one) for one in created - found if one.identity in changed),
        ]
        back = (
            TopicHandOver.of(topic.topic, topic.topic_id, topic.way_back(settings), settings)
            for topic in kept
            for settings in [own[topic.key]]
        )
        return HandOverUndone(
            cluster=last.cluster,
            cluster_id=last.cluster_id,
            former=last.former,
            purpose=last.purpose,
            topics=tuple(topic for topic in back if topic.change),
            permissions=tuple(sorted(created & found, key=in_words)),
            handed_over=operation_id,
            left=tuple(left),
        )

    def verify(self, operation_id: str, recorded: HandOvers) -> list[str]:
        """What of an operation is not as it was made at this cluster now, in words. Changes nothing."""
        parts = recorded.parts(operation_id, self.admin.alias)
        topics = merged(topic for part in parts for topic in part.topics)
        created = sorted({one for part in parts for one in part.permissions}, key=in_words)
        return self._unlike(topics, created, create=True)

    # -- what is there ---------------------------------------------------------------------------

    def _own(self, topics: Iterable[TopicHandOver]) -> dict[tuple[str, str], Settings]:
        """Own settings by topic and id, of topics that have the same id."""
        described = self.admin.topics()
        names = {topic.topic for topic in topics} & described.keys()
        read = self.admin.topic_settings(sorted(names)).read
        return {(name, described[name].topic_id): settings.own for name, settings in read.items()}

    def _found(self, kinds: Collection[PermissionKind]) -> frozenset[Permission]:
        """Permissions of these kinds; raises `PreconditionError` where nobody knows which there are."""
        if not kinds:
            return frozenset()
        read = self.permissions.permissions()
        for kind in kinds:
            if read[kind].reading is not PermissionEvent.READABLE:
                raise PreconditionError(
                    f"cluster {self.admin.alias}: permissions of kind {kind} cannot be read ({read[kind].reading}), so "
                    "it is unknown which are there; nothing more was changed. Grant Describe and DescribeConfigs on "
                    "the cluster to the principal that asks"
                )
        return frozenset(one for kind in kinds for one in read[kind].found)

    # -- changes ---------------------------------------------------------------------------------

    def _changed(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        """Change all; returns what was refused, and what is not read back in time, in words."""
        refused: dict[str, str] = {}
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            some = topics[start : start + _TOPICS_AT_ONCE]
            refused |= self._set(some)
            self.progress(f"{self.admin.alias}: settings of {start + len(some)} of {len(topics)} topics")
        not_allowed = self._allowed(permissions, create=create)
        done_topics = [topic for topic in topics if topic.topic not in refused]
        not_kept = self._not_read_back(done_topics, () if not_allowed else permissions, create=create)
        return [*refused.values(), *not_allowed, *not_kept]

    def _set(self, topics: Sequence[TopicHandOver]) -> dict[str, str]:
        """By topic why it was refused. All at once; where one of many is refused, each by itself, to know which."""
        changes = {one.topic: {**one.change.to_set, **dict.fromkeys(one.change.to_remove)} for one in topics}
        try:
            self.admin.change_settings_of(changes)
        except PreconditionError as error:
            if len(topics) == 1:
                return {topics[0].topic: f"settings of {topics[0].topic}: {error}"}
            return {topic: words for one in topics for topic, words in self._set([one]).items()}
        return {}

    def _allowed(self, permissions: Sequence[Permission], *, create: bool) -> list[str]:
        """Why some were refused."""
        change = self.permissions.create_permissions if create else self.permissions.delete_permissions
        refused = []
        for start in range(0, len(permissions), _PERMISSIONS_AT_ONCE):
            some = permissions[start : start + _PERMISSIONS_AT_ONCE]
            try:
                change(some)
            except PreconditionError as error:
                refused.append(f"{len(some)} permissions: {error}")
            self.progress(f"{self.admin.alias}: {start + len(some)} of {len(permissions)} permissions")
        return refused

    def _not_read_back(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        deadline = self.clock.monotonic() + self.read_back_s
        while True:
            unlike = self._unlike(topics, permissions, create=create)
            if not unlike or self.clock.monotonic() >= deadline:
                return unlike
            self.sleep(_POLL_S)

    def _unlike(
        self, topics: Sequence[TopicHandOver], permissions: Sequence[Permission], *, create: bool
    ) -> list[str]:
        own, there = self._own(topics), self._found({one.kind for one in permissions})
        state = "not there" if create else "still there"
        return [
            *(
                f"settings of {one.topic}: not as they were set"
                for one in topics
                if not one.is_made(own.get(one.key, {}))
            ),
            *(f"{in_words(one)}: {state}" for one in permissions if (one in there) != create),
        ]

    # -- what is recorded ------------------------------------------------------------------------

    def _record(self, content: OperationContent, why: Why) -> str:
        return self.operations.record_parts(
            [content], operation_id=why.operation_id, flow=None, reason=why.reason, ticket=why.ticket
        )

    def _record_result(self, of: type[OperationContent], failed: Sequence[str], why: Why) -> None:
        self._record(HandOverResult(of=of.kind.value, cluster=self.admin.alias, failed=tuple(failed)), why)

    def _require(self, failed: Sequence[str], count: int, operation_id: str) -> None:
        if not failed:
            return
        lines = "\n  ".join(failed)
        message = (
            f"cluster {self.admin.alias}, operation {operation_id}: {len(failed)} parts were not done or not read "
            f"back; mend the cause and ask again, or undo:\n  {lines}"
        )
        raise PreconditionError(message) if len(failed) == count else UnsafeError(message)


def _counted(topics: Sequence[TopicHandOver], permissions: Collection[Permission]) -> str:
    settings = sum(len(topic.former) for topic in topics)
    verb = "is" if settings + len(permissions) == 1 else "are"
    return (
        f"{counted(settings, 'setting')} of {counted(len(topics), 'topic')} and "
        f"{counted(len(permissions), 'permission')} {verb}"
    )
