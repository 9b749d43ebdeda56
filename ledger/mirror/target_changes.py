"""What target topics need is carried out: they are created, extended and set. A refusal costs what it is about.

A setting that the target refuses is left out, by its name and value; all others are set. A quota on changes is waited
for as long as the target says, while topics that are there are copied.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ledger.clock import Clock
from ledger.errors import (
    ClusterUnavailableError,
    PreconditionError,
    QuotaExceededError,
    RefusedSettingError,
)
from ledger.facts.findings import Finding, FindingName
from ledger.facts.operations import TopicAction, TopicFollowed
from ledger.kafka.cluster import ClusterAdmin, TopicDescription
from ledger.mirror.targets import FollowingRecord
from ledger.topics.following import (
    REQUIRED_AT_TARGET,
    AddPartitions,
    ChangeSettings,
    FollowingAction,
    NewTopic,
    SettingsChange,
)

log = logging.getLogger(__name__)

_CREATED_AT_ONCE = 100
_REFUSED_ACTION = {
    NewTopic: FindingName.TARGET_TOPIC_NOT_CREATED,
    AddPartitions: FindingName.PARTITIONS_NOT_ADDED,
    ChangeSettings: FindingName.SETTINGS_NOT_CHANGED,
}
Setting = tuple[str, str | None]
"""Name and value; None: it is removed."""


class TargetChanges:
    """Carries out what is to be done at one target, refresh by refresh.

    `waits_until`: when a quota lets more topics and partitions be made (monotonic), None: none is waited for;
    `waits_ms`: how long the target said; `waiting`: names of the topics concerned.
    """

    def __init__(
        self, target: ClusterAdmin, record: FollowingRecord, clock: Clock, changed: Callable[[str], None]
    ) -> None:
        """`changed` is called with the id of a topic whose settings were changed."""
        self._target = target
        self._record = record
        self._clock = clock
        self._changed = changed
        self._refused: dict[Setting, str] = {}
        self._refused_of: dict[tuple[str, Setting], str] = {}
        """Of one topic: the target named it, or did not say which setting it was."""
        self.waits_until: float | None = None
        self.waits_ms = 0
        self.waiting: frozenset[str] = frozenset()

    def carry_out(
        self, actions: Sequence[FollowingAction], targets: Mapping[str, TopicDescription]
    ) -> list[Finding]:
        """What was refused."""
        is_early = self.waits_until is not None and self._clock.monotonic() < self.waits_until
        if not is_early:
            self.waits_until, self.waiting = None, frozenset()
        new = [action for action in actions if isinstance(action, NewTopic)]
        left: list[FollowingAction] = [action for action in actions if not isinstance(action, NewTopic)]
        found = [one for action in left for one in self._attempt(action, targets)]
        for start in range(0, len(new), _CREATED_AT_ONCE):
            part = new[start : start + _CREATED_AT_ONCE]
            created = frozenset() if self.waits_until is not None else self._create_together(part)
            for action in part:
                found += self._left_out(action) if action.name in created else self._attempt(action, targets)
        return found

    def _create_together(self, wanted: Sequence[NewTopic]) -> frozenset[str]:
        """Names of those that were created; the others are attempted one by one, which tells why not."""
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        log.info("creating topic %(topic)s%(more)s at the target", {"topic": wanted[0].name, "more": more})
        asked = [self._less_refused(topic) for topic in wanted]
        topic_ids = self._target.create_topics([topic for topic in asked if isinstance(topic, NewTopic)])
        done = [topic for topic in asked if isinstance(topic, NewTopic) and topic.name in topic_ids]
        if done:
            self._record.created(done, topic_ids)
        return frozenset(topic_ids)

    def _attempt(self, action: FollowingAction, targets: Mapping[str, TopicDescription]) -> Iterator[Finding]:
        """Do what can be done; what is refused for a setting is tried again without it."""
        if self.waits_until is not None and not isinstance(action, ChangeSettings):
            self.waiting |= {action.name}
            return
        while (asked := self._less_refused(action)) is not None:
            try:
                if self._is_done(asked, targets):
                    break
            except QuotaExceededError as error:
                self.waits_until = self._clock.monotonic() + error.wait_s
                self.waits_ms, self.waiting = int(error.wait_s * 1000), self.waiting | {action.name}
                log.warning("%s", error)
                return
            except (PreconditionError, ClusterUnavailableError) as error:
                yield self._not_done(action, str(error))
                return
        yield from self._left_out(action)

    def _not_done(self, action: FollowingAction, reason: str) -> Finding:
        return Finding(name=_REFUSED_ACTION[type(action)], topic=action.name, message=reason)

    # -- refused settings ------------------------------------------------------------------------

    def _is_done(self, asked: FollowingAction, targets: Mapping[str, TopicDescription]) -> bool:
        """Whether it is; else it can be tried without settings that were refused. Raises where it is no setting."""
        try:
            self._carry_out(asked, targets)
        except RefusedSettingError as error:
            if not self._note_refused(asked, error.reason):
                raise
            return False
        return True

    def _note_refused(self, asked: FollowingAction, reason: str) -> bool:
        """Which of the settings it was: those that the target names, else those that it does not take alone.

        A setting that is named is refused for every topic, unless the target speaks of this one.
        """
        settings = settings_of(asked)

        def is_named(name: str) -> bool:
            return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", reason) is not None

        named = list(filter(is_named, settings))
        if named and not is_named(asked.name):
            self._refused |= {(name, settings[name]): reason for name in named}
            return True
        of_it = named or self._refused_alone(asked)
        self._refused_of |= {(asked.name, (name, settings[name])): reason for name in of_it}
        return bool(of_it)

    def _refused_alone(self, asked: FollowingAction) -> Collection[str]:
        """Names of settings that the target does not take by themselves; none where it is not for them.

        Where it takes each, those that copying can do without.
        """
        settings = settings_of(asked)
        if isinstance(asked, NewTopic) and self._target.refused_settings([replace(asked, configuration={})]):
            return ()
        refused = [name for name, value in settings.items() if not self._is_taken(asked, name, value)]
        return refused or settings.keys() - REQUIRED_AT_TARGET.keys() or settings

    def _is_taken(self, asked: FollowingAction, name: str, value: str | None) -> bool:
        """By asking, of a topic that is to be created, and by setting it, of one that is there."""
        if isinstance(asked, NewTopic):
            return not self._target.refused_settings([replace(asked, configuration={name: value or ""})])
        to_set, to_remove = ({}, [name]) if value is None else ({name: value}, [])
        try:
            self._target.change_settings(asked.name, to_set=to_set, to_remove=to_remove)
        except RefusedSettingError:
            return False
        return True

    def _reason(self, topic: str, setting: Setting) -> str | None:
        """Why the target does not take it; None: nobody knows that it does not."""
        return self._refused.get(setting) or self._refused_of.get((topic, setting))

    def _less_refused(self, action: FollowingAction) -> FollowingAction | None:
        """The action without settings that the target has refused; None: nothing is left of it."""

        def is_taken(name: str, value: str | None) -> bool:
            return self._reason(action.name, (name, value)) is None

        match action:
            case NewTopic():
                left = {name: value for name, value in action.configuration.items() if is_taken(name, value)}
                return replace(action, configuration=left)
            case ChangeSettings():
                change = SettingsChange(
                    {name: value for name, value in action.change.to_set.items() if is_taken(name, value)},
                    tuple(name for name in action.change.to_remove if is_taken(name, None)),
                )
                return replace(action, change=change) if change else None
            case AddPartitions():
                return action

    def _left_out(self, action: FollowingAction) -> Iterator[Finding]:
        refused = {
            f"{name} = {value}" if value is not None else f"the removal of {name}": reason
            for name, value in settings_of(action).items()
            if (reason := self._reason(action.name, (name, value))) is not None
        }
        if refused:
            reasons = "; ".join(dict.fromkeys(refused.values()))
            message = f"{action.name} is without {', '.join(sorted(refused))}: {reasons}"
            yield Finding(name=FindingName.SETTINGS_NOT_CHANGED, topic=action.name, message=message)

    # -- doing -----------------------------------------------------------------------------------

    def _carry_out(self, action: FollowingAction, targets: Mapping[str, TopicDescription]) -> None:
        match action:
            case NewTopic(name, partitions, replication_factor, configuration):
                log.info(
                    "creating topic %(topic)s at the target with %(partitions)d partitions",
                    {"topic": name, "partitions": partitions},
                )
                self._target.create_topic(
                    name,
                    partitions=partitions,
                    replication_factor=replication_factor,
                    configuration=configuration,
                )
                self._record.created([action], {name: self._target.topics()[name].topic_id})
            case AddPartitions(name, total):
                log.info(
                    "bringing topic %(topic)s at the target to %(partitions)d partitions",
                    {"topic": name, "partitions": total},
                )
                self._target.add_partitions(name, total=total)
                added, topic_id = TopicAction.PARTITIONS_ADDED, targets[name].topic_id
                self._record.followed(
                    TopicFollowed(action=added, topic=name, topic_id=topic_id, partitions=total)
                )
            case ChangeSettings(name, topic_id, change):
                log.info(
                    "topic %(topic)s at the target: setting %(set)s, removing %(removed)s",
                    {"topic": name, "set": dict(change.to_set), "removed": change.to_remove},
                )
                self._target.change_settings(name, to_set=change.to_set, to_remove=change.to_remove)
                self._changed(topic_id)
                changed = TopicAction.SETTINGS_CHANGED
                self._record.followed(
                    TopicFollowed(action=changed, topic=name, topic_id=topic_id, change=change)
                )


def settings_of(action: FollowingAction) -> dict[str, str | None]:
    """What an action sets, and what it removes (None)."""
    match action:
        case NewTopic():
            return dict(action.configuration)
        case ChangeSettings():
            return {**action.change.to_set, **dict.fromkeys(action.change.to_remove)}
        case AddPartitions():
            return {}
