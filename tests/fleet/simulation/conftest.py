"""A run of milliseconds."""

from pathlib import Path

import numpy as np
import pytest

from edge_agent.training.params import LocalTraining
from fleet.simulation.config import SimulationConfig


@pytest.fixture
def config(tmp_path: Path) -> SimulationConfig:
    """Four perceptrons on 120 samples, two rounds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    np.savez(tmp_path / "mine.npz", x=(rng.normal(size=(120, 6)) + 2 * np.eye(6)[y]).astype(np.float32), y=y)
    return SimulationConfig(
        dataset=str(tmp_path / "mine.npz"),
        devices=4,
        prototypes=("mlp:fp32",),
        training=LocalTraining(lr=0.1, batch_size=8, steps=2),
        update="predictor",
        rounds=2,
    )
