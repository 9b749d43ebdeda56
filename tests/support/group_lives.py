"""Generated lives of two clusters and of groups that move between them: judged by what was read and by the logs."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ledger.facts.syncs import Absence, GapCause, PartitionPair, SyncCause, effective
from ledger.facts.truncation import restart_after_target_truncation
from tests.support.algebra.first_unread import Ends, KnownPair, Place, first_unread, known_pair
from tests.support.algebra.links import RecordedFlow, TimedSync
from tests.support.algebra.read import KnownGroup, Move
from tests.support.algebra.translation import Commit
from tests.support.group_logs import (
    APPLICATION,
    RELAYING,
    SKEW_MS,
    STEP_MS,
    WORLDS,
    Flow,
    Group,
    Log,
    LostEnd,
    Record,
    RecordedMove,
    Seen,
    Side,
    begins,
    other_than,
)
from tests.support.histories import adopted, copied, gaps_of, lost, started, superseded, unpaired

# -- What happens to logs and flows ----------------------------------------------------------------


class FlowEvents:
    """`is_calm`: every flow records what it does, and nothing is lost, taken back, or copied again."""

    def __init__(self, seed: int, world: str, *, is_calm: bool) -> None:
        self.chance = random.Random(seed)
        self.world, self.is_calm = world, is_calm
        self.logs = {name: Log(name) for name in ("east", "west", "north")}
        self.flows = [
            Flow(
                f"{source}-to-{target}",
                self.logs[source],
                self.logs[target],
                RELAYING.get(world) == (source, target),
            )
            for source, target in WORLDS[world]
        ]
        self.groups = [
            Group(f"group-{number}", self.chance.choice(["east", "west"]), number % 2 == 0)
            for number in range(3)
        ]
        self.now_ms = 0
        self.native: dict[int, str] = {}
        self.native_life: dict[int, int] = {}
        self.filtered: set[int] = set()
        self.decided: dict[str, set[int]] = {name: set() for name in self.logs}
        """By cluster: what a decision keeps from going there."""
        self.taken_back: set[int] = set()
        self.coming_again: set[int] = set()
        """What a log lost that is relayed: it is brought there once more, and further, behind what lies there."""
        self.events: list[str] = []
        self._numbers = iter(range(100_000))
        self._pairs: dict[str, KnownPair] = {}
        """Of this moment, by where a group is."""

    def is_relayed(self, cluster: str) -> bool:
        """Whether a flow copies from there also what mirrors wrote."""
        return RELAYING.get(self.world, ("none",))[0] == cluster

    def _tell(self, what: str) -> None:
        self.events.append(what)

    def _write(self) -> None:
        names = {name for one in WORLDS[self.world] for name in one}
        log = self.logs[self.chance.choice(sorted(names))]
        for _ in range(self.chance.randint(1, 4)):
            number = next(self._numbers)
            self.native[number] = log.cluster
            self.native_life[number] = log.life
            is_filtered = self.chance.random() < 0.1
            if is_filtered:
                self.filtered.add(number)
            log.append(number, APPLICATION, is_filtered=is_filtered)
        if self.chance.random() < 0.3 and not self.is_calm:
            log.append(None, APPLICATION)
        self._tell(f"write {log.cluster} to {log.end}")

    def _copy(self) -> None:
        flow = self.chance.choice(self.flows)
        self._notice(flow)
        if not flow.recorded and not flow.pending:
            flow.pending.append(flow.place(started(flow.source_end, flow.target_end)))
        if flow.source.log_start > flow.source_end:
            flow.pending.append(flow.place(lost(flow.source_end, flow.source.log_start, flow.target_end)))
        for start, end in flow.source.kept_local:
            if flow.source_end == start:
                flow.pending.append(flow.place(lost(start, end, flow.target_end)))
        limit = min(
            (start for start, _ in flow.source.kept_local if start >= flow.source_end),
            default=flow.source.end,
        )
        end = min(flow.source_end + self.chance.randint(1, 6), flow.source.end, limit)
        self._copy_to(flow, end)
        if self.is_calm or self.chance.random() < 0.7:
            self._record(flow)
        self._tell(
            f"{flow.name} copied to {flow.source_end} at {flow.target_end}, {len(flow.pending)} pending"
        )

    def _copy_to(self, flow: Flow, end: int, *, is_adopted: bool = False) -> None:
        taken = flow.source.records[flow.source_end : end]
        for epoch in sorted({record.leader_epoch for record in taken}):
            of_epoch = [record for record in taken if record.leader_epoch == epoch]
            causes = [self._left_out(flow, record) for record in of_epoch]
            carried = [record for record, cause in zip(of_epoch, causes, strict=True) if cause is None]
            start = flow.source_end
            target_start = flow.target.end if carried else flow.target_end
            row = (adopted if is_adopted else copied)(
                start, start + len(of_epoch), target_start, *gaps_of(start, causes)
            )
            for record in carried:
                flow.target.append(record.number, flow.name)
            flow.pending.append(flow.place(row, epoch))

    def _left_out(self, flow: Flow, record: Record) -> GapCause | None:
        if record.number is None:
            return GapCause.CONTROL
        if record.is_filtered:
            return GapCause.FILTERED
        if record.writer == APPLICATION or flow.is_relay or record.number in flow.returning:
            return None
        return GapCause.MIRROR_WRITE

    def _record(self, flow: Flow) -> None:
        self._pairs.clear()
        at_ms = self.now_ms + self._skew()
        for sync in flow.pending:
            flow.rows.setdefault(sync.source.topic_id, []).append(TimedSync(sync, at_ms))
        flow.pending = []

    def _notice(self, flow: Flow) -> None:
        """What a driver finds of its logs before it copies on: another life, or a lost end."""
        if flow.source_life != flow.source.life:
            flow.source_life, flow.pending, flow.source_end = flow.source.life, [], 0
            flow.target_end = flow.target.end
        if flow.target_life != flow.target.life:
            self._record(flow)
            flow.target_life = flow.target.life
            if flow.recorded:
                row = superseded(0, flow.source_end, 0, SyncCause.TARGET_RECREATED)
                flow.pending.append(flow.place(replace(row, source_end=0)))
                self._record(flow)
            flow.source_end = flow.target_end = 0
        cuts = self._new_lost_ends(flow, flow.source)
        end = min((cut.offset for cut in cuts), default=flow.source_end)
        if flow.source_end > end:
            self._notice_source(flow, end, cuts)
        cuts = self._new_lost_ends(flow, flow.target)
        end = min((cut.offset for cut in cuts), default=flow.target_end)
        if flow.target_end > end:
            self._record(flow)
            self._notice_target(flow, end)
            flow.told_ends |= cuts

    def _new_lost_ends(self, flow: Flow, log: Log) -> set[LostEnd]:
        seen = flow.lost_ends_seen.get(log.cluster, 0)
        flow.lost_ends_seen[log.cluster] = len(log.lost_ends)
        return {cut for cut in log.lost_ends[seen:] if cut.topic_id == log.partition.topic_id}

    def _notice_source(self, flow: Flow, end: int, cuts: set[LostEnd]) -> None:
        if self.chance.random() < 0.5:
            self._forget_pending(flow, end)
        self._record(flow)
        if flow.source_end > end:
            row = superseded(end, flow.source_end, flow.target_end, SyncCause.SOURCE_TRUNCATED)
            flow.pending.append(flow.place(row))
            flow.source_end = end
            flow.told_ends |= cuts
            self._record(flow)

    def _forget_pending(self, flow: Flow, end: int) -> None:
        """The driver died before it recorded: of what the source lost meanwhile, the copies cannot be paired."""
        kept = [sync for sync in flow.pending if sync.source_end <= end]
        written = [sync for sync in flow.pending if sync.source_end > end and sync.records]
        if len(kept) == len(flow.pending) or not (kept or flow.recorded):
            return
        before = kept[-1] if kept else effective([row.sync for row in flow.recorded])[-1]
        flow.pending = kept
        flow.source_end, flow.target_end = before.source_end, before.target_end
        for sync in written:
            flow.pending.append(flow.place(unpaired(flow.source_end, sync.target_start, sync.records)))

    def _notice_target(self, flow: Flow, end: int) -> None:
        holding = [
            sync
            for sync in effective([row.sync for row in flow.recorded])
            if sync.target.topic_id == flow.target.partition.topic_id
        ]
        at = restart_after_target_truncation(holding, end, next_sequence=0)
        start = flow.source_end if at is None else at.source_offset
        row = superseded(start, flow.source_end, end, SyncCause.TARGET_TRUNCATED)
        flow.pending.append(flow.place(row))
        flow.source_end = start
        self._record(flow)

    def _lose_the_end(self) -> None:
        log = self.logs[self.chance.choice(["east", "west"])]
        offset = max(log.end - self.chance.randint(1, 6), log.log_start)
        self._lose_what_is_relayed(log, offset)
        self.taken_back |= {number for number in log.numbers(offset) if self.native[number] == log.cluster}
        del log.records[offset:]
        log.leader_epoch += 1
        is_mapped = any(flow.reaches_beyond(log.partition.topic_id, offset) for flow in self.flows)
        log.lost_ends.append(
            LostEnd(log.partition.topic_id, offset, log.leader_epoch, self.now_ms, is_mapped)
        )
        log.kept_local = [(start, end) for start, end in log.kept_local if end <= offset]
        for group in self.groups:
            if group.at == log.cluster:
                group.position = min(group.position, offset)
        self._tell(f"{log.cluster} lost all from {offset}")

    def _lose_what_is_relayed(self, log: Log, offset: int) -> None:
        if self.is_relayed(log.cluster):
            self.coming_again |= {one for one in log.numbers(offset) if self.native[one] != log.cluster}

    def _expire(self) -> None:
        log = self.logs[self.chance.choice(["east", "west"])]
        log.log_start = self.chance.randint(log.log_start, log.end)
        for group in self.groups:
            if group.at == log.cluster and group.position < log.log_start:
                group.read |= log.numbers(group.position, log.log_start)  # so its next commit says
                group.position = log.log_start
        self._tell(f"{log.cluster} starts at {log.log_start}")

    def _resync(self) -> None:
        flow = self.chance.choice(self.flows)
        self._notice(flow)
        self._record(flow)
        if not flow.recorded:
            return
        first = min((row.sync.source_start for row in flow.recorded), default=0)
        start = self.chance.randint(min(first, flow.source_end), flow.source_end)
        row = superseded(start, flow.source_end, flow.target_end)
        flow.pending.append(flow.place(row))
        flow.source_end = start
        self._record(flow)
        self._tell(f"{flow.name} again from {start}")

    def _recreate(self) -> None:
        if self.chance.random() < 0.6:
            return
        log = self.logs[self.chance.choice(["east", "west"])]
        self.taken_back |= {
            number
            for number in log.numbers(0)
            if self.native[number] == log.cluster and not self._is_elsewhere(number, log)
        }
        held = log.numbers(0)
        self._lose_what_is_relayed(log, 0)
        log.records, log.leader_epoch, log.log_start, log.life = [], 0, 0, log.life + 1
        log.kept_local = []
        for flow in self.flows:
            if flow.target is log:
                flow.returning |= held
        for group in self.groups:
            if group.at == log.cluster:
                group.position = 0
        self._tell(f"{log.cluster} recreated")

    def _is_elsewhere(self, number: int, log: Log) -> bool:
        return any(number in other.numbers(0) for other in self.logs.values() if other is not log)

    def _adopt(self) -> None:
        """Something else had copied before the flow began."""
        flow = self.flows[0]
        self._write_to(flow.source, self.chance.randint(1, 6))
        flow.pending.append(flow.place(started(0, 0)))
        self._copy_to(flow, flow.source.end, is_adopted=True)
        self._record(flow)
        self._tell(f"{flow.name} adopted to {flow.source_end}")

    def _write_to(self, log: Log, records: int) -> None:
        for _ in range(records):
            number = next(self._numbers)
            self.native[number] = log.cluster
            self.native_life[number] = log.life
            log.append(number, APPLICATION)

    def _keep_local(self) -> None:
        """What lies behind the end of a flow's map at its source is decided to stay there."""
        flow = self.chance.choice(self.flows)
        if flow.source.kept_local or flow.pending or self.chance.random() < 0.5:
            return
        self._notice(flow)
        start, end = flow.source_end, flow.source.end
        if start >= end or flow.source.cluster == "north":
            return
        flow.source.kept_local.append((start, end))
        self._decide(flow, start, end, set(self.logs) - {flow.source.cluster})
        self._tell(f"{flow.source.cluster} keeps [{start}, {end})")

    def _skip(self) -> None:
        flow = self.chance.choice(self.flows)
        self._notice(flow)
        start, end = flow.source_end, min(flow.source_end + self.chance.randint(1, 3), flow.source.end)
        if start < end and (flow.recorded or flow.pending):
            further = {"west"} if self.is_relayed(flow.target.cluster) else set()
            self._decide(flow, start, end, {flow.target.cluster} | further)
            flow.pending.append(
                flow.place(replace(lost(start, end, flow.target_end), cause=SyncCause.SKIPPED))
            )
            self._tell(f"{flow.name} skips [{start}, {end})")

    def _decide(self, flow: Flow, start: int, end: int, clusters: set[str]) -> None:
        """What a flow would copy of that does not go to some clusters.

        What other flows have written there is recorded before: who decides has looked at what is nobody's copy.
        """
        for other in self.flows:
            if other.target is flow.source:
                self._record(other)
        kept = {
            record.number
            for record in flow.source.records[start:end]
            if record.number is not None and self._left_out(flow, record) is None
        }
        for cluster in clusters:
            self.decided[cluster] |= kept

    def _skew(self) -> int:
        return self.chance.randint(-SKEW_MS, SKEW_MS)


# -- Lives -----------------------------------------------------------------------------------------
# Every record has a number that its copies keep. What a group has read is a set of numbers; what lies in a log is a
# list
# of them. The ledger is the rows that flows have recorded so far, and the commits that recorders saw; it knows nothing
# of numbers. A life prints its seed and its events.

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
            self._pairs[here] = self.known_pair(here, there, [flow.way for flow in self.flows])
        return self._pairs[here]

    def known_pair(self, here: str, there: str, ways: Sequence[PartitionPair]) -> KnownPair:
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
            ways=ways,
            relayed=[flow.way for flow in self.flows if flow.is_relay],
        )

    def is_carried(self, source: str, target: str) -> bool:
        ways = WORLDS[self.world]
        return (source, target) in ways or any(
            (source, middle) in ways and RELAYING.get(self.world) == (middle, target) for middle in self.logs
        )

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
        if self.is_relayed(here):
            unread -= self.coming_again
        return unread & (log.numbers(log.log_start, offset) - log.numbers(offset))

    def told(self) -> str:
        return "\n".join(self.events)
