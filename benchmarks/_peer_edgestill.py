"""The peers' workload in edgestill: a script for the peers' harness, which provides `common.py` and arguments."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # type: ignore[import-not-found]  # the harness's

from core.processes.fast_exit import leave_quickly
from edge_agent.training.params import LocalTraining
from edgestill import __version__
from fleet.data import Dataset
from fleet.engines import Task
from fleet.simulation.config import SimulationConfig
from fleet.simulation.round_message import Artifact, News
from fleet.simulation.simulation import Simulation
from quant.pack import pack_state
from wire.tensors import encode

PROTOTYPES = {"mlp": ("mlp:fp32", 200), "cnn": ("mcmahan_cnn:fp32", 512)}
SHAPE = (1, 28, 28)
MEAN, STD = 255 * 0.1307, 255 * 0.3081  # of the harness, in units of a byte


def main() -> None:
    """Warm up, time the rounds, score once at the end."""
    a = common.args(_more)
    prototype, latent = PROTOTYPES[a.model]
    dataset = _stored(a.images) if a.images and a.data == "mnist" else _floats(a.data)
    config = SimulationConfig(
        score_devices="never",  # only the fused models are compared
        dataset="peers",
        devices=common.N_CLIENTS,
        prototypes=(prototype,),
        training=LocalTraining(lr=a.lr, batch_size=a.batch, epochs=a.epochs),
        partition="iid",
        rounds=a.rounds,
        fraction=a.cohort / common.N_CLIENTS,
        latent=latent,
        engine="processes",
        workers=a.workers,
        score_every=a.rounds,
        seed=a.seed,
    )
    with Simulation(config, dataset) as simulation:
        _warm_up(simulation)
        start = time.time()
        results = [simulation.run_round(number) for number in range(1, a.rounds + 1)]
        end = time.time() - results[-1].seconds_by["score"]  # the peers score after their clock has stopped
    accuracy = results[-1].prototypes[prototype].accuracy
    common.write_result(
        a, t_start_timed=start, t_end_timed=end, rounds_s=end - start, accuracy=accuracy, version=__version__
    )


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--images", type=Path, help="MNIST as stored by edgestill: x_train.npy, …")


def _stored(folder: Path) -> Dataset:
    parts = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x_train", "y_train", "x_test", "y_test")
    }
    digits = tuple("0123456789")
    return Dataset(name="peers", kind="image", class_names=digits, mean=(MEAN,), std=(STD,), **parts)


def _floats(kind: str) -> Dataset:
    data = common.Data(kind)
    x_test, y_test = data.test()
    return Dataset(
        name="peers",
        kind="image",
        x_train=data.x.numpy().reshape(-1, *SHAPE),
        y_train=data.y.numpy(),
        x_test=x_test.numpy().reshape(-1, *SHAPE),
        y_test=y_test.numpy(),
        class_names=tuple("0123456789"),
    )


def _warm_up(simulation: Simulation) -> None:
    """Every worker trains once before timing: the first calls of kernels are not timed for the peers either."""
    published = {g.name: Artifact(encode(pack_state(g.state))) for g in simulation.groups}
    simulation.engine.open(News(round_number=1, published=published))
    list(simulation.engine.train([[Task(device.number, {})] for device in simulation.devices[:2]], lambda *_: None))


if __name__ == "__main__":
    leave_quickly()  # as in our commands
    main()
