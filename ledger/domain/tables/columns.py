"""What a table of the ledger consists of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` as Spark SQL writes it."""

    name: str
    type: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One append-only table."""

    name: str
    row_per: str
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)
