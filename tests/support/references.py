"""Reference parts of documents, made of what they repeat: classes, commands, headers of queries.

    make references

writes them; a test says which document is out of date. A part stands between two comments that name it and the place
where it is to be changed. What a member of an enumeration means is the docstring below it.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.errors import Trouble
from ledger.store import catalog
from tests.support.checkout import CHECKOUT

Member = TypeVar("Member", bound=Enum)
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Reference:
    """A part of a document; `source` is where a change of it is to be made, `lines` how it reads by now."""

    document: str
    name: str
    source: str
    lines: Callable[[], Iterable[str]]

    def placed_in(self, text: str) -> str:
        """The document with this part as it reads by now; raises `ValueError` where it has no place for it."""
        place = re.compile(
            rf"^<!-- {re.escape(self.name)}: [^\n]* -->\n.*?^<!-- end of {re.escape(self.name)} -->$",
            re.MULTILINE | re.DOTALL,
        )
        if len(place.findall(text)) != 1:
            raise ValueError(f"{self.document} has no one place for {self.name!r}")
        made = "\n".join((self._head, "", *self.lines(), "", f"<!-- end of {self.name} -->"))
        return place.sub(lambda _: made, text)

    @property
    def _head(self) -> str:
        return f"<!-- {self.name}: written by `make references` from {self.source} -->"


# Forms --------------------------------------------------------------------------------------------


def item(text: str, parts: Mapping[str, str | None] | None = None) -> Iterator[str]:
    """An item of a list, and below it its parts by label; a part that is None is left out."""
    yield from _folded(f"- {text}", indent="  ")
    for label, part in (parts or {}).items():
        if part is not None:
            yield from _folded(f"  - {label}: {part}", indent="    ")


def table(*rows: Iterable[str]) -> Iterator[str]:
    """A table whose first row is its head."""
    for number, row in enumerate(rows):
        cells = list(row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'|'.join(' --- ' for _ in cells)}|"


def _folded(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width=_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def meanings(members: type[Member]) -> dict[Member, str]:
    """By member the docstring below it, in one line; raises `KeyError` where a member has none."""
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(members))).body
    assert isinstance(declared, ast.ClassDef)
    found = {
        member.targets[0].id: " ".join(below.value.value.split())
        for member, below in zip(declared.body, declared.body[1:], strict=False)
        if isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
    return {member: found[member.name] for member in members}


def begun(text: str) -> str:
    """A sentence as the continuation of another one: without its capital, and without its full stop."""
    is_name = text[1:2].isupper() or text.startswith("`")
    return (text if is_name else text[:1].lower() + text[1:]).removesuffix(".")


# What doctor checks -------------------------------------------------------------------------------


def _verdicts() -> Iterator[str]:
    stated = ((f"`{verdict}`", begun(meaning)) for verdict, meaning in meanings(Verdict).items())
    return table(("verdict", "meaning"), *stated)


def _troubles() -> Iterator[str]:
    for trouble, meaning in meanings(Trouble).items():
        yield from item(begun(meaning), {"To do": OF_TROUBLE[trouble]})


def _checks() -> Iterator[str]:
    for check in Check:
        yield from item(
            f"`{check}` ({check.about}): {check.asks}", {"Failed": check.fails, "Warning": check.warns}
        )


# Queries ------------------------------------------------------------------------------------------


def _queries() -> Iterator[str]:
    yield from _stated_queries(is_audit=False)
    yield from ("", "Audits:", "")
    yield from _stated_queries(is_audit=True)


def _stated_queries(*, is_audit: bool) -> Iterator[str]:
    for query in catalog.queries().values():
        if query.is_audit is is_audit:
            stated = f" Parameters: {query.stated_parameters}." if query.params else ""
            yield from item(f"`{query.name}`: {query.answers}{stated}")


REFERENCES = (
    Reference("ledger/CHECKS.md", "verdicts", "ledger/doctor/checks.py", _verdicts),
    Reference("ledger/CHECKS.md", "causes", "ledger/errors.py and ledger/doctor/checks.py", _troubles),
    Reference("ledger/CHECKS.md", "checks", "ledger/doctor/checks.py", _checks),
    Reference("queries/README.md", "queries", "the headers of queries/*.sql", _queries),
)
DOCUMENTS = tuple(dict.fromkeys(reference.document for reference in REFERENCES))


def written_anew(document: str) -> str:
    """The document as it reads with its reference parts of now."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    for reference in REFERENCES:
        if reference.document == document:
            text = reference.placed_in(text)
    return text


if __name__ == "__main__":
    for name in DOCUMENTS:
        (CHECKOUT / name).write_text(written_anew(name), encoding="utf-8")
