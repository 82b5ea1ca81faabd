"""Where fusion computes; this machine may have no GPU, and then says so in one line."""

import pytest
import torch

from aggregator.fusion.numerics.compute import autocast, find_device, out_of_memory
from core.errors import ConfigError


def test_auto_is_a_gpu_where_there_is_one() -> None:
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert find_device("auto").type == best
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("text", ["cuda", "cuda:1"])
def test_a_cuda_device_that_is_not_there_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=f"compute device '{text}': torch finds no CUDA devices") as caught:
        find_device(text)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an Apple GPU")
def test_an_apple_gpu_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no Apple GPU"):
        find_device("mps")


@pytest.mark.parametrize("text", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="unknown compute device"):
        find_device(text)


def test_the_cpu_computes_in_float32() -> None:
    with autocast(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.cuda.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error: BaseException, is_memory: bool) -> None:
    assert out_of_memory(error) is is_memory
