"""What questions are made of, checked before anything is read: bad values are errors of ours, whoever calls."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from ledger.adapters.delta.snapshots import parse_time
from ledger.app.group_offsets import Chosen
from ledger.domain.words.unicode_text import is_unicode
from ledger.errors import UsageError

AsOf: TypeAlias = str | int | datetime | None
"""A time (ISO-8601 with an offset, milliseconds since the epoch, or a `datetime` with a zone), an operation id, a cut
token; None: now."""


def text(name: str, value: object) -> str:
    """Raises `UsageError` for what is no text, or none that UTF-8 can write: no row can be equal to it."""
    if not isinstance(value, str) or not is_unicode(value):
        raise UsageError(f"{name} is Unicode text, got {value!r}; nothing was read")
    return value


def whole_number(name: str, value: object) -> int:
    if type(value) is not int:
        raise UsageError(f"{name} is a whole number, got {value!r}; nothing was read")
    return value


def as_of_text(as_of: AsOf) -> str | None:
    """As `--as-of` has it."""
    if as_of is None:
        return None
    if isinstance(as_of, datetime):
        return as_of.isoformat()
    return text("as_of", as_of) if isinstance(as_of, str) else str(whole_number("as_of", as_of))


def chosen(groups: Sequence[str], topic: str | None, partition: int | None) -> Chosen:
    """Raises `UsageError` for a partition without its topic, too."""
    if isinstance(groups, str):
        raise UsageError(f"groups is a list of names, got the text {groups!r}; nothing was translated")
    for group in groups:
        text("a group", group)
    if topic is not None:
        text("topic", topic)
    if partition is not None:
        whole_number("partition", partition)
        if topic is None:
            raise UsageError("a partition needs its topic; nothing was translated")
    return Chosen(tuple(groups), topic, partition)


def time_ms(at: AsOf) -> int:
    """A time, and no other cut, in milliseconds since the epoch."""
    at_ms = parse_time(as_of_text(at) or "")
    if at_ms is None or not 0 <= at_ms < 2**63:
        raise UsageError(
            f"{at!r} is no time (ISO-8601 with an offset, or milliseconds since the epoch); nothing was translated"
        )
    return at_ms
