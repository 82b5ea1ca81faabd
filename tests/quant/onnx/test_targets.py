"""What a version of ONNX Runtime, or an opset, asks for. That these versions load it: test_runtimes.py."""

import pytest

from core.errors import ConfigError
from quant.onnx.integers.lowbit import STORAGES
from quant.onnx.targets import MIN_OPSET, Target, target_of_opset, target_of_runtime
from quant.onnx.weights import EXPORT_OPSET

pytestmark = pytest.mark.light


def test_each_runtime_gets_the_narrowest_form_that_it_runs() -> None:
    forms = {text: target_of_runtime(text) for text in ("1.15", "1.18.1", "1.19", "1.23.2", "1.24", "1.28", "1.40")}
    assert [form.low_bits for form in forms.values()] == ["int8", "int8", "int4", "int4", "int2", "int2", "int2"]
    assert [form.nbits for form in forms.values()] == [None, None, 4, 4, 4, 2, 2]


def test_no_opset_gets_a_form_that_needs_a_newer_one() -> None:
    for opset in range(18, 26):
        assert STORAGES[target_of_opset(opset).low_bits].opset <= opset
    assert target_of_opset(25) == Target("int2", 2)
    assert MIN_OPSET == EXPORT_OPSET


@pytest.mark.parametrize("text", ["", "1", "1.14", "new", "1.20.x", "-1.20", "1.2e3", "2.0", "9.99"])
def test_other_runtimes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--runtime"):
        target_of_runtime(text)


@pytest.mark.parametrize("opset", [0, 17, 26])
def test_other_opsets_are_refused(opset: int) -> None:
    with pytest.raises(ConfigError, match="files are made for opset 18 to 25"):
        target_of_opset(opset)
