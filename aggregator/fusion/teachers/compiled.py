"""A prototype with received weights, for inference only: as an ONNX template, or as a torch module."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.optimization import fuse

from core import own_code
from core.errors import ModelError
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.freeze import freeze

__all__ = ["folded", "frozen_module", "graph_template", "prepare"]

log = logging.getLogger("edgestill.aggregator")
_KEPT = 32  # prototypes; a fleet has a few


def _seeded(spec: PrototypeSpec) -> Prototype:
    return build(spec, generator=torch.Generator().manual_seed(0))


@functools.lru_cache(_KEPT)
def graph_template(spec: PrototypeSpec) -> bytes | None:
    """The prototype's graph, all weights float and under their state-dict names; None if it cannot be exported."""
    model = _seeded(spec)
    example = model.example_input(2, generator=torch.Generator().manual_seed(0))
    try:
        return export_onnx(model, example, compact=False).data
    except ModelError:
        return None


@functools.lru_cache(_KEPT)
def _traced(spec: PrototypeSpec) -> nn.Module:
    """The prototype in plain torch, as a graph if torch.fx can trace it."""
    module = freeze(_seeded(spec))
    try:
        return symbolic_trace(module)
    except Exception as error:  # a user's architecture may branch on data: the module itself works, but slower
        log.warning("%s: its teachers keep their BatchNorms, torch.fx cannot trace it (%r)", spec, error)
        return module


own_code.when_changed(graph_template.cache_clear)
own_code.when_changed(_traced.cache_clear)


def prepare(spec: PrototypeSpec, compute_device: torch.device) -> None:
    """Create what all teachers of a prototype share. Tracing patches torch globally: call it in one thread only."""
    if compute_device.type != "cpu" or graph_template(spec) is None:
        _traced(spec)


def folded(spec: PrototypeSpec, state: Mapping[str, Tensor]) -> nn.Module:
    """The prototype in plain torch with these weights, in evaluation mode, BatchNorms folded into the convolutions."""
    module = copy.deepcopy(_traced(spec))
    missing, unexpected = module.load_state_dict(dict(state), strict=False)
    wrong = [name for name in (*missing, *unexpected) if not name.endswith("num_batches_tracked")]
    if wrong:
        raise ModelError(f"{spec}: a teacher has a missing or unexpected tensor: {wrong[0]!r}")
    return fuse(module, no_trace=True) if isinstance(module, GraphModule) else module


def frozen_module(
    spec: PrototypeSpec, state: Mapping[str, Tensor], compute_device: torch.device
) -> Callable[[Tensor], Tensor]:
    """The prototype in torch: a function from a batch to float32 logits on the CPU."""
    module = folded(spec, state).to(compute_device)
    images = any(p.ndim == 4 for p in module.parameters())
    if images:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it

    @torch.inference_mode()
    def forward(x: Tensor) -> Tensor:
        batch = (
            x.to(compute_device, memory_format=torch.channels_last) if images and x.ndim == 4 else x.to(compute_device)
        )
        logits: Tensor = module(batch)
        return logits.float().cpu()

    return forward
