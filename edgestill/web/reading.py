"""The views of a fleet, the figures of its charts, and the stream that says when something has changed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from aggregator.storage.tables.updates import REPORTS
from edgestill.web.access import Access
from edgestill.web.actions import authority_here
from edgestill.web.changes import Changes
from edgestill.web.sessions import Session
from edgestill.web.views import fleet as views

__all__ = ["reading"]

Word = Annotated[str, Query(max_length=200)]


def reading(web: Access) -> APIRouter:
    """The routes of all views."""
    router = APIRouter()
    config = web.config
    Reader = Annotated[Session | None, Depends(web.reader)]

    @router.get("/")
    def overview(request: Request, session: Reader) -> Response:
        return web.show(request, "overview", session, facts=views.overview(config))

    @router.get("/devices/{name}")
    def device(request: Request, session: Reader, name: str) -> Response:
        if name not in config.devices:
            raise HTTPException(404, "no such device")
        return web.show(request, "device", session, **views.device(config, name))

    @router.get("/models")
    def models(request: Request, session: Reader) -> Response:
        return web.show(request, "models", session, models=views.models(config))

    @router.get("/charts")
    def charts(request: Request, session: Reader) -> Response:
        return web.show(request, "charts", session, kept=REPORTS, series=views.SERIES)

    @router.get("/charts.json")
    def chart_data(session: Reader) -> Response:
        return JSONResponse(views.chart_data(config))

    @router.get("/enrolments")
    def enrolments(request: Request, session: Reader) -> Response:
        here = authority_here(config) is not None
        return web.show(request, "enrolments", session, requests=views.enrolments(config), authority=here)

    @router.get("/audit")
    def audit(request: Request, session: Reader) -> Response:
        return web.show(request, "audit", session, entries=web.audit.newest())

    @router.get("/events")
    def events(session: Reader) -> Response:
        return StreamingResponse(_stream(web.changes), media_type="text/event-stream")

    _add_devices(router, web)
    if config.monitor.runs is not None:
        _add_runs(router, web, config.monitor.runs)
    return router


def _add_runs(router: APIRouter, web: Access, folder: Path) -> None:
    Chosen = Annotated[list[str], Query(max_length=20)]

    @router.get("/runs")
    def runs(request: Request, session: Annotated[Session | None, Depends(web.reader)], run: Chosen = []) -> Response:  # noqa: B006
        from edgestill.web.views import simulations

        chosen = simulations.chosen_runs(folder, run)
        return web.show(request, "runs", session, runs=simulations.runs(folder), chosen=chosen, folder=str(folder))

    @router.get("/runs.json")
    def run_charts(session: Annotated[Session | None, Depends(web.reader)], run: Chosen = []) -> Response:  # noqa: B006
        from edgestill.web.views import simulations

        return JSONResponse(simulations.run_charts(folder, run))


def _add_devices(router: APIRouter, web: Access) -> None:
    @router.get("/devices")
    def devices(
        request: Request,
        session: Annotated[Session | None, Depends(web.reader)],
        sort: Word = "id",
        order: Word = "",
        state: Word = "",
        q: Word = "",
        page: int = 1,
    ) -> Response:
        table = views.devices(web.config, sort=sort, descending=order == "down", state=state, text=q, page=page)
        asked = {"sort": table["sort"], "order": order, "state": state, "q": q}
        return web.show(
            request, "devices", session, table=table, asked=asked, columns=views.COLUMNS, numbers=views.NUMBERS
        )


async def _stream(changes: Changes) -> AsyncIterator[str]:
    """Server-sent events: one at every change, and signs of life between them."""
    yield "retry: 2000\n\n"
    async for number in changes.follow():
        yield f"event: changed\ndata: {number}\n\n" if number else ": alive\n\n"
