"""Lives of an application that writes what it reads, a recorder that watches it and a mirror that copies both.

What was read, written and copied is kept here, record by record: the ledger that the recorder and the mirror write is
asked for none of it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ledger.facts.tables import SHARE_OFFSETS, place_of
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

GROUP, INPUT, OUTPUT = "billing", "orders", "invoices"
OUTPUT_PARTITIONS = 2
_IDS = {INPUT: "T-orders", OUTPUT: "T-invoices"}
Key = tuple[str, int]
"""A topic and a partition."""


@dataclass
class WorkedApplication:
    """East has orders and invoices; the application writes invoices for each order, then commits behind it.

    `invoices`: by order the places of what was written for it. `ends`: of each partition at east, `copied`: up to where
    the mirror has come, `lacking`: what is not at west below that. `recorded_commits`: what the recorder told of
    commits, by place in its order.
    """

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    ends: dict[Key, int] = field(default_factory=dict)
    copied: dict[Key, int] = field(default_factory=dict)
    lacking: set[tuple[Key, int]] = field(default_factory=set)
    invoices: list[list[tuple[int, int]]] = field(default_factory=list)
    committed: int = 0
    recorded_commits: list[tuple[int, int]] = field(default_factory=list)
    _round: int = 0
    _epoch: int = 1
    _now_ms: int = 1_000_000
    _mirror_round: int = 0
    _told_ends: dict[Key, int] = field(default_factory=dict)
    _told_commit: int | None = None

    def __post_init__(self) -> None:
        self.ends = {(INPUT, 0): 0} | {(OUTPUT, number): 0 for number in range(OUTPUT_PARTITIONS)}
        self.copied = dict.fromkeys(self.ends, 0)
        claim = {"event": "claimed", "source_cluster": "east", "target_cluster": "west"}
        self.ledger.append("writers", [row("writers", flow="east-to-west", **claim)])

    # What happens ------------------------------------------------------------------------------

    def order(self, orders: int) -> None:
        self.ends[INPUT, 0] += orders

    def work(self, choices: random.Random) -> None:
        """Write for the next order, and commit behind it now or later."""
        if len(self.invoices) == self.ends[INPUT, 0]:
            return
        written = []
        for _ in range(choices.choice((0, 1, 1, 2))):
            partition = choices.randrange(OUTPUT_PARTITIONS)
            written.append((partition, self.ends[OUTPUT, partition]))
            self.ends[OUTPUT, partition] += 1
        self.invoices.append(written)
        if choices.random() < 0.7:
            self.committed = len(self.invoices)

    def mirror(self, key: Key, records: int) -> None:
        """Copy so many records more of a partition, and record it; no more than there are."""
        start = self.copied[key]
        end = min(start + records, self.ends[key])
        if start < end:
            self._synced(key, start, end, kind="copied", target_end=self._at_west(key, start) + end - start)

    def lose(self, key: Key, records: int, cause: str = "retention") -> None:
        """So many records more are gone before they were copied, and the mirror goes on behind them."""
        start = self.copied[key]
        end = min(start + records, self.ends[key])
        if start < end:
            self.lacking |= {(key, offset) for offset in range(start, end)}
            self._synced(key, start, end, kind="lost", cause=cause, target_end=self._at_west(key, start))

    def mirror_without(self, key: Key, offset: int, cause: str, *, is_seen: bool) -> None:
        """Copy all but one offset; `is_seen`: applications would have read it at east."""
        start, end = self.copied[key], self.ends[key]
        if is_seen:
            self.lacking.add((key, offset))
        gaps = [{"source_start": offset, "source_end": offset + 1, "cause": cause}]
        target_end = self._at_west(key, start) + end - start - 1
        self._synced(key, start, end, kind="copied", target_end=target_end, gaps=gaps)

    def _at_west(self, key: Key, offset: int) -> int:
        return offset - sum(where == key and at < offset for where, at in self.lacking)

    def _synced(
        self,
        key: Key,
        start: int,
        end: int,
        *,
        kind: str,
        target_end: int,
        cause: str | None = None,
        gaps: Sequence[object] = (),
    ) -> None:
        self._mirror_round += 1
        topic, partition = key
        target_start = self._at_west(key, start)
        sync = row(
            "offset_syncs",
            flow="east-to-west",
            source_cluster="east",
            target_cluster="west",
            source_topic=topic,
            source_topic_id=_IDS[topic],
            source_partition=partition,
            target_topic=topic,
            target_topic_id=f"{_IDS[topic]}-west",
            target_partition=partition,
            source_start=start,
            source_end=end,
            target_start=target_start,
            target_end=target_end,
            gaps=list(gaps),
            kind=kind,
            cause=cause,
            records=target_end - target_start,
            writer_epoch=1,
            round=self._mirror_round,
        )
        self.ledger.append("offset_syncs", [sync])
        self.copied[key] = end

    def record(self, between: Callable[[], None] = lambda: None, *, confirm: bool = False) -> None:
        """A round of the recorder: the commit, then the ends, rows for what changed; `between`: what happens meanwhile.

        `confirm`: with a sign that all ends are what was recorded last.
        """
        self._round += 1
        self._now_ms += 1000
        if self._told_commit != self.committed:
            self._told_commit = self.committed
            self.recorded_commits.append((place_of(self._epoch, self._round), self.committed))
            self._append("checkpoints", group_id=GROUP, topic=INPUT, committed_offset=self.committed)
        between()
        for (topic, partition), end in self.ends.items():
            if self._told_ends.get((topic, partition)) != end:
                self._told_ends[topic, partition] = end
                self._append(
                    "high_watermarks", topic=topic, partition=partition, last_stable=end, high_watermark=end
                )
        if confirm:
            self.sign()

    def sign(self) -> None:
        """All ends are what this epoch of the recorder has told last."""
        self._round += 1
        sign = {"event": "alive", "flow": None, "source_cluster": "east"}
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        self.ledger.append("writers", [row("writers", **sign, **at)])

    def tell_topic(self, topic: str, *, partitions: int) -> None:
        """The recorder reads how many partitions a topic has."""
        self._round += 1
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        what = {"topic": topic, "topic_id": _IDS[topic], "partitions": partitions, "event": "created"}
        self.ledger.append("topics", [row("topics", cluster="east", configuration="{}", **what, **at)])

    def tell_log_start(self) -> None:
        """Retention has taken all of the outputs, and the recorder reads where they begin now."""
        self._round += 1
        self._now_ms += 1000
        for (topic, partition), end in self.ends.items():
            if topic == OUTPUT:
                ends = {"log_start": end, "last_stable": end, "high_watermark": end}
                self._append("high_watermarks", topic=topic, partition=partition, **ends)

    def restart_recorder(self) -> None:
        """Another epoch of it, which records all that it finds."""
        self._epoch += 1
        self._round = 0
        self._told_ends, self._told_commit = {}, None

    def share_group(self, group: str) -> None:
        """What the recorder told of the group is told of a share group as well."""
        for one in self.ledger.rows("checkpoints"):
            told = {name: one[name] for name in SHARE_OFFSETS.column_names if name in one}
            what = {"group_id": group, "start_offset": one["committed_offset"]}
            self.ledger.append("share_offsets", [row("share_offsets", **{**told, **what})])

    def _append(self, table: str, *, topic: str, **values: object) -> None:
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        where = {"cluster": "east", "topic": topic, "topic_id": _IDS[topic], "read_at_ms": self._now_ms}
        self.ledger.append(table, [row(table, writer="recorder:east", **where, **at, **values)])

    # What is true ------------------------------------------------------------------------------

    def lost_below(self, order: int) -> list[tuple[int, int]]:
        """Places of invoices for orders below one that are not at west: who continues there never writes them."""
        return [
            (partition, offset)
            for written in self.invoices[:order]
            for partition, offset in written
            if offset >= self.copied[OUTPUT, partition] or ((OUTPUT, partition), offset) in self.lacking
        ]
