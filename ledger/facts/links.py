"""Links: each append of a writer to a table is chained to the one before, so that no row changes unnoticed.

A link is a hash over the rows of an append and over the link before it (`ledger/PROTOCOL.md`, "Links"). It is kept
in a column of its own, of the first row of the append, which no view and no answer reads. The last link of each chain,
its head, says what all rows before it were: who keeps heads elsewhere finds what is cut off or put back.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.facts.tables import place_of

LINK = "link"
"""The column; nullable, in every table."""
_FORM = "v1"
_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, slots=True, order=True)
class Head:
    """The link of an append, where nothing that is known follows it."""

    table: str
    writer: str
    epoch: int
    round: int
    link: str

    @property
    def place(self) -> int:
        return place_of(self.epoch, self.round)


def link_of(table: str, previous: str | None, content: str) -> str:
    """The link of an append with this content, from that before it; None: it is the first of its chain."""
    text = f"{table}\n{previous or ''}\n{content}"
    return f"{_FORM}.{_digest(text)}"


def content_of(columns: Mapping[str, Sequence[object]]) -> str:
    """What tells the rows of an append from others: the values by column, of the rows as `row_order` has them.

    Columns without any value are left out.
    """
    said = (
        f"{_json(name)}:[{_listed(columns[name])}]"
        for name in sorted(columns)
        if name != LINK and any(value is not None for value in columns[name])
    )
    return _digest(f"{{{','.join(said)}}}")


def _listed(values: Sequence[object]) -> str:
    """As in a list of JSON; one that all rows have is written once: that is most of what a link costs."""
    first = values[0]
    if type(first) in (str, int) and values.count(first) == len(values):
        return ",".join([_json(first)] * len(values))
    return _json(values)[1:-1]


def row_order(keys: Sequence[Sequence[object]], rows: int) -> list[int]:
    """The rows of an append by number, sorted by the values of key columns, nulls last; equal ones in their order."""
    if not keys:
        return list(range(rows))
    columns = [[(value is None, value) for value in values] if None in values else values for values in keys]
    return sorted(range(rows), key=list(zip(*columns, strict=True)).__getitem__)


def root_of(heads: Iterable[Head]) -> str:
    """One hash for all rows up to these heads."""
    lines = (f"{one.table}\n{one.writer}\n{one.epoch}\n{one.round}\n{one.link}\n" for one in sorted(heads))
    return _digest("".join(lines))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
