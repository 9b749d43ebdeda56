"""Pages come quickly, can be read in both schemes, and are used without a mouse."""

import re
import time
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from importlib.resources import files
from itertools import product
from statistics import median
from urllib.parse import urljoin

import pytest

from tests.support.asked_pages import Served, seen
from tests.support.operated import Operated
from tests.support.served_changes import carried_out, planned

SOON_S = 0.2
STYLE = files("ledger.serving").joinpath("style.css").read_text(encoding="utf-8")
FOCUSABLE = {"a", "button", "input", "select", "textarea", "summary"}


def test_pages_come_soon_and_are_used_without_a_mouse(flow: Operated) -> None:
    """Of a ledger with something of everything that they show; it is read once, for that takes longest."""
    flow.lost("orders", 0, 100, 110)
    flow.stopped("orders", 0, "lost")
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0, "read_at_ms": 1}
    flow.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 40})
    carried_out(flow, planned(flow))
    served = Served.of(flow.config)
    pages = every_page(served)
    assert_soon(served, pages)
    for path, text in pages.items():
        assert_in_order(path, Elements(text))
    assert_scrolled_by_keys([Elements(text) for text in pages.values()])


def every_page(served: Served) -> Mapping[str, str]:
    """By its address, all that links lead to from the first page."""
    found: dict[str, str] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        answer = served.page(path)
        found[path] = answer.text
        links = {urljoin(path, link).partition("#")[0].partition("?")[0] for link in seen(answer).links}
        waiting += sorted(links - found.keys() - {*waiting, "/style.css"})
    assert {re.sub(r"\w{12,}", "KEY", path) for path in found} == {
        *("/", "/flows/KEY", "/groups", "/groups/KEY", "/changes", "/changes/KEY", "/history"),
    }
    return found


# Time ---------------------------------------------------------------------------------------------


def assert_soon(served: Served, pages: Iterable[str]) -> None:
    """What the server works on each, however busy the machine is."""
    for path in pages:
        taken = []
        for _ in range(5):
            begun = time.process_time()
            served.page(path)
            taken.append(time.process_time() - begun)
        assert median(taken) < SOON_S, path


# Contrast -----------------------------------------------------------------------------------------

WORDS = ("text", "fine", "link", "ok", "warn", "bad", "off")
GROUNDS = ("page", "card", "code", "bad-page")
WORDS_AT_LEAST = 4.5
"""WCAG 2.1 AA (1.4.3), for text of every size."""


def schemes() -> Mapping[str, Mapping[str, str]]:
    """The colours of the style sheet by name, in light and dark."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    of_light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    return {"light": of_light, "dark": {**of_light, **dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))}}


def luminance(colour: str) -> float:
    """As WCAG defines it, from 0 to 1."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_wcag() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_can_be_read_on_all_grounds(scheme: str) -> None:
    colours = schemes()[scheme]
    found = {pair: contrast(*map(colours.__getitem__, pair)) for pair in product(WORDS, GROUNDS)}
    assert {pair: one for pair, one in found.items() if one < WORDS_AT_LEAST} == {}


def test_the_style_sheet_has_no_other_colours() -> None:
    """Of words and grounds: what was compared is all that there is. Lines around cards say nothing by themselves."""
    rules = re.sub(r":root \{.*?\}", "", re.sub(r"/\*.*?\*/", "", STYLE, flags=re.DOTALL), flags=re.DOTALL)
    words = set(re.findall(r"(?<![\w-])color: ([^;}]+)", rules))
    drawn = set(re.findall(r"(?<![\w-])(?:stroke|fill): ([^;}]+)", rules))
    grounds = set(re.findall(r"background(?:-color)?: ([^;}]+)", rules))
    assert words <= {f"var(--{name})" for name in WORDS}
    assert drawn <= {f"var(--{name})" for name in (*WORDS, *GROUNDS, "line")} | {"none", "currentColor"}
    assert grounds <= {f"var(--{name})" for name in GROUNDS} | {"none"}
    assert re.findall(r"#[0-9a-fA-F]{3,8}|rgb|hsl|opacity", rules) == []


# Paper --------------------------------------------------------------------------------------------


def test_on_paper_colours_are_those_of_light_and_no_column_is_cut() -> None:
    on_paper = STYLE.partition("@media print {")[2]
    assert re.findall(r"@media ([^{]*)dark", STYLE) == ["screen and (prefers-color-scheme: "]
    assert "html { color-scheme: light;" in on_paper
    assert ".scroll { overflow: visible;" in on_paper


# Keyboard -----------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Of a page, in order: tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    @property
    def focused(self) -> list[tuple[str, dict[str, str | None]]]:
        """What the tab key comes to, in the order in which it does."""
        return [(tag, has) for tag, has in self.found if tag in FOCUSABLE or "tabindex" in has]


def assert_in_order(path: str, page: Elements) -> None:
    """The link to the content comes first, then the pages, then the content as it stands."""
    ids = [has["id"] for _, has in page.found if "id" in has]
    assert len(ids) == len(set(ids)), path
    first, *others = page.focused
    assert first == ("a", {"class": "skip", "href": "#main"}), path
    assert [tag for tag, has in page.found if has.get("id") == "main"] == ["main"], path
    assert [has for _, has in others if has.get("tabindex", "0") != "0"] == [], path
    assert [has["href"] for _, has in others[:4]] == ["/", "/groups", "/changes", "/history"], path
    assert [has for _, has in page.found if has.get("aria-labelledby", ids[0]) not in ids] == [], path


def assert_scrolled_by_keys(pages: Iterable[Elements]) -> None:
    """What may be wider than the page can be focused, and is named."""
    wide = set(re.findall(r"\.([\w-]+) \{[^}]*overflow-x: auto", STYLE))
    found = [has for page in pages for _, has in page.found if has.get("class") in wide]
    assert {has["class"] for has in found} == wide == {"scroll", "command"}
    assert [has for has in found if has.get("tabindex") != "0"] == []
    named = [has for has in found if has.keys() & {"aria-label", "aria-labelledby"}]
    assert [has for has in found if has["class"] == "scroll" and has not in named] == []


def test_the_focus_is_seen() -> None:
    [outline] = re.findall(r":focus-visible \{ outline: (\d+)px solid var\(--(\w+)\)", STYLE)
    assert (int(outline[0]) >= 2, outline[1] in WORDS) == (True, True)
    assert re.findall(r"outline: (?:none|0)", STYLE) == []
    assert re.search(r"\.skip:focus \{ left: 1rem; top: ", STYLE), "the link to the content comes into view"
