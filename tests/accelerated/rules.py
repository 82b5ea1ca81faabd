"""The pretend accelerator refuses what CUDA refuses, and allows what CUDA allows."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from tests import accelerator

ACC = torch.device(accelerator.NAME)


def there(*values: float) -> torch.Tensor:
    return torch.tensor(values).to(ACC)


def test_operands_lie_on_one_device() -> None:
    x, y = there(1, 2), torch.ones(2)
    for mix in (
        lambda: x + y,
        lambda: y.add_(x),
        lambda: torch.zeros((), dtype=torch.float64).add_(x.sum()),
        lambda: x.index_select(0, torch.tensor([0])),
        lambda: y[torch.tensor([0]).to(ACC)],
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            mix()
    assert (x * torch.tensor(2.0)).cpu().tolist() == [2, 4], "numbers may be read from the CPU"
    assert x[torch.tensor([1])].tolist() == [2], "and so may indices"
    y.copy_(x)
    assert y.tolist() == [1, 2]


def test_a_tensor_becomes_no_array() -> None:
    for convert in (lambda: there(1).numpy(), lambda: np.asarray(there(1))):
        with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\) to copy"):
            convert()
    assert there(1).cpu().numpy().tolist() == [1]
    assert there(1).item() == 1


def test_it_draws_from_a_random_state_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'acc' device type for generator but found 'cpu'"):
        torch.randn(2, device=ACC, generator=torch.Generator())
    before = torch.get_rng_state()
    for _ in range(2):
        torch.nn.functional.dropout(torch.ones(8, device=ACC), 0.5)
        torch.rand(2, device=ACC)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fork_of_a_process_that_has_used_it_cannot() -> None:
    accelerator.fresh()
    there(1)
    child = os.fork()
    if not child:
        try:
            there(1)
        except RuntimeError as error:
            os._exit(7 if "Cannot re-initialize acc in forked subprocess" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_is_changed_in_place_or_filled_is_given_back() -> None:
    x = there(1, 2)
    assert x.add_(1) is x
    out = torch.empty(2, 2, device=ACC)
    assert torch.mm(torch.ones(2, 2, device=ACC), torch.ones(2, 2, device=ACC), out=out) is out
    assert out.cpu().tolist() == [[2, 2], [2, 2]]
