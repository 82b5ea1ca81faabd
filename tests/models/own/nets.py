"""Networks as users write them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.own.network import OwnNetwork
from models.spec import PrototypeSpec
from quant.precision import parse_precision


class Net(nn.Module):
    """Two convolutions, two linear layers, functional and module activations."""

    def __init__(self, classes: int = 4, hidden: int = 12) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.act = nn.ReLU()
        self.fc1 = nn.Linear(6 * 16, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.act(self.norm(self.conv1(x))), 2)
        z = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.2, self.training)
        return self.fc2(z)


class ByHand(nn.Module):
    """With the parts that a prototype has."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.extractor = nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.ReLU())
        self.predictor = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.predictor(self.extractor(x))


class Words(nn.Module):
    """A bag of words."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.head = nn.Linear(8, num_classes)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids).mean(1))


class Softmax(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(1)


class Twice(Net):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(-x)
        return super().forward(x)


class Fails(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :, :5])


class Attends(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0]
        return self.head(self.attention(x, x, x)[0].mean(1))


def network(make: object, predictor: str | None = None) -> OwnNetwork:
    return OwnNetwork(name="Mine", make=make, predictor=predictor)


def spec(precision: str = "fp32", *, latent: int | None = None, shape: tuple[int, ...] = (1, 8, 8)) -> PrototypeSpec:
    return PrototypeSpec("Mine", parse_precision(precision), shape, 4, latent)


def images(count: int = 5) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(3))
