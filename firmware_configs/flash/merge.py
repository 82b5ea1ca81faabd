"""Merges a kit's boot settings with the user's files on the card: pure functions from bytes to bytes.

`cmdline.txt` is one line of words. Ours run the kit's script once, as Raspberry Pi Imager does; a first-boot script of
the user is kept, and runs first: systemd runs every `systemd.run=` in order. One more word is for the agent's unit: the
firmware of a Raspberry Pi has the kernel boot with `cgroup_disable=memory`, without which `MemoryMax=` has no effect,
and the words of `cmdline.txt` come after the firmware's (raspberrypi/linux issue 6980). Kernels that do not know the
word ignore it.

The user's `user-data`, in any form, becomes one part of a MIME archive for cloud-init and the kit's the other; the
user's part is neither parsed nor rewritten. Only our own part is replaced when a card is flashed again.

`meta-data` is YAML, in which only the top-level keys of the kit are replaced. JSON, which is YAML too, becomes one line
per key.
"""

from __future__ import annotations

import json
import re
from email import message_from_bytes
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from core.errors import ConfigError

__all__ = ["active_lines", "limit_memory", "merge_cmdline", "merge_meta_data", "merge_user_data"]

PART = "edgestill.cfg"
#: How cloud-init merges our part: lists (runcmd) are appended, and the user's values win.
MERGE = "list(append)+dict(no_replace,recurse_list)+str()"
MARK = b"# edgestill: this part is replaced by `edgestill flash`\n"
OURS = re.compile(r"systemd\.run=/boot/firmware/edgestill/\S*")
CGROUP = "cgroup_enable=memory"
FIXED = ("systemd.run_success_action=reboot", "systemd.unit=kernel-command-line.target")
#: First lines by which cloud-init recognises user-data, and the corresponding MIME types.
FORMS = {
    b"#cloud-config-archive": "text/cloud-config-archive",
    b"#cloud-config": "text/cloud-config",
    b"#cloud-boothook": "text/cloud-boothook",
    b"#include": "text/x-include-url",
    b"#!": "text/x-shellscript",
    b"## template: jinja": "text/jinja2",
}


def merge_cmdline(existing: bytes, script: str) -> bytes:
    """cmdline.txt with our script run at the next boot, and no other script of ours."""
    lines = existing.decode(errors="surrogateescape").splitlines()
    words = [word for word in " ".join(lines).split() if not OURS.fullmatch(word) and word not in FIXED]
    if not words:
        raise ConfigError("cmdline.txt is empty: the board would not boot; write the image to the card again")
    kept = limit_memory(" ".join(words).encode(errors="surrogateescape")).strip()
    return b" ".join([kept, f"systemd.run={script}".encode(), *(word.encode() for word in FIXED)]) + b"\n"


def limit_memory(cmdline: bytes) -> bytes:
    """cmdline.txt with the word that lets units limit their memory, unless it decides about that already.

    >>> limit_memory(b"root=/dev/sda rootwait\\n")
    b'root=/dev/sda rootwait cgroup_enable=memory\\n'
    """
    words = cmdline.decode(errors="surrogateescape").split()
    if not words or any(re.fullmatch(r"cgroup_(en|dis)able=(\S*,)?memory(,\S*)?", word) for word in words):
        return cmdline
    return cmdline.rstrip() + f" {CGROUP}\n".encode()


def merge_user_data(existing: bytes | None, ours: bytes) -> bytes:
    """user-data with the user's part and ours: only ours if there is nothing else."""
    ours = _marked(ours)
    theirs = [part for part in _parts(existing or b"") if part.get_filename() != PART]
    if not theirs:
        return ours
    archive = MIMEMultipart(boundary="==edgestill==")
    mine = _part(ours, PART)
    mine.add_header("Merge-Type", MERGE)
    for part in [*theirs, mine]:
        archive.attach(part)
    return archive.as_bytes(policy=archive.policy.clone(max_line_length=None))


def merge_meta_data(existing: bytes | None, ours: bytes, *, also: tuple[str, ...] = ()) -> bytes:
    """meta-data with our keys in place of the user's of the same name; the rest is kept, including comments.

    `also` are spellings of one key: each that the user has gets the value of ours.
    """
    text = (existing or b"").decode()
    lines = [line for line in ours.decode().splitlines() if re.match(r"[A-Za-z0-9_-]+:", line)]  # no comments
    if text.lstrip().startswith("{"):
        text = _block_lines(text)
    for line in lines:
        key, _, value = line.partition(":")
        for name in also if key in also else (key,):
            at = re.compile(rf"""^["']?{re.escape(name)}["']?[ \t]*:.*(?:\n[ \t]+.*)*$""", re.MULTILINE)
            if at.search(text):
                text = at.sub(lambda _, line=f"{name}:{value}": line, text)  # type: ignore[misc]
            elif name == key:
                text = f"{text.rstrip()}\n{line}\n".lstrip()
    return text.encode()


def _block_lines(text: str) -> str:
    """A table written as JSON, with one key per line."""
    try:
        table = json.loads(text)
    except ValueError:
        raise ConfigError("meta-data is neither lines of `key: value` nor JSON; rewrite it, one key per line") from None
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())


def active_lines(text: bytes) -> list[str]:
    """The lines without comments and blanks."""
    lines = text.decode(errors="replace").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _marked(ours: bytes) -> bytes:
    first, newline, rest = ours.partition(b"\n")
    if first != b"#cloud-config":
        raise ConfigError("user-data of the kit is not a cloud-config; provision it again")
    return first + newline + MARK + rest


def _parts(existing: bytes) -> list[Message]:
    """The parts of user-data; none if it is empty."""
    if re.match(rb"(?i)(content-type|mime-version):", existing):
        message = message_from_bytes(existing)
        parts = message.get_payload() if message.is_multipart() else [message]
        return [part for part in parts if isinstance(part, Message)]
    if MARK in existing.partition(b"\n")[2][: len(MARK)]:
        return []
    if not active_lines(existing) and not existing.startswith((b"#!", b"#include")):
        return []
    return [_part(existing, "user-data")]


def _part(text: bytes, name: str) -> Message:
    kind = next((kind for start, kind in FORMS.items() if text.startswith(start)), None)
    if kind is None:
        raise ConfigError(f"user-data begins with {text[:20]!r}, which is nothing that cloud-init knows; fix it first")
    part = MIMEText(text.decode(), kind.removeprefix("text/"), "utf-8" if not text.isascii() else "us-ascii")
    part.add_header("Content-Disposition", "attachment", filename=name)
    return part
