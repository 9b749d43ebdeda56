"""Lives of two clusters, of flows between them, and of groups that move: judged by what was read and by the logs.

Every record has a number that its copies keep. What a group has read is a set of numbers; what lies in a log is a list
of them. The ledger is the rows that flows have recorded so far, and the commits that recorders saw; it knows nothing
of numbers. A life prints its seed and its events.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ledger.facts.syncs import Absence
from ledger.offsets.first_unread import Ends, KnownPair, Place, first_unread, known_pair
from ledger.offsets.links import RecordedFlow
from ledger.offsets.read import KnownGroup, Move
from ledger.offsets.translation import Commit
from tests.support.pair_events import FlowEvents
from tests.support.pair_logs import (
    RELAYING,
    STEP_MS,
    WORLDS,
    Group,
    Log,
    LostEnd,
    RecordedMove,
    Seen,
    Side,
    begins,
    other_than,
)

_CLOCK_OF_OPERATORS = 1_000
"""How much worse it is than those of drivers and recorders."""


class Life(FlowEvents):
    """One life, event by event."""

    def live(self, events: int) -> Iterator[None]:
        """Yields after each event."""
        if self.chance.random() < 0.2:
            self._adopt()
        for _ in range(events):
            self.now_ms += STEP_MS
            self._happen()
            self._pairs.clear()
            yield

    def _happen(self) -> None:
        weights = self._weights()
        happening = self.chance.choices(list(weights), list(weights.values()))[0]
        happening()
        if self.is_calm:
            self._look()

    def _weights(self) -> dict[Callable[[], None], int]:
        """How often each thing happens, beside the others."""
        storms = 0 if self.is_calm else 1
        return {
            self._write: 6,
            self._copy: 10,
            self._consume: 6,
            self._look: 3,
            self._move: 4,
            self._rewind: 1,
            self._lose_the_end: 2 * storms,
            self._expire: storms,
            self._resync: storms,
            self._recreate: storms,
            self._vanish: storms,
            self._keep_local: 1,
            self._skip: storms,
        }

    # -- groups ----------------------------------------------------------------------------------

    def _consume(self) -> None:
        group = self.chance.choice(self.groups)
        log = self.logs[group.at]
        if group.position < log.log_start:
            group.read |= log.numbers(group.position, log.log_start)
            group.position = log.log_start
        end = min(group.position + self.chance.randint(0, 6), log.end)
        group.read |= log.numbers(group.position, end)
        group.position = end
        if self.chance.random() < 0.85:
            self._commit(group, log.epoch_before(end) if group.has_epochs else None)
        self._tell(f"{group.name} at {group.at} to {end}")

    def _commit(self, group: Group, leader_epoch: int | None) -> None:
        log = self.logs[group.at]
        side = group.sides.get(group.at)
        group.sides[group.at] = Side(
            group.position,
            log.partition.topic_id,
            leader_epoch,
            group.read,
            self.now_ms,
            seen=[] if side is None else side.seen,
        )

    def _look(self) -> None:
        for cluster in ("east", "west"):
            if self.is_calm or self.chance.random() < 0.8:
                for group in self.groups:
                    self._see(group, cluster)
        self._tell("look")

    def _see(self, group: Group, cluster: str) -> None:
        side = group.sides.get(cluster)
        if side is None:
            return
        if side.is_absent:
            if side.seen and side.seen[-1].commit.absence is None:
                last = side.seen[-1]
                side.seen.append(replace(last, commit=replace(last.commit, absence=Absence.GONE)))
            return
        commit = Commit(offset=side.offset, topic_id=side.topic_id, leader_epoch=side.leader_epoch)
        side.seen.append(Seen(commit, self.now_ms + self._skew(), side.read, side.made_at_ms))
        move = group.moves.get(cluster)
        if move is not None:
            move.highest = max(move.highest or 0, side.offset)

    def _vanish(self) -> None:
        group = self.chance.choice(self.groups)
        for cluster, side in group.sides.items():
            side.is_absent = True
            self._see(group, cluster)
        self._tell(f"{group.name} is gone")

    def _move(self) -> None:
        group = self.chance.choice(self.groups)
        here, there = group.at, other_than(group.at)
        if here not in group.sides or not self.is_told(group):
            return
        self._see(group, here)
        self._see(group, there)
        place = self.place(group)
        left = group.sides[here].known()
        if place.offset is None or left is None:
            return
        log = self.logs[there]
        if not self.has_been(group, there):
            group.begun_behind[there] = log.numbers(0, place.offset) & self.of_others(here, there)
        seen_before = len(group.sides[there].seen) if there in group.sides else 0
        group.at, group.position = there, place.offset
        self._read_by_moving(group, log, here)
        self._commit(group, None)
        is_recorded = self.chance.random() < 0.7
        if is_recorded:
            group.moves[there] = RecordedMove(
                here,
                left,
                place.offset,
                log.partition.topic_id,
                group.read,
                group.sides[here].made_at_ms,
                seen_before,
                self.now_ms + _CLOCK_OF_OPERATORS * self._skew(),
            )
        else:
            self._see(group, there)
        self._tell(
            f"{group.name} {here}@{left.offset} -> {there}@{place.offset} {place.status}, recorded {is_recorded}"
        )

    def _read_by_moving(self, group: Group, log: Log, left: str) -> None:
        """A group has read what its commit says; what expired, or is decided to be passed, it reads no more."""
        passed = log.numbers(0, group.position) & self.decided[left]
        group.read = group.sides[left].read | log.numbers(0, log.log_start) | passed

    def _rewind(self) -> None:
        """Somebody puts a group back on purpose: it wants to read again what lies between."""
        group = self.chance.choice(self.groups)
        log = self.logs[group.at]
        if group.at not in group.sides or group.sides[group.at].is_absent or group.position > log.end:
            return
        self._commit(group, None)
        self._see(group, group.at)
        if group.position <= log.log_start:
            return
        before, group.position = group.position, self.chance.randint(log.log_start, group.position - 1)
        again = log.numbers(group.position, before)
        group.read -= again
        for move in group.moves.values():
            move.read -= again
        for side in group.sides.values():
            side.read -= again
            side.seen = [replace(one, read=one.read - again) for one in side.seen]
        group.put_back_on.add(log.partition.topic_id)
        self._commit(group, None)
        self._see(group, group.at)
        self._tell(f"{group.name} put back at {group.at} to {group.position}")

    # -- what a reader of the ledger knows -------------------------------------------------------

    def recorded_flows(self) -> list[RecordedFlow]:
        return [RecordedFlow(flow.name, rows) for flow in self.flows for rows in flow.rows.values() if rows]

    def pair(self, here: str, there: str) -> KnownPair:
        if here not in self._pairs:
            self._pairs[here] = self._known_pair(here, there)
        return self._pairs[here]

    def _known_pair(self, here: str, there: str) -> KnownPair:
        here_log, there_log = self.logs[here], self.logs[there]
        return known_pair(
            here=here_log.partition,
            there=there_log.partition,
            flows=self.recorded_flows(),
            ends_here=Ends(log_start=here_log.log_start, high_watermark=here_log.end),
            ends_there=Ends(log_start=there_log.log_start, high_watermark=there_log.end),
            kept_local=there_log.kept_local,
            earlier_incarnations=frozenset(
                f"{log.cluster}-{life}" for log in (here_log, there_log) for life in range(log.life)
            ),
            ways=[flow.way for flow in self.flows],
            relayed=[flow.way for flow in self.flows if flow.is_relay],
        )

    def is_carried(self, source: str, target: str) -> bool:
        ways = set(WORLDS[self.world])
        middle = RELAYING.get(self.world, "none")
        return (source, target) in ways or ((source, middle) in ways and (middle, target) in ways)

    def known_group(self, group: Group) -> KnownGroup:
        here, there = group.sides[group.at], group.sides.get(other_than(group.at))
        move = group.moves.get(group.at)
        return KnownGroup(
            here=here.known(),
            there=None if there is None else there.known(),
            set_there=group.set_at(other_than(group.at)),
            move=None
            if move is None
            else Move(left=move.left, arrived_at=move.arrived_at, here_topic_id=move.target_topic_id),
            highest_seen=here.highest() if move is None else move.highest,
        )

    def place(self, group: Group) -> Place:
        return first_unread(self.pair(group.at, other_than(group.at)), self.known_group(group))

    # -- the oracle ------------------------------------------------------------------------------

    def judged(self) -> list[Group]:
        """Those whose commit a recorder saw, where what the ledger cannot know is not at stake."""
        return [
            group
            for group in self.groups
            if group.at in group.sides
            and group.sides[group.at].seen
            and self.is_told(group)
            and group.put_back_on <= {log.partition.topic_id for log in self.logs.values()}
        ]

    def is_told(self, group: Group) -> bool:
        """Whether of every lost end that commits of the group or rows lie beyond a row tells."""
        return self.maps_are_told() and all(self._is_told(cut, group) for cut in self._lost_ends())

    def _lost_ends(self) -> list[LostEnd]:
        return [
            cut
            for log in self.logs.values()
            for cut in log.lost_ends
            if cut.topic_id == log.partition.topic_id
        ]

    def _is_told(self, cut: LostEnd, group: Group) -> bool:
        if self._tells(cut):
            return True
        sides = [(seen.commit, seen.made_at_ms) for side in group.sides.values() for seen in side.seen[-1:]]
        sides += [(move.left, move.made_at_ms) for move in group.moves.values()]
        return not any(
            commit.topic_id == cut.topic_id and commit.offset > cut.offset and made_at_ms <= cut.at_ms
            for commit, made_at_ms in sides
        )

    def maps_are_told(self) -> bool:
        return all(self._tells(cut) or not cut.is_mapped for cut in self._lost_ends())

    def _tells(self, cut: LostEnd) -> bool:
        """Whether a row tells of it, or leader epochs do."""
        return any(cut in flow.told_ends or begins(cut, flow) for flow in self.flows)

    def read(self, group: Group) -> frozenset[int]:
        """What the group had read when it made the commits that the ledger knows."""
        found = [side.seen[-1].read for side in group.sides.values() if side.seen]
        found += [move.read for move in group.moves.values()]
        return frozenset().union(*found)

    def said(self, group: Group) -> set[int]:
        """What the group has read by what its commits and its last recorded move say, record by record."""
        known, here, there = self.known_group(group), self.logs[group.at], self.logs[other_than(group.at)]
        committed = 0 if known.here is None else known.here.offset
        if known.move is not None and known.highest_seen is None:
            committed = known.move.arrived_at
        read = here.numbers(0, committed)
        if committed >= max(known.highest_seen or 0, 0 if known.move is None else known.move.arrived_at):
            last_there = 0 if known.there is None else known.there.offset
            read |= there.numbers(0, last_there) - here.numbers(0)
            if known.move is not None and known.move.left is not None:
                read |= there.numbers(0, min(known.move.left.offset, last_there))
        return read | self._said_of_others(known, group)

    def _said_of_others(self, known: KnownGroup, group: Group) -> set[int]:
        """Those below its commit there, or below where a move had put it there."""
        there = other_than(group.at)
        left = None if known.move is None else known.move.left
        commits = [one for one in (known.there, left, known.set_there) if one is not None]
        return self.logs[there].numbers(0, commits[0].offset if commits else 0) & self.of_others(
            group.at, there
        )

    def wanted(self, here: str, there: str, group: Group | None = None) -> set[int]:
        """Numbers that lie there and are for groups that come from here, read or not; for this one, if it was there.

        What was written in a life of a topic that is over counts where it has come back, and lies here.
        """
        log, held_here = self.logs[there], self.logs[here].numbers(0)
        found = log.numbers(log.log_start) - self.of_others(here, there)
        over = {number for number in found if self.native_life[number] != self.logs[self.native[number]].life}
        wanted = found - (over - held_here) - self.decided[here] - self.filtered
        return wanted if group is None else wanted | self.wanted_of_others(group, here, there)

    def of_others(self, here: str, there: str) -> set[int]:
        """Numbers there that no flow brings to here, nor from here."""
        ways = set(WORLDS[self.world])
        carried = {here} | {name for name in self.logs if (name, here) in ways or self.is_carried(name, here)}
        return {number for number in self.logs[there].numbers(0) if self.native[number] not in carried}

    def wanted_of_others(self, group: Group, here: str, there: str) -> set[int]:
        """Those that lie there still, but what it passed when it first came there; none for who was never there."""
        if not self.has_been(group, there):
            return set()
        held = self.logs[there].numbers(self.logs[there].log_start)
        return (held & self.of_others(here, there)) - group.begun_behind.get(there, set())

    def has_been(self, group: Group, cluster: str) -> bool:
        """Whether the ledger knows that a group read the log of a cluster."""
        side, left = group.sides.get(cluster), [move.source for move in group.moves.values()]
        return bool(side is not None and side.seen) or cluster in group.moves or cluster in left

    def skipped(
        self,
        here: str,
        there: str,
        read: frozenset[int] | set[int],
        offset: int,
        group: Group | None = None,
    ) -> set[int]:
        """What a group that goes on there from an offset never gets to see, though it is for it and lies there."""
        log = self.logs[there]
        unread = self.wanted(here, there, group) - read - self.taken_back
        if RELAYING.get(self.world) == here:
            unread -= self.coming_again
        return unread & (log.numbers(log.log_start, offset) - log.numbers(offset))

    def told(self) -> str:
        return "\n".join(self.events)
