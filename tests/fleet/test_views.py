"""Samples are not copied to become tensors."""

import numpy as np

from fleet.views import view_of


def test_a_view_has_the_memory_of_an_array_that_is_read_only() -> None:
    stored = np.arange(6, dtype=np.float32).reshape(2, 3)
    stored.setflags(write=False)
    seen = view_of(stored)  # a warning would fail this test
    assert seen.tolist() == stored.tolist()
    assert seen.data_ptr() == stored.ctypes.data
