"""The documentation site says what the documents say: each section on one page, links and names led to pages."""

import re

import pytest

from tests.support import site_pages
from tests.support.documents import fenced_parts, of_type, places, relative
from tests.support.site_pages import Page, Site

SITE = Site(site_pages.pages())


def test_every_document_is_on_the_site() -> None:
    outside = ("tests/", "ledger/reports/")
    documents = {relative(one) for one in of_type(".md") if not relative(one).startswith(outside)}
    assert documents == {page.document for page in SITE.pages} - {"conf/example.toml"}


@pytest.mark.parametrize("document", sorted({page.document for page in SITE.pages}))
def test_nothing_of_a_document_is_left_out_or_said_twice(document: str) -> None:
    shown = [page.shown for page in SITE.pages if page.document == document]
    assert "".join(sorted(shown, key=site_pages.text_of(document).index)) == site_pages.text_of(document)


def test_a_page_has_one_title_and_all_code_of_its_part() -> None:
    for page in SITE.pages:
        code = [part for is_code, part in fenced_parts(page.shown) if is_code]
        written = SITE.written(page)
        assert [block for block in code if block not in written] == []
        assert written.count("\n# ") + written.startswith("# ") - "".join(code).count("\n# ") == 1


def test_no_page_names_a_document_as_a_file() -> None:
    """There are no files where it is read; their paths in code are those of the repository."""
    found = [
        (page.path, name)
        for page in SITE.pages
        for is_code, part in fenced_parts(SITE.written(page))
        if not is_code
        for name in re.findall(r"(?<![\w/`])[A-Z]+\.md", re.sub(r"\]\([^)]*\)|`[^`]*`", "", part))
    ]
    assert found == []


def test_links_lead_to_the_page_that_has_the_section() -> None:
    text = (
        "See [a](ledger/OPERATIONS.md#findings), [ledger/CHECKS.md](ledger/CHECKS.md), "
        '[b](conf/example.toml), [c](conf/grafana/mirror-ledger.json) and PROTOCOL.md,\n"Fences".'
    )
    page = Page("there/README.md", "x", "README.md", 0, 0)
    assert SITE.linked(page, text) == (
        "See [a](../ledger/OPERATIONS/findings.md#findings), "
        "[What mirror-ledger doctor checks](../ledger/CHECKS.md), "
        "[b](../conf/example.toml.md), [c](../conf/grafana/mirror-ledger.json) "
        'and "[Fences](../ledger/PROTOCOL/directions.md#fences)".'
    )


def test_a_section_of_the_same_document_is_led_to_where_it_is_on_another_page() -> None:
    [page] = [one for one in SITE.pages if one.path == "ledger/PROTOCOL/directions.md"]
    assert (
        SITE.linked(page, 'as "Fences" and "Tables" say')
        == 'as "Fences" and "[Tables](tables.md#tables)" say'
    )


def test_a_file_that_is_no_document_is_code_below_its_headings() -> None:
    [page] = [one for one in SITE.pages if one.document == "conf/example.toml"]
    names = [place.name for place in places(SITE.written(page))]
    assert names[:3] == ["conf/example.toml", "Clusters", "Flows"]
    assert "```toml\n# One direction of mirroring each." in SITE.written(page)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("ledger/OPERATIONS/none.md", "0 sections of that anchor"),
        ("ledger/CHECKS/verdicts.md", "is on no page"),
    ],
)
def test_a_page_of_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, path: str, problem: str) -> None:
    monkeypatch.setattr(site_pages, "yaml_load", lambda _: {"nav": [{"A": [{"B": path}]}]})
    with pytest.raises(ValueError, match=problem):
        site_pages.pages()
