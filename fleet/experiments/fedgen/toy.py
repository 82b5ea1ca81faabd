"""FedGen's Figures 2 and 3 in the plane: users learn from a generator that is trained on their predictors only.

The latent space is the plane itself, so that it can be drawn: extractors are the identity, predictors are linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aggregator.fusion.generator.train import Teachers, train_generator
from aggregator.fusion.numerics.adam import Adam
from aggregator.recipes.generator import Generation
from core.settings import replace
from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import PAPER
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from fleet.experiments.base import AllResults, Cell, Experiment, Facts, Setting, above, at_least, fact
from fleet.simulation.seeds import numpy_rng, torch_rng
from models.generator import LatentGenerator, build_generator
from models.latents import LABELS, Latents, prototype_of
from wire.messages import ModelHeader

__all__ = ["EXPERIMENT", "Plane", "blobs", "measure"]

CLASSES, USERS, SIDE, PIXELS = 4, 4, 4.0, 80
CENTRES = torch.tensor([[1.6, 1.6], [-1.6, 1.6], [-1.6, -1.6], [1.6, -1.6]])
EACH, TEST = 60, 4000  # samples of each of a user's classes; test samples
STAGES = (0, 50, 150, 250)  # steps of the generator after which its samples are drawn
LOCAL = LocalTraining(lr=0.1, batch_size=16, steps=300)
HOW = Generation(noise_width=4, hidden=32, lr=1e-3)
SHOWN = 40  # generated samples of each class in a picture


class Plane(nn.Module):
    """A prototype whose latent is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.extractor, self.predictor = nn.Identity(), nn.Linear(2, CLASSES)
        nn.init.zeros_(self.predictor.weight)
        nn.init.zeros_(self.predictor.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.predictor(x)
        return logits

    def state(self) -> dict[str, Tensor]:
        """The state dict with the names of an update."""
        return {f"predictor.{name}": w.detach().clone() for name, w in self.predictor.named_parameters()}


def blobs(y: Tensor, generator: torch.Generator) -> Tensor:
    """A point (2,) for each label, drawn from a Gaussian around its class's corner."""
    return CENTRES[y] + 0.8 * torch.randn(len(y), 2, generator=generator)


def measure(setting: Setting) -> Facts:
    """Accuracies on all classes, in percent; regions of all pictures; generated samples."""
    seed = setting.seed
    test_y = torch.arange(TEST) % CLASSES
    test = blobs(test_y, torch_rng(seed, "toy", "test")), test_y
    data = [_data(user, seed) for user in range(USERS)]
    local = [_trained(Plane(), *own, seed, user) for user, own in enumerate(data)]
    pooled = torch.cat([x for x, _ in data]), torch.cat([y for _, y in data])
    oracle = _trained(Plane(), *pooled, seed, "oracle")
    generator, samples = _generator(local, [y for _, y in data], seed)
    taught = [_taught(local[user], *own, generator, seed, user) for user, own in enumerate(data)]
    regions = {"user": local[0], "taught": taught[0], "oracle": oracle}
    return {
        "local": float(np.mean([_accuracy(model, *test) for model in local])),
        "taught": float(np.mean([_accuracy(model, *test) for model in taught])),
        "average": _accuracy(_average(local), *test),
        "oracle": _accuracy(oracle, *test),
        **{f"right at {steps}": _accuracy(oracle, x, _shown_labels()) for steps, x in samples.items()},
        "of user": {name: _accuracy(model, *test) for name, model in regions.items()},
        "pictures": {name: _picture(model) for name, model in regions.items()},
        "points": _points(data[0]),
        "all points": _points(pooled),
        "samples": {str(steps): x.tolist() for steps, x in samples.items()},
    }


def _data(user: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two neighbouring classes of the four."""
    y = torch.tensor([user, (user + 1) % CLASSES]).repeat_interleave(EACH)
    return blobs(y, torch_rng(seed, "toy", "user", user)), y


def _trained(model: Plane, x: Tensor, y: Tensor, seed: int, who: object) -> Plane:
    train_local(model, x, y, LOCAL, generator=torch_rng(seed, "toy", "train", who))
    return model


def _generator(local: list[Plane], labels: list[Tensor], seed: int) -> tuple[LatentGenerator, dict[int, Tensor]]:
    """The generator, trained from the users' predictors and label counts, and its samples during training."""
    teachers = Teachers.stack([model.state() for model in local])
    counts = torch.stack([torch.bincount(y, minlength=CLASSES) for y in labels])
    generator = build_generator(
        CLASSES, 2, noise_width=HOW.noise_width, hidden=HOW.hidden, generator=torch_rng(seed, "toy", "generator")
    )
    adam, samples, done = Adam.fresh(list(generator.parameters())), dict[int, Tensor](), 0
    rng = torch_rng(seed, "toy", "generator steps")
    for steps in STAGES:
        if steps > done:
            train_generator(
                generator, adam, teachers, counts, replace(HOW, steps=steps - done), round_number=1, rng=rng
            )
            done = steps
        samples[steps] = generator.sample(_shown_labels(), generator=torch_rng(seed, "toy", "shown"))
    return generator, samples


def _shown_labels() -> Tensor:
    return torch.arange(CLASSES).repeat_interleave(SHOWN)


def _taught(model: Plane, x: Tensor, y: Tensor, generator: LatentGenerator, seed: int, user: int) -> Plane:
    """The user's model after as many further steps, guided by the generator."""
    tensors: dict[str, Any] = {n: t.detach().numpy() for n, t in generator.state_dict().items()}
    tensors[LABELS] = np.full(CLASSES, 1 / CLASSES, np.float32)
    header = ModelHeader(
        round=1,
        prototype=prototype_of("paper"),
        input_shape=(HOW.noise_width,),
        classes=CLASSES,
        latent=2,
        recipe="fedgen",
    )
    latents = Latents.from_tensors(tensors, header)
    objective = GeneratedObjective(latents, PAPER, 1, rng=numpy_rng(seed, "toy", "generated", user))
    learned = Plane()
    learned.load_state_dict(model.state_dict())
    train_local(learned, x, y, LOCAL, generator=torch_rng(seed, "toy", "taught", user), objective=objective)
    return learned


def _average(models: list[Plane]) -> Plane:
    average = Plane()
    states = [model.state_dict() for model in models]
    average.load_state_dict({name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]})
    return average


@torch.no_grad()
def _accuracy(model: Plane, x: Tensor, y: Tensor) -> float:
    return 100 * float((model(x).argmax(1) == y).double().mean())


@torch.no_grad()
def _picture(model: Plane) -> list[str]:
    """Rows of pixels from bottom to top, each pixel the digit of its class."""
    ticks = torch.linspace(-SIDE, SIDE, PIXELS)
    grid = torch.stack([ticks.repeat(PIXELS), ticks.repeat_interleave(PIXELS)], 1)
    return ["".join(map(str, row)) for row in model(grid).argmax(1).view(PIXELS, PIXELS).tolist()]


def _points(data: tuple[Tensor, Tensor]) -> list[list[float]]:
    return [[round(v, 3) for v in point] + [label] for point, label in zip(*map(Tensor.tolist, data), strict=True)]


def _draw(results: AllResults) -> Any:
    from fleet.experiments.fedgen.toy_figure import draw

    return draw(results[min(results)]["toy"], min(results)[1], STAGES, SIDE)


def _cells(_: str) -> list[Cell]:
    local = fact("toy", "local", words="alone")
    return [
        Cell("users alone", local),
        Cell("average of their models", fact("toy", "average")),
        Cell("users with the generator", fact("toy", "taught"), target=above(local)),
        Cell("oracle", fact("toy", "oracle"), note="one model with everybody's samples"),
        *[Cell(f"samples right after {steps} steps", fact("toy", f"right at {steps}")) for steps in STAGES[:-1]],
        Cell(f"samples right after {STAGES[-1]} steps", fact("toy", f"right at {STAGES[-1]}"), target=at_least(95.0)),
    ]


EXPERIMENT = Experiment(
    title="FedGen's toy: a generator from predictors alone (Figures 2 and 3)",
    about="""
Zhu et al. 2021, Figures 2 and 3: users who lack classes learn them from a generator, which has seen none of their
samples, only their predictors and label counts. Four classes lie in the corners of a plane, and each of four users has
two neighbouring ones. The generator is trained as on an aggregator (Eq. 4), and each user then continues training with
generated samples in addition to its own (Eq. 5). Data and networks of the figures are not published; these are ours,
and the accuracy is that on all four classes.

The upper pictures are the first user's: alone, with the generator, and the oracle, a model trained on all samples. The
lower ones are the generator's samples after 0, 50, 150 and 250 steps; *right* are samples that the oracle classifies as
the label that they were drawn for. They move to where the users' predictors are confident: predictors define the
direction of a class, not its extent. The generator's learning rate was chosen among 0.001, 0.002, 0.003, 0.005 on
another seed: after 250 steps at 0.001 its samples lie about as far out as the data, at 0.005 more than twice as far,
and users reached 92 and 83 %. On this data, whose classes lie in corners, the average of the users' models is good too.
""",
    runs=lambda fidelity: {"toy": measure},
    cells=_cells,
    seeds=(0, 1, 2, 3, 4),
    draw=_draw,
    parameters={
        "data": f"{EACH} samples of each of a user's two classes, Gaussian with deviation 0.8; {TEST} test samples",
        "local training": "300 steps of SGD, batch 16, learning rate 0.1; 300 more with 32 generated samples a step",
        "generator": f"noise {HOW.noise_width}, hidden {HOW.hidden}, Adam with learning rate {HOW.lr:g}",
    },
)
