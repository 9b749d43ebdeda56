"""What an import decides: keys of the configuration with their values, each with why and from where."""

from dataclasses import dataclass, field

from ledger.config.values import SecretReference
from ledger.mirror_maker.keys import Verdict
from ledger.mirror_maker.reading import Entry

Value = str | int | float | bool | tuple[str, ...] | tuple[tuple[str, str], ...] | SecretReference
"""Of pairs: rules of renaming, `match` and `to`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One key of a table. `value` None: somebody has to write it, or it stays out; `remark` says why.

    `entries`: which of the file it comes from; none: from a default of MirrorMaker. `is_shown`: whether it has a place
    in the text, as a comment where there is no value.
    """

    key: str
    value: Value | None
    remark: str = ""
    entries: tuple[Entry, ...] = ()
    verdict: Verdict = Verdict.TAKEN
    is_shown: bool = True


def some(*entries: Entry | None) -> tuple[Entry, ...]:
    """Those that there are."""
    return tuple(one for one in entries if one is not None)


@dataclass(frozen=True, slots=True)
class TableChoices:
    """The table of a cluster or of a flow."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """A whole configuration, and what is to be said beside its keys: `notes`, by what they are about."""

    clusters: tuple[TableChoices, ...]
    flows: tuple[TableChoices, ...]
    notes: tuple[tuple[str, Verdict, str], ...] = field(default_factory=tuple)
