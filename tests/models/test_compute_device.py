"""Compute devices by name; this machine may have no GPU, and then says so in one line."""

from __future__ import annotations

import pytest
import torch

from core.errors import ConfigError
from models import compute_device
from models.compute_device import (
    CPU,
    autocast,
    describe,
    devices_of,
    find_device,
    initialized,
    out_of_memory,
    repeatable_on,
    widened,
)

HAS_CUDA = torch.cuda.is_available()


def test_auto_is_a_gpu_where_there_is_one() -> None:
    best = "cuda" if HAS_CUDA else "mps" if torch.backends.mps.is_available() else "cpu"
    assert find_device("auto").type == best
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.skipif(HAS_CUDA, reason="there is a CUDA device")
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
    with autocast(CPU, "off"):
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


@pytest.mark.skipif(HAS_CUDA, reason="there is a CUDA device")
def test_work_is_spread_over_all_gpus_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [str(d) for d in devices_of(torch.device("cuda"))] == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices_of(torch.device("cuda:1")) == [torch.device("cuda:1")]
    assert devices_of(CPU) == [CPU]
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:2") == torch.device("cuda:2")
    with pytest.raises(ConfigError, match="compute device 'cuda:3': torch finds"):
        find_device("cuda:3")
    assert not torch.cuda.is_initialized(), "a look initializes nothing"


def test_a_device_is_described_for_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe(CPU, "cpu") == "cpu"
    assert describe(torch.device("mps")) == "mps"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Orin")
    assert describe(torch.device("cuda:1")) == "cuda:1 (Orin)"


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="torch is built with CUDA")
def test_auto_says_why_it_is_the_cpu() -> None:
    assert describe(CPU, "auto").startswith("cpu (torch finds no CUDA devices: torch 2.")


def test_the_cpu_is_never_initialized() -> None:
    assert not initialized(CPU)


def test_mixed_precision_is_asked_for() -> None:
    with autocast(CPU, "bf16"):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == torch.bfloat16
    assert widened(product).dtype == torch.float32
    double = torch.ones(2, dtype=torch.float64)
    assert widened(double) is double


def test_a_gpu_without_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Maxwell")
    with pytest.raises(ConfigError, match=r"cuda:0 \(Maxwell\) has no bfloat16; set amp to off"):
        autocast(torch.device("cuda:0"), "bf16")


def test_repeatable_algorithms_are_asked_of_cuda_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda on, warn_only: asked.append((on, warn_only)))
    for holder, name in (
        (torch.backends.cudnn, "benchmark"),
        (torch.backends.cudnn, "allow_tf32"),
        (torch.utils.deterministic, "fill_uninitialized_memory"),
    ):
        monkeypatch.setattr(holder, name, getattr(holder, name))  # put back afterwards
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    repeatable_on(CPU)
    assert not asked
    monkeypatch.setattr(compute_device.os, "environ", environment := dict[str, str]())
    repeatable_on(torch.device("cuda"))
    assert asked == [(True, True)]
    assert environment == {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    assert not torch.backends.cudnn.allow_tf32
