"""The board's model with raw inputs, as both children leave it, in its first round and over one that is raw already."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import edge_agent.child.full
import edge_agent.child.light
from edge_agent.child.inputs import open_assignment
from edge_agent.predict.model import Model
from tests.edge_agent.child.test_light import HYPER, light_device, options, quiet

MEAN, STD = np.float32(100), np.float32(50)


def store_bytes(folder: Path) -> None:
    y = np.arange(24) % 3
    x = (np.random.default_rng(0).integers(0, 60, (24, 1, 4, 4)) + 60 * y[:, None, None, None]).astype(np.uint8)
    np.savez(folder / "samples.npz", x=x, y=y, mean=MEAN, std=STD)


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1"])
@pytest.mark.parametrize("mode", ["full", "light"])
def test_bytes_into_current_onnx_are_as_accurate_as_the_child_says(tmp_path: Path, prototype: str, mode: str) -> None:
    device = light_device(tmp_path, prototype)
    store_bytes(tmp_path)
    extra = HYPER.extra if mode == "light" else {}
    kind = {"update": "predictor", "hyper": msgspec.structs.replace(HYPER, extra=extra)}
    more = {"raw_input": True, "validation": 0.25}
    more |= options(device) if mode == "light" else {}
    run = edge_agent.child.light.run if mode == "light" else edge_agent.child.full.run
    work = open_assignment(device.request(None, validation=0.25))
    accuracy = None
    for number in (1, 2):
        job = device.job(number, **kind)
        facts = run(device.request(job, **more), quiet)
        assert facts.get("accuracy_before") == accuracy  # of a raw model, on normalized samples
        accuracy = facts["accuracy"]
        device.settle(job)
        model = Model(tmp_path / "state")
        held = np.round(work.held.x * STD + MEAN).astype(np.uint8)
        assert float(np.mean(model.predict(held).classes == work.held.y)) == accuracy == model.card.accuracy
        assert (model.card.input.dtype, model.card.input.inside, model.card.round) == ("uint8", True, number)
        assert model.card.accuracy_samples == len(work.held)
