"""Debian's Chromium without a window: what a page looks like, what it asks for, how wide it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="NOT LOOKED AT IN A BROWSER: chromium is not here; apt-get install chromium"
)
#: Tells how far the page is wider than the window, in an attribute that --dump-dom shows.
MEASURE = """<script>addEventListener("load", () => { const root = document.documentElement;
root.dataset.overflow = root.scrollWidth - root.clientWidth;
root.dataset.broken = [...document.images].filter(i => !i.naturalWidth).length; })</script>"""


def chromium(page: Path, *flags: str, width: int = 1200, height: int = 900) -> str:
    """What it prints; nothing of it stays but what `flags` ask for."""
    assert CHROMIUM is not None
    profile = page.parent / "profile"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    command += ["--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measured(page: Path, *flags: str, **size: int) -> tuple[str, int, int]:
    """The text of the page as a reader finds it, pixels that it is too wide, pictures that do not show."""
    copy = page.with_name("measured.html")
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())  # lets our script run
    copy.write_text(free.replace("</head>", f"{MEASURE}</head>"))
    dom = chromium(copy, "--dump-dom", *flags, **size)
    overflow, broken = (re.search(rf'data-{name}="(-?\d+)"', dom) for name in ("overflow", "broken"))
    assert overflow is not None, "the page never finished loading"
    assert broken is not None
    text = re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", "\n", dom, flags=re.DOTALL)
    return text, int(overflow[1]), int(broken[1])


def asked_for(log: Path) -> list[str]:
    """The URLs that a page asked for, of a log by --log-net-log; what the browser does of itself is left out."""
    facts = json.loads(log.read_text())
    started = facts["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [
        event["params"] for event in facts["events"] if event["type"] == started and "url" in event.get("params", {})
    ]
    return [params["url"] for params in asked if params.get("initiator") != "not an origin"]
