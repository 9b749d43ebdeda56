"""Cuts: what an answer was computed from, per table and writer the last append that counts.

Rows are only ever added, and a writer's rows of one table are ordered by (epoch, round): so a cut says the same
after files were merged or removed, and on a copy of the ledger (`ledger/PROTOCOL.md`, "Reader requirements").
"""

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ledger.errors import InvalidValueError
from ledger.facts.tables import ROUNDS_PER_EPOCH, place_of

_PREFIX = "v2."
_LARGEST_TOKEN_BYTES = 1 << 20
_LARGEST_EPOCH = (1 << 31) - 1
_LATEST_MS = 1 << 62
_NOT_A_TOKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error)
"""What its parts raise where somebody made it up."""


@dataclass(frozen=True, slots=True, order=True)
class LastAppend:
    """The last append of a writer to a table that counts; `recorded_at_ms` tells it from that of another history."""

    table: str
    writer: str
    epoch: int
    round: int
    recorded_at_ms: int

    @property
    def place(self) -> int:
        return place_of(self.epoch, self.round)


@dataclass(frozen=True, slots=True)
class ClockStep:
    """An append that says an earlier time, `recorded_at_ms`, than its writer's append to the table before, `before_ms`.

    The clock was set back, or the writer has moved to a host whose clock is behind. At a time between the two neither
    counts, nor what comes after them: a time means the appends before the first that was recorded later.
    """

    table: str
    writer: str
    epoch: int
    round: int
    recorded_at_ms: int
    before_ms: int

    @property
    def back_ms(self) -> int:
        return self.before_ms - self.recorded_at_ms


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a ledger the last appends that count, in the order of tables and writers; what it does not name is empty."""

    ledger_id: str
    last: tuple[LastAppend, ...]

    def __post_init__(self) -> None:
        keys = [(append.table, append.writer) for append in self.last]
        if keys != sorted(set(keys)):
            raise InvalidValueError(f"a cut names each table and writer once, in order, got {keys}")
        if not all(map(_can_be_recorded, self.last)):
            raise InvalidValueError(
                f"a cut names epochs, rounds and times that columns can hold, got {self.last}"
            )

    @classmethod
    def of(cls, ledger_id: str, last: Iterable[LastAppend]) -> "Cut":
        return cls(ledger_id, tuple(sorted(last)))

    @classmethod
    def parse(cls, token: str) -> "Cut":
        """The cut that a token names. Raises `InvalidValueError` when it names none."""
        if not token.startswith(_PREFIX):
            raise InvalidValueError(f"a cut token starts with {_PREFIX!r}, got {token!r}")
        try:
            return _cut_of(json.loads(_unpacked(token.removeprefix(_PREFIX))))
        except _NOT_A_TOKEN as error:
            raise InvalidValueError(f"{token!r} is no cut token, or not a whole one") from error

    def of_table(self, table: str) -> tuple[LastAppend, ...]:
        """The last appends to one table."""
        return tuple(append for append in self.last if append.table == table)

    @property
    def token(self) -> str:
        """The cut as a word that can be passed back: JSON, deflated, in the alphabet of URLs."""
        began_ms = min((append.recorded_at_ms for append in self.last), default=0)
        tables: dict[str, dict[str, list[int]]] = {}
        for append in self.last:
            since_ms = append.recorded_at_ms - began_ms
            tables.setdefault(append.table, {})[append.writer] = [append.epoch, append.round, since_ms]
        content = {"ledger": self.ledger_id, "since_ms": began_ms, "tables": tables}
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        packed = zlib.compress(text.encode(), level=9)
        return _PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _can_be_recorded(append: LastAppend) -> bool:
    is_place = 0 <= append.epoch <= _LARGEST_EPOCH and 0 <= append.round < ROUNDS_PER_EPOCH
    return is_place and abs(append.recorded_at_ms) <= _LATEST_MS


def is_token(text: str) -> bool:
    """Whether a text claims to be a cut token; `Cut.parse` says whether it is one."""
    return text.startswith(_PREFIX)


def _unpacked(text: str) -> str:
    packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    opened = zlib.decompressobj()
    content = opened.decompress(packed, _LARGEST_TOKEN_BYTES)
    if not opened.eof or opened.unused_data:
        raise ValueError("it does not end where its content ends")
    return content.decode()


def _cut_of(content: dict[str, Any]) -> Cut:
    json.dumps(content, ensure_ascii=False).encode()  # raises where a name is no Unicode text
    began_ms = int(content["since_ms"])
    return Cut.of(
        str(content["ledger"]),
        (
            LastAppend(table, writer, int(epoch), int(number), began_ms + int(since_ms))
            for table, writers in content["tables"].items()
            for writer, (epoch, number, since_ms) in writers.items()
        ),
    )
