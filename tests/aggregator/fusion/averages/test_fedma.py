"""Matched averaging: copies in another order average back to the same network."""

import pytest
import torch

from aggregator.fusion.averages.fedma import align, best_order, matched, matched_mean
from aggregator.fusion.averages.mean import mean
from aggregator.fusion.averages.unit_matching import chain_of, reordered
from core.errors import ConfigError, RoundError
from models.build import build
from models.roles import slice_state
from models.spec import PrototypeSpec
from quant.pack import load_packed, pack, pack_state, unpack
from quant.precision import FP32, parse_precision
from tests.aggregator.fusion.views import view_of


def test_the_best_order_is_that_of_the_nearest_units() -> None:
    target = torch.tensor([[1.0, 0], [0, 1], [-1, 0]], dtype=torch.float64)
    units = torch.tensor([[0.1, 0.9], [-1.1, 0], [0.9, 0.1]], dtype=torch.float64)
    assert best_order(target, units).tolist() == [2, 0, 1]
    assert best_order(target * 1e-3, units).tolist() == [2, 0, 1]


def test_the_assignment_is_the_best_of_all_and_not_greedy() -> None:
    # unit 0 is nearest to both; products 10 9 / 9 1: 9 + 9 beats 10 + 1
    assert best_order(torch.tensor([[10.0, 9], [9, 1]]).double(), torch.eye(2).double()).tolist() == [1, 0]


def test_two_layers_worked_by_hand() -> None:
    # hidden units (1, 0) and (0, 1), read with 5 and 7; the second device has them the other way round, and larger
    names = ("a", "b")
    first = {"a.weight": torch.tensor([[1.0, 0], [0, 1]]), "b.weight": torch.tensor([[5.0, 7]])}
    second = {"a.weight": torch.tensor([[0.0, 3], [3, 0]]), "b.weight": torch.tensor([[9.0, 7]])}
    average = matched_mean([first, second], [1, 1], names)
    assert average["a.weight"].tolist() == [[2, 0], [0, 2]]
    assert average["b.weight"].tolist() == [[6, 8]]
    assert second["a.weight"].tolist() == [[0, 3], [3, 0]]  # untouched


def test_tensors_without_units_are_averaged_as_they_are() -> None:
    layers = {"a.weight": torch.eye(2), "b.weight": torch.ones(1, 2)}
    states = [{**layers, "act.scale": torch.tensor(2.0)}, {**layers, "act.scale": torch.tensor(4.0)}]
    assert matched_mean(states, [1, 1], ("a", "b"))["act.scale"].item() == 3


def copies(arch: str, count: int, precision: str = "fp32") -> tuple[PrototypeSpec, list[dict[str, torch.Tensor]]]:
    """One network, and copies of it whose hidden units are in random orders."""
    seed = torch.Generator().manual_seed(11)
    spec = PrototypeSpec(arch, parse_precision(precision), (1, 8, 8), 3)
    state = unpack(pack(build(spec, generator=seed), floats="fp32"))
    names = chain_of(spec)
    found = [state]
    for _ in range(count - 1):
        orders = [torch.randperm(len(state[f"{name}.weight"]), generator=seed) for name in names[:-1]]
        found.append(reordered(state, names, orders))
    return spec, found


@pytest.mark.parametrize(
    ("arch", "precision"), [("mlp", "fp32"), ("mcmahan_cnn", "fp32"), ("vgg9", "fp32"), ("mlp", "w1")]
)
def test_copies_in_other_orders_average_back_to_the_network(arch: str, precision: str) -> None:
    spec, states = copies(arch, 3, precision)
    average = matched(view_of(states, spec=spec), [3, 1, 2])
    for name, w in states[0].items():
        assert torch.allclose(average[name], w, rtol=1e-5, atol=1e-6)


def test_the_plain_mean_of_such_copies_is_another_function() -> None:
    spec, states = copies("mlp", 3)
    model = build(spec).eval()
    x = model.example_input(16, generator=torch.Generator().manual_seed(5))
    logits = []
    for state in (
        states[1],
        matched(view_of(states, spec=spec), [1, 1, 1]),
        mean(view_of(states, spec=spec), [1, 1, 1]),
    ):
        load_packed(model, pack_state(state, floats="fp32"))
        with torch.no_grad():
            logits.append(model(x).clone())
    assert torch.allclose(logits[1], logits[0], rtol=1e-4, atol=1e-5)
    assert (logits[2] - logits[0]).abs().max() > 0.01


def test_matching_survives_noise() -> None:
    spec, states = copies("mlp", 4)
    seed = torch.Generator().manual_seed(2)
    noisy = [{n: w + 0.01 * torch.randn(w.shape, generator=seed) for n, w in s.items()} for s in states]
    average = matched(view_of(noisy, spec=spec), [2, 1, 1, 1])
    for name, w in states[0].items():
        assert (average[name] - w).abs().max() < 0.03


def test_an_aligned_network_computes_what_it_computed() -> None:
    spec = PrototypeSpec("mcmahan_cnn", FP32, (1, 8, 8), 3)
    model, other = (build(spec, generator=torch.Generator().manual_seed(s)).eval() for s in (1, 2))
    x = model.example_input(3, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        before = model(x).clone()
        model.load_state_dict(
            align(other.state_dict(), {n: w.clone() for n, w in model.state_dict().items()}, chain_of(spec))
        )
        assert torch.allclose(model(x), before, rtol=1e-4, atol=1e-5)


def test_the_heaviest_device_gives_the_order_and_zeros_have_no_part() -> None:
    spec, states = copies("mlp", 3)
    average = matched(view_of(states, spec=spec), [1, 5, 0])
    assert torch.allclose(average["extractor.body.fc1.weight"], states[1]["extractor.body.fc1.weight"])
    assert torch.equal(
        matched(view_of(states, spec=spec), [0, 0, 1])["predictor.weight"], states[2]["predictor.weight"]
    )


def test_where_nobody_is_trusted_the_model_stays() -> None:
    spec, states = copies("mlp", 2)
    assert matched(view_of(states, spec=spec), [0, 0])["predictor.weight"].abs().max() == 0


def test_a_prototype_with_norms_is_refused_by_name() -> None:
    spec = PrototypeSpec("cnn", FP32, (1, 8, 8), 3)
    with pytest.raises(ConfigError, match="cnn:fp32 cannot be matched"):
        matched(view_of([{"w": torch.ones(1)}], spec=spec), [1])


def test_predictors_alone_are_refused() -> None:
    spec, states = copies("mlp", 1)
    with pytest.raises(RoundError, match="predictor-only updates"):
        matched(view_of([slice_state(states[0], "predictor")], spec=spec), [1])
