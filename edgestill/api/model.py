"""One prototype's trained model: predictions, ONNX, weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import torch

from core.files import named_file, write_atomic
from core.versions import versions
from edge_agent.predict.images import as_array
from edge_agent.predict.inputs import prepare_inputs
from edge_agent.predict.model import Prediction, prediction_of
from fleet.data.dataset import Dataset
from fleet.engines.threads import one_thread
from models.card import InputCard, ModelCard, layout_of
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.metadata import write_metadata
from quant.onnx.raw import raw_graph
from quant.pack import pack_state
from wire.tensors import encode

__all__ = ["TrainedModel"]

BATCH = 256


class TrainedModel:
    """The model of one prototype after the last round of a run.

    It computes as a board does, at the prototype's own precision. `torch` is the `nn.Module`.
    """

    def __init__(
        self, model: Prototype, dataset: Dataset, *, floats: str, round_number: int, accuracy: float | None
    ) -> None:
        self.torch = model.eval()
        self.round = round_number
        self.accuracy = accuracy
        self._dataset, self._floats = dataset, floats

    def __repr__(self) -> str:
        scored = "" if self.accuracy is None else f", accuracy {100 * self.accuracy:.1f} %"
        return f"<TrainedModel {self.name}, round {self.round}{scored}>"

    @property
    def name(self) -> str:
        """The prototype, such as `cnn:w1`."""
        return str(self.torch.spec)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self._dataset.class_names

    @property
    def digest(self) -> str:
        """SHA-256 of the tensors as they are published: equal for equal bits."""
        return hashlib.sha256(encode(pack_state(self.torch.state_dict(), floats=self._floats))).hexdigest()

    @property
    def card(self) -> ModelCard:
        """What the model expects and answers, as on a board (`models/card.py`)."""
        return self._card(raw=False)

    def predict(self, x: object) -> Prediction:
        """Answers for `x`: one sample or N as the dataset has them, a picture's path, or a list of those.

        Bytes of images and features are normalized as in training.
        """
        card = self.card
        if isinstance(x, torch.Tensor):
            x = x.numpy(force=True)
        inputs = torch.from_numpy(prepare_inputs(card.input, as_array(x, card.input)))
        with one_thread(), torch.no_grad():
            logits = torch.cat([self.torch(part) for part in torch.split(inputs, BATCH)])
        return prediction_of(card, logits.numpy())

    def to_onnx(self, path: str | Path, *, raw_input: bool = True) -> Path:
        """Write an ONNX file with its card; it is loaded by `edgestill.device.Model`, or by ONNX Runtime alone.

        With `raw_input` the graph takes samples as the dataset has them and answers with probabilities; otherwise, or
        if the dataset needs no normalization, it takes normalized samples and answers with logits.
        """
        path = named_file(path)
        card = self._card(raw=raw_input)
        example = self.torch.example_input(4, generator=torch.Generator().manual_seed(0))
        with one_thread():
            data = export_onnx(self.torch, example).data
        given = card.input
        if given.inside:
            assert given.mean is not None
            assert given.std is not None
            data = raw_graph(data, given.mean, given.std, dtype="uint8" if given.dtype == "uint8" else "float32")
        write_atomic(path, write_metadata(data, card.to_metadata(), producer="edgestill", version=card.edgestill))
        return path

    def _card(self, *, raw: bool) -> ModelCard:
        dataset, spec = self._dataset, self.torch.spec
        tokens = self.torch.tokens is not None
        plain = tokens or all(one is None for one in dataset.normalisation())
        raw = raw and not plain
        stored: Any = "int64" if tokens else "uint8" if raw and dataset.x_train.dtype == "uint8" else "float32"
        given = InputCard(
            dtype=stored,
            layout=layout_of(spec.input_shape, tokens=tokens),
            shape=spec.input_shape,
            mean=None if plain else dataset.mean,
            std=None if plain else dataset.std,
            inside=raw,
        )
        card = ModelCard(
            prototype=self.name,
            precision=str(spec.precision),
            classes=spec.classes,
            class_names=dataset.class_names,
            input=given,
            output="probabilities" if raw else "logits",
            latent=spec.latent,
            round=self.round,
            edgestill=versions()["edgestill"],
        )
        if self.accuracy is None:
            return card
        return msgspec.structs.replace(card, accuracy=self.accuracy, accuracy_samples=len(dataset.y_test))
