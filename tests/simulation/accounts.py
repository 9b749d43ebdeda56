"""What the ledger says of one flow and source partition, followed offset by offset.

Written from PROTOCOL.md on its own, not from the code that the product reads its ledger with: rows are
taken in the order of recording, and every one must fit what those before it left.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger.facts.syncs import SEQUENCE_MODULUS, GapCause, SyncCause, SyncKind

Row = Mapping[str, Any]
Place = tuple[str, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class At:
    """A record's place at the target."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Expired:
    """A stretch of a target that was deleted before the flow looked; `records` of it were the flow's, by sequence.

    `sequence`: the next one of the flow behind it.
    """

    start: At
    end: int
    records: int
    sequence: int


@dataclass(slots=True)
class Account:
    """What holds after all rows; `position` is where the flow stands, None before its first row.

    `pairs`: source offset to the copy of its record. `adopted`: those of them that something else wrote.
    `gaps` and `lost`: source offsets without one, and why. `unpaired`: own records without a source.
    `expired`: what target logs had deleted before the flow looked. `learned`: where the flow took its sequence from
    what a target remembered, for want of records. `cleaned`: target topic id and sequence of records that a row was
    recorded without, though they had been written before it. `superseded`: where records lie, or lay, that rows spoke
    of which hold no longer. `taken_out`: of these the copies that the target holds still, with their source offset.
    """

    flow: str
    source_topic: str
    source: Place
    start: int = 0
    position: int | None = None
    sequence: int = 0
    producer_id: int | None = None
    target_topic_id: str = ""
    pairs: dict[int, At] = field(default_factory=dict)
    adopted: set[int] = field(default_factory=set)
    gaps: dict[int, GapCause] = field(default_factory=dict)
    lost: dict[int, SyncCause] = field(default_factory=dict)
    unpaired: dict[At, int] = field(default_factory=dict)
    superseded: set[At] = field(default_factory=set)
    taken_out: list[tuple[int, At]] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    learned: list[tuple[At, int]] = field(default_factory=list)
    cleaned: set[tuple[str, int]] = field(default_factory=set)
    kinds: list[SyncKind] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def take(self, row: Row) -> None:
        """Follow one row; `AssertionError` for one that does not fit."""
        kind = SyncKind(row["kind"])
        if self.position is None:
            self.start = self.position = row["source_start"]
        self.rows.append(row)
        self.kinds.append(kind)
        if self.producer_id is not None and row["producer_id"] != self.producer_id:
            self.sequence = 0  # nothing is written with an id before the flow has it
        self.producer_id = row["producer_id"]
        if kind is SyncKind.SUPERSEDED:
            self._supersede(row)
            return
        assert row["source_start"] == self.position, ("L1", self.position, _shortly(row))
        self.target_topic_id = row["target_topic_id"]
        if kind is SyncKind.STARTED:
            self.sequence = row["first_sequence"]
        elif kind is SyncKind.COPIED or kind is SyncKind.ADOPTED:
            self._copy(row, kind)
        elif kind is SyncKind.LOST:
            self.lost |= dict.fromkeys(_covered(row), SyncCause(row["cause"]))
        elif kind is SyncKind.UNPAIRED:
            self._leave_unpaired(row)
        self.position = row["source_end"]

    def _copy(self, row: Row, kind: SyncKind) -> None:
        missing = {
            offset: GapCause(gap["cause"])
            for gap in row["gaps"]
            for offset in range(gap["source_start"], gap["source_end"])
        }
        copied = [offset for offset in _covered(row) if offset not in missing]
        assert row["records"] == len(copied) == row["target_end"] - row["target_start"], _shortly(row)
        self._skip_sequences(row)
        self.gaps |= missing
        for index, offset in enumerate(copied):
            self.pairs[offset] = At(row["target_topic_id"], row["target_start"] + index)
        if kind is SyncKind.ADOPTED:
            self.adopted |= set(copied)
        elif row["former_producer_id"] is None:
            self.sequence = (self.sequence + len(copied)) % SEQUENCE_MODULUS

    def _skip_sequences(self, row: Row) -> None:
        """What is found at a target may lack records that were written before it: cleaners took them."""
        gone = (row["first_sequence"] - self.sequence) % SEQUENCE_MODULUS
        assert not gone or (row["recovered"] and gone < SEQUENCE_MODULUS // 2), (self.sequence, _shortly(row))
        self.cleaned |= {
            (row["target_topic_id"], (self.sequence + n) % SEQUENCE_MODULUS) for n in range(gone)
        }
        self.sequence = row["first_sequence"]

    def _leave_unpaired(self, row: Row) -> None:
        if row["cause"] == SyncCause.RETENTION:
            self._expire(row)
            return
        for offset in range(row["target_start"], row["target_end"]):
            self.unpaired[At(row["target_topic_id"], offset)] = row["target_end"]
        if row["cause"] != SyncCause.REPEATED and row["former_producer_id"] is None:
            self.sequence = (row["first_sequence"] + row["records"]) % SEQUENCE_MODULUS

    def _expire(self, row: Row) -> None:
        assert row["records"] == 0 and row["target_start"] <= row["target_end"], _shortly(row)  # noqa: PT018
        if row["target_start"] == row["target_end"]:
            self.learned.append((At(row["target_topic_id"], row["target_end"]), row["first_sequence"]))
            self.sequence = row["first_sequence"]
            return
        gone = (row["first_sequence"] - self.sequence) % SEQUENCE_MODULUS
        start = At(row["target_topic_id"], row["target_start"])
        self.expired.append(Expired(start, row["target_end"], gone, row["first_sequence"]))
        self.sequence = row["first_sequence"]

    def _supersede(self, row: Row) -> None:
        """What was said of source offsets from here on holds no longer; nor does what the target has lost."""
        start = row["source_start"]
        assert self.position is not None
        assert start <= self.position, ("a supersession beyond what was recorded", _shortly(row))
        self.superseded |= {at for offset, at in self.pairs.items() if offset >= start}
        self.taken_out += [(offset, at) for offset, at in self.pairs.items() if offset >= start]
        if row["cause"] == SyncCause.SOURCE_TRUNCATED:
            self.taken_out = [(offset, at) for offset, at in self.taken_out if offset < start]
        self.taken_out = [(offset, at) for offset, at in self.taken_out if _is_held(at, row)]
        self.pairs = {offset: at for offset, at in self.pairs.items() if offset < start}
        self.adopted = {offset for offset in self.adopted if offset < start}
        self.gaps = {offset: cause for offset, cause in self.gaps.items() if offset < start}
        self.lost = {offset: cause for offset, cause in self.lost.items() if offset < start}
        gone = {at for at, end in self.unpaired.items() if _is_deleted(at, end, row)}
        if row["cause"] != SyncCause.SETTLED:
            self.superseded |= gone  # what was settled lies there still: it is to be told of again
        self.unpaired = {at: end for at, end in self.unpaired.items() if at not in gone}
        self.start = min(self.start, start)
        self.position = start
        self.sequence = row["first_sequence"]
        self.target_topic_id = row["target_topic_id"]

    def earlier_copies(self) -> list[tuple[int, int]]:
        """Source and target offset of copies of what was not copied again."""
        assert self.position is not None
        return [
            (offset, at.offset)
            for offset, at in self.taken_out
            if offset in self.lost or offset >= self.position
        ]

    @property
    def told(self) -> set[At]:
        """Every place at the target that a row speaks of, whether it still holds or not."""
        return {*self.pairs.values(), *self.unpaired, *self.superseded}


def accounts(rows: Iterable[Row]) -> dict[tuple[str, Place], Account]:
    """By flow and source partition, from the rows of `offset_syncs`."""
    found: dict[tuple[str, Place], Account] = {}
    for row in sorted(rows, key=_recorded):
        place = (row["source_topic_id"], row["source_partition"])
        key = (row["flow"], place)
        account = found.setdefault(key, Account(row["flow"], row["source_topic"], place))
        account.take(row)
    return found


def _is_held(at: At, row: Row) -> bool:
    """Whether the target that the flow continues at holds an earlier copy still."""
    is_below: bool = at.offset < row["target_start"]
    return at.topic_id == row["target_topic_id"] and is_below


def _is_deleted(at: At, end: int, row: Row) -> bool:
    """An unpaired stretch that the target lost a part of is not told any more, from its `end` back to its start.

    Nor is one that was settled.
    """
    is_void: bool = (
        row["cause"] in (SyncCause.TARGET_TRUNCATED, SyncCause.SETTLED) and end > row["target_start"]
    )
    is_elsewhere: bool = at.topic_id != row["target_topic_id"]
    return is_void or is_elsewhere


def _recorded(row: Row) -> tuple[Any, ...]:
    """Within a round a superseded row is the last word, of two the lower one."""
    is_last_word = row["kind"] == SyncKind.SUPERSEDED
    end = -row["source_start"] if is_last_word else row["source_end"]
    return row["writer_epoch"], row["round"], is_last_word, end, row["target_end"]


def _covered(row: Row) -> range:
    return range(row["source_start"], row["source_end"])


def _shortly(row: Row) -> str:
    names = ("kind", "cause", "source_start", "source_end", "target_start", "target_end", "first_sequence")
    return ", ".join(f"{name} {row[name]}" for name in ("writer_epoch", "round", *names))


def walk(account: Account) -> Iterator[str]:
    """The rows in words, for whoever reads a failure."""
    yield from map(_shortly, account.rows)
