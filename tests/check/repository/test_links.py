"""Where a document sends its reader there is what it says: files, headings, and sections that are named in quotes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import LINK, NAMED, Place, of_type, places, relative

DOCUMENTS = {document.name: document for document in of_type(".md") if document.parent.name != "queries"}


def sections(document: Path) -> tuple[Place, ...]:
    return places(document.read_text(encoding="utf-8"))


def leads_nowhere(document: Path, text: str) -> Iterator[str]:
    for place, part in LINK.findall(text):
        target = document.parent / place if place else document
        if "://" not in place and not target.exists():
            yield place
        elif part and part not in {one.anchor for one in sections(target)}:
            yield f"{place}#{part}"
    for name, heading in NAMED.findall(" ".join(text.split())):
        if heading not in {one.name for one in sections(DOCUMENTS[name])}:
            yield f'{name}, "{heading}"'


@pytest.mark.parametrize("document", of_type(".md"), ids=relative)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert list(leads_nowhere(document, document.read_text(encoding="utf-8"))) == []


def test_what_leads_nowhere_is_found() -> None:
    here = DOCUMENTS["RUNBOOK.md"]
    text = '[a](NONE.md) [b](#hooks) [c](#hook) PROTOCOL.md, "Fences", and OPERATIONS.md, "Fences"'
    assert list(leads_nowhere(here, text)) == ["NONE.md", "#hook", 'OPERATIONS.md, "Fences"']
