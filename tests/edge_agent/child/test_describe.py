"""What the card of a board's model says; the files that hold it: test_current_model.py."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from core.errors import ModelError
from edge_agent.child.describe import card_of
from edge_agent.child.inputs import open_assignment
from tests.edge_agent.devices import Device
from wire.messages import Task


def test_accuracy_is_told_with_the_number_of_samples_that_it_was_measured_on(tmp_path) -> None:
    device = Device(tmp_path)
    work = open_assignment(device.request(device.job(1), validation=0.25))
    card = card_of(work, {"accuracy": 0.5})
    assert work.held is not None
    assert (card.accuracy, card.accuracy_samples) == (0.5, len(work.held))
    assert (card_of(work, {}).accuracy, card_of(work, {}).accuracy_samples) == (None, None)


def test_channels_have_their_own_mean_and_std(tmp_path) -> None:
    device = Device(tmp_path)
    x = np.zeros((24, 1, 4, 4), np.uint8)
    np.savez(tmp_path / "samples.npz", x=x, y=np.arange(24) % 3, mean=np.float32([7]), std=np.float64(2))
    given = card_of(open_assignment(device.request(None)), {}).input
    assert (given.mean, given.std, given.inside, given.dtype) == ((7.0,), (2.0,), False, "float32")


def test_token_ids_have_no_raw_form(tmp_path) -> None:
    device = Device(tmp_path)
    work = open_assignment(device.request(None, raw_input=True))
    with pytest.raises(ModelError, match="token ids"):
        card_of(work, {}, tokens=True)
    plain = card_of(open_assignment(device.request(None)), {}, tokens=True).input
    assert (plain.dtype, plain.layout, plain.mean) == ("int64", "NL", None)


def test_what_the_fleet_says_of_its_task_comes_first(tmp_path) -> None:
    device = Device(tmp_path)
    task = Task(class_names=("a", "b", "c"), kind="series", mean=(1.0,), std=(2.0,), sample_rate=50.0)
    work = open_assignment(device.request(None, raw_input=True))
    work = replace(work, header=msgspec.structs.replace(work.header, task=task))
    card = card_of(work, {})
    assert card.class_names == ("a", "b", "c")
    assert (card.input.mean, card.input.std, card.input.sample_rate, card.input.inside) == ((1.0,), (2.0,), 50.0, True)
