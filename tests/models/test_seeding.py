"""The borrowed random state."""

import pytest
import torch

from models.seeding import seeded


def draw(seed: int | None) -> float:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    with seeded(generator):
        return float(torch.rand(()))


def test_equal_generators_give_equal_draws() -> None:
    assert draw(3) == draw(3) != draw(4)


def test_the_global_state_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    draw(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_state_is_put_back_after_an_error() -> None:
    before = torch.get_rng_state()

    def fails() -> None:
        with seeded(torch.Generator()):
            torch.rand(5)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_generator_advances_so_that_two_models_differ() -> None:
    generator = torch.Generator().manual_seed(0)
    values = []
    for _ in range(2):
        with seeded(generator):
            values.append(float(torch.rand(())))
    assert values[0] != values[1]


def test_without_a_generator_the_global_seed_decides() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        first, second = draw(None), draw(None)
        torch.manual_seed(5)
        assert draw(None) == first != second
