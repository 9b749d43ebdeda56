"""Where rows of the ledger come from: what memory, DuckDB and Delta have in common for those who read them."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

Comparison = Literal["=", "<", ">=", "in", "not in"]
Filter = tuple[str, Comparison, Any]
"""Column, comparison, and the value or values; null compares with nothing, and is `not in` no values alone."""


class RowSource(Protocol):
    """Rows of the newest ledger, or of one cut."""

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """The rows of a table that pass all filters, each writer's in the order of recording.

        Raises `LedgerUnavailableError` when the table cannot be read.
        """
        ...

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        """Of each combination of these columns the row recorded last, of those that pass; without their stamps.

        The rows of a combination have to be of one writer, and no two of one append. Raises as `rows`.
        """
        ...

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """Of the rows of `writers` that pass, of each epoch at least the claim and the last one of each other event.

        Raises as `rows`.
        """
        ...

    def last_recorded_at_ms(self, writer: str) -> int | None:
        """When the writer last appended to any table; None: never. Raises as `rows`."""
        ...
