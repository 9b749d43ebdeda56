"""Statements of one's own: what the relation `params` has for them."""

import re
from collections.abc import Mapping

from ledger import catalog
from ledger.catalog import Named, Query, Value
from ledger.errors import InvalidValueError, UsageError

_NAME = re.compile(r"\w+")
_TYPES: Mapping[type, str] = {bool: "boolean", int: "bigint", str: "string"}


def declared_in(text: str) -> Query | None:
    """The query that a text is, when it has the header of one."""
    try:
        return catalog.parse_query(text) if text.startswith("-- name:") else None
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was carried out") from error


def named_by_values(values: Mapping[str, Value]) -> tuple[Named, ...]:
    """Columns of `params` for a text without a header: text is string, whole numbers are bigint.

    Raises `UsageError` for a name that SQL could not read without quotes, and a value that none of these types has.
    """
    if strange := [name for name in values if not _NAME.fullmatch(name)]:
        raise UsageError(
            f"a parameter's name has letters, digits and underscores, got {strange[0]!r}; nothing was read"
        )
    names = tuple(Named(name, _TYPES.get(type(value), "string")) for name, value in values.items())
    for name in names:
        catalog.check_value("the statement", name, values[name.name])
    return names
