"""What questions are made of, checked before anything is read: bad values are errors of ours, whoever calls."""

from datetime import datetime
from typing import TypeAlias

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
    if isinstance(as_of, datetime):
        return as_of.isoformat()
    if as_of is None or isinstance(as_of, str):
        return None if as_of is None else text("as_of", as_of)
    return str(whole_number("as_of", as_of))
