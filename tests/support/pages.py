"""What a page of HTML holds, read as a browser does."""

import base64
import csv
import io
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page(HTMLParser):
    """Its text by element, its references, and its attachments by name."""

    tags: set[str] = field(default_factory=set)
    references: list[str] = field(default_factory=list)
    attachments: dict[str, list[list[str]]] = field(default_factory=dict)
    cells: list[list[str]] = field(default_factory=list)
    text: str = ""
    handlers: list[str] = field(default_factory=list)
    _cell: list[str] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    @classmethod
    def of(cls, text: str) -> "Page":
        page = cls()
        page.feed(text)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        known = dict(attrs)
        self.handlers += [name for name in known if name.startswith("on")]
        self.references += [known[name] or "" for name in ("href", "src", "xlink:href") if name in known]
        if tag == "a" and (known.get("href") or "").startswith("data:text/csv"):
            data = base64.b64decode((known["href"] or "").partition("base64,")[2]).decode()
            self.attachments[known["download"] or ""] = list(csv.reader(io.StringIO(data, newline="")))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.cells[-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell.append(data)
