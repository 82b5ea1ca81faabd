"""The training child on a compute device: the pretend accelerator in a real process, and devices that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError
from edge_agent.child.full import run
from edge_agent.child.supervisor import FINAL
from tests import accelerator
from tests.edge_agent.child.test_supervisor import finish, start
from tests.edge_agent.devices import Device
from tests.edge_agent.generators import sealed_generator
from tests.edge_agent.scripted import CLASSES, LATENT
from wire.ids import digest_of
from wire.messages import Hyper
from wire.tensors import Packed, Tensor, decode

HYPER = Hyper(batch_size=4, lr=0.02, steps=6, momentum=0.9, seed=7, extra={"clip": 1.0})


def arrays(tensors: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: t.dequantize() if isinstance(t, Packed) else t for name, t in tensors.items()}


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    a, b = arrays(one), arrays(other)
    return a.keys() == b.keys() and all(np.allclose(a[name], b[name], rtol=1e-5, atol=1e-5) for name in a)


def work(folder: Path, prototype: str, compute: str, **job: object) -> tuple[dict[str, Tensor], list[dict]]:
    """The update of a child in this process, and its words."""
    folder.mkdir()
    device, said = Device(folder, prototype), list[dict]()
    given = device.job(3, **{"hyper": HYPER, **job})
    request = device.request(given, compute=compute, fast="off", validation=0.25)
    run(request, lambda event, **facts: said.append({"event": event, **facts}))
    return decode(device.update(given)[1]), said


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1"])
def test_an_update_is_that_of_the_cpu_and_the_device_is_said(tmp_path: Path, prototype: str) -> None:
    accelerator.fresh()
    here, _ = work(tmp_path / "cpu", prototype, "cpu")
    assert not accelerator.used()
    there, said = work(tmp_path / "acc", prototype, "acc")
    assert accelerator.used()
    assert close(here, there)
    assert {"event": "computing", "device": "acc"} in said


@pytest.mark.slow  # 5 kinds of updates, each by a child with torch and an export
@pytest.mark.parametrize(
    "job",
    [
        {"update": "delta", "bits": 4},
        {"update": "predictor"},
        {"update": "logits", "hyper": Hyper(batch_size=4, lr=0.02, steps=6, extra={"label_logits": 1.0})},
        {"update": "onnx"},
        {"hyper": Hyper(batch_size=4, lr=0.02, steps=6, extra={"personal": 0.5})},
    ],
    ids=["delta", "predictor", "logits", "onnx", "personal"],
)
def test_every_kind_of_update(tmp_path: Path, job: dict[str, object]) -> None:
    if job.get("update") == "onnx":
        pytest.importorskip("onnx")
        folder = tmp_path / "acc"
        folder.mkdir()
        device = Device(folder)
        given = device.job(3, hyper=HYPER, **job)
        run(device.request(given, compute="acc"), lambda event, **facts: None)
        assert device.update(given)[0].update == "onnx"
        return
    (here, _), (there, _) = (
        work(tmp_path / "cpu", "mlp:fp32", "cpu", **job),
        work(tmp_path / "a", "mlp:fp32", "acc", **job),
    )
    assert close(here, there)


def test_a_real_child_is_taught_the_device_by_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator.install(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    (tmp_path / "pi").mkdir()
    device = Device(tmp_path / "pi")
    sealed = sealed_generator(CLASSES, LATENT)
    device.put(digest_of(sealed), sealed)
    job = device.job(3, hyper=HYPER)
    artifact = str(device.store.models.path(digest_of(sealed)))
    child = start(device.request(job, compute="acc:0", side_artifact=artifact))
    ended = finish(child)
    assert ended.facts is not None, ended.reason
    assert child.computes_on == "acc:0"
    monkeypatch.delenv("PYTHONPATH")
    (tmp_path / "twin").mkdir()
    twin = Device(tmp_path / "twin")
    twin.put(digest_of(sealed), sealed)
    artifact = str(twin.store.models.path(digest_of(sealed)))
    run(twin.request(job, compute="cpu", fast="off", side_artifact=artifact), lambda event, **facts: None)
    assert close(decode(device.update(job)[1]), decode(twin.update(job)[1]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused_in_one_line_but_models_are_taken(tmp_path: Path) -> None:
    device = Device(tmp_path)
    run(device.request(None, compute="cuda"), lambda event, **facts: None)
    with pytest.raises(ConfigError, match=r"compute device 'cuda': torch finds no CUDA devices.*; give auto or cpu$"):
        run(device.request(device.job(), compute="cuda"), lambda event, **facts: None)
    assert ConfigError.exit_code in FINAL, "a job that cannot work is not tried again"
