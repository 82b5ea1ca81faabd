"""Models as files to download. ONNX is made by `edgestill model export` in a process of its own, one at a time."""

import re
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response

from aggregator.config.fleet import FleetConfig
from aggregator.config.tables import ENV
from aggregator.storage.journal import Journal
from aggregator.storage.models import find_model
from core.errors import ConfigError
from core.processes.process import end, environment, start_python
from core.processes.python_child import module_arguments
from edgestill.web.access import Access
from edgestill.web.sessions import Session

__all__ = ["FORMATS", "export_file", "exporting"]

FORMATS = ("onnx", "safetensors")
LONGEST_S = 600.0
_one = Lock()


def exporting(web: Access) -> APIRouter:
    """The route of downloads, for who has logged in."""
    router = APIRouter()

    @router.get("/models/{digest}.{form}")
    def download(session: Annotated[Session, Depends(web.member)], digest: str, form: str) -> Response:
        if form not in FORMATS or not re.fullmatch("[0-9a-f]{64}", digest):
            raise HTTPException(404, "no such model")
        if not _one.acquire(blocking=False):
            raise ConfigError("another model is being exported; try again in a minute")
        try:
            name, data = export_file(web.config, digest, form)
        except ConfigError as error:
            web.audit.write(session.who, "export", digest, answer=str(error), failed=True)
            raise
        finally:
            _one.release()
        web.audit.write(session.who, "export", digest, answer=name)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    return router


def export_file(config: FleetConfig, digest: str, form: str) -> tuple[str, bytes]:
    """A name for the file, and its bytes; ConfigError if the model is not there or cannot be exported."""
    with closing(Journal(config.state / "journal.db", read_only=True)) as journal:
        model = find_model(journal, digest)
    name = f"{re.sub('[^A-Za-z0-9.-]', '-', model.prototype)}-round-{model.round}.{form}"
    with tempfile.TemporaryDirectory(prefix="edgestill-export-") as folder:
        made = Path(folder) / name
        words = ("model", "export", digest, "--config", str(config.path.resolve()), "--out", str(made))
        env = {**environment(), f"{ENV}_STATE_DIR": str(config.state)}  # also if it was given by --set
        child = start_python(module_arguments("edgestill", *words), env=env, stderr=subprocess.PIPE)
        try:
            _, said = child.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"exporting took more than {LONGEST_S:.0f} s and was given up") from None
        finally:
            end(child)
        if child.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            raise ConfigError(lines[-1] if lines else f"exporting failed with exit code {child.returncode}")
        return name, made.read_bytes()
