"""Pages and metrics as a browser or Prometheus gets them: an ASGI application is asked, and its answer read."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import Listen
from ledger.serving.reader import LedgerReader
from ledger.serving.web import Subjects, application

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
SCRAPED = ("status", "groups", "anchor")
"""The subjects that metrics are of."""
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str


def asked(application: Any, path: str, **headers: str) -> Answer:
    """A GET request of a path; names of headers with underscores."""
    wanted, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8480", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": wanted,
        "raw_path": wanted.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8480),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    body = b"".join(one.get("body", b"") for one in sent[1:])
    return Answer(
        sent[0]["status"],
        {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]},
        body.decode(),
    )


@dataclass
class Served:
    """A ledger that is served; `read` reads what is due, as the thread of the reader would."""

    config: MirrorConfig
    token: str | None = None
    hosts: tuple[str, ...] = ()
    listen: str = "127.0.0.1:8480"
    reader: LedgerReader = field(init=False)
    application: Any = field(init=False)

    def __post_init__(self) -> None:
        subjects = Subjects.every(1.0)
        self.reader = LedgerReader(self.config, subjects.by_name, crashed=raised)
        self.application = application(
            self.reader, subjects, listen=Listen.parse(self.listen), hosts=self.hosts, token=self.token
        )

    @classmethod
    def of(cls, config: MirrorConfig, only: Collection[str] | None = None, **given: Any) -> "Served":
        """By the configuration file as it is now, read once; `only` these subjects of the ledger, None: all."""
        served = cls(load_config(Path(config.file)), **given)
        served.reader.read_due(only)
        return served

    def page(self, path: str, **headers: str) -> Answer:
        return asked(self.application, path, **headers)

    def samples(self) -> Samples:
        """What Prometheus scrapes, by name and labels."""
        answer = self.page("/metrics", accept=OPEN_METRICS)
        assert answer.status == 200, answer
        return samples_of(answer.text)


def scraped(config: MirrorConfig) -> Samples:
    """What Prometheus scrapes of a ledger as it is now: of what pages show that is a part."""
    return Served.of(config, SCRAPED).samples()


def raised(error: BaseException) -> None:
    raise error


def samples_of(text: str) -> Samples:
    """Of OpenMetrics, which the parser is strict about; each series once."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        for one in family.samples:
            key = one.name, frozenset(one.labels.items())
            assert key not in found, key
            found[key] = one.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    """Of the one series with this name, without the program's prefix, and these labels; None: there is none."""
    wanted = set(labels.items())
    found = [one for (of, has), one in samples.items() if of == f"mirror_ledger_{name}" and wanted <= has]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else None


@dataclass
class Seen(HTMLParser):
    """The text of a page without its markup, its links, and what in it could act."""

    text: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.links += [link for name, link in attrs if name == "href" and link is not None]

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def seen(answer: Answer) -> Seen:
    """What a browser makes of a page."""
    assert answer.status == 200, answer
    page = Seen()
    page.feed(answer.text)
    page.close()
    return page
