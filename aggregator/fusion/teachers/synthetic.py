"""Synthetic samples: noise, and the outputs of a pre-trained generator.

A generator maps N(0, 1) noise to inputs of the task's models. As an ONNX file it has one float input, whose
name and shape (batch first) are read from the graph, and its first output is x; a graph with a fixed batch is run in
batches of that size. The graph is checked before it is run, like all untrusted input.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.errors import DataError, ModelError
from core.files import read_regular
from quant.onnx.graph_check import ALLOWED_OPERATORS, GraphLimits, check_graph
from quant.onnx.session import open_session, run_graph

__all__ = ["from_module", "from_onnx", "gaussian_noise", "uniform_noise"]

BATCH = 128
MAX_GRAPH = 2**31  # bytes: protobuf's limit
#: Operators for upsampling, which teachers do not need. Generators may also be larger: they are the operator's own
#: files.
LIMITS = GraphLimits(
    max_bytes=1 << 30,
    max_elements=1 << 28,
    operators=ALLOWED_OPERATORS | {"ConvTranspose", "DepthToSpace", "Expand", "Resize", "Tile"},
)


def uniform_noise(count: int, shape: tuple[int, ...], generator: torch.Generator, tokens: int | None = None) -> Tensor:
    """Uniform in [-1, 1), as in FedDF's paper; token ids uniform over 1 .. tokens - 1 (0 is padding)."""
    if tokens is not None:
        return torch.randint(min(1, tokens - 1), tokens, (count, *shape), generator=generator)
    return 2 * torch.rand(count, *shape, generator=generator) - 1


def gaussian_noise(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """x = 2 (g - min g) / (max g - min g) - 1 with g ~ N(0, 1), over batches of 128: as in FedDF's code."""
    g = torch.randn(count, *shape, generator=generator)
    for batch in g.split(BATCH):
        low, high = batch.min(), batch.max()
        batch.sub_(low).mul_(2 / (high - low).clamp_min(1e-12)).sub_(1)
    return g


@torch.no_grad()
def from_module(module: nn.Module, noise_shape: tuple[int, ...], count: int, generator: torch.Generator) -> Tensor:
    """`count` samples of a torch generator, whose mode is restored."""
    if not noise_shape:
        raise DataError(
            f"generator {type(module).__name__}: give noise_shape, what one sample is made of, such as (100,)"
        )
    training = module.training
    module.eval()
    try:
        parts = [
            module(torch.randn(min(BATCH, count - start), *noise_shape, generator=generator))
            for start in range(0, count, BATCH)
        ]
    except (RuntimeError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(f"generator {type(module).__name__}: refuses noise of {noise_shape} ({reason})") from error
    finally:
        module.train(training)
    return torch.cat(parts)


def from_onnx(path: Path, count: int, generator: torch.Generator) -> Tensor:
    """`count` samples of the ONNX file at `path`."""
    try:
        data = read_regular(path, MAX_GRAPH)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; give a generator as an ONNX file") from None
    try:
        check_graph(data, LIMITS)
        session = open_session(data)
        batch, shape = _noise_shape(session)
        made, parts = 0, []
        while made < count:
            noise = torch.randn(batch, *shape, generator=generator)
            parts.append(torch.from_numpy(_run(session, noise.numpy())))
            made += batch
    except ModelError as error:
        raise DataError(f"{path}: {error}") from None
    return torch.cat(parts)[:count]


def _noise_shape(session: Any) -> tuple[int, tuple[int, ...]]:
    """Batch size and shape of one sample's noise."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        kinds = ", ".join(f"{i.name}: {i.type}" for i in inputs)
        raise ModelError(f"a generator takes one input of float noise, this graph {kinds or 'none'}")
    batch, *shape = inputs[0].shape or [None]
    if not shape or not all(isinstance(d, int) and d > 0 for d in shape):
        raise ModelError(f"its input {inputs[0].name!r} is {inputs[0].shape}; fix all sizes but the first, the batch")
    return batch if isinstance(batch, int) else BATCH, tuple(shape)


def _run(session: Any, noise: Any) -> Any:
    x = run_graph(session, noise)
    if x.ndim < 2 or len(x) != len(noise) or x.dtype != np.float32:
        raise ModelError(
            f"of {len(noise)} samples of noise its first output makes {x.dtype} {x.shape}, not as many inputs"
        )
    return x
