"""Pages of the documentation site, made of the documents, which stay where and as they are.

    make site

The nav of `conf/mkdocs.yml` says which pages there are, and the path of each what it is made of:

- `ledger/CHECKS.md`: that document, or what lies before the first of its other pages
- `ledger/OPERATIONS/findings.md`: its part from that heading on, up to where its next page begins
- `conf/example.toml.md`: a file that is no document, as code; what its comments underline becomes a heading

Links to documents, and sections of them that are named in quotes, lead to the pages that have them by then.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.utils.yaml import yaml_load

from tests.support.checkout import CHECKOUT
from tests.support.documents import LINK, NAMED, fenced_parts, places

CONFIGURATION = CHECKOUT / "conf" / "mkdocs.yml"
STYLE = "conf/site.css"
PAGES = CHECKOUT / "build" / "pages"
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
_LEADING = re.compile(rf"""{NAMED.pattern}|{LINK.pattern}|"([^"`\n]+)\"""")
"""Places of a text that lead to sections: named with their document, linked, or in quotes alone."""
_INDENT = re.compile(r"^ +", re.MULTILINE)
_UNDERLINED = re.compile(r"^# (.+?) -+\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """What the nav calls a page, and the stretch of a document that it shows."""

    path: str
    title: str
    document: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        return text_of(self.document)[self.start : self.end]


@cache
def text_of(document: str) -> str:
    """A document as Markdown."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    return text if document.endswith(".md") else _as_document(document, text)


def _as_document(name: str, text: str) -> str:
    kind = PurePosixPath(name).suffix.removeprefix(".")
    first, *rest = _UNDERLINED.split(text)
    parts = [f"# `{name}`\n\n```{kind}\n{first.strip()}\n```\n"]
    for title, lines in zip(rest[::2], rest[1::2], strict=True):
        parts.append(f"\n## {title}\n\n```{kind}\n{lines.strip()}\n```\n")
    return "".join(parts)


# Which pages --------------------------------------------------------------------------------------


def pages() -> list[Page]:
    """All pages of the nav; raises `ValueError` where one begins nowhere, or a document's beginning is on none."""
    with CONFIGURATION.open(encoding="utf-8") as file:
        nav = yaml_load(file)["nav"]
    begun: dict[str, list[tuple[int, str, str]]] = {}
    for title, path in _leaves(nav):
        document, start = _beginning(path)
        begun.setdefault(document, []).append((start, title, path))
    return [page for document, starts in begun.items() for page in _of_document(document, sorted(starts))]


def _leaves(nav: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for entry in nav:
        for title, inside in entry.items():
            if isinstance(inside, str):
                yield title, inside
            else:
                yield from _leaves(inside)


def _beginning(path: str) -> tuple[str, int]:
    """Of which document a page is, and at which character it begins there."""
    for document in (path, path.removesuffix(".md")):
        if (CHECKOUT / document).is_file():
            return document, 0
    document = f"{PurePosixPath(path).parent}.md"
    begins = [place for place in places(text_of(document)) if place.anchor == PurePosixPath(path).stem]
    if len(begins) != 1:
        raise ValueError(f"{path}: {document} has {len(begins)} sections of that anchor")
    return document, begins[0].start


def _of_document(document: str, starts: Sequence[tuple[int, str, str]]) -> Iterator[Page]:
    if starts[0][0] != 0:
        raise ValueError(f"what {document} begins with is on no page")
    ends = [start for start, _, _ in starts[1:]] + [len(text_of(document))]
    for (start, title, path), end in zip(starts, ends, strict=True):
        yield Page(path, title, document, start, end)


# What they show -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """All pages, and where in them a document's sections are."""

    pages: Sequence[Page]

    def written(self, page: Page) -> str:
        """The text of a page, with one heading of the first level and links that lead to pages."""
        text = "".join(
            part if is_code else self.linked(page, part)
            for is_code, part in fenced_parts(_COMMENT.sub("", page.shown))
        )
        if page.start == 0:
            return text
        if len(re.findall(r"^## ", text, re.MULTILINE)) > 1:
            return f"# {page.title}\n\n{text}"
        return "".join(
            part if is_code else re.sub(r"^#(#+ )", r"\1", part, flags=re.MULTILINE)
            for is_code, part in fenced_parts(text)
        )

    def files(self) -> set[str]:
        """Files that are no page and that pages lead to, pictures too."""
        return {
            target
            for page in self.pages
            for is_code, part in fenced_parts(page.shown)
            if not is_code
            for place, _ in LINK.findall(part)
            if place and "://" not in place and not self._of(target := _beside(page.document, place))
        }

    def linked(self, page: Page, text: str) -> str:
        """Also with lists in lists indented by four, as Python's Markdown reads them."""
        indented = _INDENT.sub(lambda spaces: spaces[0] * 2, text)
        return _LEADING.sub(lambda found: self._led(page, found), indented)

    def _led(self, page: Page, found: re.Match[str]) -> str:
        name, section, place, part, quoted = found.groups()
        if name:
            [document] = {one.document for one in self.pages if PurePosixPath(one.document).name == name}
            return self._to_section(page, document, " ".join(section.split())) or found[0]
        if quoted:
            return self._to_section(page, page.document, quoted, elsewhere_only=True) or found[0]
        return self._link(page, found[0], place, part or "")

    def _link(self, page: Page, link: str, place: str, part: str) -> str:
        if "://" in place:
            return link
        target = _beside(page.document, place) if place else page.document
        words = link[: link.rindex("](")].removeprefix("[")
        if of_document := self._of(target):
            leads_to = next((one for one in places(text_of(target)) if one.anchor == part), None)
            at = leads_to or places(text_of(target))[0]
            target = next(one.path for one in of_document if one.start <= at.start < one.end)
            words = at.name if words.endswith(".md") else words  # a name of a file, where there are none
        return f"[{words}]({_relative(page, target)}{f'#{part}' if part else ''})"

    def _to_section(
        self, page: Page, document: str, name: str, *, elsewhere_only: bool = False
    ) -> str | None:
        place = next((one for one in places(text_of(document)) if one.name == name), None)
        if place is None:
            return None
        to = next(one for one in self._of(document) if one.start <= place.start < one.end)
        if elsewhere_only and to == page:
            return None
        return f'"[{name}]({_relative(page, to.path)}{f"#{place.anchor}" if place.anchor else ""})"'

    def _of(self, document: str) -> list[Page]:
        return [page for page in self.pages if page.document == document]


def _beside(document: str, place: str) -> str:
    """A place that a document names from its own folder, from the top."""
    return normpath(f"{PurePosixPath(document).parent}/{place}")


def _relative(page: Page, target: str) -> str:
    return relpath(target, str(PurePosixPath(page.path).parent))


def write(folder: Path) -> None:
    """All pages, and files that they lead to, into a folder; what lay there is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(pages())
    for page in site.pages:
        file = folder / page.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(site.written(page), encoding="utf-8")
    for name in {*site.files(), STYLE}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, folder / name)


if __name__ == "__main__":
    write(PAGES)
