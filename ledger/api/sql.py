"""Statements of one's own: what the relation `params` has for them."""

import re
from collections.abc import Mapping

from ledger import catalog
from ledger.api.asked import text
from ledger.catalog import Named, Query, Value
from ledger.errors import InvalidValueError, UsageError

_NAME = re.compile(r"\w+")
_BIGINTS = 2**63


def declared_in(statements: str) -> Query | None:
    """The query that a file is, when it has the header of one."""
    try:
        return catalog.parse_query(statements) if statements.startswith("-- name:") else None
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
    return tuple(Named(name, _type_of(name, value)) for name, value in values.items())


def _type_of(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    if not isinstance(value, int):
        text(f"parameter {name}", value)
        return "string"
    if not -_BIGINTS <= value < _BIGINTS:
        raise UsageError(f"parameter {name} is a bigint, got {value!r}; nothing was read")
    return "bigint"
