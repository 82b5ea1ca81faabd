"""Models drawn around the mean: moments, weights, what must stay positive."""

import pytest
import torch

from aggregator.fusion.averages.fedbe import dirichlet_models, gaussian_models, sample_models, sampled_models
from core.errors import ConfigError
from tests.aggregator.fusion.views import points, view_of


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_gaussian_models_have_the_devices_mean_and_deviation() -> None:
    # values 0 and 4 with weights 3 and 1: mean 1, variance 3/4 * 1 + 1/4 * 9 = 3
    models = gaussian_models(points([0.0] * 20_000, [4.0] * 20_000), [3, 1], 2, seeded())
    drawn = torch.cat([m["w"] for m in models])
    assert drawn.mean().item() == pytest.approx(1, abs=0.05)
    assert drawn.var().item() == pytest.approx(3, abs=0.1)
    assert not torch.equal(models[0]["w"], models[1]["w"])


def test_where_devices_agree_every_model_agrees() -> None:
    for how in ("gaussian", "dirichlet"):
        for model in sample_models(points([1.0, -2.0], [1.0, -2.0]), [1, 3], how, 4, seeded()):
            assert model["w"].tolist() == pytest.approx([1, -2])


@pytest.mark.parametrize("name", ["bn.running_var", "bn.running_mean", "act.tensor_quant.scaling_impl.value"])
def test_what_must_stay_positive_has_its_mean(name: str) -> None:
    states = [{name: torch.tensor([0.1])}, {name: torch.tensor([9.9])}]
    for model in gaussian_models(states, [1, 1], 20, seeded()):
        assert model[name].item() == pytest.approx(5)


def test_dirichlet_models_are_mixtures_of_devices() -> None:
    models = dirichlet_models(points([1.0, 0, 0], [0, 1, 0], [0, 0, 1]), [1, 1, 1], 300, seeded(), alpha=1.0)
    mixed = torch.stack([m["w"] for m in models])  # the mixing weights themselves
    assert torch.allclose(mixed.sum(1), torch.ones(300))
    assert mixed.min() >= 0
    assert mixed.mean(0).tolist() == pytest.approx([1 / 3] * 3, abs=0.05)
    assert mixed.var().item() == pytest.approx(1 / 18, abs=0.01)  # Dir(1, 1, 1): (1/3) (2/3) / 4


def test_a_small_alpha_picks_single_devices() -> None:
    for alpha, nearly_one in ((1e-3, True), (100.0, False)):
        models = dirichlet_models(points([1.0, 0], [0, 1.0]), [1, 1], 50, seeded(), alpha=alpha)
        assert all(bool(m["w"].max() > 0.99) is nearly_one for m in models)


def test_dirichlet_shares_are_weighed_by_examples() -> None:
    # gamma nearly (1/2, 1/2): weights 1 and 3
    model = dirichlet_models(points([1.0, 0], [0, 1.0]), [1, 3], 1, seeded(), alpha=1e6)[0]
    assert model["w"].tolist() == pytest.approx([0.25, 0.75], abs=0.01)


@pytest.mark.parametrize("how", ["gaussian", "dirichlet"])
def test_the_same_generator_gives_the_same_models(how: str) -> None:
    states = points([1.0, 2.0], [3.0, -1.0])
    first, second = (sample_models(states, [1, 2], how, 3, seeded(7)) for _ in range(2))
    assert all(torch.equal(a["w"], b["w"]) for a, b in zip(first, second, strict=True))
    other = sample_models(states, [1, 2], how, 3, seeded(8))
    assert not torch.equal(first[0]["w"], other[0]["w"])


def test_a_round_draws_from_those_that_count() -> None:
    view = view_of(points([1.0], [1.0], [1e9]))
    for how in ("gaussian", "dirichlet"):
        models = sampled_models(view, [2, 1, 0], how, 5)
        assert [m["w"].item() for m in models] == pytest.approx([1] * 5)
    assert sampled_models(view, [1, 1, 1], "gaussian", 0) == []


def test_a_single_device_is_its_own_sample() -> None:
    for how in ("gaussian", "dirichlet"):
        assert sampled_models(view_of(points([3.0])), [5], how, 1)[0]["w"].tolist() == [3]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ConfigError, match="sample = 'laplace'"):
        sample_models(points([1.0]), [1], "laplace", 1, seeded())
    with pytest.raises(ConfigError, match="fedbe_alpha = 0"):
        sampled_models(view_of(points([1.0]), fedbe_alpha=0), [1], "dirichlet", 1)
