"""A user's file: what stands there is given to simulations by name or as it is."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgestill as es


class MyNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.act = nn.ReLU()
        self.fc1 = nn.Linear(6 * 16, 24)
        self.fc2 = nn.Linear(24, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.act(self.conv(x)), 2)
        z = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.1, self.training)
        return self.fc2(z)


NAMED = es.prototype(MyNet, "w1", predictor="fc2", name="Named")


def focal(logits: Tensor, y: Tensor) -> Tensor:
    p = F.log_softmax(logits, 1).gather(1, y[:, None])[:, 0]
    return -((1 - p.exp()) ** 2 * p).mean()


def decayed(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y) + 1e-4 * sum((p**2).sum() for p in model.parameters())


def loop(model: nn.Module, x: Tensor, y: Tensor, training: Any, round_number: int, device: str) -> float:
    assert (round_number, device[:4], training.batch_size) == (1, "sim-", 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        rows = torch.randint(len(x), (16,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def halves(labels: Any, devices: int) -> Any:
    return np.array_split(np.arange(len(labels)), devices)


def drift(trained: Any, received: Any, generator: torch.Generator, strength: float) -> Any:
    return {n: received[n] + 0.1 * strength * torch.randn(w.shape, generator=generator) for n, w in trained.items()}


def shifted(y: Tensor, classes: int) -> Tensor:
    return (y + 1) % classes


def largest(view: Any) -> list[float]:
    most = max(view.num_examples)
    return [float(n == most) for n in view.num_examples]


def plain(view: Any, weights: Any) -> Any:
    """The weighted mean, written by a user."""
    shares = [w / sum(weights) for w in weights]
    states = [update.state() for update in view.updates]
    return {name: sum(w * state[name] for w, state in zip(shares, states, strict=True)) for name in states[0]}


MINE = es.Recipe(name="mine", title="a user's", paper="", average=plain, weigh=largest)


def data() -> Any:
    x, y = np.arange(200 * 64, dtype=np.float32).reshape(200, 8, 8) % 7, np.arange(200) % 3
    return x, y


class Follows(es.Callback):
    def on_round(self, run: es.Run, result: Any) -> bool:
        Path("followed").write_text(f"{result.round} {run.model(run.prototypes[0]).round}")
        return True


broken = 3
