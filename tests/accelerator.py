"""A pretend accelerator, torch device `acc`: it computes on the CPU, and refuses what CUDA refuses.

    from tests import accelerator               `torch.device("acc")` is usable in this process and in its forks
    accelerator.install(folder)                 a package for PYTHONPATH, whose entry point brings the device to every
                                                child process that imports torch

Tensors on it hold their numbers in a CPU tensor. It keeps these rules, whose breach raises what CUDA would raise:

    devices      operands lie on one device; 0-dimensional CPU tensors may be read, CPU indices may index
    generators   no generator of the CPU draws on it; without one, draws come from its own random state
    NumPy        a tensor becomes no array; `.cpu()` first
    forks        a fork of a process that has used it cannot

The device has one index: torch's autograd asks a backend written in Python for no more. Only for processes of their own
(tests/test_accelerator.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

__all__ = ["DEVICE", "NAME", "fresh", "install", "register", "used"]

NAME = "acc"
DEVICE = f"{NAME}:0"
HERE = Path(__file__).resolve()
aten = torch.ops.aten
_COPIES = (aten.copy_.default, aten._to_copy.default)
_INDEXED = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default)


class State:
    """What the driver of a GPU would know: the process that has used it, and its random state."""

    user: int | None = None
    draws = torch.Generator().manual_seed(0)

    @classmethod
    def use(cls) -> None:
        """Note the first use; RuntimeError in a fork of a process that has used the device before."""
        if cls.user not in (None, os.getpid()):
            raise RuntimeError(f"Cannot re-initialize {NAME} in forked subprocess")
        cls.user = os.getpid()


class Module:
    """`torch.acc`, as `torch.cuda` is for CUDA."""

    def is_initialized(self) -> bool:
        return State.user == os.getpid()

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return State.user not in (None, os.getpid())

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        State.draws.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device: object = None) -> Tensor:
        return State.draws.get_state()

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        State.draws.set_state(state)


class AccTensor(torch.Tensor):
    """A tensor on the device; its numbers are `held`."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> AccTensor:
        State.use()
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        with torch.inference_mode(False):  # in inference mode wrappers lack the version counter that their views need
            made = torch.Tensor._make_wrapper_subclass(cls, held.size(), device=torch.device(NAME, 0), **layout)
        made.held = held
        return made  # type: ignore[no-any-return]

    def __init__(self, held: Tensor) -> None:
        pass

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.held!r} on {NAME}"

    def numpy(self, **_: Any) -> NoReturn:  # type: ignore[override]
        raise TypeError(
            f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor first."
        )

    def __array__(self, *_: Any) -> NoReturn:  # type: ignore[override]
        self.numpy()

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        flat = tree_flatten((args, kwargs))[0]
        mine = {id(t.held): t for t in flat if isinstance(t, AccTensor)}
        if func not in _COPIES:
            _check_devices(func, args, kwargs)
        _refuse_generator(kwargs)
        to = kwargs.get("device")
        if to is not None:
            kwargs["device"] = torch.device("cpu")
        with _own_draws(func):
            out = func(*tree_map_only(AccTensor, _held, args), **tree_map_only(AccTensor, _held, kwargs))
        if (to is not None and torch.device(to).type == "cpu") or out is None:
            return out
        if func is aten.copy_.default and not isinstance(args[0], AccTensor):
            return args[0]
        # what was changed in place is given back as it is
        return tree_map_only(Tensor, lambda t: mine[id(t)] if id(t) in mine else AccTensor(t), out)


def _held(tensor: AccTensor) -> Tensor:
    return tensor.held


def _check_devices(func: Any, args: Any, kwargs: Any) -> None:
    """Operands on the CPU: only numbers that are read, and indices."""
    written = {a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    named = {**{a.name: value for a, value in zip(func._schema.arguments, args, strict=False)}, **kwargs}
    for name, value in named.items():
        for tensor in tree_flatten(value)[0]:
            if not isinstance(tensor, Tensor) or isinstance(tensor, AccTensor):
                continue
            index = func in _INDEXED and name == "indices" and tensor.dtype in (torch.long, torch.bool)
            if name in written or not (index or tensor.dim() == 0):
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! "
                    f"({func}, {name!r})"
                )


def _refuse_generator(kwargs: dict[str, Any]) -> None:
    given = kwargs.get("generator")
    if given is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{given.device.type}'")


@contextmanager
def _own_draws(func: Any) -> Iterator[None]:
    """What `func` draws comes from the device's random state; that of the CPU stays as it is."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.set_state(State.draws.get_state())
        yield
        State.draws.set_state(torch.default_generator.get_state())


def _empty(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
           memory_format: Any = None) -> Tensor:  # fmt: skip
    return AccTensor(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def _empty_strided(size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
                   pin_memory: Any = None) -> Tensor:  # fmt: skip
    return AccTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    into, out_of = (t.held if isinstance(t, AccTensor) else t for t in (target, source))
    into.copy_(out_of)
    return target


def used() -> bool:
    """Whether this process has a tensor on the device, or had one."""
    return State.user == os.getpid()


def fresh() -> None:
    """As if this process had not used the device yet."""
    State.user = None
    State.draws.manual_seed(0)


def register() -> None:
    """Make the device known to torch; the entry point calls it when torch is imported."""


def install(folder: Path) -> None:
    """Write a package to `folder` that brings the device to every process with `folder` in its PYTHONPATH."""
    info = folder / "pretend_accelerator-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend-accelerator\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nacc = pretend_accelerator:register\n")
    (folder / "pretend_accelerator.py").write_text(HERE.read_text())


if torch._C._get_privateuse1_backend_name() != NAME:
    _setup_privateuseone_for_python_backend(NAME, backend_module=Module())
    _LIBRARY = torch.library.Library("aten", "IMPL")
    for operator, made in (
        ("empty.memory_format", _empty),
        ("empty_strided", _empty_strided),
        ("_copy_from", _copy_from),
    ):
        _LIBRARY.impl(operator, made, "PrivateUse1")
