"""The views of a fleet, the figures of its charts, and the stream that says when something has changed."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from edgestill.web import views
from edgestill.web.access import Access
from edgestill.web.changes import Changes
from edgestill.web.sessions import Session

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
        return web.show(request, "charts", session)

    @router.get("/charts.json")
    def chart_data(session: Reader) -> Response:
        return JSONResponse(views.chart_data(config))

    @router.get("/enrolments")
    def enrolments(request: Request, session: Reader) -> Response:
        return web.show(request, "enrolments", session, requests=views.enrolments(config))

    @router.get("/audit")
    def audit(request: Request, session: Reader) -> Response:
        return web.show(request, "audit", session, entries=web.audit.newest())

    @router.get("/events")
    def events(session: Reader) -> Response:
        return StreamingResponse(_stream(web.changes), media_type="text/event-stream")

    _add_devices(router, web)
    return router


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
        return web.show(request, "devices", session, table=table, asked=asked, columns=views.COLUMNS)


async def _stream(changes: Changes) -> AsyncIterator[str]:
    """Server-sent events: one at every change, and signs of life between them."""
    yield "retry: 2000\n\n"
    async for number in changes.follow():
        yield f"event: changed\ndata: {number}\n\n" if number else ": alive\n\n"
