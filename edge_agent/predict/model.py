"""The board's model for an application: loaded with its card, reloaded when the agent has replaced it.

A path names one of

    a folder          with current.json, which names its ONNX file: the one that the agent publishes, or its state_dir
    a card            that file itself
    an ONNX file      whose metadata are the card

A card has the SHA-256 of its file, so a card and a graph that do not match are never used together. Imports
neither torch nor the onnx package.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from core.files import read_regular
from edge_agent.predict.images import as_array
from edge_agent.predict.inputs import prepare_inputs
from models.card import InputCard, ModelCard, layout_of
from quant.onnx.session import open_session, run_graph

__all__ = ["CARD_FILE", "Model", "Prediction", "prediction_of"]

log = logging.getLogger("edgestill.predict")

CARD_FILE, GRAPH_FILE = "current.json", "current.onnx"
BATCH = 64
MAX_CARD, MAX_GRAPH = 2**20, 2**31 - 1
PATIENCE_S, PAUSE_S = 2.0, 0.05  # for a card and a graph that are being replaced one after the other
INT8 = "int8"  # the precision of graphs of quant/onnx/integers/int8.py, whose integer operators make them fast


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answers for N inputs."""

    classes: NDArray[np.int64]  # (N,)
    labels: tuple[str, ...]  # N names of classes
    probabilities: NDArray[np.float32]  # (N, C)
    logits: NDArray[np.float32] | None  # (N, C); None if the graph answers with probabilities
    card: ModelCard  # of the model that has answered


@dataclass(frozen=True, slots=True)
class _Loaded:
    card: ModelCard
    session: Any
    stamp: tuple[int, int, int]


class Model:
    """A model file and its card; safe to use from several threads.

    model = Model("/var/lib/edgestill-model")
    print(model.predict("leaf.png").labels)
    """

    def __init__(self, path: Path | str, *, threads: int = 1) -> None:
        self.path = Path(path)
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded = self._load()

    @property
    def card(self) -> ModelCard:
        """The model's card: its inputs, outputs and origin."""
        return self._loaded.card

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.card.labels

    def predict(self, x: object) -> Prediction:
        """Answers for `x`: an array of one sample or of N, a file (.npy, or a picture), or a list of files.

        Bytes of images and readings of sensors are normalized as the card says. DataError says in words what is wrong
        with the inputs.
        """
        loaded = self._loaded  # one model for the whole call
        inputs = prepare_inputs(loaded.card.input, as_array(x, loaded.card.input))
        parts = [run_graph(loaded.session, inputs[i : i + BATCH]) for i in range(0, len(inputs), BATCH)]
        return prediction_of(loaded.card, np.concatenate(parts))

    def reload(self) -> bool:
        """Load the file again if it has changed; whether it had. Costs one `stat` if not.

        A new file that cannot be used raises ModelError, and the model before stays in use.
        """
        if self._stamp() == self._loaded.stamp:
            return False
        with self._lock:
            if self._stamp() == self._loaded.stamp:  # another thread was faster
                return False
            self._loaded = self._load()
        return True

    @contextlib.contextmanager
    def watch(self, seconds: float = 1.0) -> Iterator[Model]:
        """Reload in a thread whenever the file changes, as long as the block runs."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended, seconds), name="model watch", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event, seconds: float) -> None:
        reported = ""
        while not ended.wait(seconds):
            try:
                self.reload()
                reported = ""
            except ModelError as error:
                if str(error) != reported:  # not every second
                    log.warning("the model before stays in use: %s", error)
                reported = str(error)

    @property
    def _watched(self) -> Path:
        if not os.path.isdir(self.path):  # unlike Path.is_dir, no error if this user may not know
            return self.path
        cards = (self.path / CARD_FILE, self.path / GRAPH_FILE)
        return next((file for file in cards if os.path.exists(file)), cards[0])

    def _stamp(self) -> tuple[int, int, int]:
        try:
            facts = os.stat(self._watched)
        except OSError as error:
            raise ModelError(f"{self._watched}: {_why(error)}") from None
        return facts.st_ino, facts.st_mtime_ns, facts.st_size

    def _load(self) -> _Loaded:
        until = time.monotonic() + PATIENCE_S
        while True:
            stamp = self._stamp()
            try:
                card, graph = self._read()
                break
            except MismatchError:
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)
        try:
            session = open_session(graph, threads=self._threads, fold=card is None or card.precision != INT8)
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from None
        return _Loaded(_card_of(session, card, str(self.path)), session, stamp)

    def _read(self) -> tuple[ModelCard | None, bytes]:
        """The card, if it is a file of its own, and the graph that it belongs to."""
        watched = self._watched
        data = _bytes(watched, MAX_GRAPH if watched.suffix != ".json" else MAX_CARD)
        if watched.suffix != ".json":
            return None, data
        card = ModelCard.from_json(data, str(watched))
        name = (card.file if card is not None else None) or GRAPH_FILE
        if Path(name).name != name:
            raise ModelError(f"{watched}: names {name!r}, which is not a file beside it")
        graph = _bytes(watched.with_name(name), MAX_GRAPH)
        if card is not None and card.sha256 is not None and hashlib.sha256(graph).hexdigest() != card.sha256:
            raise MismatchError(f"{watched}: the card of another file than {name}; copy both files again")
        return card, graph


class MismatchError(ModelError):
    """A card and a graph that do not match: one of them is about to be replaced, or the file is damaged."""


def _bytes(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and path.suffix == ".onnx":
            raise MismatchError(f"{path}: {_why(error)}") from None
        raise ModelError(f"{path}: {_why(error)}") from None


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no model yet; the agent writes it after its first round, unless the path is wrong"
    if isinstance(error, PermissionError):
        return "may not be read by this user; give the folder of [model] publish, see docs/application.md"
    return error.strerror or str(error)


def _card_of(session: Any, card: ModelCard | None, where: str) -> ModelCard:
    """The card; a file without one is described by its input and output. Both are compared with the graph."""
    taken, made = session.get_inputs()[0], session.get_outputs()[0]
    card = card or ModelCard.from_metadata(session.get_modelmeta().custom_metadata_map, where)
    dtype = {"tensor(uint8)": "uint8", "tensor(int64)": "int64"}.get(taken.type, "float32")
    shape = tuple(taken.shape[1:])
    if not shape or not all(isinstance(size, int) for size in shape):
        raise ModelError(f"{where}: its inputs are {taken.shape}; export it with one fixed shape per sample")
    if card is None:
        classes = made.shape[-1] if made.shape and isinstance(made.shape[-1], int) else 1
        given = InputCard(dtype=dtype, layout=layout_of(shape, tokens=dtype == "int64"), shape=shape)  # type: ignore[arg-type]
        return ModelCard(classes=classes, input=given)
    if (card.input.dtype, card.input.shape) != (dtype, shape):
        raise ModelError(
            f"{where}: its card has inputs {card.input.dtype} {card.input.shape}, its graph {dtype} {shape}"
        )
    return card


def prediction_of(card: ModelCard, answers: NDArray[np.float32]) -> Prediction:
    classes: NDArray[np.int64] = answers.argmax(1)
    labels = card.labels
    if answers.shape[1] != len(labels):  # a file without a card whose number of classes is not in its graph
        labels = tuple(map(str, range(answers.shape[1])))
    names = tuple(labels[number] for number in classes)
    if card.output == "probabilities":
        return Prediction(classes, names, answers, None, card)
    shifted = np.exp(answers - answers.max(1, keepdims=True))
    return Prediction(classes, names, shifted / shifted.sum(1, keepdims=True), answers, card)
