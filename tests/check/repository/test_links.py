"""Where a document sends its reader there is what it says: files, headings, and sections that are named in quotes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import of_type, relative

DOCUMENTS = {document.name: document for document in of_type(".md") if document.parent.name != "queries"}
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(?:#([\w-]+))?\)")
NAMED = re.compile(r'(?<![/\w])([A-Z]+\.md)`?(?:\]\([^)]*\))?,? \(?"([^"]+)"')
SECTION = re.compile(r"^(?:#+ |\*\*)(.+?)(?:[.:]?\*\*.*)?$", re.MULTILINE)


def sections(document: Path) -> set[str]:
    """Headings, and what paragraphs begin with in bold."""
    return {found.replace("`", "") for found in SECTION.findall(document.read_text(encoding="utf-8"))}


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def leads_nowhere(document: Path, text: str) -> Iterator[str]:
    for place, part in LINK.findall(text):
        target = document.parent / place if place else document
        if "://" not in place and not target.exists():
            yield place
        elif part and part not in map(anchor, sections(target)):
            yield f"{place}#{part}"
    for name, heading in NAMED.findall(" ".join(text.split())):
        if heading not in sections(DOCUMENTS[name]):
            yield f'{name}, "{heading}"'


@pytest.mark.parametrize("document", of_type(".md"), ids=relative)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert list(leads_nowhere(document, document.read_text(encoding="utf-8"))) == []


def test_what_leads_nowhere_is_found() -> None:
    here = DOCUMENTS["RUNBOOK.md"]
    text = '[a](NONE.md) [b](#hooks) [c](#hook) PROTOCOL.md, "Fences", and OPERATIONS.md, "Fences"'
    assert list(leads_nowhere(here, text)) == ["NONE.md", "#hook", 'OPERATIONS.md, "Fences"']
