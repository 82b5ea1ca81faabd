"""One thread within, everything as before afterwards."""

import pytest
import torch

from fleet.engines.threads import one_thread


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_gradients_are_restored(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            with one_thread():
                assert torch.get_num_threads() == 1
                assert torch.is_grad_enabled()
            assert torch.get_num_threads() == threads
            assert not torch.is_grad_enabled()
    finally:
        torch.set_num_threads(before)
