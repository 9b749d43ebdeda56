"""What a row of `operations` says: the base of one class for each kind.

Whoever records an operation gives an object of its class, which knows its kind; whoever reads one gets the same
object back. A later program may know more: kinds and keys that this one does not know are ignored, and a
value that is one of several (a cause, a result, an action) is kept as the text that it is.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

from ledger.domain.operations.kinds import OperationKind
from ledger.errors import InvalidValueError

Row = Mapping[str, Any]


class OperationContent:
    """Base of frozen dataclasses; unless they say otherwise, their fields are the keys of the JSON object."""

    __slots__ = ()
    kind: ClassVar[OperationKind]

    def content(self) -> dict[str, object]:
        """The JSON object of a row, as PROTOCOL.md has it for the kind."""
        return {name: _plain(getattr(self, name)) for name in _names(type(self))}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """From the JSON object of a row; raises `KeyError` or `TypeError` where a key is missing."""
        return cls(**{name: content[name] for name in _names(cls) if name in content})

    @classmethod
    def of_row(cls, row: Row) -> Self:
        """What a row of `operations` of this kind says.

        Raises `InvalidValueError` when it does not have what rows of the kind have.
        """
        try:
            return cls.of_content(json.loads(row["content"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidValueError(
                f"operation {row.get('operation_id')} is no {cls.kind} as PROTOCOL.md has it, it was not read: "
                f"{row['content']} ({type(error).__name__}: {error})"
            ) from error


def objects_of(parts: Sequence[object]) -> list[dict[str, object]]:
    """The JSON objects of dataclasses of one kind, whose values are plain: of thousands `asdict` would copy each."""
    names = _names(type(parts[0])) if parts else []
    return [{name: getattr(one, name) for name in names} for one in parts]


def _names(kind: type[object]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all of these are dataclasses


def _plain(value: object) -> object:
    """As JSON gives it back."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def recorded_cut(rows: Iterable[Row]) -> str | None:
    """The token of the cut that an operation, of whatever kind, says it went by, from its rows; None: it says none."""
    said = (json.loads(row["content"] or "{}").get("cut") for row in rows)
    return next((token for token in said if isinstance(token, str)), None)
