"""What rounding loses in one round is sent in a later one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from core.errors import ConfigError, ModelError
from quant.delta import apply_delta, encode_delta
from wire.tensors import Packed, decode, encode

pytestmark = pytest.mark.light

BITS = [8, 4, 2, 1]
Array = NDArray[np.float32]


def array(*values: object) -> Array:
    return np.array(values, np.float32)


def one(u: Array, bits: int) -> Packed:
    """Q(u): the delta from zero."""
    tensors, _ = encode_delta({"w": u}, {"w": np.zeros_like(u)}, None, bits)
    packed = tensors["w"]
    assert isinstance(packed, Packed)
    return packed


def test_one_bit_is_the_sign_times_the_mean_size() -> None:
    q = one(array([1, -2, 3, -2], [4, 4, 4, 4]), 1)
    assert q.levels.tolist() == [[1, -1, 1, -1], [1, 1, 1, 1]]
    assert q.scale.tolist() == [2.0, 4.0]


def test_two_bits_keep_what_exceeds_seven_tenths_of_the_mean_size() -> None:
    q = one(array([4, -0.5, 0.5, -3], [0, 0, 0, 0]), 2)  # mean 2, threshold 1.4, the large ones average 3.5
    assert q.levels.tolist() == [[1, 0, 0, -1], [0, 0, 0, 0]]
    assert q.scale.tolist() == [3.5, 0.0]


@pytest.mark.parametrize(("bits", "top"), [(8, 127), (4, 7)])
def test_eight_and_four_bits_divide_the_largest_size_evenly(bits: int, top: int) -> None:
    q = one(array([top / 4, -0.25, 0.1], [0, -top / 2, top / 2]), bits)
    assert q.scale.tolist() == [0.25, 0.5]
    assert q.levels.tolist() == [[top, -1, 0], [0, -top, top]]


@pytest.mark.parametrize("bits", BITS)
def test_vectors_have_one_scale_and_eight_bits_at_least(bits: int) -> None:
    q = one(array(127, -127, 1), bits)
    assert (q.bits, q.scale.shape, q.levels.tolist()) == (8, (), [127, -127, 1])
    assert one(array(5)[0:1].reshape(()), bits).levels.shape == ()


@pytest.mark.parametrize("bits", BITS)
def test_both_sides_end_with_the_same_model_and_the_residual_is_what_it_lacks(bits: int) -> None:
    rng = np.random.default_rng(0)
    base = {"w": rng.normal(size=(3, 4, 2, 2)).astype(np.float32), "b": rng.normal(size=5).astype(np.float32)}
    new = {name: w + rng.normal(size=w.shape).astype(np.float32) for name, w in base.items()}
    tensors, residual = encode_delta(new, base, None, bits)
    received = apply_delta(base, decode(encode(tensors)))
    for name in base:
        assert np.array_equal(residual[name], new[name] - received[name])
        assert residual[name].dtype == received[name].dtype == np.float32
        assert 0 < np.linalg.norm(residual[name]) < np.linalg.norm(new[name] - base[name])


@pytest.mark.parametrize("bits", BITS)
def test_every_quantizer_shrinks_the_error_of_every_row(bits: int) -> None:
    rng = np.random.default_rng(1)
    heavy = rng.standard_t(2, size=(200, 30)).astype(np.float32)  # with outliers
    lost = np.linalg.norm(heavy - one(heavy, bits).dequantize(), axis=1)
    assert (lost < np.linalg.norm(heavy, axis=1)).all()


def test_more_bits_lose_less_and_the_two_bit_scale_is_near_the_best() -> None:
    u = np.random.default_rng(2).normal(size=(1, 20000)).astype(np.float32)
    error = {bits: float(np.mean((u - one(u, bits).dequantize()) ** 2)) for bits in BITS}
    assert error[1] > error[2] > error[4] > error[8]
    assert error[1] == pytest.approx(1 - 2 / np.pi, rel=0.05)  # Lloyd-Max for a Gaussian
    assert error[2] == pytest.approx(0.1902, rel=0.05)  # Max 1960, three levels: 0.1902


def drift(bits: int, *, feedback: bool, rounds: int = 50) -> list[float]:
    """Distance between all that was learned and all that was sent, by round.

    Every round learns a step of its own: the same direction each time, with uneven entries, plus a little noise.
    """
    rng = np.random.default_rng(3)
    direction = rng.exponential(size=(4, 16)) * rng.choice([-1, 1], size=(4, 16))
    base = {"w": np.zeros((4, 16), np.float32)}
    learned, residual, distances = np.zeros((4, 16)), None, []
    for _ in range(rounds):
        step = (direction + 0.002 * rng.normal(size=(4, 16))).astype(np.float32)
        learned += step
        tensors, left = encode_delta({"w": base["w"] + step}, base, residual, bits)
        base = apply_delta(base, tensors)
        residual = left if feedback else None
        distances.append(float(np.linalg.norm(learned - base["w"])))
    return distances


@pytest.mark.parametrize("bits", BITS)
def test_with_the_residual_the_accumulated_error_stays_bounded_over_50_rounds(bits: int) -> None:
    distances = drift(bits, feedback=True)
    assert max(distances[25:]) < 1.5 * max(distances[:25])


@pytest.mark.parametrize("bits", BITS)
def test_without_the_residual_the_accumulated_error_grows(bits: int) -> None:
    kept, dropped = drift(bits, feedback=True), drift(bits, feedback=False)
    assert dropped[-1] > 2.5 * max(kept)
    assert dropped[-1] > 1.5 * max(dropped[:25])


def test_a_small_delta_is_not_lost_in_float16() -> None:
    q = one(array([1e-7, -2e-7], [3e-7, 3e-7]), 1)
    assert q.scale.dtype == np.float32
    assert q.dequantize()[1].tolist() == pytest.approx([3e-7, 3e-7])
    assert one(array([1, -2], [3, 3]), 1).scale.dtype == np.float16


@pytest.mark.parametrize("bits", BITS)
def test_no_difference_is_sent_as_zero(bits: int) -> None:
    base = {"w": array([1, 2], [3, 4]), "b": array(1, 2)}
    tensors, residual = encode_delta(base, base, None, bits)
    assert all(np.array_equal(apply_delta(base, tensors)[name], w) for name, w in base.items())
    assert not any(r.any() for r in residual.values())


def test_a_variance_never_becomes_negative_and_the_residual_knows() -> None:
    base, new = {"n.running_var": array(10, 0.01)}, {"n.running_var": array(0, 0)}  # a step is 10/127: 0.01 -> 0
    residual = {"n.running_var": array(0, -0.5)}
    tensors, left = encode_delta(new, base, residual, 1)
    received = apply_delta(base, tensors)["n.running_var"]
    assert (received >= 0).all()
    assert np.array_equal(left["n.running_var"], array(0, -0.5) - received)


def test_integers_travel_whole_and_leave_no_residual() -> None:
    base, new = {"n": np.array([1, 2], np.int64)}, {"n": np.array([7, 8], np.int64)}
    tensors, residual = encode_delta(new, base, None, 1)
    assert apply_delta(base, tensors)["n"].tolist() == [7, 8]
    assert residual == {}


def test_inputs_are_left_alone() -> None:
    base, new, residual = ({"w": array([1, 2], [3, 5])}, {"w": array([2, 2], [2, 2])}, {"w": array([0, 1], [1, 0])})
    tensors, _ = encode_delta(new, base, residual, 4)
    apply_delta(base, tensors)
    assert base["w"].tolist() == [[1, 2], [3, 5]]
    assert new["w"].tolist() == [[2, 2], [2, 2]]
    assert residual["w"].tolist() == [[0, 1], [1, 0]]


def test_a_one_bit_delta_is_about_thirty_times_smaller_than_the_floats() -> None:
    w = np.random.default_rng(4).normal(size=(64, 576)).astype(np.float32)
    tensors, _ = encode_delta({"w": w}, {"w": np.zeros_like(w)}, None, 1)
    assert w.nbytes / len(encode(tensors)) > 30


@pytest.mark.parametrize("bits", [0, 3, 16])
def test_other_bits_are_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match=f"a delta of {bits} bit is not known; give 8, 4, 2 or 1"):
        encode_delta({}, {}, None, bits)


def test_models_that_do_not_fit_are_named() -> None:
    w = {"w": array([1, 2])}
    with pytest.raises(ModelError, match="differ in 'v'"):
        encode_delta({**w, "v": array(1)}, w, None, 8)
    with pytest.raises(ModelError, match=r"'w' is float32 \(1, 2\), received float32 \(2,\)"):
        encode_delta(w, {"w": array(1, 2)}, None, 8)
    with pytest.raises(ModelError, match="the residual has 'old', the model has not"):
        encode_delta(w, w, {"old": array(1)}, 8)
    with pytest.raises(ModelError, match=r"the residual of 'w' is \(3,\)"):
        encode_delta(w, w, {"w": array(1, 2, 3)}, 8)
    with pytest.raises(ModelError, match="delta and model differ in 'w'"):
        apply_delta(w, {})
    with pytest.raises(ModelError, match=r"the delta of 'w' is \(1, 3\), expected \(1, 2\)"):
        apply_delta(w, {"w": one(array([1, 2, 3]), 4)})


def test_diverged_training_is_named() -> None:
    with pytest.raises(ModelError, match="'w' is NaN or infinite"):
        encode_delta({"w": array([np.nan])}, {"w": array([0])}, None, 8)


def test_a_number_without_dimensions_comes_back_as_an_array() -> None:
    """The learned scales of `w8a8` activations: NumPy makes numbers of such arrays, and torch takes none."""
    new, base = {"scale": np.array(3.0, np.float32)}, {"scale": np.array(1.0, np.float32)}
    tensors, left = encode_delta(new, base, None, 4)
    applied = apply_delta(base, tensors)
    for arrays in (applied, left):
        assert isinstance(arrays["scale"], np.ndarray)
        assert arrays["scale"].shape == ()
    np.testing.assert_allclose(applied["scale"] + left["scale"], 3.0)
