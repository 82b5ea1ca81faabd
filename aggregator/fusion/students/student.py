"""A student in training: the model at its compute device and precision, a step, its score, its tensors.

A quantized prototype's student is trained through its own quantizer Q, whose gradient is the identity (Bengio et al.
2013, arXiv:1308.3432), and is scored as a board would run it:

    student = "own"     w <- w - eta grad_w' L(f(w')) at w' = Q(w)         "float"     w <- w - eta grad_w L(f(w))
    check_at = "own"    accuracy of f(Q(w))                                "float"     accuracy of f(w)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from aggregator.evaluate import BATCH, evaluate
from aggregator.fusion.numerics.optimizers import Optimizer, make_optimizer
from aggregator.fusion.types import State
from aggregator.recipes.catalogue import Distillation
from core.errors import ModelError
from models.channels import channels_last_
from models.compute_device import autocast, widened
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.quantized_weight import QuantizedWeight

__all__ = ["Learner", "MeanState"]


class Learner:
    """The model on its compute device, at its training precision, with its optimizer."""

    def __init__(
        self,
        model: Prototype,
        start: Mapping[str, Tensor],
        config: Distillation,
        device: torch.device,
        amp: str = "off",
    ) -> None:
        self.model, self.config, self.device, self.amp = model, config, device, amp
        for module in model.modules():
            if isinstance(module, QuantizedWeight):
                module.unfreeze_weight()
        missing, unexpected = model.load_state_dict(dict(start), strict=False)
        wrong = [name for name in (*missing, *unexpected) if not name.endswith("num_batches_tracked")]
        if wrong:
            raise ModelError(f"{model.spec}: the initial state has a missing or unexpected tensor: {wrong[0]!r}")
        model.to(device).train().requires_grad_(True)
        self.channels_last = channels_last_(model)
        self.params: list[Tensor] = list(model.parameters())
        self.optimizer: Optimizer = make_optimizer(self.params, config)
        self.names = list(start)

    def _at(self, precision: str) -> AbstractContextManager[None]:
        """Unquantized weights for "float"; through their quantizers for "own"."""
        return weights_as_they_are(self.model) if precision == "float" else nullcontext()

    def to_device(self, x: Tensor) -> Tensor:
        """A batch in the fastest memory layout for the model."""
        if self.channels_last and x.ndim == 4:
            return x.to(self.device, memory_format=torch.channels_last)
        return x.to(self.device)

    def step(self, x: Tensor, target: Tensor, lr: float) -> None:
        """One step; `target` holds probabilities."""
        with self._at(self.config.student), autocast(self.device, self.amp):
            logits = self.model(self.to_device(x))
        log_p = F.log_softmax(widened(logits) / self.config.temperature, dim=1)
        loss = F.kl_div(log_p, target.to(self.device), reduction="batchmean")
        loss.backward()
        if self.config.clip:
            clip_grad_norm_(self.params, self.config.clip)
        self.optimizer.step(self._take_gradients(), lr)

    def _take_gradients(self) -> list[Tensor]:
        """Gradients of all parameters; zeros for those that the loss does not depend on."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        for p in self.params:
            p.grad = None
        return grads

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Logits for `x` at its training precision, on the CPU; in eval mode."""
        self.model.eval()
        with self._at(self.config.student):
            logits = [self.model(self.to_device(part)).float().cpu() for part in x.split(BATCH)]
        self.model.train()
        return torch.cat(logits)

    def accuracy(self, validation: tuple[Tensor, Tensor]) -> float:
        """Accuracy on the labelled samples."""
        with self._at(self.config.check_at):
            return evaluate(self.model, self.to_device(validation[0]), validation[1].to(self.device)).accuracy

    def state(self) -> State:
        """A copy of the tensors named in the initial state, on the CPU."""
        own = self.model.state_dict()
        return {name: own[name].detach().to("cpu", copy=True).contiguous() for name in self.names}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load the tensors of `state`."""
        self.model.load_state_dict(dict(state), strict=False)


@dataclass(slots=True)
class MeanState:
    """Stochastic weight averaging: the mean of all added students."""

    total: State = field(default_factory=dict)
    count: int = 0

    def add(self, state: State) -> None:
        """Add a student."""
        self.count += 1
        for name, value in state.items():
            if name not in self.total:
                self.total[name] = value.double()
            else:
                self.total[name] += value

    def result(self) -> State:
        """The mean, float32."""
        return {name: (value / self.count).float() for name, value in self.total.items()}
