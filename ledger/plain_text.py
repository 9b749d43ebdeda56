"""Forms for programs, JSON and CSV: every value comes back as it was, whatever somebody named a group."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from ledger.errors import UsageError

_PERHAPS_OBEYED = re.compile(r"[^ -~\n]")
_QUOTED = re.compile(r'[",\r\n]')
_ROWS_AT_ONCE = 50_000


def rows_of(answer: pa.Table) -> list[dict[str, Any]]:
    """Rows keyed by column. Raises `UsageError` where two have the same name, and as `column_values`."""
    names: list[str] = answer.column_names
    if alike := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(
            f"several columns are named {alike[0]!r}: name them apart; nothing of this answer was printed"
        )
    columns = [column_values(answer, index) for index in range(answer.num_columns)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def column_values(answer: pa.Table, index: int) -> list[Any]:
    """Raises `UsageError` for times outside the years 1 to 9999, which a statement may compute."""
    try:
        return list(answer.column(index).to_pylist())
    except (OverflowError, ValueError) as error:
        raise UsageError(
            f"column {answer.column_names[index]!r} has values that cannot be printed ({error}): cast them to text; "
            "nothing of this answer was printed"
        ) from error


def json_text(value: object) -> str:
    """Indented JSON with a line break at its end; what is not printable is escaped, as a terminal may have it.

    Numbers that JSON does not have (NaN, infinities), dates and decimals are texts, bytes are hexadecimal.
    """
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_as_text)
    except ValueError:
        text = json.dumps(_without_nan(value), indent=2, ensure_ascii=False, default=_as_text)
    return _PERHAPS_OBEYED.sub(_escaped, text) + "\n"


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    """A line per row, null as an empty field and an empty text as `""`.

    Quoted is what readers would take apart: not the module `csv`, which leaves a carriage return as it is.
    """
    return "".join(f"{','.join(map(_field, line))}\n" for line in lines)


def csv_of(answer: pa.Table) -> str:
    """`csv_text` of a table with its header; raises as `column_values`."""
    import pyarrow.compute as pc  # every form would wait for it

    parts = [csv_text([answer.column_names])]
    for batch in answer.to_batches(max_chunksize=_ROWS_AT_ONCE):
        rows = pa.Table.from_batches([batch])
        fields = [_fields(rows, index) for index in range(rows.num_columns)]
        parts += (f"{line}\n" for line in pc.binary_join_element_wise(*fields, ",").to_pylist())
    return "".join(parts)


def _fields(rows: pa.Table, index: int) -> "pa.Array | pa.ChunkedArray":
    """A column as fields: at once where no value has to be quoted, because by value a million rows take six seconds."""
    import pyarrow.compute as pc

    column = rows.column(index)
    is_text = pa.types.is_string(column.type)
    if pa.types.is_integer(column.type) or (
        is_text and not pc.any(pc.match_substring_regex(column, f"^$|{_QUOTED.pattern}")).as_py()
    ):
        return pc.fill_null(column.cast(pa.string()), "")
    return pa.array(map(_field, column_values(rows, index)), pa.string())


def _field(value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or _QUOTED.search(text) else text


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    return [_without_nan(one) for one in value] if isinstance(value, list | tuple) else value
