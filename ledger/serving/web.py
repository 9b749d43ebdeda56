"""The pages of `serve` and its metrics as an ASGI application: each answer comes from memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ledger.answers.anchored import Anchored
from ledger.answers.flow_values import Status
from ledger.config.values import Listen
from ledger.serving import pages
from ledger.serving.access import Guarded, known_hosts
from ledger.serving.changes import Change, change_lines, change_page, read_changes
from ledger.serving.groups import Way, group_page, read_groups, way_pages
from ledger.serving.history import (
    FlowLag,
    History,
    HistoryPage,
    history_page,
    lag_curves,
    read_history,
    read_lags,
)
from ledger.serving.metrics import LedgerCollector, answering
from ledger.serving.reader import LedgerReader, Read, Subject

_REFRESH_S = 10
_STYLE = "style.css"


@dataclass(frozen=True, slots=True)
class Subjects:
    """What is read of the ledger, and how often: where flows stand, and changes of direction, before all else."""

    status: Subject[Status]
    lags: Subject[Mapping[str, FlowLag]]
    groups: Subject[tuple[Way, ...]]
    changes: Subject[tuple[Change, ...]]
    history: Subject[History]
    anchored: Subject[Anchored | None]

    @classmethod
    def every(cls, refresh_s: float) -> "Subjects":
        """`refresh_s`: where flows stand, and changes of direction, are read every so many seconds."""
        return cls(
            Subject("status", lambda ledger: ledger.status(), pause_s=refresh_s, is_prompt=True),
            Subject("lag over time", read_lags, pause_s=max(30.0, refresh_s), rest=10.0),
            Subject("groups", read_groups, pause_s=max(15.0, refresh_s), rest=10.0),
            Subject("changes of direction", read_changes, pause_s=refresh_s, is_prompt=True),
            Subject("history", read_history, pause_s=max(300.0, refresh_s), rest=20.0),
            Subject("anchor", lambda ledger: ledger.anchored(), pause_s=max(60.0, refresh_s), rest=10.0),
        )

    @property
    def by_name(self) -> Mapping[str, Subject[Any]]:
        prompt_first = (self.changes, self.status, self.anchored, self.groups, self.lags, self.history)
        return {one.name: one for one in prompt_first}


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
        for name in self._templates.list_templates():
            self._templates.get_template(name)  # compiled here, so that nobody waits for it
        self._collector = LedgerCollector(
            reader.config,
            lambda: reader.of(subjects.status),
            lambda: reader.of(subjects.groups),
            self._anchored,
            lambda: reader.clock.now_ms(),
        )
        self._style = files("ledger.serving").joinpath(_STYLE).read_text(encoding="utf-8")

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/", self.overview),
            Route("/flows/{key}", self.flow),
            Route("/groups", self.groups),
            Route("/groups/{key}", self.group),
            Route("/changes", self.changes),
            Route("/changes/{key}", self.change),
            Route("/history", self.history),
            Route("/metrics", answering(self._collector)),
            Route("/health", self.health),
            Route(f"/{_STYLE}", self.style),
        ]

    async def overview(self, request: Request) -> Response:
        """Clusters, flows, and what needs attention first."""
        read = self._reader.of(self._subjects.status)
        page = pages.Overview()
        if read.value is not None:
            now_ms = self._reader.clock.now_ms()
            page = pages.overview(self._reader.config, read.value, self._anchored(), now_ms=now_ms)
        lags = self._reader.of(self._subjects.lags).value or {}
        return await self._rendered(
            request,
            "overview.html",
            read,
            "Overview",
            page=page,
            curves_of={flow: lag_curves(found)[:1] for flow, found in lags.items()},
            is_read=read.value is not None,
        )

    async def flow(self, request: Request) -> Response:
        """A flow, its partitions and its stops."""
        read = self._reader.of(self._subjects.status)
        report = None if read.value is None else pages.flow_report(read.value, request.path_params["key"])
        if report is None:
            raise HTTPException(404)
        lags = self._reader.of(self._subjects.lags)
        found = (lags.value or {}).get(report.flow)
        return await self._rendered(
            request,
            "flow.html",
            read,
            f"Flow {report.flow}",
            page=pages.flow_page(self._reader.config, report),
            curves_of=() if found is None else lag_curves(found),
            curves_age=pages.age_of(lags, self._reader.clock.now_ms()),
        )

    async def groups(self, request: Request) -> Response:
        """Where groups would continue at the other cluster."""
        read = self._reader.of(self._subjects.groups)
        found = tuple(way_pages(read.value or ()))
        is_read = read.value is not None
        return await self._rendered(request, "groups.html", read, "Groups", page=found, is_read=is_read)

    async def group(self, request: Request) -> Response:
        """One of them, by partition."""
        read = self._reader.of(self._subjects.groups)
        page = group_page(read.value or (), request.path_params["key"], at_ms=read.at_ms or 0)
        if page is None:
            raise HTTPException(404)
        return await self._rendered(request, "group.html", read, f"Group {page.group}", page=page)

    async def changes(self, request: Request) -> Response:
        """Plans, and how far each was carried out."""
        read = self._reader.of(self._subjects.changes)
        found = change_lines(read.value or (), now_ms=self._reader.clock.now_ms())
        is_read = read.value is not None
        return await self._rendered(
            request, "changes.html", read, "Changes of direction", page=found, is_read=is_read
        )

    async def change(self, request: Request) -> Response:
        """A plan as a checklist, with receipts as they come in."""
        read, now_ms = self._reader.of(self._subjects.changes), self._reader.clock.now_ms()
        page = change_page(read.value or (), request.path_params["key"], now_ms=now_ms)
        if page is None:
            raise HTTPException(404)
        return await self._rendered(request, "change.html", read, page.title, page=page)

    async def history(self, request: Request) -> Response:
        """Days, losses and findings."""
        read = self._reader.of(self._subjects.history)
        page = HistoryPage() if read.value is None else history_page(read.value)
        is_read = read.value is not None
        return await self._rendered(request, "history.html", read, "History", page=page, is_read=is_read)

    async def health(self, _request: Request) -> Response:
        """For probes: 200 while what is shown is of now, 503 when it is not."""
        read = self._reader.of(self._subjects.status)
        is_fresh = read.fresh(self._reader.clock.now_ms()) is not None
        age = pages.age_of(read, self._reader.clock.now_ms())
        return PlainTextResponse(f"{age.words}\n", status_code=200 if is_fresh else 503)

    async def style(self, _request: Request) -> Response:
        """The style sheet."""
        return Response(self._style, media_type="text/css")

    def _anchored(self) -> Anchored | None:
        """None: there is no anchor, or it has not been read so far."""
        read = self._reader.of(self._subjects.anchored)
        if self._reader.config.evidence.anchor is None or (read.value is None and read.failure is None):
            return None
        return read.fresh(self._reader.clock.now_ms()) or Anchored(None, "it was not read lately")

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
