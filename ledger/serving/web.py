"""The pages of `serve` and its metrics as an ASGI application: each answer comes from memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ledger.answers.values import Status
from ledger.config.values import Listen
from ledger.serving import pages
from ledger.serving.access import Guarded, known_hosts
from ledger.serving.metrics import LedgerCollector
from ledger.serving.reader import LedgerReader, Read, Subject

_REFRESH_S = 10
_STYLE = "style.css"


def status_subject(refresh_s: float) -> Subject[Status]:
    """Where flows stand: what is read most often."""
    return Subject("status", lambda ledger: ledger.status(), pause_s=refresh_s)


@dataclass(frozen=True, slots=True)
class Subjects:
    """What is read of the ledger."""

    status: Subject[Status]

    @classmethod
    def every(cls, refresh_s: float) -> "Subjects":
        return cls(status_subject(refresh_s))

    @property
    def by_name(self) -> Mapping[str, Subject[Any]]:
        return {one.name: one for one in (self.status,)}


class Pages:
    """What each address answers."""

    def __init__(self, reader: LedgerReader, subjects: Subjects) -> None:
        self._reader, self._subjects = reader, subjects
        self._templates = Environment(
            loader=PackageLoader("ledger.serving"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(
            LedgerCollector(reader.config, lambda: reader.of(subjects.status), lambda: reader.clock.now_ms())
        )
        self._style = files("ledger.serving").joinpath(_STYLE).read_text(encoding="utf-8")

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/", self.overview),
            Route("/flows/{key}", self.flow),
            Route("/metrics", self.metrics),
            Route("/health", self.health),
            Route(f"/{_STYLE}", self.style),
        ]

    async def overview(self, request: Request) -> Response:
        """Clusters, flows, and what needs attention first."""
        read = self._reader.of(self._subjects.status)
        page = pages.Overview() if read.value is None else pages.overview(self._reader.config, read.value)
        return await self._rendered(
            request, "overview.html", read, "Overview", page=page, is_read=read.value is not None
        )

    async def flow(self, request: Request) -> Response:
        """A flow, its partitions and its stops."""
        read = self._reader.of(self._subjects.status)
        report = None if read.value is None else pages.flow_report(read.value, request.path_params["key"])
        if report is None:
            raise HTTPException(404)
        page = pages.flow_page(self._reader.config, report)
        return await self._rendered(request, "flow.html", read, f"Flow {report.flow}", page=page)

    async def metrics(self, request: Request) -> Response:
        """What Prometheus scrapes, as OpenMetrics where it asks for that."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"Content-Type": content_type})

    async def health(self, _request: Request) -> Response:
        """For probes: 200 while what is shown is of now, 503 when it is not."""
        read = self._reader.of(self._subjects.status)
        is_fresh = read.fresh(self._reader.clock.now_ms()) is not None
        age = pages.age_of(read, self._reader.clock.now_ms())
        return PlainTextResponse(f"{age.words}\n", status_code=200 if is_fresh else 503)

    async def style(self, _request: Request) -> Response:
        """The style sheet."""
        return Response(self._style, media_type="text/css")

    async def _rendered(
        self, request: Request, template: str, read: Read[Any], title: str, **shown: object
    ) -> Response:
        """In a thread: of a large ledger it takes as long as others can wait for."""
        is_still = "still" in request.query_params
        text = await run_in_threadpool(
            self._templates.get_template(template).render,
            title=title,
            age=pages.age_of(read, self._reader.clock.now_ms()),
            path=request.url.path,
            refresh_s=None if is_still else _REFRESH_S,
            every_s=_REFRESH_S,
            navigation=pages.NAVIGATION,
            **shown,
        )
        return HTMLResponse(text)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(f"{error.detail}\n", status_code=error.status_code, headers=error.headers)


def application(
    reader: LedgerReader, subjects: Subjects, *, listen: Listen, hosts: tuple[str, ...], token: str | None
) -> Guarded:
    """What a server of ASGI runs; the reader is started and stopped by who made it."""
    known = known_hosts(listen, hosts, has_token=token is not None)
    pages_of_reader = Starlette(
        routes=Pages(reader, subjects).routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=known, www_redirect=False)],
        exception_handlers={HTTPException: _refused},
    )
    return Guarded(pages_of_reader, token)
