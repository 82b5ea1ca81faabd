"""FedAvgM, worked by hand over two rounds."""

import pytest
import torch

from aggregator.fusion.averages.server_momentum import momentum_step, server_momentum
from aggregator.fusion.types import Memory
from core.errors import ConfigError
from tests.aggregator.fusion.views import points, view_of


def test_velocity_builds_up() -> None:
    # v1 = 10 - 8 = 2, w1 = 8; v2 = 0.5 * 2 + (8 - 7) = 2, w2 = 6
    w1, v1 = momentum_step({"w": torch.tensor([10.0])}, {"w": torch.tensor([8.0])}, {}, 0.5)
    assert (w1["w"].item(), v1["w"].item()) == (8.0, 2.0)
    w2, v2 = momentum_step(w1, {"w": torch.tensor([7.0])}, v1, 0.5)
    assert (w2["w"].item(), v2["w"].item()) == (6.0, 2.0)
    assert v1["w"].item() == 2.0  # untouched


def test_the_part_keeps_its_velocity_by_prototype() -> None:
    memory = Memory()
    for number, (before, average, after) in enumerate([(10.0, 8.0, 8.0), (8.0, 7.0, 6.0)], 1):
        view = view_of(points([0]), previous={"w": torch.tensor([before])}, memory=memory, round_number=number)
        assert server_momentum(view, {"w": torch.tensor([average])}, 0.5)["w"].item() == after
    assert list(memory.tensors) == ["momentum/mlp:fp32/w"]
    assert memory.facts == {}


def test_a_round_does_not_write_into_the_memory_of_the_round_before() -> None:
    memory = Memory()
    server_momentum(view_of(points([0]), previous={"w": torch.tensor([3.0])}, memory=memory), *points([1]), 0.9)
    first = memory.tensors["momentum/mlp:fp32/w"]
    server_momentum(view_of(points([0]), previous={"w": torch.tensor([1.0])}, memory=memory), *points([0]), 0.9)
    assert first.item() == 2.0


def test_without_momentum_the_average_comes_back_as_it_is() -> None:
    view = view_of(points([0]), previous={"w": torch.tensor([1e8])})
    average = {"w": torch.tensor([1e-8])}
    assert server_momentum(view, average, 0.0) is average
    assert view.memory.tensors == {}


def test_running_statistics_have_no_momentum() -> None:
    previous = {"running_var": torch.tensor([1.0])}
    state, velocity = momentum_step(previous, {"running_var": torch.tensor([0.1])}, {}, 0.9)
    assert state["running_var"].item() == pytest.approx(0.1)
    assert velocity == {}


def test_a_velocity_of_another_shape_is_forgotten() -> None:
    memory = Memory(tensors={"momentum/mlp:fp32/w": torch.ones(5)})
    view = view_of(points([0, 0]), previous={"w": torch.tensor([1.0, 1.0])}, memory=memory)
    assert server_momentum(view, {"w": torch.tensor([0.5, 0.0])}, 0.9)["w"].tolist() == [0.5, 0.0]
    assert memory.tensors["momentum/mlp:fp32/w"].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("beta", [-0.1, 1.0, float("nan")])
def test_a_beta_that_diverges_is_refused(beta: float) -> None:
    with pytest.raises(ConfigError, match="server_momentum"):
        server_momentum(view_of(points([0])), {"w": torch.zeros(1)}, beta)
