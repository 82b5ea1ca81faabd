"""The page as an ASGI application: views for who may read, actions for who has logged in.

Reading is open where nobody but this machine can ask (`open_reading`); else it needs a login too. Every form carries
the login's CSRF token, cookies are strict and unreadable by scripts, and a header lets the browser load nothing from
elsewhere and to run no script that stands in the markup.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.staticfiles import StaticFiles

from aggregator.config.fleet import FleetConfig
from core.errors import EdgestillError
from edgestill.web.access import Access
from edgestill.web.acting import acting
from edgestill.web.audit import AuditLog
from edgestill.web.changes import Changes
from edgestill.web.exporting import exporting
from edgestill.web.reading import reading

__all__ = ["make_app"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STATIC = Path(__file__).parent / "static"
#: The style of the reports: one theme for all that is shown in a browser.
THEME = resources.files("fleet.report.html") / "templates/page.css"


def make_app(config: FleetConfig, changes: Changes, *, open_reading: bool, secure: bool, loopback: bool) -> FastAPI:
    """The application of one fleet. `loopback`: it is served to this machine alone, under its own names."""
    app = FastAPI(title="edgestill", docs_url=None, redoc_url=None, openapi_url=None)
    web = Access(
        config=config,
        open_reading=open_reading,
        secure=secure,
        audit=AuditLog(config.state),
        changes=changes,
    )
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.include_router(reading(web))
    app.include_router(acting(web))
    app.include_router(exporting(web))

    @app.get("/theme.css")
    def theme() -> Response:
        return Response(THEME.read_text(), media_type="text/css")

    @app.middleware("http")
    async def guard(request: Request, follow: Callable[[Request], Awaitable[Response]]) -> Response:
        if loopback and request.url.hostname not in LOOPBACK:  # a name of somebody else's that points to this machine
            return PlainTextResponse("this page is served to 127.0.0.1 and localhost\n", 400)
        answer = await follow(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    def failed(request: Request, error: Exception) -> Response:
        return web.show(request, "error", web.session(request), 503, error=str(error))

    for kind in (EdgestillError, sqlite3.Error, OSError):  # no journal yet, a locked one, a disk that fails
        app.add_exception_handler(kind, failed)
    return app
