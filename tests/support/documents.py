"""Documents as data: their sections, tables, lists of definitions and examples.

A definition is a list item that begins with a name in backticks or bold, or with several apart by commas, and runs up
to the next item. Parts of it are items below it that begin with a label:

    - `name`: its text,
      continued
      - Label: a part
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_NAMES = re.compile(r"`[^`]+`(?:, `[^`]+`)*|\*\*[^*]+\*\*")
_ITEM = re.compile(r"^( *)- (.+)$")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a list item says: its whole first paragraph, and its parts by label."""

    text: str
    parts: dict[str, str] = field(default_factory=dict)


def section(document: str, heading: str) -> str:
    """What is below a heading, up to the next one of its level or above. Fails where there is no such heading."""
    headings = list(_HEADING.finditer(_without_code(document)))
    start = next((one for one in headings if one[2] == heading), None)
    assert start, f"no heading {heading!r}"
    ends = [one.start() for one in headings if one.start() > start.start() and len(one[1]) <= len(start[1])]
    return document[start.end() : min(ends, default=len(document))]


def prose(document: str) -> str:
    """The document without its code blocks and inline code; its lines keep their numbers."""
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), _without_code(document))


def table_rows(text: str) -> list[tuple[str, ...]]:
    """Cells of the rows of all tables, their heads left out."""
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
        for line in _without_code(text).splitlines()
        if line.startswith("| ")
    ]
    rules = [number for number, row in enumerate(rows) if set("".join(row)) <= set("-: ")]
    heads = {number - 1 for number in rules}
    return [row for number, row in enumerate(rows) if number not in heads.union(rules)]


def definitions(text: str) -> dict[str, Definition]:
    """By name what the lists of a text define, in order. Fails where a name is defined twice."""
    found: dict[str, Definition] = {}
    for item, parts in _items(text):
        names = _NAMES.match(item)
        if names is None:
            continue
        labelled = [part.partition(": ") for part in parts]
        defined = Definition(
            item[names.end() :].lstrip(": "), {label: part for label, colon, part in labelled if colon}
        )
        for name in re.findall(r"[^`*]+", names[0].replace("`, `", "``")):
            assert name not in found, f"{name} is defined twice"
            found[name] = defined
    return found


def json_examples(text: str) -> list[Any]:
    """What the JSON blocks of a text hold."""
    return [json.loads(block[2]) for block in _FENCED.finditer(text) if block[1] == "json"]


def _items(text: str) -> Iterator[tuple[str, list[str]]]:
    """The items of all lists, each as one line, with the items below it."""
    items: list[tuple[str, list[str]]] = []
    for line in _without_code(text).splitlines():
        item = _ITEM.match(line)
        if item and not item[1]:
            items.append((item[2], []))
        elif item and items:
            items[-1][1].append(item[2])
        elif line.startswith("  ") and items:
            first, parts = items[-1]
            if parts:
                parts[-1] += f" {line.strip()}"
            else:
                items[-1] = (f"{first} {line.strip()}", parts)
    return iter(items)


def _without_code(document: str) -> str:
    """With spaces in place of code blocks, so that offsets and line numbers stay."""
    return _FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), document)
