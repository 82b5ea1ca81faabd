"""What a model is given: accepted as its card says, or refused in words that say what to do."""

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.predict.inputs import prepare_inputs
from models.card import InputCard

pytestmark = pytest.mark.light
IMAGE = {"layout": "NCHW", "shape": (3, 4, 2)}
RAW = InputCard(dtype="uint8", mean=(0.0,), std=(255.0,), inside=True, **IMAGE)
PLAIN = InputCard(dtype="float32", mean=(100.0, 110.0, 120.0), std=(50.0, 60.0, 70.0), **IMAGE)
STORED = InputCard(dtype="float32", **IMAGE)
WINDOW = InputCard(dtype="float32", layout="NCL", shape=(2, 8), mean=(1.0, 2.0), std=(2.0, 4.0))
TOKENS = InputCard(dtype="int64", layout="NL", shape=(6,))
GREY = InputCard(dtype="uint8", mean=(0.0,), std=(255.0,), inside=True, layout="NCHW", shape=(1, 4, 4))
BYTES = np.arange(24, dtype=np.uint8).reshape(1, 3, 4, 2)


def test_bytes_are_handed_over_or_normalized_as_the_card_says() -> None:
    assert prepare_inputs(RAW, BYTES).dtype == np.uint8
    assert prepare_inputs(RAW, BYTES.tolist()).tolist() == BYTES.tolist()  # whole numbers of JSON
    assert prepare_inputs(RAW, BYTES[0]).shape == BYTES.shape  # one sample
    normalized = prepare_inputs(PLAIN, BYTES)
    assert normalized.dtype == np.float32
    assert normalized[0, 1, 0, 0] == (np.float32(8) - np.float32(110)) * (np.float32(1) / np.float32(60))
    assert prepare_inputs(PLAIN, normalized.astype(np.float64)).tolist() == normalized.tolist()
    assert prepare_inputs(STORED, normalized).tolist() == normalized.tolist()


def test_readings_of_sensors_are_normalized_unless_the_graph_does_it() -> None:
    readings = np.full((1, 2, 8), 5.0)
    assert prepare_inputs(WINDOW, readings)[0, :, 0].tolist() == [2.0, 0.75]
    inside = InputCard(dtype="float32", layout="NCL", shape=(2, 8), mean=(1.0,), std=(2.0,), inside=True)
    assert prepare_inputs(inside, readings.astype(np.int64)).tolist() == readings.tolist()


def test_token_ids_stay_whole_numbers() -> None:
    assert prepare_inputs(TOKENS, [[1, 2, 3, 4, 5, 6]]).dtype == np.int64
    with pytest.raises(DataError, match="takes token ids; give int64"):
        prepare_inputs(TOKENS, [[1.0, 2, 3, 4, 5, 6]])


@pytest.mark.parametrize(
    ("card", "x", "told"),
    [
        (RAW, np.zeros((5, 4, 2, 3), np.uint8), r"did you mean to transpose it: x.transpose\(0, 3, 1, 2\)"),
        (RAW, np.zeros((4, 2, 3), np.uint8), r"did you mean to transpose it: x.transpose\(2, 0, 1\)"),
        (WINDOW, np.zeros((5, 8, 2)), r"did you mean to transpose it: x.transpose\(0, 2, 1\)"),
        (GREY, np.zeros((5, 4, 4), np.uint8), r"forget the channel axis: x\[:, None\]"),
        (GREY, np.zeros((4, 4), np.uint8), r"forget the channel axis: x\[None\]"),
        (RAW, np.zeros((5, 24), np.uint8), r"did you mean x.reshape\(-1, 3, 4, 2\)"),
        (RAW, np.zeros((5, 3, 8, 8), np.uint8), "resize the images to 4 x 2"),
        (RAW, np.zeros((8, 8, 3), np.uint8), "resize the images to 4 x 2 .* put the channels first"),
        (RAW, np.zeros((5, 7), np.uint8), r"give an array \(N, 3, 4, 2\)"),
        (RAW, np.zeros((0, 3, 4, 2), np.uint8), "no inputs"),
        (RAW, np.float32(3), r"give an array \(N, 3, 4, 2\)"),
        (RAW, BYTES / 255, r"normalizes them itself: give \(255 \* x\).round\(\).astype\('uint8'\)"),
        (RAW, BYTES.astype(np.float32), r"give x.round\(\).astype\('uint8'\)"),
        (RAW, BYTES / 100 - 1.5, "before they were normalized"),
        (RAW, BYTES.astype(np.int16) - 1, "from -1 to 22; the bytes of an image are 0 to 255"),
        (PLAIN, BYTES.astype(np.float32) * 10, "normalized images have -2 to 3.1"),
        (STORED, BYTES, "its card has no mean and std"),
        (STORED, np.full((1, 3, 4, 2), np.nan), "NaN or infinity"),
        (STORED, np.zeros((1, 3, 4, 2), bool), "inputs hold bool, not numbers"),
        (STORED, [[1], [1, 2]], "of different shapes"),
        (STORED, [[1, None]], "inputs hold objects"),
        (STORED, [[10**30]], "inputs hold objects"),
        (STORED, "hello", "not numbers"),
    ],
)
def test_what_cannot_be_an_input_is_told_with_the_remedy(card: InputCard, x: object, told: str) -> None:
    with pytest.raises(DataError, match=told) as refused:
        prepare_inputs(card, x)
    assert "\n" not in str(refused.value)
