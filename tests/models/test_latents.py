"""The generator as a device uses it, against the module that is trained."""

import numpy as np
import pytest
import torch

from core.errors import ModelError
from models.generator import LatentGenerator, Noise, build_generator
from models.latents import Drawer, Latents, prototype_of
from quant.pack import pack_state
from wire.messages import ModelHeader
from wire.tensors import decode, encode


def module(noise: Noise = "paper") -> LatentGenerator:
    generator = build_generator(3, 5, noise_width=4, hidden=8, noise=noise, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():  # statistics and affine as after training
        generator.norm.running_mean.uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
        generator.norm.running_var.uniform_(0.5, 2, generator=torch.Generator().manual_seed(2))
        generator.norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(3))
        generator.norm.bias.uniform_(-1, 1, generator=torch.Generator().manual_seed(4))
    return generator


def header(noise: str = "paper") -> ModelHeader:
    return ModelHeader(
        round=1, prototype=prototype_of(noise), input_shape=(4,), classes=3, latent=5, recipe="fedgen", parents=()
    )


def received(generator: LatentGenerator, shares: tuple[float, ...] = (0.5, 0.0, 0.5)) -> Latents:
    tensors = {**generator.state_dict(), "labels": torch.tensor(shares)}
    return Latents.from_tensors(decode(encode(pack_state(tensors))), header(generator.noise))


def test_latents_are_those_of_the_module_in_eval_mode() -> None:
    generator = module()
    noise, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(5)), torch.tensor([0, 1, 2, 2, 1, 0])
    with torch.no_grad():
        expected = generator.eval().decode(noise, y)
    ours = received(generator).decode(noise.numpy(), y.numpy())
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_labels_are_drawn_from_what_the_aggregator_says() -> None:
    drawn = received(module(), (0.25, 0.0, 0.75)).draw_labels(4000, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=3)
    assert counts[1] == 0
    assert counts[0] / 4000 == pytest.approx(0.25, abs=0.03)  # four standard errors


@pytest.mark.parametrize(("noise", "mean", "low"), [("paper", 0.0, -10.0), ("reference", 0.5, 0.0)])
def test_noise_is_drawn_as_the_name_says(noise: Noise, mean: float, low: float) -> None:
    drawn = received(module(noise)).draw_noise(2000, np.random.default_rng(0))
    assert drawn.shape == (2000, 4)
    assert drawn.dtype == np.float32
    assert float(drawn.mean()) == pytest.approx(mean, abs=0.05)
    assert float(drawn.min()) >= low
    assert bool(drawn.max() > 1) == (noise == "paper")


def test_the_same_seed_draws_the_same() -> None:
    latents = received(module())
    one, two = (latents.draw_noise(3, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("broken", ["labels", "fc2.weight", "norm.running_var"])
def test_a_generator_that_lacks_a_tensor_is_refused(broken: str) -> None:
    tensors = pack_state({**module().state_dict(), "labels": torch.ones(3)})
    del tensors[broken]
    with pytest.raises(ModelError, match="not a generator of 3 classes"):
        Latents.from_tensors(tensors, header())


def test_label_shares_of_another_number_of_classes_are_refused() -> None:
    tensors = pack_state({**module().state_dict(), "labels": torch.ones(4)})
    with pytest.raises(ModelError, match="not a generator of 3 classes"):
        Latents.from_tensors(tensors, header())


def test_draws_are_made_in_blocks_and_used_once() -> None:
    drawer = Drawer(received(module()), 2, mirrors=True, rng=np.random.default_rng(0))
    steps = [drawer.step(5) for _ in range(25)]
    assert [at for at, _ in steps] == [*range(10), *range(10), *range(5)]
    blocks = {id(draws): draws for _, draws in steps}
    assert len(blocks) == 3
    noise = np.concatenate([draws.noise.reshape(-1) for draws in blocks.values()])
    assert len(np.unique(noise)) == noise.size == 3 * 10 * 2 * 4
    assert steps[0][1].labels.shape == (10, 2)
    assert steps[0][1].mirrored.shape == (10, 5, 4)


def test_a_smaller_batch_takes_of_the_block_and_a_larger_one_begins_another() -> None:
    drawer = Drawer(received(module()), 2, mirrors=True, rng=np.random.default_rng(0))
    first, smaller, larger = (drawer.step(real) for real in (5, 3, 6))
    assert smaller == (1, first[1])
    assert larger[0] == 0
    assert larger[1].mirrored.shape[1] == 6


def test_without_mirrors_no_noise_is_drawn_for_them() -> None:
    _, draws = Drawer(received(module()), 2, mirrors=False, rng=np.random.default_rng(0)).step(7)
    assert draws.mirrored.size == 0
