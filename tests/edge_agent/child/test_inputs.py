"""What a child starts from, and how it is refused: model, samples, hyper-parameters, time."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError, EnvelopeError, ModelError
from edge_agent.child import inputs
from edge_agent.child.inputs import local_training, open_assignment, stopper
from edge_agent.training.params import LocalTraining
from tests.edge_agent.devices import Device
from tests.edge_agent.scripted import CLASSES, LATENT, SHAPE
from wire.keys import generate_key, public_key_hex
from wire.messages import Hyper


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def test_an_assignment_has_the_model_and_the_samples_it_is_trained_on(device: Device) -> None:
    work = open_assignment(device.request(device.job(), validation=0.25))
    assert (work.spec.input_shape, work.spec.classes, work.spec.latent) == (SHAPE, CLASSES, LATENT)
    assert str(work.spec) == "mlp:fp32"
    assert work.held is not None
    assert (len(work.train), len(work.held)) == (15, 9)  # by the hash of each sample, so a quarter on average
    assert work.label_counts == tuple(np.bincount(work.train.y, minlength=CLASSES).tolist())
    assert work.folder.is_dir()


def test_classes_without_a_sample_are_counted_too(device: Device) -> None:
    np.savez(device.folder / "samples.npz", x=np.zeros((4, *SHAPE), np.float32), y=np.zeros(4, np.int64))
    assert open_assignment(device.request(device.job())).label_counts == (4, 0, 0)


def test_a_model_of_another_key_or_prototype_is_refused(device: Device) -> None:
    stranger = public_key_hex(generate_key().public_key())
    with pytest.raises(EnvelopeError):
        open_assignment(device.request(device.job(), aggregator=stranger))
    with pytest.raises(ModelError, match="is mlp:fp32, this device has cnn:w1"):
        open_assignment(device.request(device.job(), prototype="cnn:w1"))


def test_samples_that_do_not_fit_the_model_are_named(device: Device) -> None:
    np.savez(device.folder / "samples.npz", x=np.zeros((2, 1, 5, 5), np.float32), y=np.array([0, 1]))
    with pytest.raises(DataError, match=r"samples\.npz: samples of \(1, 5, 5\) for a model of \(1, 4, 4\)"):
        open_assignment(device.request(device.job()))


def test_a_sample_of_an_unknown_class_is_left_out(device: Device) -> None:
    x = np.arange(2 * np.prod(SHAPE), dtype=np.float32).reshape(2, *SHAPE)
    np.savez(device.folder / "samples.npz", x=x, y=np.array([0, CLASSES]))
    work = open_assignment(device.request(device.job()))
    assert work.label_counts == (1, 0, 0)
    assert np.array_equal(work.train.x, x[:1])


def test_every_hyper_parameter_of_a_job_reaches_the_training() -> None:
    extra = {"prox": 0.5, "clip": 1.5, "least_steps": 3.0, "most_steps": 40.0}
    hyper = Hyper(batch_size=8, lr=0.25, epochs=2, momentum=0.9, weight_decay=0.01, extra=extra)
    assert local_training(hyper, "off") == LocalTraining(
        lr=0.25,
        batch_size=8,
        epochs=2,
        momentum=0.9,
        weight_decay=0.01,
        prox=0.5,
        clip=1.5,
        least_steps=3,
        most_steps=40,
        fast="off",
    )
    assert local_training(Hyper(batch_size=8, lr=0.25, steps=7)).steps == 7


def test_progress_is_told_once_a_second_and_the_time_limit_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = 100.0, []
    monkeypatch.setattr(inputs.time, "monotonic", lambda: now)
    should_stop = stopper(102.0, lambda event, **facts: told.append((event, facts)), 6)
    stops = []
    for now in (100.0, 100.5, 100.9, 101.0, 101.9, 102.0):  # noqa: B007
        stops.append(should_stop())
    assert stops == [False] * 5 + [True]
    assert told == [("training", {"step": step, "total": 6}) for step in (0, 3, 5)]
    assert not stopper(None, lambda *_, **__: None)()
