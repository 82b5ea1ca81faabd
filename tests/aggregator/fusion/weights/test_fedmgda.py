"""FedMGDA+ and FedMGDA++ over rounds."""

import pytest
import torch

from aggregator.fusion.types import Memory, Server
from aggregator.fusion.weights.fedmgda import blocked, fedmgda
from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from quant.precision import FP32
from tests.aggregator.fusion.views import points, view_of

PACE = "fedmgda/mlp:fp32/pace"


def test_far_devices_weigh_less_and_the_mean_is_one() -> None:
    # distances 1, 2, 3, over their median 0.5, 1, 1.5; lambda 0.95, 0.9, 0.85
    weights = fedmgda(view_of(points([1], [-2], [3])))
    assert weights == pytest.approx([0.95 / 0.9, 1, 0.85 / 0.9])


def test_weights_do_not_depend_on_the_scale_of_the_network() -> None:
    small = fedmgda(view_of(points([1], [-2], [3])))
    assert fedmgda(view_of(points([1e-6], [-2e-6], [3e-6]))) == pytest.approx(small, rel=1e-5)
    assert fedmgda(view_of(points([1e37], [-2e37], [3e37]))) == pytest.approx(small, rel=1e-5)


def test_an_outlier_is_blocked_for_good() -> None:
    memory = Memory()
    first = view_of(points(*[[1.0]] * 5, [400.0]), memory=memory, round_number=4)
    assert fedmgda(first) == pytest.approx([1] * 5 + [0])
    assert memory.facts["fedmgda/mlp:fp32/blocked"] == {"d05": 4}
    second = view_of(points(*[[1.0]] * 6), memory=memory, round_number=5)
    assert blocked(second) == [None] * 5 + ["blocked by fedmgda since round 4"]
    assert fedmgda(second) == pytest.approx([1] * 5 + [0])
    # one was blocked in round 4: 0.1 * 0.9, 1.5 * 1.05
    assert memory.facts[PACE] == pytest.approx({"lr": 0.09, "multiplier": 1.575, "error": 1.0, "newly": 0})
    assert fedmgda(view_of(points([1]), devices=["d05"], memory=memory, round_number=6)) == [0]


def test_lambda_is_remembered_and_a_newcomer_starts_at_the_mean() -> None:
    memory = Memory()
    fedmgda(view_of(points([1], [-2], [3]), memory=memory))
    weights = fedmgda(view_of(points([2], [2]), devices=["d02", "new"], memory=memory, round_number=2))
    old, new = 0.85 / 0.9 - 0.1, 1 - 0.1  # the largest lambda of those that answered is the newcomer's 1
    assert weights == pytest.approx([old / ((old + new) / 2), new / ((old + new) / 2)])
    assert memory.facts["fedmgda/mlp:fp32/lambda"]["d00"] == pytest.approx(0.95 / 0.9)  # absent: as it was


@pytest.mark.parametrize(("good", "lr"), [(True, 0.09), (False, 0.13)])
def test_the_error_of_the_published_model_sets_the_pace(good: bool, lr: float) -> None:
    spec = PrototypeSpec("mlp", FP32, (4,), 2)
    model = build(spec, generator=torch.Generator().manual_seed(0)).eval()
    state = {name: w.detach().clone() for name, w in model.state_dict().items()}
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y = model(x).argmax(1)
    server = Server(validation=(x, y if good else 1 - y))
    memory = Memory()
    for number in (1, 2):
        fedmgda(view_of([state, state], spec=spec, previous=state, memory=memory, round_number=number, server=server))
    assert memory.facts["fedmgda/mlp:fp32/pace"]["lr"] == pytest.approx(lr)


def test_a_step_that_would_leave_nobody_is_not_made() -> None:
    memory = Memory(facts={PACE: {"lr": 50.0, "multiplier": 1.5, "error": 1.0, "newly": 0}})
    assert fedmgda(view_of(points([1], [1], [1]), memory=memory)) == [1, 1, 1]
    assert memory.facts["fedmgda/mlp:fp32/blocked"] == {}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_updates_that_did_not_move_weigh_the_same(count: int) -> None:
    for form in ("plus", "plusplus"):
        weights = fedmgda(view_of(points(*[[0.0, 0.0]] * count), fedmgda=form))
        assert weights == pytest.approx([weights[0]] * count)
        assert weights[0] > 0


def test_the_reference_takes_distances_as_they_are() -> None:
    # as worked in test_lambdas: 0.775 and 1.225 for distances 3 and 1
    assert fedmgda(view_of(points([3], [1]), fedmgda_reference=True)) == pytest.approx([0.775, 1.225])


def test_plus_gives_normalised_directions_equal_say() -> None:
    # at right angles, epsilon 1: lambda = 1/2 each; over the norms 1 and 4: weights 4/5, 1/5
    weights = fedmgda(view_of(points([1, 0], [0, 4]), examples=[1, 9], fedmgda="plus", fedmgda_epsilon=1))
    assert weights == pytest.approx([0.8, 0.2])
    # epsilon 0: lambda = n_k / n
    weights = fedmgda(view_of(points([1, 0], [0, 4]), examples=[1, 4], fedmgda="plus", fedmgda_epsilon=0))
    assert weights == pytest.approx([0.5, 0.5])


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="fedmgda = 'both' must be 'plusplus' or 'plus'"):
        fedmgda(view_of(points([1]), fedmgda="both"))
