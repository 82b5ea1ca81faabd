"""A student learns from targets: tiny students, steps worked by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aggregator.evaluate import evaluate, score_state
from aggregator.fusion.students.distill import Distilled, distill
from aggregator.recipes.catalogue import Distillation
from core.errors import ConfigError, ModelError, RoundError
from core.settings import replace
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Extractor, Prototype
from quant.binary import BinaryLinear
from quant.layers import FloatLayers, effective_weight
from quant.precision import FP32, parse_precision


def seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


class Pass(nn.Module):
    """The input is the latent."""

    width = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def linear(*, dropout: float = 0.0) -> Prototype:
    """Logits = W x + b, nothing else; with dropout in front if so asked."""
    body = nn.Sequential(Pass(), nn.Dropout(dropout)) if dropout else Pass()
    extractor = Extractor(body, 2, FloatLayers(), None)
    return Prototype(PrototypeSpec("mlp", FP32, (2,), 2), extractor, nn.Linear(2, 2))


ZERO = {"predictor.weight": torch.zeros(2, 2), "predictor.bias": torch.zeros(2)}
SGD = Distillation(optimizer="sgd", lr=1.0, schedule="constant", clip=0.0, batch_size=4)


def how(**fields: object) -> Distillation:
    names = Distillation.__struct_fields__
    return Distillation(**{name: getattr(SGD, name) for name in names} | fields)  # type: ignore[arg-type]


def test_one_step_of_sgd_is_the_gradient_of_the_kl_divergence() -> None:
    """At W = 0 the student says 1/2, 1/2; the teacher says 3/4, 1/4. d KL / d logits = (-1/4, 1/4); x = (2, 0)."""
    x, targets = torch.tensor([[2.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0]])
    found = distill(linear(), ZERO, x, targets, how(steps=1), generator=seed())
    assert found.state["predictor.weight"].flatten().tolist() == pytest.approx([0.5, 0.0, -0.5, 0.0])
    assert found.state["predictor.bias"].tolist() == pytest.approx([0.25, -0.25])
    assert (found.steps, found.best_step, found.accuracy) == (1, 1, None)


def test_temperature_softens_both_sides_and_adds_no_factor() -> None:
    """T = 2: teacher sigma((ln 9, 0) / 2) = (3/4, 1/4); the gradient is that of T = 1, divided by T."""
    x, targets = torch.tensor([[2.0, 0.0]]), torch.tensor([[math.log(9.0), 0.0]])
    found = distill(linear(), ZERO, x, targets, how(steps=1, temperature=2.0), generator=seed())
    assert found.state["predictor.bias"].tolist() == pytest.approx([0.125, -0.125])


def test_the_loss_is_the_mean_over_the_batch() -> None:
    x, targets = torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    found = distill(linear(), ZERO, x, targets, how(steps=1), generator=seed())
    assert found.state["predictor.bias"].tolist() == pytest.approx([0.125, -0.125])


def test_the_start_is_left_alone_and_its_names_are_the_results() -> None:
    start = {name: value.clone() for name, value in ZERO.items()}
    found = distill(
        linear(), start, torch.ones(4, 2), torch.ones(4, 2) * torch.tensor([3.0, 0.0]), how(steps=3), generator=seed()
    )
    assert found.state.keys() == start.keys()
    assert all(not value.any() for value in start.values())


def test_gradients_are_clipped_by_their_common_norm() -> None:
    """The gradient of the first test: (-1/2, 1/2) of the weights, (-1/4, 1/4) of the biases; its norm is sqrt(5/8)."""
    x, targets = torch.tensor([[2.0, 0.0]]), torch.tensor([[math.log(3.0), 0.0]])
    for most, share in ((0.1, 0.1 / math.sqrt(0.625)), (1.0, 1.0)):
        found = distill(linear(), ZERO, x, targets, how(steps=1, clip=most), generator=seed())
        assert found.state["predictor.bias"].tolist() == pytest.approx([0.25 * share, -0.25 * share], rel=1e-4)
        assert found.state["predictor.weight"][0].tolist() == pytest.approx([0.5 * share, 0.0], rel=1e-4)


def test_a_parameter_that_the_loss_does_not_depend_on_has_a_gradient_of_zero() -> None:
    model = linear()
    model.extractor.unused = nn.Parameter(torch.ones(1))
    start = {**ZERO, "extractor.unused": torch.ones(1)}
    found = distill(
        model, start, torch.ones(1, 2), torch.zeros(1, 2), how(steps=1, lr=0.5, weight_decay=0.1), generator=seed()
    )
    assert found.state["extractor.unused"].item() == pytest.approx(0.95)


@pytest.mark.parametrize("field", ["optimizer", "schedule"])
def test_a_name_that_is_not_known_is_said(field: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown {field} 'none'"):
        distill(linear(), ZERO, torch.ones(2, 2), torch.ones(2, 2), how(**{field: "none"}), generator=seed())


def test_samples_without_targets_are_refused() -> None:
    with pytest.raises(RoundError, match="2 samples for 3 targets"):
        distill(linear(), ZERO, torch.ones(2, 2), torch.ones(3, 2), SGD, generator=seed())


def test_a_start_of_another_prototype_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has a missing or unexpected tensor: 'predictor\.bias'"):
        distill(linear(), {"predictor.weight": torch.zeros(2, 2)}, X, TARGETS, SGD, generator=seed())


# Which samples, in which order


class Seen(Pass):
    """Writes down the first number of every sample, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[float]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.batches.append(x[:, 0].tolist())
        return x


def order_of(fields: dict[str, object]) -> list[list[float]]:
    model = linear()
    model.extractor.body = seen = Seen()
    x = torch.stack([torch.arange(6.0), torch.zeros(6)], 1)
    distill(model, ZERO, x, torch.zeros(6, 2), how(**fields), generator=seed())
    return seen.batches


def test_unshuffled_epochs_go_through_the_samples_in_order() -> None:
    assert order_of({"epochs": 2, "shuffle": False, "batch_size": 4}) == [[0, 1, 2, 3], [4, 5]] * 2


def test_every_shuffled_epoch_has_every_sample_once_in_an_order_of_its_own() -> None:
    first, second, third, fourth = order_of({"steps": 4, "batch_size": 3})
    assert sorted(first + second) == sorted(third + fourth) == list(range(6))
    assert first + second != third + fourth


# Which student is the result

#: The teacher says class 0 for x = (1, 0); the validation labels say 1 first and only: learning makes it worse.
X, TARGETS = torch.tensor([[1.0, 0.0]] * 4), torch.tensor([[4.0, 0.0]] * 4)
RIGHT, WRONG = torch.zeros(4, dtype=torch.long), torch.ones(4, dtype=torch.long)
LEANING = {"predictor.weight": torch.tensor([[-0.5, 0.0], [0.5, 0.0]]), "predictor.bias": torch.zeros(2)}


def test_the_best_student_is_kept_and_not_the_last() -> None:
    """The student starts out saying class 1 and ends saying 0; in between it was right."""
    found = distill(
        linear(),
        LEANING,
        X,
        TARGETS,
        how(steps=40, lr=0.1, check_every=1, patience=100),
        validation=(X, RIGHT),
        generator=seed(),
    )
    assert (found.start_accuracy, found.accuracy) == (0.0, 1.0)
    assert 1 < found.best_step < 40
    assert found.steps == 40
    model = linear()
    model.load_state_dict(found.state)
    assert evaluate(model, X, RIGHT).accuracy == 1.0
    model.load_state_dict(
        distill(linear(), LEANING, X, TARGETS, how(steps=found.best_step - 1, lr=0.1), generator=seed()).state
    )
    assert evaluate(model, X, RIGHT).accuracy == 0.0, "one step less was not there yet"


def test_the_starting_point_is_a_checkpoint_unless_it_is_asked_not_to_be() -> None:
    worse = {"validation": (X, WRONG), "generator": seed()}
    found = distill(linear(), LEANING, X, TARGETS, how(steps=40, check_every=40), **worse)  # type: ignore[arg-type]
    assert (found.best_step, found.accuracy) == (0, 1.0)
    assert torch.equal(found.state["predictor.weight"], LEANING["predictor.weight"])
    found = distill(
        linear(),
        LEANING,
        X,
        TARGETS,
        how(steps=40, check_every=40, keep_start=False),
        **worse,  # type: ignore[arg-type]
    )
    assert (found.best_step, found.accuracy) == (40, 0.0)


def test_students_are_compared_as_a_board_would_run_them() -> None:
    """The 1-bit student says class 0 from the start; its float weights say class 1.

    Rows (1, 0.9, -1) and (1.05, 0, -1.05) in two values each, at x = (1, 0, 0): c = (0.7, 0.6, -1.3) and w itself, the
    mean of the signs 1/3 in both, s = 0.976 and 0.909, mu = -0.025 and -0.303: mu + s = 0.951 and 0.606.
    """
    body = Pass()
    body.width = 3
    spec = PrototypeSpec("mlp", parse_precision("w1"), (3,), 2, 3)
    rows, x = torch.tensor([[1.0, 0.9, -1.0], [1.05, 0.0, -1.05]]), torch.tensor([[1.0, 0.0, 0.0]] * 4)
    start = {"predictor.weight": rows, "predictor.bias": torch.tensor([0.02, 0.0])}

    def found(check_at: str) -> Distilled:
        model = Prototype(spec, Extractor(body, 3, FloatLayers(), None), BinaryLinear(3, 2))
        settings = how(steps=1, lr=0.0, check_at=check_at)
        return distill(model, start, x, TARGETS, settings, validation=(x, RIGHT), generator=seed())

    assert found("own").start_accuracy == 1.0
    assert found("float").start_accuracy == 0.0


def test_it_stops_when_there_was_no_gain_for_as_long_as_patience_lasts() -> None:
    found = distill(
        linear(),
        LEANING,
        X,
        TARGETS,
        how(steps=1000, check_every=5, patience=20),
        validation=(X, WRONG),
        generator=seed(),
    )
    assert (found.steps, found.best_step) == (20, 0)


def test_without_a_validation_set_all_steps_are_taken_and_the_last_student_is_the_result() -> None:
    found = distill(linear(), ZERO, X, TARGETS, how(steps=30, patience=5), generator=seed())
    assert (found.steps, found.best_step, found.accuracy) == (30, 30, None)


def test_a_student_that_diverges_leaves_the_starting_point() -> None:
    found = distill(linear(), ZERO, X * 1e30, TARGETS, how(steps=3, lr=1e30), generator=seed())
    assert found.best_step == 0
    assert torch.equal(found.state["predictor.weight"], ZERO["predictor.weight"])


def test_swa_is_the_mean_of_the_students_that_it_is_shown() -> None:
    after = [
        distill(linear(), ZERO, X, TARGETS, how(steps=n), generator=seed()).state["predictor.weight"] for n in (2, 4)
    ]
    found = distill(linear(), ZERO, X, TARGETS, how(steps=4, swa=2), generator=seed())
    assert torch.allclose(found.state["predictor.weight"], (after[0] + after[1]) / 2)
    x, targets = X.repeat(2, 1), TARGETS.repeat(2, 1)  # two steps an epoch
    found = distill(linear(), ZERO, x, targets, how(epochs=2, swa=-1, shuffle=False), generator=seed())
    assert torch.allclose(found.state["predictor.weight"], (after[0] + after[1]) / 2)


# Prototypes


def test_equal_generators_give_equal_students_and_the_global_state_is_left_alone() -> None:
    model = linear(dropout=0.5)
    before = torch.random.get_rng_state()
    runs = [
        distill(model, ZERO, X, TARGETS, how(steps=5), generator=seed(number)).state["predictor.weight"]
        for number in (0, 0, 1)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert torch.equal(torch.random.get_rng_state(), before)


def prototype(name: str) -> Prototype:
    arch, precision = parse_prototype(name)
    return build(PrototypeSpec(arch, precision, (1, 8, 8), 3), generator=seed())


def start_of(model: Prototype) -> dict[str, torch.Tensor]:
    return {n: t.clone() for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}


ADAM = Distillation(steps=8, batch_size=8, lr=1e-2)


def test_batchnorms_statistics_become_those_of_the_samples() -> None:
    model = prototype("resnet8")
    start = start_of(model)
    x = 5 + torch.randn(16, 1, 8, 8, generator=seed())
    found = distill(model, start, x, torch.randn(16, 3, generator=seed()), ADAM, generator=seed())
    name = "extractor.body.norm1.running_mean"
    assert (found.state[name] - start[name]).abs().max() > 1
    assert all(value.is_contiguous() and value.shape == start[n].shape for n, value in found.state.items())


@pytest.mark.parametrize("student", ["float", "own"])
@pytest.mark.parametrize("name", ["cnn:w1", "cnn:w8a8"])
def test_a_quantized_prototype_is_trained_as_floats_or_through_its_quantizers(name: str, student: str) -> None:
    """The student comes closer to its targets at the precision that it was trained at."""
    model = prototype(name)
    start = start_of(model)
    x, targets = torch.randn(16, 1, 8, 8, generator=seed()), 3 * torch.randn(16, 3, generator=seed())

    def loss(state: dict[str, torch.Tensor]) -> float:
        model.load_state_dict(state, strict=False)
        frozen = [m for m in model.modules() if student == "float" and hasattr(m, "freeze_weight")]
        for module in frozen:
            module.freeze_weight()
        with torch.no_grad():
            value = F.kl_div(model.eval()(x).log_softmax(1), targets.softmax(1), reduction="batchmean").item()
        for module in frozen:
            module.unfreeze_weight()
        return value

    before = loss(start)
    fields = {f: getattr(ADAM, f) for f in Distillation.__struct_fields__} | {"steps": 30, "student": student}
    found = distill(model, start, x, targets, Distillation(**fields), generator=seed())
    assert loss(found.state) < 0.7 * before
    weight = model.predictor.weight
    assert not torch.equal(effective_weight(model.predictor), weight), "the quantizer is back in place"


def test_a_student_learns_through_its_own_quantizer_unless_it_is_told_otherwise() -> None:
    x, targets = torch.randn(16, 1, 8, 8, generator=seed()), 3 * torch.randn(16, 3, generator=seed())

    def learned(**fields: str) -> torch.Tensor:
        model = prototype("cnn:w1")
        settings = Distillation(steps=3, batch_size=8, lr=1e-2, **fields)
        return distill(model, start_of(model), x, targets, settings, generator=seed()).state["predictor.weight"]

    assert torch.equal(learned(), learned(student="own"))
    assert not torch.equal(learned(), learned(student="float"))


# Two stages: at full precision from the teachers, then through the quantizer from that

BLOBS = torch.randn(120, 1, 8, 8, generator=seed())
CLASSES = torch.arange(3).repeat_interleave(40)
BLOBS += 0.5 * torch.randn(3, 1, 8, 8, generator=seed(1))[CLASSES]


def one_bit() -> Prototype:
    return build(PrototypeSpec(*parse_prototype("cnn:w1"), (1, 8, 8), 3, 4), generator=seed(3))


def mean_of_models() -> dict[str, torch.Tensor]:
    """A state that is right with float weights, and worse once it is quantized: what an average of devices is."""
    model, settings = one_bit(), Distillation(student="float", steps=150, batch_size=40, lr=1e-2)
    return distill(model, start_of(model), BLOBS, 8 * F.one_hot(CLASSES, 3).float(), settings, generator=seed()).state


def test_what_the_average_knows_and_no_teacher_does_reaches_the_board() -> None:
    """Teachers that know nothing: what is learned from them is rejected, and the average's float weights teach."""
    start, silent = mean_of_models(), torch.zeros(120, 3)
    scores = score_state(one_bit(), start, BLOBS, CLASSES)
    assert scores["accuracy_float"] == 1.0
    assert scores["accuracy"] < 0.9
    labelled = (BLOBS, CLASSES)
    settings = Distillation(steps=200, batch_size=40, lr=3e-3, check_every=20)
    found = distill(one_bit(), start, BLOBS, silent, settings, validation=labelled, generator=seed())
    straight = replace(settings, float_share=0.0)
    forgot = distill(one_bit(), start, BLOBS, silent, straight, validation=labelled, generator=seed())
    assert found.accuracy is not None
    assert forgot.accuracy is not None
    assert found.accuracy > 0.95 > forgot.accuracy
    assert found.start_accuracy == scores["accuracy"]
    assert score_state(one_bit(), found.state, BLOBS, CLASSES)["accuracy"] == found.accuracy
    assert 100 < found.best_step <= found.steps <= 200


def test_a_start_that_a_board_runs_no_worse_is_kept() -> None:
    start, wrong = mean_of_models(), 8 * F.one_hot((CLASSES + 1) % 3, 3).float()
    labels = one_bit()
    labels.load_state_dict(start, strict=False)
    with torch.no_grad():
        said = labels.eval()(BLOBS).argmax(1)  # what a board says is right: nothing can be better
    settings = Distillation(steps=40, batch_size=40, lr=1e-2, check_every=10)
    found = distill(one_bit(), start, BLOBS, wrong, settings, validation=(BLOBS, said), generator=seed())
    assert (found.best_step, found.accuracy, found.start_accuracy) == (0, 1.0, 1.0)
    assert all(torch.equal(found.state[name], value) for name, value in start.items())
    anyway = replace(settings, keep_start=False)
    found = distill(one_bit(), start, BLOBS, wrong, anyway, validation=(BLOBS, said), generator=seed())
    assert found.best_step > 0


def test_stages_share_the_steps_and_float_prototypes_have_one() -> None:
    start, settings = mean_of_models(), Distillation(steps=9, batch_size=40, lr=1e-2)
    targets = torch.randn(120, 3, generator=seed())

    def state(model: Prototype, begin: dict[str, torch.Tensor], **fields: object) -> torch.Tensor:
        how_ = replace(settings, **fields)
        found = distill(model, begin, BLOBS, targets, how_, generator=seed())
        assert found.steps == found.best_step == 9
        return found.state["predictor.weight"]

    assert not torch.equal(state(one_bit(), start), state(one_bit(), start, float_share=0.0))
    assert torch.equal(state(one_bit(), start, float_share=0.04), state(one_bit(), start, float_share=0.0)), "no step"
    full = build(PrototypeSpec(*parse_prototype("cnn:fp32"), (1, 8, 8), 3, 4), generator=seed(3))
    begin = start_of(full)
    assert torch.equal(state(full, begin), state(full, begin, float_share=0.0))
