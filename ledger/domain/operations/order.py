"""The order of rows."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_RowT = TypeVar("_RowT", bound=Mapping[str, Any])


def in_order(rows: Iterable[_RowT]) -> list[_RowT]:
    """Rows of one writer in the order in which it appended them.

    Rows of several writers have no order among each other; each writer's are in its own.
    """
    return sorted(rows, key=lambda row: (row["writer_epoch"], row["round"]))
