"""Logging in and out, and the actions of who has logged in; each leaves an entry in the audit log."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from core.errors import EdgestillError
from edgestill.web.access import COOKIE, Access, Text, own_path
from edgestill.web.actions import act
from edgestill.web.sessions import Session
from edgestill.web.token import is_token

__all__ = ["acting"]

MANY = "Too many wrong tokens. Try again in a minute."
WRONG = "This is not the token. `edgestill web token` makes a new one."


def acting(web: Access) -> APIRouter:
    """The routes of login, logout and actions."""
    router = APIRouter()

    @router.get("/login")
    def login_page(request: Request, to: str = "/") -> Response:
        return web.show(request, "login", web.session(request), to=own_path(to), error="")

    @router.post("/login")
    def login(request: Request, token: Text = "", to: Text = "/") -> Response:
        return _log_in(web, request, token, own_path(to))

    @router.post("/logout")
    def logout(session: Annotated[Session, Depends(web.operator)]) -> Response:
        web.sessions.end(session)
        web.audit.write(session.who, "logout")
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    @router.post("/actions/{name}")
    def action(
        session: Annotated[Session, Depends(web.operator)],
        name: str,
        on: Text = "",
        key: Text = "",
        value: Text = "",
        to: Text = "/",
    ) -> Response:
        value = value.strip()
        said = _act(web, session, name, on, f"{key}={value}" if key and value else key or value)
        target = own_path(to)
        return RedirectResponse(f"{target}{'&' if '?' in target else '?'}{urlencode({'said': said})}", 303)

    return router


def _log_in(web: Access, request: Request, token: str, to: str) -> Response:
    who = request.client.host if request.client else "unknown"
    if not web.sessions.may_try():
        return web.show(request, "login", None, 429, to=to, error=MANY)
    if not is_token(web.config.state, token):
        web.sessions.failed()
        web.audit.write(who, "login", answer="wrong token", failed=True)
        return web.show(request, "login", None, 403, to=to, error=WRONG)
    web.audit.write(who, "login", answer="logged in")
    answer = RedirectResponse(to, 303)
    name = web.sessions.begin(who).name
    answer.set_cookie(COOKIE, name, httponly=True, samesite="strict", secure=web.secure, path="/")
    return answer


def _act(web: Access, session: Session, name: str, on: str, value: str) -> str:
    """What to tell the operator."""
    subject = f"{on} {value}".strip()
    try:
        answer = act(web.config, name, on, value)
    except EdgestillError as error:
        web.audit.write(session.who, name, subject, answer=str(error), failed=True)
        return f"refused: {error}"
    web.audit.write(session.who, name, subject, answer=answer)
    return answer
