"""Frozen dataclasses as JSON objects and as rows of tables, and back.

Each field is a key of its name, in the order of the fields: a dataclass is an object, a tuple a list, an enum its
value. A field of which not all of that holds says so in its metadata: `key`, `inline`, `LEFT_OUT`, `form`.

Later programs may write other keys: what is not known here is ignored. Every object has the keys of all fields but
those that are `LEFT_OUT`; other defaults are for who makes one. A value of which later programs may know more is a
`str`, not an enum.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_Metadata = Mapping[str, Any]

LEFT_OUT: _Metadata = {"left_out": True}
"""The key is left out where the field has its default: nothing is said by it."""


def inline(**keys: str) -> _Metadata:
    """The keys of a dataclass stand among those of the one that has it; `keys`: by field another key."""
    return {"inline": keys}


def key(name: str) -> _Metadata:
    """The key has another name than the field."""
    return {"key": name}


def form(write: Callable[[Any], object], read: Callable[[Any], Any]) -> _Metadata:
    """A value with a form of its own."""
    return {"form": (write, read)}


def encode(value: object) -> dict[str, Any]:
    """The object of a dataclass."""
    return _codec(type(value)).encode(value)  # type: ignore[arg-type]  # a class can be hashed


def decode(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """What an object says; raises `KeyError`, `TypeError` or `ValueError` where it is none of this kind."""
    return _codec(kind).decode(content)  # type: ignore[arg-type, no-any-return]  # of `kind`


class _Form(NamedTuple):
    """How a value is written and read; None: as it is."""

    write: Callable[[Any], object] | None = None
    read: Callable[[Any], Any] | None = None


class _Field(NamedTuple):
    """How a field is read; `inner`: of a dataclass that is inline, None: it is not."""

    name: str
    key: str
    read: Callable[[Any], Any] | None
    is_required: bool
    inner: "_Codec | None"


class _Codec:
    """Of one dataclass, whose types are looked up once; `renamed`: keys by field."""

    def __init__(self, kind: type, renamed: Mapping[str, str]) -> None:
        self._kind = kind
        self._fields: list[_Field] = []
        self._attributes: dict[str, str] = {}  # by key; dotted where it is of a dataclass that is inline
        self._writes: dict[str, Callable[[Any], object]] = {}  # by key, where it is not written as it is
        self._left_out: dict[str, object] = {}  # by key the value for which it is
        hints = get_type_hints(kind)
        for one in fields(kind):
            key = renamed.get(one.name, one.metadata.get("key", one.name))
            form = _Form(*one.metadata["form"]) if "form" in one.metadata else _form(hints[one.name])
            inner = _Codec(hints[one.name], one.metadata["inline"]) if "inline" in one.metadata else None
            is_required = "left_out" not in one.metadata
            self._fields.append(_Field(one.name, key, form.read, is_required, inner))
            if inner is not None:
                self._attributes |= {key: f"{one.name}.{name}" for key, name in inner._attributes.items()}
                self._writes |= inner._writes
                self._left_out |= inner._left_out
                continue
            self._attributes[key] = one.name
            if form.write is not None:
                self._writes[key] = form.write
            if "left_out" in one.metadata:
                self._left_out[key] = one.default
        # Two more than there are keys, so that also of one key the values are a tuple.
        self._values = attrgetter(*self._attributes.values(), "__class__", "__class__")

    def encode(self, value: object) -> dict[str, Any]:
        found = dict(zip(self._attributes, self._values(value), strict=False))
        for key, default in self._left_out.items():
            if found[key] == default:
                del found[key]
        for key, write in self._writes.items():
            if key in found:
                found[key] = write(found[key])
        return found

    def decode(self, content: Mapping[str, Any]) -> Any:
        values: dict[str, Any] = {}
        for name, key, read, is_required, inner in self._fields:
            if inner is not None:
                values[name] = inner.decode(content)
            elif is_required or key in content:
                values[name] = content[key] if read is None else read(content[key])
        return self._kind(**values)


@cache
def _codec(kind: type) -> _Codec:
    return _Codec(kind, {})


def _form(hint: Any) -> _Form:
    """By the type of a value."""
    if isinstance(hint, type) and is_dataclass(hint):
        return _Form(_codec(hint).encode, _codec(hint).decode)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Form(lambda one: one.value, hint)
    origin, parts = get_origin(hint), get_args(hint)
    if NoneType in parts:
        return _or_none(_form(next(part for part in parts if part is not NoneType)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_mapping(*map(_form, parts))
    if isinstance(origin, type) and issubclass(origin, Collection):
        return _of_list(_form(parts[0]), tuple if origin is tuple else list)
    return _Form()


def _or_none(of: _Form) -> _Form:
    write, read = of
    return _Form(
        None if write is None else lambda one: None if one is None else write(one),
        None if read is None else lambda one: None if one is None else read(one),
    )


def _of_list(of: _Form, kind: type) -> _Form:
    write, read = of
    return _Form(
        list if write is None else lambda parts: [write(one) for one in parts],
        kind if read is None else lambda parts: kind(read(one) for one in parts),
    )


def _of_mapping(key: _Form, value: _Form) -> _Form:
    return _Form(_through(key.write, value.write), _through(key.read, value.read))


def _through(key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if key is None and value is None:
        return dict
    return lambda parts: {
        (one if key is None else key(one)): (part if value is None else value(part))
        for one, part in parts.items()
    }
