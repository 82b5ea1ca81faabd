"""Does an update fit its prototype."""

import numpy as np
import pytest

from aggregator.intake import read_state
from wire.errors import DeviceError
from wire.tensors import Packed

EXPECTED = {"predictor.weight": (2, 3), "predictor.bias": (2,)}
SIGNS = Packed(bits=1, levels=np.array([[1, -1, 1], [1, 1, -1]], np.int8), scale=np.array(0.5, np.float16))
BIAS = np.array([0.25, -1.0], np.float16)


def test_quantized_tensors_come_out_as_float() -> None:
    state = read_state("pi-07", {"predictor.weight": SIGNS, "predictor.bias": BIAS}, EXPECTED)
    assert state["predictor.weight"].tolist() == [[0.5, -0.5, 0.5], [0.5, 0.5, -0.5]]
    assert state["predictor.bias"].tolist() == [0.25, -1.0]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"predictor.weight": SIGNS}, "'predictor.bias' is missing"),
        ({"predictor.weight": SIGNS, "predictor.bias": BIAS, "x": BIAS}, "'x' is unexpected"),
        ({"predictor.weight": BIAS, "predictor.bias": BIAS}, r"'predictor.weight' is \(2,\), expected \(2, 3\)"),
    ],
)
def test_what_does_not_fit_is_named_with_its_device(tensors: dict, words: str) -> None:
    with pytest.raises(DeviceError, match="update from 'pi-07'") as caught:
        read_state("pi-07", tensors, EXPECTED)
    assert caught.match(words)
