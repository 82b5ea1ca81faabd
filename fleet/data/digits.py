"""The 8x8 handwritten digits that scikit-learn ships: 1,797 samples, 1,438 for training, 359 for testing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset, empty_like, hold_out
from fleet.data.files import read_limited

__all__ = ["digits"]

_ROWS, _COLUMNS = 1797, 65  # 64 pixels of 0 .. 16, then the label


def digits() -> Dataset:
    """scikit-learn's digits as (1, 8, 8) images in [-1, 1], with a stratified test part of 20 %."""
    table = _table()
    if table.shape != (_ROWS, _COLUMNS) or not (table >= 0).all() or not (table[:, :64] <= 16).all():
        raise DataError(f"digits: a table of {table.shape}, expected {(_ROWS, _COLUMNS)}; reinstall scikit-learn")
    x = table[:, :64].astype(np.uint8).reshape(-1, 1, 8, 8)
    x_test, y_test = empty_like(x)
    whole = Dataset(
        name="digits",
        kind="image",
        x_train=x,
        y_train=table[:, 64].astype(np.int64),
        x_test=x_test,
        y_test=y_test,
        class_names=tuple("0123456789"),
        mean=(8.0,),
        std=(8.0,),
    )
    return hold_out(whole, 0.2)


def _table() -> Array:
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise DataError(
            "digits: they come with scikit-learn, which is missing; run: pip install 'edgestill[aggregator]'"
        )
    # reading sklearn's data file takes milliseconds, importing sklearn takes seconds on a small machine
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    if path.exists():
        text = read_limited(path, 4 << 20).decode("ascii")
        try:
            return np.array([line.split(",") for line in text.split()], dtype=np.float64)
        except ValueError:
            raise DataError(f"{path}: not a table of numbers; reinstall scikit-learn") from None
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    return np.column_stack([data, target])
