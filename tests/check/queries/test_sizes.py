"""No statement of SQL is larger than a reader can hold: what else it says becomes a view with a name.

Counted are lines that hold SQL: not the header, other comments and empty lines.
"""

import re
from collections.abc import Iterator

import pytest

from ledger.store import catalog
from tests.support.checkout import CHECKOUT

MAXIMUM_LINES = 120
MAXIMUM_CTES = 7
FILES = sorted([*(CHECKOUT / "queries").glob("*.sql"), *(CHECKOUT / "ledger").rglob("*.sql")])
_STATEMENT_END = re.compile(r"(?<=;)\n")
_MADE = re.compile(r"create (?:or replace )?temporary \w+ (\w+)")
_CTE = re.compile(r"\b(\w+) as (?:materialized )?\(")


def test_statements_are_small() -> None:
    found = [problem for file in FILES for problem in size_problems(file.stem, file.read_text())]
    assert found == []


def size_problems(file: str, text: str) -> Iterator[str]:
    """What is too large of the statements of a file, by the name of what they make, else of the file."""
    code = re.sub(r"--.*", "", text)
    for statement in _STATEMENT_END.split(code):
        made = _MADE.search(statement)
        name = made[1] if made else file
        if (lines := sum(bool(line.strip()) for line in statement.splitlines())) > MAXIMUM_LINES:
            yield f"{name}: {lines} lines of SQL"
        if (ctes := len(_CTE.findall(statement))) > MAXIMUM_CTES:
            yield f"{name}: {ctes} CTEs"


def test_the_listing_sees_queries_views_and_what_engines_add() -> None:
    folders = {str(file.parent.relative_to(CHECKOUT)) for file in FILES}
    assert folders == {"queries", "ledger/views", "ledger/store", "ledger/answers"}


def statement(lines: int, ctes: int) -> str:
    """That many lines of SQL, between comments and empty ones."""
    names = [f"c{number} as (select 1)," for number in range(ctes)]
    return "\n\n".join(["-- header", *names, *["-- as (why)", "x  -- why"] * (lines - ctes - 1), "x"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (statement(120, 7), []),
        (statement(121, 7), ["file: 121 lines of SQL"]),
        (statement(120, 8), ["file: 8 CTEs"]),
        (f"create or replace temporary view small as\n{statement(119, 7)};\n{statement(120, 0)};\n", []),
        (
            f"create or replace temporary view one as\n{statement(120, 8)};\n"
            f"create temporary table two as\n{statement(9, 8)};\n",
            ["one: 121 lines of SQL", "one: 8 CTEs", "two: 8 CTEs"],
        ),
    ],
    ids=["largest", "a line too many", "a CTE too many", "each statement for itself", "names"],
)
def test_what_is_too_large_is_found(text: str, found: list[str]) -> None:
    assert list(size_problems("file", text)) == found


def test_every_file_of_views_is_read_in_its_order() -> None:
    """A view reads earlier ones; a file that is not listed would make none."""
    folder = CHECKOUT / "ledger" / "views"
    subjects = (*catalog.VIEW_SUBJECTS, *catalog.BETWEEN_SUBJECTS)
    assert sorted(subjects) == sorted(file.stem for file in folder.iterdir())
    made: set[str] = set()
    names = (*catalog.view_names(), *catalog.names_between_clusters())
    for name in names:
        text = catalog.views_of([name])[name]
        later = set(names) - made
        assert not later & set(re.findall(r"\b(?:from|join) (\w+)", text)), name
        made.add(name)
