"""What training leaves behind, by kind of update; run in this process, without a child."""

import json
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from core.errors import ConfigError, DataError, EdgestillError, ModelError, SignatureError
from edge_agent.child import inputs
from edge_agent.child.full import local_training, run
from edge_agent.protocol.agent import instruction_key
from edge_agent.samples.spec import SourceSpec
from edge_agent.state.folders import remove
from quant.delta import apply_delta
from quant.onnx.weights import read_weights
from quant.pack import unpack
from tests.edge_agent.devices import Device, expected, published, same
from tests.edge_agent.scripted import SHAPE
from wire.keys import generate_key, public_key_hex
from wire.messages import Hyper
from wire.tensors import decode


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def quiet(event: str, **facts: object) -> None:
    """Progress is of no interest here."""


def test_a_predictor_update_sends_the_predictor_and_goes_on_from_its_own_extractor(device: Device) -> None:
    first = device.job(1, update="predictor")
    run(device.request(first), quiet)
    tensors = decode(device.update(first)[1])
    assert set(tensors) == {"predictor.weight", "predictor.bias"}
    device.settle(first)
    kept = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    assert kept
    assert all(name.startswith("extractor.") for name in kept)
    second = device.job(2, update="predictor", hyper=Hyper(batch_size=4, lr=1e-30, steps=1))
    run(device.request(second), quiet)
    device.settle(second)
    again = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    assert same(kept, again)  # a step of length 0 from where round 1 ended


def test_a_delta_update_carries_its_rounding_into_the_next_round(device: Device) -> None:
    base = {name: value.numpy() for name, value in unpack(published(device)).items()}
    first = device.job(1, update="delta", bits=4)
    run(device.request(first), quiet)
    sent = apply_delta(base, decode(device.update(first)[1]))
    true = expected(device, first)
    device.settle(first)
    residual = decode((device.folder / "state" / "learned" / "mlp-fp32.residual").read_bytes())
    name = "predictor.weight"
    assert not np.array_equal(sent[name], true[name])
    one_rounding = np.spacing(np.abs(true[name]).max())  # sent, residual and their sum are float32 each
    assert np.abs(sent[name] + residual[name] - true[name]).max() <= one_rounding
    still = device.job(2, update="delta", bits=8, hyper=Hyper(batch_size=4, lr=1e-30, steps=1))
    run(device.request(still), quiet)
    delta = decode(device.update(still)[1])[name].dequantize()
    assert np.abs(delta - residual[name]).max() < np.abs(residual[name]).max() / 100  # nothing learned: the residual


def test_the_residual_of_a_rejected_delta_is_forgotten(device: Device) -> None:
    job = device.job(1, update="delta", bits=1)
    run(device.request(job), quiet)
    device.settle(job, accepted=False)
    assert not (device.folder / "state" / "learned" / "mlp-fp32.residual").exists()


def test_an_onnx_update_is_a_graph_with_the_trained_weights(device: Device) -> None:
    job = device.job(1, update="onnx")
    run(device.request(job), quiet)
    header, body = device.update(job)
    assert header.update == "onnx"
    assert same(read_weights(body), expected(device, job))


def test_an_offer_becomes_the_current_model_without_training(device: Device) -> None:
    run(device.request(None), quiet)
    folder = device.folder / "state" / "ready" / "offer-x"
    assert same(read_weights((folder / "current.onnx").read_bytes()), published(device))
    about = json.loads((folder / "current.json").read_text())
    assert (about["base"], about["trained_here"]) == (device.digest, False)


def test_a_worse_model_is_refused_but_its_update_is_sent(device: Device) -> None:
    good = device.job(1, hyper=Hyper(batch_size=4, lr=0.1, epochs=30, seed=1))
    options = {"validation": 0.25, "refuse_worse": True}
    facts = run(device.request(good, **options), quiet)
    device.settle(good)
    assert facts["accuracy"] > 0.6
    before = (device.folder / "state" / "current.onnx").read_bytes()
    bad = device.job(2, hyper=Hyper(batch_size=4, lr=1e-30, steps=1))
    facts = run(device.request(bad, **options), quiet)
    assert facts["refused"] == 1.0
    assert facts["accuracy"] < facts["accuracy_before"]
    device.settle(bad)
    assert (device.folder / "state" / "current.onnx").read_bytes() == before
    assert device.store.finished() == [instruction_key(good), instruction_key(bad)]


def test_the_deadline_ends_the_training_with_what_is_learned_so_far(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count()  # a second a step
    monkeypatch.setattr(inputs, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    endless = device.job(1, hyper=Hyper(batch_size=4, lr=1e-4, steps=10**8))
    facts = run(device.request(endless, stop_at=20.0), quiet)
    assert facts["stopped_early"] == 1.0
    assert facts["steps"] == 20
    assert device.update(endless)[0].round == 1


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1"])
@pytest.mark.parametrize("kind", ["state", "delta", "predictor", "onnx"])
def test_the_same_job_gives_the_same_body_again(tmp_path: Path, prototype: str, kind: str) -> None:
    device = Device(tmp_path, prototype)
    job = device.job(1, update=kind, bits=2 if kind == "delta" else None)
    bodies = []
    for _ in range(2):
        run(device.request(job), quiet)
        bodies.append(device.update(job)[1])
        remove(device.folder / "state" / "outbox" / instruction_key(job))  # as if it had never been
    assert bodies[0] == bodies[1]


def test_fedprox_pulls_towards_the_received_model(device: Device) -> None:
    far, near = (Hyper(batch_size=4, lr=0.1, epochs=5, extra=extra) for extra in ({}, {"prox": 5.0}))
    assert local_training(near).prox == 5.0
    start = published(device)["predictor.weight"]
    moved = []
    for number, hyper in enumerate((far, near), start=1):
        job = device.job(number, hyper=hyper)
        run(device.request(job), quiet)
        moved.append(float(np.abs(decode(device.update(job)[1])["predictor.weight"] - start).max()))
    assert moved[1] < moved[0] / 2


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        ({"prototype": "cnn:fp32"}, ModelError, "is mlp:fp32, this device has cnn:fp32"),
        ({"aggregator": public_key_hex(generate_key().public_key())}, SignatureError, "signature"),
        ({"fleet": "other"}, SignatureError, "signature"),
        ({"data": "/nonexistent.npz"}, DataError, "No such file"),
        ({"update": "delta"}, ConfigError, "delta_bits"),
        ({"update": "everything"}, ConfigError, "unknown kind"),
    ],
)
def test_what_cannot_work_is_refused(device: Device, other: dict, error: type[EdgestillError], words: str) -> None:
    with pytest.raises(error, match=words):
        run(device.request(device.job(), **other), quiet)
    assert device.store.outbox() == []


def test_samples_that_do_not_fit_the_model_are_told(device: Device) -> None:
    np.savez(device.folder / "samples.npz", x=np.zeros((2, 1, 3, 3), np.float32), y=[0, 7])
    with pytest.raises(DataError, match=r"samples of \(1, 3, 3\) for a model of \(1, 4, 4\)"):
        run(device.request(device.job()), quiet)


def test_samples_of_a_class_that_the_fleet_does_not_have_are_set_aside(device: Device) -> None:
    np.savez(device.folder / "samples.npz", x=np.zeros((5, *SHAPE), np.float32), y=[0, 7, 1, 1, 3])
    job = device.job()
    run(device.request(job), quiet)
    assert device.update(job)[0].label_counts == (1, 2, 0)


def test_a_device_without_samples_takes_an_offered_model_and_refuses_a_job(device: Device) -> None:
    (device.folder / "samples.npz").unlink()
    told: list[str] = []
    run(device.request(None), lambda event, **facts: told.append(f"{event} {facts}"))
    assert (device.folder / "state" / "ready" / "offer-x" / "current.onnx").exists()
    assert any("the model is taken, but not judged" in line for line in told)
    with pytest.raises(DataError, match="No such file"):
        run(device.request(device.job()), quiet)
    source = SourceSpec(path=str(device.folder / "samples.npz"), min_samples=20)
    np.savez(device.folder / "samples.npz", x=np.zeros((3, *SHAPE), np.float32), y=[0, 1, 1])
    with pytest.raises(DataError, match=r"^waiting for samples in .*samples.npz: 3 of 20$"):
        run(device.request(device.job(), source=source), quiet)


def test_a_model_that_has_no_graph_is_trained_and_sent_all_the_same(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ModelError("no graph")

    monkeypatch.setattr("edge_agent.child.full.export_onnx", refuse)
    told: list[str] = []
    run(device.request(device.job()), lambda event, **facts: told.append(f"{event} {facts}"))
    assert any("warning" in line and "no graph" in line for line in told)
    assert len(device.store.outbox()) == 1
