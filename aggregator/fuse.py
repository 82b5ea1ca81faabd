"""One prototype's round, fused: updates from disk in, the next model, its scores and its artifact out.

A model's artifact holds its full-precision state, as float16 for prototypes whose devices quantize it anyway. The
same updates give the same bits: they are taken in the order of their device ids, and nothing here depends on a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from aggregator.artifacts import seal_artifact
from aggregator.blobs import Blobs
from aggregator.evaluate import evaluate
from aggregator.recipes import find_recipe
from aggregator.rows import UpdateRow
from aggregator.stored import StoredUpdates, base_arrays
from models.build import build
from models.roles import merge_state
from models.seeding import torch_rng
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state, unpack
from wire.keys import Ed25519PrivateKey
from wire.messages import ModelHeader
from wire.tensors import encode

__all__ = ["Fuser", "wire_floats"]

PARENTS = 900  # that a header can name; the journal names all
State = dict[str, torch.Tensor]


def wire_floats(spec: PrototypeSpec) -> str:
    """The float dtype in which a prototype's state is published."""
    return "fp16" if spec.precision.quantized else "fp32"


@dataclass(slots=True)
class Fuser:
    """What all prototypes and rounds have in common."""

    blobs: Blobs
    key: Ed25519PrivateKey
    fleet: str
    validation: tuple[torch.Tensor, torch.Tensor] | None = None
    models: dict[PrototypeSpec, Prototype] = field(default_factory=dict)  # to score with; their weights are replaced

    def start(self, spec: PrototypeSpec, seed: int) -> tuple[str, ModelHeader]:
        """The first model of a prototype; the seed and the prototype decide it."""
        model = build(spec, generator=torch_rng(seed, "init", str(spec)))
        state = unpack(pack_state(model.state_dict(), floats="fp32"))
        return self._publish(model, state, round=0, recipe="start", parents=(), metrics={})

    def fuse(
        self, spec: PrototypeSpec, number: int, recipe: str, base: str, rows: Sequence[UpdateRow]
    ) -> tuple[str, ModelHeader]:
        """The next model from the model `base` and the updates `rows`, which are in the order of their device ids."""
        if spec not in self.models:
            self.models[spec] = build(spec)
        model = self.models[spec]
        state = self._fused(recipe, base, rows)
        examples = [row.num_examples for row in rows]
        losses = [row.metrics.get("train_loss", float("nan")) for row in rows]
        loss = float(np.average(losses, weights=examples))
        metrics = {"train_loss": loss} if np.isfinite(loss) else {}
        parents = (base, *(row.digest for row in rows))[:PARENTS]
        return self._publish(model, state, round=number, recipe=recipe, parents=parents, metrics=metrics)

    def _fused(self, recipe: str, base: str, rows: Sequence[UpdateRow]) -> State:
        """Whoever sent all tensors is fused; predictors are fused over all devices; what nobody sent stays."""
        arrays = base_arrays(self.blobs.read(base))
        whole = [row for row in rows if row.kind != "predictor"]
        fuse = find_recipe(recipe)
        state = unpack(arrays)
        if whole:
            state = fuse(StoredUpdates(whole, self.blobs, arrays), [row.num_examples for row in whole])
        if len(whole) < len(rows):
            predictors = StoredUpdates(rows, self.blobs, arrays, predictor=True)
            state = merge_state(state, fuse(predictors, [row.num_examples for row in rows]))
        return state

    def _publish(
        self,
        model: Prototype,
        state: State,
        *,
        round: int,  # noqa: A002 - the word of the protocol
        recipe: str,
        parents: tuple[str, ...],
        metrics: dict[str, float],
    ) -> tuple[str, ModelHeader]:
        spec = model.spec
        header = ModelHeader(
            round=round,
            prototype=str(spec),
            input_shape=spec.input_shape,
            classes=spec.classes,
            latent=model.latent,
            recipe=recipe,
            parents=parents,
            metrics={**metrics, **self._score(model, state)},
        )
        body = encode(pack_state(state, floats=wire_floats(spec)))
        return self.blobs.put(seal_artifact(header, body, key=self.key, fleet=self.fleet)), header

    def _score(self, model: Prototype, state: State) -> dict[str, float]:
        """Of the fused model: as it is, and at the prototype's own precision."""
        if self.validation is None:
            return {}
        load_packed(model, pack_state(state, floats="fp32"))
        with weights_as_they_are(model):
            full = evaluate(model, *self.validation)
        scores = {"accuracy": full.accuracy, "loss": full.loss}
        if model.spec.precision.quantized:
            scores["accuracy_quantized"] = evaluate(model, *self.validation).accuracy
        return scores
