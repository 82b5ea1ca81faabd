"""One HTTP GET over urllib that can resume an earlier one; http and https only, redirects included."""

from __future__ import annotations

import http.client
import re
import socket
import urllib.error
import urllib.request
from typing import Any

__all__ = ["Answer", "Gone", "Interrupted", "get"]

TIMEOUT = 30.0  # seconds without a byte
_FATAL = {400, 401, 403, 404, 405, 410, 451}


class Gone(Exception):  # noqa: N818 - a condition that fetch reports
    """This mirror cannot deliver the file."""


class Interrupted(Exception):  # noqa: N818
    """A temporary failure; worth a retry."""


class Answer:
    """A server's response: first byte, total size, and the body."""

    def __init__(self, response: Any | None, *, start: int, total: int | None) -> None:
        self._response = response
        self.nothing_left = response is None  # the server reports that the file is complete
        self.start = start
        self.total = total
        headers = response.headers if response is not None else {}
        etag = headers.get("ETag", "")
        # a weak ETag may not be used to continue a download (RFC 9110, 13.1.5)
        self.validator = etag if etag.startswith('"') else headers.get("Last-Modified", "")

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end, or if the connection ended early."""
        assert self._response is not None
        try:
            data: bytes = self._response.read(size)
        except http.client.IncompleteRead as error:
            return error.partial
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"the connection broke ({error or type(error).__name__})") from None
        return data

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response is not None:
            self._response.close()


def get(url: str, *, start: int = 0, validator: str = "") -> Answer:
    """Request `url` from byte `start`; with a validator, only if the file is unchanged."""
    headers = {"User-Agent": "edgestill", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            return _refused(error)
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror):
            raise Gone("its name does not resolve") from None
        raise Interrupted(f"unreachable ({error.reason})") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Interrupted(f"unreachable ({error or type(error).__name__})") from None
    return _accepted(response, start)


def _accepted(response: Any, start: int) -> Answer:
    length = response.headers.get("Content-Length", "")
    if response.status != 206:
        return Answer(response, start=0, total=int(length) if length.isdigit() else None)
    sent = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if sent is None or int(sent[1]) != start:
        response.close()
        raise Gone("it sends a different range than the requested one")
    return Answer(response, start=start, total=int(sent[2]) if sent[2] != "*" else None)


def _refused(error: urllib.error.HTTPError) -> Answer:
    if error.code == 416:  # no bytes after the requested start
        total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        return Answer(None, start=0, total=int(total[1]) if total else None)
    if error.code in _FATAL:
        raise Gone(f"it answers {error.code} {error.reason}")
    raise Interrupted(f"it answers {error.code} {error.reason}")


def _opener() -> urllib.request.OpenerDirector:
    """The opener of `urlopen` without its file: and ftp: handlers, so that a redirect cannot use them."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
