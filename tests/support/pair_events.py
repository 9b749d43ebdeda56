"""What happens to the logs of `tests.support.pair_lives` and to the flows between them."""

import random
from dataclasses import replace

from ledger.facts.syncs import GapCause, SyncCause, effective, restart_after_target_truncation
from ledger.offsets.first_unread import KnownPair
from ledger.offsets.links import TimedSync
from tests.support.histories import adopted, copied, gaps_of, lost, started, superseded, unpaired
from tests.support.pair_logs import (
    APPLICATION,
    RELAYING,
    SKEW_MS,
    WORLDS,
    Flow,
    Group,
    Log,
    LostEnd,
    Record,
)


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
                RELAYING.get(world) == source,
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
        if RELAYING.get(self.world) == log.cluster:
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
        self._decide(flow, start, end)
        self._tell(f"{flow.source.cluster} keeps [{start}, {end})")

    def _skip(self) -> None:
        flow = self.chance.choice(self.flows)
        self._notice(flow)
        start, end = flow.source_end, min(flow.source_end + self.chance.randint(1, 3), flow.source.end)
        if start < end and (flow.recorded or flow.pending):
            self._decide(flow, start, end)
            flow.pending.append(
                flow.place(replace(lost(start, end, flow.target_end), cause=SyncCause.SKIPPED))
            )
            self._tell(f"{flow.name} skips [{start}, {end})")

    def _decide(self, flow: Flow, start: int, end: int) -> None:
        """What a flow would copy of that does not go to the target, and not further in a chain.

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
        for cluster in {flow.target.cluster, "west" if self.world in RELAYING else flow.target.cluster}:
            self.decided[cluster] |= kept

    def _skew(self) -> int:
        return self.chance.randint(-SKEW_MS, SKEW_MS)
