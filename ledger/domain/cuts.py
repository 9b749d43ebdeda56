"""Cuts: the pinned versions, one per table, that an answer was computed from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ledger.errors import InvalidValueError

_PREFIX = "v1."
_PIN = re.compile(r"([a-z][a-z0-9_]*)=(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Cut:
    """One version per table, in the order of the table names; equal cuts have equal tokens."""

    pins: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.pins]
        if not names or names != sorted(set(names)):
            raise InvalidValueError(f"a cut pins each table once, in the order of names, got {names}")
        if any(version < 0 for _, version in self.pins):
            raise InvalidValueError(f"a cut pins versions from 0, got {dict(self.pins)}")

    @classmethod
    def of(cls, versions: Mapping[str, int]) -> "Cut":
        return cls(tuple(sorted(versions.items())))

    @classmethod
    def parse(cls, token: str) -> "Cut":
        """The cut that a token names: `v1.checkpoints=3,offset_syncs=12`."""
        if not is_token(token):
            raise InvalidValueError(f"a cut token starts with {_PREFIX!r}, got {token!r}")
        pins = [_PIN.fullmatch(text) for text in token.removeprefix(_PREFIX).split(",")]
        if not all(pins):
            raise InvalidValueError(f"a cut token is {_PREFIX}TABLE=VERSION,..., got {token!r}")
        found = [(pin[1], int(pin[2])) for pin in pins if pin]
        if len(dict(found)) != len(found):
            raise InvalidValueError(f"a cut token pins each table once, got {token!r}")
        return cls(tuple(sorted(found)))

    @property
    def versions(self) -> dict[str, int]:
        return dict(self.pins)

    @property
    def token(self) -> str:
        return _PREFIX + ",".join(f"{name}={version}" for name, version in self.pins)


def is_token(text: str) -> bool:
    """Whether a text claims to be a cut token; `Cut.parse` says whether it is one."""
    return text.startswith(_PREFIX)
