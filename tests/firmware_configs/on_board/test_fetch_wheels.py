"""A board fetches what it lacks, goes on where it was, and takes nothing that is not in its lock."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from firmware_configs.kits.lock import Locked, lock_text
from firmware_configs.on_board import fetch_wheels
from firmware_configs.on_board.fetch_wheels import FetchError, Wheel, fetch, main, named_wheels
from tests.brokers import free_port
from tests.certificates import Authority

pytestmark = pytest.mark.light
CONTENT = {"torch-2.7.1+k1-py3-none-any.whl": os.urandom(900_000), "rich-1.0-py3-none-any.whl": os.urandom(3000)}
BIG, SMALL = CONTENT
Answer = Callable[[BaseHTTPRequestHandler, bytes, int], None]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def honest(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(data) - start))
    handler.end_headers()
    handler.wfile.write(data[start:])


def cut(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    """The connection breaks after a third of the file."""
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", str(len(data) - start))
    handler.end_headers()
    handler.wfile.write(data[start : start + len(data) // 3])
    handler.wfile.flush()


def whole(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    """A server that knows no ranges."""
    honest(handler, data, 0)


def another_part(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {start + 1}-{len(data) - 1}/{len(data)}")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def endless(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    """More than was asked for, and not that."""
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(bytes(1 << 16))
    except OSError:
        pass


def busy(handler: BaseHTTPRequestHandler, data: bytes, start: int) -> None:
    handler.send_response(503)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


class Server(ThreadingHTTPServer):
    """Answers as told, one answer after another, then honestly."""

    daemon_threads = True

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/below/"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        part = self.headers.get("Range")
        self.server.asked.append((self.path, part))
        sha256, _, file = self.path.removeprefix("/below/").partition("/")
        if file not in CONTENT or sha(CONTENT[file]) != sha256:
            self.send_error(404)
            return
        start = int(part.removeprefix("bytes=").rstrip("-")) if part else 0
        answer = self.server.answers.pop(0) if self.server.answers else honest
        answer(self, CONTENT[file], start)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(fetch_wheels, "FIRST_WAIT_S", 0.001)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def a_wheel(file: str = BIG) -> Wheel:
    data = CONTENT[file]
    name, version = file.split("-")[:2]
    return Wheel(file, name, version, sha(data), len(data))


def a_kit(folder: Path, url: str) -> Path:
    """The files of a kit that the script reads."""
    folder.mkdir()
    wheels = {file: {"sha256": sha(data), "bytes": len(data), "os": ["bookworm"]} for file, data in CONTENT.items()}
    (folder / "kit.json").write_text(json.dumps({"wheels": wheels, "fetch": {"url": url, "always": True}}))
    locked = {
        w.name: Locked(name=w.name, version=w.version, file=w.file, sha256=w.sha256) for w in map(a_wheel, CONTENT)
    }
    (folder / "lock.txt").write_text(lock_text(locked, "A lock."))
    return folder


def test_the_wheels_of_a_lock_are_those_that_edgestill_writes(tmp_path: Path) -> None:
    kit = a_kit(tmp_path / "kit", "http://x")
    found = named_wheels((kit / "lock.txt").read_text(), json.loads((kit / "kit.json").read_text()))
    assert {wheel.file: wheel for wheel in found} == {file: a_wheel(file) for file in CONTENT}


def test_a_wheel_is_fetched_by_its_hash(server: Server, tmp_path: Path) -> None:
    fetch(server.url, a_wheel(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [BIG]
    assert (tmp_path / BIG).read_bytes() == CONTENT[BIG]
    assert server.asked == [(f"/below/{sha(CONTENT[BIG])}/{BIG}", None)]


def test_a_transfer_that_breaks_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.answers = [cut, busy, cut]
    fetch(server.url, a_wheel(), tmp_path)
    assert (tmp_path / BIG).read_bytes() == CONTENT[BIG]
    third = len(CONTENT[BIG]) // 3
    assert [part for _, part in server.asked] == [None, f"bytes={third}-", f"bytes={third}-", f"bytes={2 * third}-"]


def test_a_server_without_ranges_sends_it_again(server: Server, tmp_path: Path) -> None:
    server.answers = [cut, whole]
    fetch(server.url, a_wheel(), tmp_path)
    assert (tmp_path / BIG).read_bytes() == CONTENT[BIG]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([busy] * 5, "status 503"),
        ([cut, *[another_part] * 5], "the answer is another part than was asked for"),
        ([endless], "not the wheel of the kit; there, try `edgestill kit verify`"),
    ],
)
def test_what_is_not_the_wheel_is_not_taken(server: Server, tmp_path: Path, answers: list[Answer], why: str) -> None:
    server.answers = [*answers]
    with pytest.raises(FetchError, match=f": {BIG.replace('+', '.')}: .*{why}"):
        fetch(server.url, a_wheel(), tmp_path)
    assert not (tmp_path / BIG).exists()
    assert server.answers == []
    assert all(path.stat().st_size <= len(CONTENT[BIG]) for path in tmp_path.iterdir())
    fetch(server.url, a_wheel(), tmp_path)  # a later run
    assert (tmp_path / BIG).read_bytes() == CONTENT[BIG]


def test_a_wheel_that_is_not_there_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    wheel = Wheel("new-1-py3-none-any.whl", "new", "1", "0" * 64, 5)
    with pytest.raises(FetchError, match=r"has no new-1-py3-none-any\.whl; provision the fleet again"):
        fetch(server.url, wheel, tmp_path)
    assert len(server.asked) == 1


def test_only_what_is_missing_is_fetched(server: Server, tmp_path: Path) -> None:
    kit, to, card = a_kit(tmp_path / "kit", server.url), tmp_path / "to", tmp_path / "card"
    card.mkdir()
    (card / SMALL).write_bytes(CONTENT[SMALL])
    (card / BIG).write_bytes(b"damaged")
    to.mkdir()
    (to / f".{'0' * 64}.part").write_bytes(b"of an earlier kit")
    assert main(kit, kit / "lock.txt", to, [card]) == "1 wheels are fetched and have their hashes"
    assert [path.name for path in to.iterdir()] == [BIG]
    assert [path.name for path in card.iterdir()] == [SMALL]  # pip would find two of one name
    assert main(kit, kit / "lock.txt", to, [card]) == "all wheels are here"
    assert len(server.asked) == 1


def test_what_is_installed_already_is_not_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = a_kit(tmp_path / "kit", server.url)
    monkeypatch.setattr(fetch_wheels.metadata, "version", {"torch": "2.7.1+k1", "rich": "0.9"}.get)
    main(kit, kit / "lock.txt", tmp_path / "to", [], installed=True)
    assert [path.name for path in (tmp_path / "to").iterdir()] == [SMALL]


def test_a_disk_without_room_is_told_before_anything_is_fetched(server: Server, tmp_path: Path) -> None:
    kit = a_kit(tmp_path / "kit", server.url)
    with pytest.raises(FetchError, match=r"^\d+ MB are free in .*, and the wheels take 0 MB, and 999999999 MB once"):
        main(kit, kit / "lock.txt", tmp_path / "to", [], spare_mb=999_999_999)
    assert server.asked == []


def test_as_install_sh_runs_it(server: Server, tmp_path: Path) -> None:
    """A Python that sees the standard library alone."""
    kit = a_kit(tmp_path / "kit", server.url)
    script = kit / "fetch_wheels.py"
    script.write_bytes(Path(fetch_wheels.__file__).read_bytes())
    command = [sys.executable, "-I", "-S", str(script), "--lock", str(kit / "lock.txt"), "--to", str(tmp_path / "to")]
    command += ["--spare-mb", "1", "--find-links", str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"edgestill: fetching 2 wheels, 0.9 MB, from {server.url}",
        "edgestill: 2 wheels are fetched and have their hashes",
    ]
    (kit / "kit.json").write_text((kit / "kit.json").read_text().replace("sha256", "sha1"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_over_https_the_fleets_own_authority_is_believed_and_no_other(server: Server, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("127.0.0.1"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.url.replace("http:", "https:")
    with pytest.raises(FetchError, match="certificate verify failed"):
        fetch(url, a_wheel(SMALL), tmp_path, other.ca)
    fetch(url, a_wheel(SMALL), tmp_path, authority.ca)
    assert (tmp_path / SMALL).read_bytes() == CONTENT[SMALL]


def test_without_a_network_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_wheels, "FIRST_WAIT_S", 0.001)
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(FetchError, match=f"^{url}: {SMALL}: .*refused"):
        fetch(url, a_wheel(SMALL), tmp_path)
