"""Accuracy of light devices against devices that train fully, with and without the fleet's extractor.

    python benchmarks/light_devices.py [--recipes fedavg,edgestill] [--seeds 3] [--rounds 10] [--json] [--quick]

Digits, 8 devices of two prototypes, `cnn:fp32` and `cnn:w1`, alpha 1. In each prototype half of the devices are light:
they train the predictor with the board's own code (`edge_agent/light/`), without torch, on graphs in ONNX Runtime;
everything else is the simulated fleet.

    full      all devices train whole models
    refresh   light devices use the published extractor of every round   ([model] refresh = "always")
    never     they keep the extractor of the first model                 ([model] refresh = "never")

Per prototype, mean and spread over seeds, in percent of the test set: `fused`, the published model after the last
round; `light`, the file of the light devices once the fused model is offered to them; `trained`, the same devices' mean
after their own training in the last round, before it is fused. `--quick`: one recipe, one seed, one round.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from _quick import add_quick

from core.seeds import derive_seed
from edge_agent.light.extractor import latents_of
from edge_agent.light.graph import refreshed
from edge_agent.light.predictor import LightPredictor
from edge_agent.light.train import GeneratedTerm, light_batches, train_predictor
from edge_agent.objectives.fedgen_weights import Guidance
from edge_agent.training.params import LocalTraining
from fleet.data import load
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import Answer, Kept, SimulatedDevice, Train
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.simulation import Simulation
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from quant.onnx.export import export_onnx
from quant.onnx.session import open_session, run_graph
from quant.onnx.split import extractor_graph
from quant.onnx.weights import patch_weights
from quant.pack import load_packed
from wire.headers import encode_update
from wire.messages import UpdateHeader
from wire.tensors import encode

PROTOTYPES = ("cnn:fp32", "cnn:w1")
MODES = ("full", "refresh", "never")
DEVICES = 8
TRAINING = LocalTraining(lr=0.05, batch_size=32, epochs=5, momentum=0.9)


@dataclass(frozen=True, kw_only=True)
class LightDevice(SimulatedDevice):
    """A device that trains its predictor as a light board does."""

    kit: bytes  # the graph of the first model
    spec: PrototypeSpec
    refresh: bool
    current: dict[str, bytes]  # the graphs of all light devices, by id

    def whole(self, published: Artifact, round_number: int) -> bytes:
        """Its graph with the extractor that it uses after `round_number` rounds."""
        if not self.refresh or not round_number:
            return self.kit
        return refreshed(self.kit, published.tensors, self.spec.precision)

    def offered(self, published: Artifact, round_number: int) -> bytes:
        """Its file once the fused model is offered."""
        predictor = LightPredictor.from_tensors(published.tensors, self.spec.precision)
        return patch_weights(self.whole(published, round_number), predictor.pack("fp32"), partial=True, quantize=True)

    def answer(self, model: Prototype, news: News, kept: Kept, train: Train | None = None) -> Answer:
        """A predictor update, as `edge_agent/child/light.py` makes it."""
        published, seed, who = news.published[self.prototype], self.config.seed, (news.round_number, self.id)
        predictor = LightPredictor.from_tensors(published.tensors, self.spec.precision)
        graph = self.whole(published, news.round_number - 1)
        z = latents_of(extractor_graph(graph), self.x.numpy(), model.latent)
        training, order = self.training_of(news), np.random.default_rng(derive_seed(seed, "train", *who))
        latents = news.learned_from.latents
        rng = np.random.default_rng(derive_seed(seed, "generated", *who))
        trained = train_predictor(
            predictor,
            z,
            self.y.numpy(),
            training,
            epoch=lambda: light_batches(len(z), training.batch_size, order),
            generated=None
            if latents is None
            else GeneratedTerm(latents, Guidance.from_extra(news.extra), news.round_number, rng=rng),
        )
        packed = predictor.pack(self.floats(model))
        self.current[self.id] = patch_weights(graph, packed, partial=True, quantize=True)
        header = UpdateHeader(
            round=news.round_number,
            device=self.id,
            prototype=self.prototype,
            update="predictor",
            num_examples=len(z),
            label_counts=self.label_counts,
            base=published.digest,
            metrics={"train_loss": trained.loss},
        )
        return Answer(message=encode_update(header, encode(packed, checksum=False)))


def light_half(simulation: Simulation, *, refresh: bool) -> list[LightDevice]:
    """Make every second device of each prototype a light one."""
    current: dict[str, bytes] = {}
    made = []
    for group in simulation.groups:
        first = build(group.model.spec)
        load_packed(first, Artifact(simulation._published(group)).tensors)
        kit = export_onnx(first, first.example_input(2)).data
        for place, device in enumerate(group.devices):
            if place % 2:
                own = {f.name: getattr(device, f.name) for f in fields(SimulatedDevice)}
                light = LightDevice(**own, kit=kit, spec=group.model.spec, refresh=refresh, current=current)
                simulation.devices[device.number] = group.devices[place] = light
                made.append(light)
    return made


def run(recipe: str, mode: str, seed: int, rounds: int) -> dict[str, dict[str, float]]:
    """One fleet: accuracies by prototype."""
    config = SimulationConfig(
        dataset="digits",
        devices=DEVICES,
        prototypes=PROTOTYPES,
        training=TRAINING,
        rounds=rounds,
        recipe=recipe,
        seed=seed,
        score_every=rounds,
        score_devices="last",
    )
    with Simulation(config, load("digits")) as simulation:
        light = [] if mode == "full" else light_half(simulation, refresh=mode == "refresh")
        for number in range(1, rounds + 1):
            result = simulation.run_round(number)
        x, y = simulation.test_x.numpy(), simulation.test_y.numpy()
        found: dict[str, dict[str, float]] = {}
        for group in simulation.groups:
            published, fused = Artifact(simulation._published(group)), result.prototypes[group.name].accuracy
            mine = [device for device in light if device.prototype == group.name]
            theirs = [d.id for place, d in enumerate(group.devices) if place % 2]
            own = [result.devices[name]["whole_accuracy"] for name in theirs] if not mine else []
            found[group.name] = {
                "fused": fused,
                "light": statistics.mean(accuracy(d.offered(published, rounds), x, y) for d in mine) if mine else fused,
                "trained": statistics.mean(own or [accuracy(d.current[d.id], x, y) for d in mine]),
            }
    return found


def accuracy(graph: bytes, x: Any, y: Any) -> float:
    """Fraction of the test set, as an application on the board would count it."""
    return float(np.mean(run_graph(open_session(graph), x).argmax(1) == y))


def percent(values: list[float]) -> str:
    """Mean and standard deviation."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):5.1f} ± {100 * spread:4.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="fedavg,feddf,fedgen,edgestill")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_quick(parser)
    args = parser.parse_args()
    if args.quick:
        args.recipes, args.seeds, args.rounds = "fedavg", 1, 1
    torch.set_num_threads(1)
    print("| recipe | prototype | devices | fused | light | trained |\n|---|---|---|---|---|---|", flush=True)
    rows = []
    for recipe in args.recipes.split(","):
        for mode in MODES:
            found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
            for seed in range(args.seeds):
                for prototype, scores in run(recipe, mode, seed, args.rounds).items():
                    for name, value in scores.items():
                        found[prototype][name].append(round(value, 4))
            for prototype, scores in found.items():
                cells = " | ".join(percent(scores[name]) for name in ("fused", "light", "trained"))
                print(f"| `{recipe}` | `{prototype}` | {mode} | {cells} |", flush=True)
                rows.append({"recipe": recipe, "prototype": prototype, "devices": mode, **scores})
    if args.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
