"""Teachers answer what the received model would, whichever way they run, and each sample once."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from aggregator.fusion.teachers.compiled import frozen_module, graph_template
from aggregator.fusion.teachers.logits import Forward, OnnxTeacher, StateTeacher, all_logits, cores, forward_all
from core.errors import ModelError
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from models.zoo import ZOO
from quant.layers import Layers
from quant.onnx.export import export_onnx
from quant.pack import load_packed, pack, unpack
from tests.aggregator.fusion.answers import Says
from tests.transport.events import eventually

CPU = torch.device("cpu")
SHAPES = {"text": (12,), "resnet8": (3, 8, 8), "vgg9": (3, 8, 8)}
#: Every kind of layer and precision: BatchNorm, 1-bit weights, 1-bit and 8-bit activations, dropout, token ids.
NAMES = ["resnet8", "resnet8:w1a1", "cnn:w8a8", "cnn:w1", "fedrad_mlp", "text"]


def seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def received(name: str) -> tuple[Prototype, dict[str, Tensor], Tensor]:
    """A model after a device has sent it, its float32 state as the aggregator reads it, and samples."""
    arch, precision = parse_prototype(name)
    model = build(PrototypeSpec(arch, precision, SHAPES.get(arch, (1, 8, 8)), 5), generator=seed(1))
    x = model.example_input(9, generator=seed(2))
    with torch.no_grad():
        for _ in range(3):
            model.train()(x)  # BatchNorm's statistics are no longer those of a fresh model
    tensors = pack(model)
    load_packed(model, tensors)
    return model.eval(), unpack(tensors), x


def answer(model: Prototype, x: Tensor) -> Tensor:
    with torch.inference_mode():
        return model(x)


def close(ours: Tensor, theirs: Tensor, name: str) -> bool:
    """All of them; where activations are quantized, a value on a step may fall on either side: most of them."""
    equal = (ours - theirs).abs().amax(1) < 1e-4
    return bool(equal.all()) if "a" not in name.partition(":")[2] else int(equal.sum()) >= len(equal) - 2


@pytest.mark.parametrize("name", NAMES)
def test_a_teacher_answers_as_the_received_model_does(name: str) -> None:
    model, state, x = received(name)
    assert graph_template(model.spec) is not None, "it should run in ONNX Runtime"
    teacher = StateTeacher(device="pi", spec=model.spec, state=lambda: state)
    expected = answer(model, x)
    assert expected.std() > 0.01
    assert close(teacher.open(CPU)(x), expected, name)
    assert close(frozen_module(model.spec, state, CPU)(x), expected, name), "and so in torch"


def test_the_template_of_a_prototype_is_made_once() -> None:
    spec = received("cnn")[0].spec
    assert graph_template(spec) is graph_template(PrototypeSpec("cnn", spec.precision, spec.input_shape, 5))


class Odd(nn.Module):
    """It branches on data, and one of its operators has no form in ONNX."""

    width = 4

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.fc(x)
        return torch.linalg.svdvals(z.unsqueeze(2)) + z if float(z.sum()) < 1e9 else z


def odd(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    return Odd()


def test_a_prototype_that_does_not_export_runs_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.registry.ZOO", {**ZOO, "odd": f"{__name__}:odd"})
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(odd=odd))
    spec = PrototypeSpec(*parse_prototype("odd"), (4,), 3)
    model = build(spec, generator=seed()).eval()
    x = torch.randn(5, 4, generator=seed())
    assert graph_template(spec) is None
    teacher = StateTeacher(device="pi", spec=spec, state=model.state_dict)
    assert torch.allclose(teacher.open(CPU)(x), answer(model, x))


def test_many_prototypes_at_once_are_prepared_before_threads_run() -> None:
    """Tracing changes torch for all threads."""
    made = [received(name) for name in ("cnn", "cnn:w1", "mlp", "resnet8-gn")]
    made = [(model, state, x) for model, state, x in made if model.spec.input_shape == (1, 8, 8)]
    graph_template.cache_clear()
    teachers = [StateTeacher(device="pi", spec=model.spec, state=lambda s=state: s) for model, state, _ in made * 3]
    x = made[0][2]
    found = list(all_logits(teachers, x, workers=4))
    for (model, _, _), logits in zip(made * 3, found, strict=True):
        assert torch.allclose(logits, answer(model, x), atol=1e-4, rtol=0)


def test_a_graph_teaches_as_it_is() -> None:
    model, _, x = received("cnn:w1")
    teacher = OnnxTeacher(device="ours", graph=export_onnx(model, x).data)
    assert torch.allclose(teacher.open(CPU)(x), answer(model, x), atol=1e-4, rtol=0)


def test_bytes_that_are_no_graph_are_refused() -> None:
    with pytest.raises(ModelError):
        OnnxTeacher(device="ours", graph=b"no graph").open(CPU)


def test_tensors_of_another_prototype_are_refused_either_way() -> None:
    model, state, _ = received("cnn")
    state.pop("predictor.weight")
    with pytest.raises(ModelError, match=r"predictor\.weight"):
        StateTeacher(device="pi", spec=model.spec, state=lambda: state).open(CPU)
    with pytest.raises(ModelError, match=r"predictor\.weight"):
        frozen_module(model.spec, state, CPU)


# Batches, workers, memory


def limited(most: int, error: Callable[[], Exception], sizes: list[int]) -> Forward:
    """Answers batches of at most `most` samples, as a GPU with little memory does."""

    def forward(x: Tensor) -> Tensor:
        sizes.append(len(x))
        if len(x) > most:
            raise error()
        return 2 * x

    return forward


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError, lambda: RuntimeError("CUDA out of memory")])
def test_out_of_memory_halves_the_batch_and_goes_on(error: Callable[[], Exception]) -> None:
    x, sizes = torch.arange(10.0)[:, None], list[int]()
    assert torch.equal(forward_all(limited(2, error, sizes), x, batch_size=8), 2 * x)
    assert sizes == [8, 4, 2, 2, 2, 2, 2]


def test_one_sample_that_does_not_fit_is_the_end() -> None:
    with pytest.raises(MemoryError):
        forward_all(limited(0, MemoryError, []), torch.zeros(4, 1), batch_size=4)


def test_other_errors_are_not_taken_for_memory() -> None:
    sizes: list[int] = []
    with pytest.raises(RuntimeError, match="shapes"):
        forward_all(limited(2, lambda: RuntimeError("shapes differ"), sizes), torch.zeros(4, 1), batch_size=4)
    assert sizes == [4]


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_come_in_the_order_of_teachers(workers: int) -> None:
    teachers = [Says(f"d{k}", [[float(k)]]) for k in range(7)]
    found = [logits.item() for logits in all_logits(teachers, torch.zeros(1, 1), workers=workers)]
    assert found == [0, 1, 2, 3, 4, 5, 6]


def test_teachers_run_side_by_side_but_few_are_ahead_of_the_sum() -> None:
    """Memory holds a few answers, however many teachers there are."""
    teachers = [Says(f"d{k}", [[float(k)]]) for k in range(40)]
    answers = all_logits(teachers, torch.zeros(1, 1), workers=2)
    next(answers)
    assert eventually(lambda: sum(teacher.opened for teacher in teachers) > 1)
    threading.Event().wait(0.2)
    assert sum(teacher.opened for teacher in teachers) <= 4
    assert len(list(answers)) == 39


def test_a_teacher_that_fails_ends_the_pass_with_its_error() -> None:
    teachers = [Says("a", [[1.0]]), OnnxTeacher(device="b", graph=b""), Says("c", [[1.0]])]
    with pytest.raises(ModelError):
        list(all_logits(teachers, torch.zeros(1, 1), workers=2))


def test_this_process_has_a_core() -> None:
    assert cores() >= 1
