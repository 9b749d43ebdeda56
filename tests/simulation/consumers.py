"""Groups that read and commit at a simulated cluster, each remembering which records it has really read.

They read committed records from the log start, as consumers with `auto.offset.reset=earliest` do. One that
names leader epochs, in its fetches and its commits, is put back to where a log was truncated (KIP-320); one
that does not reads on at its offset. What lies below its position then, it has passed by its own choice.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger.kafka.batches import batches
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog, Read
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.readings import Identity, Readings

_FETCH_BYTES = 3_000
_NAMES = ("steady", "eager", "forgetful")


@dataclass(slots=True)
class Commit:
    """What a group committed for a partition. `epoch`: of the last batch it had read, named in the commit or not."""

    offset: int
    epoch: int | None


@dataclass(slots=True)
class Reader:
    """A group at one partition of one life of a topic.

    `read`: records that it has read, or passed by its own choice, as of `commit`. `ahead`: the same since then.
    """

    position: int = 0
    epoch: int | None = None
    commit: Commit | None = None
    read: set[Identity] = field(default_factory=set)
    ahead: set[Identity] = field(default_factory=set)

    def confirm(self, commit: Commit) -> None:
        self.commit = commit
        self.read |= self.ahead
        self.ahead.clear()

    def restart(self) -> None:
        """The consumer is another one and begins where the group had committed; without a commit, at the log start."""
        self.ahead.clear()
        self.position = 0 if self.commit is None else self.commit.offset
        self.epoch = None if self.commit is None else self.commit.epoch


@dataclass(slots=True)
class Group:
    """A consumer group: how it goes about reading, and where it is; `readers` by topic id and partition."""

    group_id: str
    names_epochs: bool
    pause_s: float
    reads_until_s: float
    readers: dict[tuple[str, int], Reader] = field(default_factory=dict)


class Consumers:
    """The groups of one cluster."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        cluster: MemoryCluster,
        readings: Readings,
        tally: Counter[str],
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        self._cluster = cluster
        self._readings = readings
        self._tally = tally
        self._groups = {
            name: self._draw_group(name)
            for name in (f"{cluster.alias}-{one}" for one in _NAMES[: rng.randint(1, len(_NAMES))])
        }

    @property
    def groups(self) -> Mapping[str, Group]:
        return self._groups

    def _draw_group(self, group_id: str) -> Group:
        """Many stop reading early: what happens to the log afterwards happens below their commits."""
        return Group(
            group_id,
            names_epochs=self._rng.random() < 0.7,
            pause_s=self._rng.choice((0.02, 0.05, 0.2)),
            reads_until_s=self._rng.choice((self._rng.uniform(0.3, 6.0), 1e6)),
        )

    def start(self) -> None:
        for group in self._groups.values():
            self._poll_later(group)

    def stop(self) -> None:
        for group in self._groups.values():
            group.reads_until_s = self._schedule.monotonic()

    def _poll_later(self, group: Group) -> None:
        def poll() -> None:
            if self._schedule.monotonic() < group.reads_until_s:
                if self._cluster.available:
                    self._poll(group)
                self._poll_later(group)

        self._schedule.after(self._rng.uniform(0.5, 1.5) * group.pause_s, poll)

    def _poll(self, group: Group) -> None:
        topic = self._rng.choice([*self._cluster.topic_by_name.values(), None])
        if topic is None or not topic.logs:
            return
        number = self._rng.randrange(len(topic.logs))
        log = topic.logs[number]
        reader = group.readers.setdefault((topic.topic_id, number), Reader())
        if self._rng.random() < 0.05:
            reader.restart()
        self._read(group, reader, topic.name, log)
        if self._rng.random() < 0.7:
            self._commit(group, reader, topic.name, number)

    def _commit(self, group: Group, reader: Reader, topic: str, number: int) -> None:
        reader.confirm(Commit(reader.position, reader.epoch))
        key = (group.group_id, topic, number)
        self._cluster.committed[key] = reader.position
        self._cluster.committed_epochs[key] = reader.epoch if group.names_epochs else None
        self._tally["commits with a leader epoch" if group.names_epochs else "commits without one"] += 1

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, group: Group, reader: Reader, topic: str, log: PartitionLog) -> None:
        if log.garbling is not None:
            return  # a consumer cannot read that either, and tries again
        read = _fetch(log, reader, last_epoch=reader.epoch if group.names_epochs else None)
        if read.error:
            # What was deleted before the group came to it, it has passed.
            self._pass(reader, topic, log, reader.position, log.log_start)
            reader.position, reader.epoch = log.log_start, None
            self._tally["consumers out of range"] += 1
        elif read.diverging is not None:
            reader.position = max(read.diverging.end, log.log_start)
            reader.epoch = read.diverging.epoch
            self._tally["consumers put back"] += 1
        else:
            self._take(reader, topic, log, read)

    def _take(self, reader: Reader, topic: str, log: PartitionLog, read: Read) -> None:
        """Read on, up to the end of what was fetched or to a record on the way there."""
        if log.garbling is not None:
            return  # what fails a consumer's own checks moves nobody on
        fetched = [header for header, _batch in batches(memoryview(bytearray(read.records)))]
        if not fetched or fetched[-1].end_offset <= reader.position:
            return
        end = fetched[-1].end_offset
        if self._rng.random() < 0.5:
            end = self._rng.randint(reader.position + 1, end)
        self._pass(reader, topic, log, _agreed_end(log, reader), end)
        reader.position = end
        passed = [header.leader_epoch for header in fetched if header.base_offset < end]
        reader.epoch = passed[-1] if passed else reader.epoch  # none within a hole that a cleaner left

    def _pass(self, reader: Reader, topic: str, log: PartitionLog, start: int, end: int) -> None:
        """Whatever lies there is behind the group, also what a cleaner or retention had taken already."""
        reader.ahead |= {identity for _, identity in self._readings.written(topic, log, start, end)}


def _fetch(log: PartitionLog, reader: Reader, *, last_epoch: int | None) -> Read:
    return log.read(
        reader.position, committed=True, max_bytes=_FETCH_BYTES, at_least_one=True, last_epoch=last_epoch
    )


def _agreed_end(log: PartitionLog, reader: Reader) -> int:
    """Up to where the log still is what the reader has read; above that it reads on, or passes, what is new."""
    if reader.epoch is None:
        return reader.position
    read = _fetch(log, reader, last_epoch=reader.epoch)
    if read.error:
        return log.log_start
    return reader.position if read.diverging is None else read.diverging.end


def lost_from(log: PartitionLog, commit: Commit) -> int | None:
    """From where on the log has lost records that were read before the commit; None where it has not."""
    end = _agreed_end(log, Reader(commit.offset, commit.epoch))
    return end if commit.epoch is not None and end < commit.offset else None
