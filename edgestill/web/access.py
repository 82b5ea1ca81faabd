"""Authorization for reading and acting, shared by the handlers of all views."""

import time
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from aggregator.config.fleet import FleetConfig
from edgestill.web.audit import AuditLog
from edgestill.web.changes import Changes
from edgestill.web.pages import templates
from edgestill.web.sessions import Session, Sessions

__all__ = ["COOKIE", "Access", "Text", "own_path"]

COOKIE = "edgestill"
LONGEST = 500  # characters of a message that an action leaves for the next view
Text = Annotated[str, Form(max_length=1000)]


@dataclass(slots=True, kw_only=True)
class Access:
    """One fleet's page. `open_reading`: views need no login; `secure`: it is served over TLS."""

    config: FleetConfig
    open_reading: bool
    secure: bool
    audit: AuditLog
    changes: Changes
    sessions: Sessions = field(default_factory=Sessions)
    pages: Environment = field(default_factory=templates)

    def session(self, request: Request) -> Session | None:
        """The login of a request, if it has one."""
        return self.sessions.find(request.cookies.get(COOKIE))

    def reader(self, request: Request) -> Session | None:
        """The login of a request that reads; one that may not is sent to the login."""
        session = self.session(request)
        if session is None and not self.open_reading:
            target = urlencode({"to": request.url.path})
            raise HTTPException(303, headers={"Location": f"/login?{target}"})
        return session

    def member(self, request: Request) -> Session:
        """The login of a request for what costs this machine something; without one it is sent to the login."""
        session = self.session(request)
        if session is None:
            raise HTTPException(303, headers={"Location": f"/login?{urlencode({'to': request.url.path})}"})
        return session

    def operator(self, request: Request, csrf: Text = "") -> Session:
        """The login of a request that acts; its form must be one that we gave to this login."""
        session = self.session(request)
        if session is None:
            raise HTTPException(403, "log in first")
        elsewhere = request.headers.get("sec-fetch-site", "same-origin") != "same-origin"
        if not csrf or csrf != session.csrf or elsewhere:
            raise HTTPException(403, "this form is not of your login; reload the page")
        return session

    def show(
        self, request: Request, view: str, session: Session | None, code: int = 200, **values: Any
    ) -> HTMLResponse:
        """A whole page, or what stands in its middle if the script asks for that."""
        name = "fragment.html.j2" if request.headers.get("x-fragment") else "page.html.j2"
        said = request.query_params.get("said", "")[:LONGEST]
        about = {"view": view, "fleet": self.config.fleet, "session": session, "now": time.time(), "said": said}
        about["runs_shown"] = self.config.monitor.runs is not None
        return HTMLResponse(self.pages.get_template(name).render(**about, **values), code)


def own_path(text: str) -> str:
    r"""A path of this page, never an address elsewhere.

    >>> own_path("/devices/pi-1"), own_path("//evil.example"), own_path("/\\evil.example"), own_path("https://x")
    ('/devices/pi-1', '/', '/', '/')
    """
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain else "/"
