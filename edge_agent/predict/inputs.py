"""Inputs for a model as its card describes them: checked and normalized, or refused with a remedy.

    card                                       accepted
    image, the graph normalizes                bytes 0 .. 255 (any integer type)
    image, with mean and std                   bytes, which are normalized here; or normalized floats
    image, without                             floats as in the samples that the model was trained on
    other, the graph normalizes                numbers (readings)
    other, with mean and std                   numbers (readings), which are normalized here
    other, without                             numbers, used as they are
    token ids                                  integers

One sample may come without the batch axis. Imports no torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from models.card import InputCard
from models.normalization import normalize

__all__ = ["prepare_inputs"]

SLACK = 0.1  # of the range that normalized bytes have


def prepare_inputs(card: InputCard, x: object) -> NDArray[Any]:
    """The batch (N, ...) for the graph; DataError with the reason if `x` is unusable."""
    try:
        array = np.asarray(x)
    except ValueError:
        raise DataError("inputs of different shapes; give one array (N, ...) of equal ones") from None
    if array.dtype.kind not in "iuf":
        what = "objects" if array.dtype.kind == "O" else str(array.dtype)
        raise DataError(f"inputs hold {what}, not numbers; give an array of {card.dtype}")
    array = _batch(card, array)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError("inputs hold NaN or infinity; remove those samples")
    if card.tokens:
        return _tokens(array)
    if card.layout == "NCHW":
        return _images(card, array)
    return _normalized(card, array) if card.std is not None and not card.inside else array.astype(np.float32)


def _batch(card: InputCard, array: NDArray[Any]) -> NDArray[Any]:
    shape = card.shape
    if array.shape == shape:
        return array[None]
    if array.shape[1:] != shape:
        wanted = f"this model takes {_shown(shape)} per sample ({card.layout})"
        raise DataError(f"inputs of shape {array.shape}: {wanted}{_remedy(array.shape, shape)}")
    if not len(array):
        raise DataError("no inputs: the array has length 0")
    return array


def _remedy(given: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The operation that turns an array of shape `given` into samples of `shape`, if it is obvious."""
    axes = len(shape)
    last = (*shape[1:], shape[0])  # channels last
    if axes > 1 and given[-axes:] == last and len(given) in (axes, axes + 1):
        order = (*range(len(given) - axes), len(given) - 1, *range(len(given) - axes, len(given) - 1))
        return f"; did you mean to transpose it: x.transpose{order}"
    if axes > 1 and shape[0] == 1 and given[-(axes - 1) :] == shape[1:] and len(given) in (axes - 1, axes):
        return "; did you forget the channel axis: " + ("x[None]" if len(given) == axes - 1 else "x[:, None]")
    size = int(np.prod(shape))
    if size > 1 and len(given) in (1, 2) and given[-1] == size:
        return f"; did you mean x.reshape(-1, {', '.join(map(str, shape))})"
    if axes == 3 and len(given) in (3, 4) and given[-3] == shape[0]:
        return f"; resize the images to {shape[1]} x {shape[2]} (height x width)"
    if axes == 3 and len(given) in (3, 4) and given[-1] == shape[0]:
        return f"; resize the images to {shape[1]} x {shape[2]} (height x width) and put the channels first"
    return f"; give an array (N, {', '.join(map(str, shape))})"


def _shown(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _tokens(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "f":
        raise DataError(f"inputs are {array.dtype}, this model takes token ids; give int64")
    return array.astype(np.int64)


def _images(card: InputCard, array: NDArray[Any]) -> NDArray[Any]:
    low, high = array.min(), array.max()
    if array.dtype.kind in "iu":
        if low < 0 or high > 255:
            raise DataError(f"inputs are whole numbers from {low} to {high}; the bytes of an image are 0 to 255")
        if card.inside:
            return array.astype(np.uint8)
        if card.std is None:
            raise DataError(
                "inputs are whole numbers, but this model was trained on floats, and its card has no mean and std to "
                "normalize bytes with; give float32 as in the board's samples"
            )
        return _normalized(card, array)
    if card.inside:
        raise DataError(f"inputs are {array.dtype} from {low:g} to {high:g}; {_bytes_wanted(float(low), float(high))}")
    if card.std is not None:
        _check_range(card, float(low), float(high))
    return array.astype(np.float32)


def _bytes_wanted(low: float, high: float) -> str:
    wanted = "this model takes the bytes of images, 0 to 255 (uint8), and normalizes them itself"
    if low >= 0 and high <= 1:
        return f"{wanted}: give (255 * x).round().astype('uint8')"
    if low >= 0 and 1 < high <= 255:
        return f"{wanted}: give x.round().astype('uint8')"
    return f"{wanted}: give the images before they were normalized"


def _check_range(card: InputCard, low: float, high: float) -> None:
    """Refuse floats outside the range of normalized bytes, such as bytes that were only cast to float."""
    assert card.mean is not None
    assert card.std is not None
    mean, std = np.asarray(card.mean, np.float64), np.abs(np.asarray(card.std, np.float64))
    least, most = float(((0 - mean) / std).min()), float(((255 - mean) / std).max())
    slack = SLACK * (most - least)
    if low < least - slack or high > most + slack:
        raise DataError(
            f"inputs are floats from {low:g} to {high:g}, normalized images have {least:.3g} to {most:.3g}; give their "
            "bytes (uint8), which are normalized here, or (x - mean) / std as the model's card says"
        )


def _normalized(card: InputCard, array: NDArray[Any]) -> NDArray[np.float32]:
    assert card.mean is not None
    assert card.std is not None
    return normalize(array, card.mean, card.std)
