"""Downloads from a real HTTP server on 127.0.0.1: resumed, checked, retried."""

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from fleet.data.download.fetch import TRIES, fetch, fetch_file
from fleet.data.download.sources import SOURCES, RemoteFile

DATA = np.random.default_rng(0).bytes(300_000)
OTHER = np.random.default_rng(1).bytes(300_000)


class Mirror(ThreadingHTTPServer):
    """A mirror on 127.0.0.1 with Range and ETags; the test sets its files and its faults."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.etag = '"one"'
        self.ranges = True  # False: a server that ignores Range
        self.cut_after: list[int] = []  # for each of the next answers: end the connection after so many bytes
        self.errors: list[int] = []  # for each of the next answers: this status instead
        self.redirect: str | None = None
        self.claim_length = True
        self.seen: list[dict[str, str]] = []  # headers of the requests

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/base/"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Mirror

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the tests' output clean."""

    def do_GET(self) -> None:
        mirror = self.server
        mirror.seen.append(dict(self.headers.items()))
        if mirror.errors:
            self._plain(mirror.errors.pop(0))
            return
        if mirror.redirect:
            self.send_response(302)
            self.send_header("Location", mirror.redirect)
            self.end_headers()
            return
        data = mirror.files.get(self.path.removeprefix("/base/"))
        if data is None:
            self._plain(404)
            return
        start = self._start()
        if start >= len(data) > 0 and start:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(data, start)

    def _start(self) -> int:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not asked or not self.server.ranges or self.headers.get("If-Range", self.server.etag) != self.server.etag:
            return 0
        return int(asked[1])

    def _send(self, data: bytes, start: int) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.server.claim_length:
            self.send_header("Content-Length", str(len(data) - start))
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.end_headers()
        body = data[start:]
        if self.server.cut_after:
            body = body[: self.server.cut_after.pop(0)]
        self.wfile.write(body)
        self.close_connection = True

    def _plain(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    server = Mirror()
    server.files["f.bin"] = DATA
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def remote(*mirrors: str, data: bytes = DATA) -> RemoteFile:
    return RemoteFile("f.bin", f"sha256:{hashlib.sha256(data).hexdigest()}", mirrors, len(data))


class Pauses(list[float]):
    """Instead of sleeping: the pauses that were asked for."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_nothing_else_is_left(mirror: Mirror, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    path = fetch_file(remote(mirror.url), tmp_path, report=lambda *facts: reports.append(facts))
    assert path.read_bytes() == DATA
    assert left_in(tmp_path) == ["f.bin"]
    assert reports[-1] == ("f.bin", 300_000, 300_000)
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)


def test_a_file_that_is_already_right_is_not_asked_for(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(DATA)
    fetch_file(remote(mirror.url), tmp_path)
    assert mirror.seen == []


def test_a_damaged_file_is_replaced(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(DATA[:-1] + b"?")
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA


def test_a_cut_connection_is_continued_where_it_stopped(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cut_after = [100_000, 50_000]
    pauses = Pauses()
    assert fetch_file(remote(mirror.url), tmp_path, sleep=pauses).read_bytes() == DATA
    assert [headers.get("Range") for headers in mirror.seen] == [None, "bytes=100000-", "bytes=150000-"]
    assert [headers.get("If-Range") for headers in mirror.seen] == [None, '"one"', '"one"']
    assert pauses == [1.0, 1.0]  # each attempt brought something new, so the pauses do not grow


def test_a_later_run_continues_an_earlier_one(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cut_after = [100_000] + [0] * TRIES
    with pytest.raises(DataError, match="the connection ended after 100,000 of 300,000 bytes"):
        fetch_file(remote(mirror.url), tmp_path, sleep=Pauses())
    assert left_in(tmp_path) == ["f.bin.part", "f.bin.part.from"]
    mirror.seen.clear()
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA
    assert mirror.seen[0]["Range"] == "bytes=100000-"
    assert left_in(tmp_path) == ["f.bin"]


def test_a_file_that_changed_meanwhile_is_begun_anew(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(OTHER[:1000])
    (tmp_path / "f.bin.part.from").write_text(f'{mirror.url}f.bin\n"old"\n')
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA
    assert [headers.get("If-Range") for headers in mirror.seen] == ['"old"']  # one request: the server sent all of it


def test_a_stale_part_without_a_word_of_its_origin_costs_one_more_download(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(OTHER[:1000])
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA
    assert [headers.get("Range") for headers in mirror.seen] == ["bytes=1000-", None]


def test_a_part_longer_than_the_file_is_thrown_away(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(DATA + b"more")
    assert fetch_file(remote(mirror.url), tmp_path, sleep=Pauses()).read_bytes() == DATA


def test_a_part_that_is_whole_is_only_checked(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "f.bin.part").write_bytes(DATA)
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA
    assert len(mirror.seen) == 1


def test_a_server_without_ranges_sends_everything_again(mirror: Mirror, tmp_path: Path) -> None:
    mirror.ranges = False
    mirror.cut_after = [100_000]
    assert fetch_file(remote(mirror.url), tmp_path, sleep=Pauses()).read_bytes() == DATA


def test_a_server_without_ranges_that_always_cuts_is_given_up(mirror: Mirror, tmp_path: Path) -> None:
    mirror.ranges = False
    mirror.cut_after = [100_000] * 20
    pauses = Pauses()
    with pytest.raises(DataError, match="no mirror delivered it"):
        fetch_file(remote(mirror.url), tmp_path, sleep=pauses)
    assert pauses == [1.0, 1.0, 2.0, 4.0]
    assert len(mirror.seen) == 1 + TRIES


def test_a_wrong_checksum_leaves_nothing_behind(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["f.bin"] = OTHER
    with pytest.raises(DataError, match="wrong checksum"):
        fetch_file(remote(mirror.url), tmp_path)
    assert left_in(tmp_path) == []
    assert len(mirror.seen) == 1


def test_wrong_content_in_pieces_is_not_tried_for_ever(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["f.bin"] = OTHER
    mirror.cut_after = [100_000, 300_000] * 10
    (tmp_path / "f.bin.part").write_bytes(OTHER[:10])
    with pytest.raises(DataError, match="wrong checksum"):
        fetch_file(remote(mirror.url), tmp_path, sleep=Pauses())
    assert len(mirror.seen) < 8


def test_a_file_larger_than_published_is_stopped(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["f.bin"] = DATA * 3
    with pytest.raises(DataError, match="it sends more than the 300,000 bytes of the file"):
        fetch_file(remote(mirror.url), tmp_path)
    assert left_in(tmp_path) == []


def test_a_server_that_tells_no_length_is_checked_by_the_digest(mirror: Mirror, tmp_path: Path) -> None:
    mirror.claim_length = False
    assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA


def test_an_overloaded_server_is_asked_again_with_growing_pauses(mirror: Mirror, tmp_path: Path) -> None:
    mirror.errors = [503, 429, 500]
    pauses = Pauses()
    assert fetch_file(remote(mirror.url), tmp_path, sleep=pauses).read_bytes() == DATA
    assert pauses == [1.0, 2.0, 4.0]


def test_a_missing_file_leads_to_the_next_mirror_at_once(mirror: Mirror, tmp_path: Path) -> None:
    pauses = Pauses()
    elsewhere = mirror.url + "nowhere/"
    assert fetch_file(remote(elsewhere, mirror.url), tmp_path, sleep=pauses).read_bytes() == DATA
    assert pauses == []


def test_a_mirror_with_the_wrong_file_leads_to_the_next(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files["bad/f.bin"] = OTHER
    assert fetch_file(remote(mirror.url + "bad", mirror.url), tmp_path).read_bytes() == DATA


def test_when_all_fail_the_error_names_each_mirror_and_the_folder(mirror: Mirror, tmp_path: Path) -> None:
    closed = "http://127.0.0.1:1/x"
    with pytest.raises(DataError) as caught:
        fetch_file(remote(mirror.url + "nowhere", closed), tmp_path, sleep=Pauses())
    message = str(caught.value)
    assert "404" in message
    assert "127.0.0.1:1: unreachable" in message
    assert f"put the file into {tmp_path} by hand" in message
    assert "\n" not in message


def test_an_unknown_host_is_not_asked_again(tmp_path: Path) -> None:
    pauses = Pauses()
    with pytest.raises(DataError, match="does not resolve"):
        fetch_file(remote("http://mirror.invalid/"), tmp_path, sleep=pauses)
    assert pauses == []


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/f.bin"])
def test_a_redirect_out_of_http_is_not_followed(mirror: Mirror, tmp_path: Path, target: str) -> None:
    mirror.redirect = target
    with pytest.raises(DataError, match="no mirror delivered it"):
        fetch_file(remote(mirror.url), tmp_path, sleep=Pauses())
    assert left_in(tmp_path) == []


def test_a_redirect_within_http_is_followed(mirror: Mirror, tmp_path: Path) -> None:
    other = Mirror()
    other.files["f.bin"] = DATA
    thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    mirror.redirect = other.url + "f.bin"
    try:
        assert fetch_file(remote(mirror.url), tmp_path).read_bytes() == DATA
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


def test_a_dataset_is_fetched_into_a_folder_of_its_name(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = f"md5:{hashlib.md5(DATA, usedforsecurity=False).hexdigest()}"
    monkeypatch.setattr(
        "fleet.data.download.fetch.SOURCES", {**SOURCES, "sst2": (RemoteFile("f.bin", digest, ("http://unused/",)),)}
    )
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    assert fetch("sst2", mirror=mirror.url) == [tmp_path / "sst2" / "f.bin"]
    assert fetch("sst2", tmp_path / "own", mirror=mirror.url) == [tmp_path / "own" / "sst2" / "f.bin"]


@pytest.mark.parametrize(
    ("name", "mirror_url", "says"),
    [
        ("mnits", None, "unknown dataset 'mnits'; .* did you mean 'mnist'"),
        ("digits", None, "digits: nothing to fetch, it comes with scikit-learn"),
        ("mnist", "file:///etc", "give an http:// or https:// address"),
        ("mnist", "mirror.example", "give an http:// or https:// address"),
    ],
)
def test_what_cannot_be_fetched_says_why(name: str, mirror_url: str | None, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        fetch(name, tmp_path, mirror=mirror_url)
    assert left_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="give another folder with --to"):
        fetch("mnist", tmp_path / "file")
