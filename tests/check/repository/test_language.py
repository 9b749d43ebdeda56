"""The language of documents, messages and docstrings: lines that fit a page, and words that a stranger knows.

The words are those of Kafka, Delta and `ledger/PROTOCOL.md`. A word is banned when it is ours alone and another says
what is meant; the list stays short. Names in code have the same words; inline code, code blocks and names of recorded
values are free.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from ledger.store import catalog
from tests.support.checkout import CHECKOUT
from tests.support.documents import of_type, parsed, prose, relative

CODE = [*of_type(".py", "ledger"), *of_type(".py", "jobs")]
LONGEST_LINE = 120
INSTEAD: Mapping[str, str] = {
    r"told": "reported, recorded, printed, given",
    r"look(s|ed|ing)?(?! up\b)": "read, check, scan, refresh",
    r"(go|goes|going|gone|went) on": "continue, resume",
    r"(take|takes|taking|taken|took) back": "truncated (records), withdrawn (requests)",
    r"gone": "deleted, removed, ended, lost",
    r"(lives?|lived|living|life)": "incarnation (topic id), is alive (process), heartbeat, remains",
    r"standing": "state, position",
    r"(intake|desk|log book)": "start offset, request, events",
    r"(hold|holds|held) against": "compared with",
    r"pass(es|ed)? over": "ignore, skip",
    r"anew": "again, new",
    r"(kin|its like|their like)": "name them",
}
"""Patterns of banned words to what to say instead."""
BANNED = {
    re.compile(rf"\b({word.replace(' ', chr(92) + 's+')})\b", re.IGNORECASE): instead
    for word, instead in INSTEAD.items()
}
PUBLISHED = {"gone", *(name for query in catalog.queries().values() for name in query.parameter_names)}
"""Names that people's programs have: keys of `status -o json`, parameters of queries."""
SPOKEN = re.compile(r"\S \S")
"""A string that has words is prose; one word is a name or a value."""


def long_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), start=1) if len(line) > LONGEST_LINE]


def banned_words(text: str, first_line: int = 1) -> Iterator[str]:
    """Where banned words stand in prose, and what to say instead; a line break within them does not hide them."""
    plain = prose(text)
    for pattern, instead in BANNED.items():
        for found in pattern.finditer(plain):
            line = first_line + plain.count("\n", 0, found.start())
            yield f"{line}: {' '.join(found[0].lower().split())}: {instead}"


def banned_in_strings(module: ast.Module) -> Iterator[str]:
    """The same for docstrings and messages of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SPOKEN.search(node.value):
            yield from banned_words(node.value, node.lineno)


@pytest.mark.parametrize("document", of_type(".md"), ids=relative)
def test_no_line_of_a_document_is_long(document: Path) -> None:
    assert long_lines(document.read_text(encoding="utf-8")) == []


def test_a_long_line_is_noticed() -> None:
    assert long_lines(f"# short\n{'x' * 120}\n{'x' * 121}\n") == [3]


@pytest.mark.parametrize("document", of_type(".md"), ids=relative)
def test_no_document_has_a_banned_word(document: Path) -> None:
    assert list(banned_words(document.read_text(encoding="utf-8"))) == []


def test_no_comment_of_the_example_configuration_has_a_banned_word() -> None:
    text = (CHECKOUT / "conf" / "example.toml").read_text(encoding="utf-8")
    assert (long_lines(text), list(banned_words(text))) == ([], [])


def test_no_message_or_docstring_has_a_banned_word() -> None:
    assert [(relative(module), word) for module in CODE for word in banned_in_strings(parsed(module))] == []


def named(module: ast.Module) -> Iterator[tuple[str, int]]:
    """What a module gives names to, and where. Constants are left out: most are named after a recorded value."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if not name.isupper():
                yield name, node.lineno


def banned_in_names(module: ast.Module) -> Iterator[str]:
    """Where a banned word is part of a name: `is_told`, `StandingRows`; what is `live` answers now."""
    for name, line in named(module):
        if name in PUBLISHED:
            continue
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower()
        yield from banned_words(re.sub(r"\blive\b", "", words), line)


def test_no_name_in_code_has_a_banned_word() -> None:
    assert [(relative(module), word) for module in CODE for word in banned_in_names(parsed(module))] == []


def test_banned_words_are_found_in_names() -> None:
    source = (
        "GONE = 1\nclass StandingRows:\n    def goes_on(self, told, live_id):\n        self.is_gone = told\n"
    )
    assert where(banned_in_names(ast.parse(source))) == ["2: standing", "3: goes on", "3: told", "4: gone"]


def test_no_question_of_a_query_has_a_banned_word() -> None:
    queries = catalog.queries().values()
    assert [(query.name, word) for query in queries for word in banned_words(query.answers)] == []


def where(found: Iterable[str]) -> list[str]:
    """Without what to say instead, in order."""
    return sorted(one.rpartition(": ")[0] for one in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It goes on there.\nIt was told so.", ["1: goes on", "2: told"]),
        ("Going on, it looked at the life of a topic.", ["1: going on", "1: life", "1: looked"]),
        ("Then it\ngoes\n  on.", ["2: goes on"]),
        ("The status `gone` is looked up.", []),
        ("```\ngone\n```\n", []),
        ("An alive driver of a long-lived foretold outlook.", ["1: lived"]),
    ],
)
def test_banned_words_are_found_in_prose(text: str, found: list[str]) -> None:
    assert where(banned_words(text)) == found


def test_banned_words_are_found_in_strings() -> None:
    source = '"""It goes on."""\n\nSTATUS = "gone"\nraise ValueError(f"{STATUS} is told {1}")\n# looked at\n'
    assert where(banned_in_strings(ast.parse(source))) == ["1: goes on", "4: told"]
