"""One torch thread while a simulation computes, whatever the program around it has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """A context with one torch thread and with gradients; afterwards both are as before.

    Two threads in each of several processes slow each other down to a twentieth of the speed on a busy machine, and
    another number of threads adds up sums in another order.
    """
    threads = torch.get_num_threads()
    if threads != 1:
        torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)
