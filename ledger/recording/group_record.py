"""What the ledger holds of the groups of one cluster, their commits and share-partition offsets; what a read adds."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import Absence, Checkpoint
from ledger.domain.groups import MOVING, GroupEvent, GroupFact, ShareOffset, UnreadGroup
from ledger.ports.ledger import Row
from ledger.recording.changes.group_offsets import (
    OffsetKey,
    changed_offsets,
    not_read_again,
    offset_row,
    offsets_by_key,
    to_be_explained,
)
from ledger.recording.changes.groups import (
    changed_groups,
    group_row,
    groups_by_id,
    listed_fact,
    listing_fact,
    unlisted_fact,
)
from ledger.recording.group_reading import GroupsRead
from ledger.recording.observation import Observation, Observer
from ledger.schema import CHECKPOINTS, GROUPS, SHARE_OFFSETS

log = logging.getLogger(__name__)

_HIDDEN = UnreadGroup(GroupEvent.HIDDEN)
_MOVING = UnreadGroup(GroupEvent.UNAVAILABLE, MOVING)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """What one read adds."""

    checkpoints: Sequence[Checkpoint] = ()
    groups: Sequence[GroupFact] = ()
    share_offsets: Sequence[ShareOffset] = ()

    def by_table(self) -> dict[str, list[Row]]:
        return {
            CHECKPOINTS.name: [offset_row(row) for row in self.checkpoints],
            GROUPS.name: [group_row(row) for row in self.groups],
            SHARE_OFFSETS.name: [offset_row(row) for row in self.share_offsets],
        }


@dataclass(slots=True)
class GroupRecord:
    """What is recorded, as far as this epoch knows; `recorded` follows the append of what `rows` returned."""

    writer: str
    observer: Observer
    checkpoints: dict[OffsetKey, Checkpoint]
    groups: dict[str | None, GroupFact]
    share_offsets: dict[OffsetKey, ShareOffset]

    def rows(self, seen: Observation, *, swept: bool) -> GroupRows:
        """`swept`: unchanged commits are appended as well."""
        if seen.groups is None:
            return GroupRows()
        read = offsets_by_key(seen.groups.checkpoints)
        shared = offsets_by_key(seen.groups.share_offsets)
        last = not_read_again(self.checkpoints, read) if swept else self.checkpoints
        unlisted = self._unlisted(seen.groups)
        was_read = self._was_read(seen, unlisted)
        missing = to_be_explained(last, read, was_read=was_read)
        unshared = to_be_explained(self.share_offsets, shared, was_read=was_read)
        absences = self._absences([*missing, *unshared], seen, unlisted)
        rows = GroupRows(
            changed_offsets(
                last, read, absences={key: absences[key] for key in missing}, read_at_ms=seen.read_at_ms
            ),
            changed_groups(self.groups, self._facts(seen.groups, unlisted, seen.read_at_ms)),
            changed_offsets(
                self.share_offsets,
                shared,
                absences={key: absences[key] for key in unshared},
                read_at_ms=seen.read_at_ms,
            ),
        )
        self._say(rows)
        return rows

    def recorded(self, rows: GroupRows) -> None:
        self.checkpoints |= offsets_by_key(rows.checkpoints)
        self.groups |= groups_by_id(rows.groups)
        self.share_offsets |= offsets_by_key(rows.share_offsets)

    def _unlisted(self, read: GroupsRead) -> Mapping[str, UnreadGroup]:
        """What became of the groups that are recorded and were not listed; deleted ones are asked for once.

        Where all groups are shown, one that exists all the same is not hidden: its coordinator was moving.
        """
        known = {fact.group_id for fact in self.groups.values() if fact.event is not GroupEvent.GONE}
        known |= {row.group_id for row in self.checkpoints.values() if row.absence is not Absence.GONE}
        known |= {row.group_id for row in self.share_offsets.values() if row.absence is not Absence.GONE}
        asked = sorted(
            name for name in known - read.listed.keys() if name is not None and self._records(name)
        )
        found = self.observer.admin.unlisted_groups(asked) if asked else {}
        if not read.all_listed:
            return found
        return {name: _MOVING if why == _HIDDEN else why for name, why in found.items()}

    def _was_read(
        self, seen: Observation, unlisted: Mapping[str, UnreadGroup]
    ) -> Callable[[OffsetKey], bool]:
        """Whether an offset that is not among those read is not there, or not shown; else nobody could read it."""
        assert seen.groups is not None
        unread = {**seen.groups.unread, **unlisted}
        unavailable = {name for name, why in unread.items() if why.event is GroupEvent.UNAVAILABLE}
        return lambda key: (
            self._records(key[0]) and key[0] not in unavailable and key[1] not in seen.unsettled
        )

    def _absences(
        self, keys: Collection[OffsetKey], seen: Observation, unlisted: Mapping[str, UnreadGroup]
    ) -> dict[OffsetKey, Absence]:
        """Why offsets are missing that an earlier read found.

        A cluster lists to a principal what that may describe, and says nothing about the rest: so groups and
        topics that were not listed are asked for by name. What is not certainly deleted is `hidden`.
        """
        assert seen.groups is not None
        unshown = {**seen.groups.unread, **unlisted}
        hidden_groups = {group for group, why in unshown.items() if why.event is GroupEvent.HIDDEN}
        hidden_topics = self.observer.hidden(sorted({topic for _, topic, _ in keys} - seen.topic_names))
        return {
            key: Absence.HIDDEN if key[0] in hidden_groups or key[1] in hidden_topics else Absence.GONE
            for key in keys
        }

    def _facts(
        self, read: GroupsRead, unlisted: Mapping[str, UnreadGroup], read_at_ms: int
    ) -> list[GroupFact]:
        alias = self.observer.admin.alias
        return [
            listing_fact(alias, all_listed=read.all_listed, read_at_ms=read_at_ms),
            *(
                listed_fact(alias, group, read.unread.get(name), read_at_ms)
                for name, group in read.listed.items()
            ),
            *(
                unlisted_fact(alias, name, self.groups.get(name), why, read_at_ms)
                for name, why in unlisted.items()
            ),
        ]

    def _records(self, group: str) -> bool:
        return self.observer.settings.records_group(group)

    def _say(self, rows: GroupRows) -> None:
        hidden = {(row.group_id, row.topic) for row in rows.checkpoints if row.absence is Absence.HIDDEN}
        for group, topic in sorted(hidden):
            log.warning(
                "%s: commits of group %s for topic %s are not shown to this principal any more; "
                "what was recorded last is the last that is known",
                self.writer,
                group,
                topic,
            )
        for fact in rows.groups:
            if fact.event is GroupEvent.UNAVAILABLE:
                log.warning(
                    "%s: offsets of group %s are not recorded until they can be read: %s",
                    self.writer,
                    fact.group_id,
                    fact.reason,
                )
