"""Fills the class folder of a board from its camera, or from any command: `edgestill agent collect`.

A command prints a picture to stdout, or the path of a file that it has written. A picture is committed to
PATH/LABEL/ by one rename, under a name with the time, and only if it can be decoded.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from core.errors import ConfigError, DataError, did_you_mean
from core.files import read_regular, write_atomic
from edge_agent.config import AgentConfig
from edge_agent.samples.folder import MOST_FILE
from edge_agent.samples.task_file import read_task
from models.sources.images import open_picture

__all__ = ["CAMERAS", "collect_pictures"]

#: Commands of Raspberry Pi OS and of Debian that print one picture.
CAMERAS = ("rpicam-still", "libcamera-still")
STILL = ("--nopreview", "--immediate", "--encoding", "jpg", "--output", "-")
TIMEOUT_S = 60.0
SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "BMP": ".bmp", "GIF": ".gif", "WEBP": ".webp", "TIFF": ".tif", "PPM": ".ppm"}


def collect_pictures(
    config: AgentConfig, label: str, *, command: str | None, count: int, every: float
) -> Iterator[Path]:
    """The files of `count` pictures, as each is written; without a `command`, from the camera."""
    if config.data.kind != "folder":
        raise ConfigError(f'[data] kind is {config.data.kind!r}; pictures are collected for kind "folder"')
    _check_label(config, label)
    folder = config.data.path / label
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}; make the folder, or check its permissions") from None
    for number in range(count):
        if number:
            time.sleep(every)
        content = _camera() if command is None else _of_command(command)
        try:
            yield _committed(folder, content)
        except DataError as error:
            source = "the camera" if command is None else f"--from {command!r}"
            reason = str(error).removeprefix("the picture: ").partition("; ")[0]
            raise DataError(f"{source}: gave neither a picture nor the path of one ({reason})") from None


def _check_label(config: AgentConfig, label: str) -> None:
    if not label.isprintable() or label != label.strip(" .") or not label or "/" in label or "\\" in label:
        raise ConfigError(f"--label {label!r}: it names a folder; use letters, digits, - and _")
    known = read_task(config.state_dir)
    names = () if known is None or known.task is None else known.task.class_names
    if known is not None and known.label(label) is None:
        hint = did_you_mean(label, names) or f"; known: {' '.join(names[:20]) or f'0 to {known.classes - 1}'}"
        raise ConfigError(f"--label {label!r}: not a class of the fleet{hint}")


def _committed(folder: Path, content: bytes) -> Path:
    with open_picture(Path("the picture"), io.BytesIO(content)) as image:
        try:
            image.load()
        except Exception as error:  # what a decoder makes of damaged bytes
            raise DataError(f"the picture is cut short or damaged ({error})") from None
        suffix = SUFFIXES.get(image.format, f".{str(image.format).lower()}")
    stem = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")
    path = folder / f"{stem}{suffix}"
    try:
        write_atomic(path, content)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    return path


def _of_command(text: str) -> bytes:
    """The picture that a command prints, or whose path it prints."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--from {text!r}: {error}") from None
    if not words:
        raise ConfigError("--from '': give a command")
    said = _run(words)
    if len(said) < 4096 and b"\0" not in said:
        name = said.decode(errors="replace").strip()
        if name and "\n" not in name and os.path.exists(name):
            try:
                return read_regular(name, MOST_FILE)
            except OSError as error:
                raise DataError(f"{name}: {error.strerror or error}") from None
    return said


def _run(words: list[str]) -> bytes:
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(f"{words[0]}: no picture for {TIMEOUT_S:g} s; does the command wait for something?") from None
    except OSError as error:
        raise ConfigError(f"{words[0]}: {error.strerror or error}; is it installed?") from None
    if done.returncode or not done.stdout:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise DataError(f"{words[0]}: exit code {done.returncode}: {last[:200]}")
    return done.stdout


def _camera() -> bytes:
    for name in CAMERAS:
        if shutil.which(name):
            return _run([name, *STILL])
    try:
        import cv2
    except ImportError:
        raise ConfigError(
            f"--camera needs {CAMERAS[0]}, {CAMERAS[1]} or OpenCV, and none is installed; or use --from COMMAND"
        ) from None
    camera = cv2.VideoCapture(0)
    try:
        taken, frame = camera.read()
        if not taken:
            raise DataError("OpenCV has no picture of camera 0; is one connected?")
        done, encoded = cv2.imencode(".jpg", frame)
        if not done:
            raise DataError("OpenCV could not encode the picture")
        return bytes(encoded)
    finally:
        camera.release()
