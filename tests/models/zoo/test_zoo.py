"""What holds for every architecture of the zoo in every precision; DistilBERT, which needs a folder, is on its own."""

from functools import cache

import pytest
import torch

from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype, role_of
from models.zoo import ZOO
from quant.precision import FP32, PRECISIONS, Precision

NAMES = [name for name in ZOO if name != "distilbert"]
IMAGES = [name for name in NAMES if name != "text"]
LATENT = 24  # no architecture's own width

#: Parameters without adapter, 10 classes, with biases as in the papers' code.
COUNTS = {
    ("mlp", (1, 28, 28)): 199_210,  # 784*200+200 + 200*200+200 + 200*10+10; McMahan et al. 2017
    ("fedrad_mlp", (1, 28, 28)): 535_818,
    ("cnn", (1, 28, 28)): 26_434,
    ("mcmahan_cnn", (1, 28, 28)): 1_663_370,
    ("resnet8", (3, 32, 32)): 78_042,
    ("resnet8-gn", (3, 32, 32)): 78_042,
    # stem 464; stage 1: n*4,672; stage 2: 14,528 + (n-1)*18,560; stage 3: 57,728 + (n-1)*73,984; predictor 650.
    # The paper's parameter-free shortcuts would leave out 2,752: 269,722 (its 0.27 M) and 464,154 (its 0.46 M).
    ("resnet20", (3, 32, 32)): 272_474,
    ("resnet20-gn", (3, 32, 32)): 272_474,
    ("resnet32", (3, 32, 32)): 466_906,
    ("resnet32-gn", (3, 32, 32)): 466_906,
    ("vgg9", (3, 32, 32)): 2_308_810,
    ("shufflenetv2", (3, 32, 32)): 352_042,
    ("mobilenetv2", (3, 32, 32)): 2_236_682,
    ("text", (20,)): 529_098,  # 8192*64 + 64*64+64 + 64*10+10
}


def spec(name: str, precision: Precision = FP32, latent: int | None = LATENT) -> PrototypeSpec:
    shape = (6,) if name == "text" else (1, 8, 8)
    return PrototypeSpec(name, precision, shape, 5, latent)


def make(name: str, precision: Precision = FP32, latent: int | None = LATENT) -> Prototype:
    return build(spec(name, precision, latent), generator=torch.Generator().manual_seed(0))


@cache
def float_names(name: str) -> frozenset[str]:
    return frozenset(make(name).state_dict())


@pytest.mark.parametrize(("name", "shape"), COUNTS, ids=lambda v: v if isinstance(v, str) else "x".join(map(str, v)))
def test_the_plain_form_has_the_parameters_of_the_papers(name: str, shape: tuple[int, ...]) -> None:
    made = build(PrototypeSpec(name, FP32, shape, 10))
    assert sum(p.numel() for p in made.parameters()) == COUNTS[name, shape]


def test_every_name_has_its_count_asserted() -> None:
    assert {name for name, _ in COUNTS} == set(NAMES)


#: Deep nets whose 4- and 2-bit forms have the layers of the 8-bit one: seconds each, so they run with the slow tests.
DEEP = ("resnet20", "resnet20-gn", "resnet32", "resnet32-gn", "shufflenetv2", "mobilenetv2")
MATRIX = [
    pytest.param(name, p, marks=[pytest.mark.slow] * (name in DEEP and p.weight_bits in (2, 4)), id=f"{name}-{p}")
    for name in NAMES
    for p in PRECISIONS
]


@pytest.mark.parametrize(("name", "precision"), MATRIX)
def test_a_prototype_trains_and_answers_at_the_latent_width(name: str, precision: Precision) -> None:
    made = make(name, precision)
    x = made.example_input(4, generator=torch.Generator().manual_seed(1))

    z = made.extractor(x)
    assert z.shape == (4, LATENT)
    logits = made.predictor(z)
    assert logits.shape == (4, 5)

    logits.square().sum().backward()
    for parameter_name, p in made.named_parameters():
        assert p.grad is not None, parameter_name
        assert torch.isfinite(p.grad).all(), parameter_name
    first = next(p for p in made.parameters() if p.ndim > 1)
    assert float(first.grad.abs().sum()) > 0.0, "the signal does not reach the first layer"

    made.eval()
    with torch.no_grad():
        assert torch.equal(made(x), made(x))
    check_names(name, precision, made)


def check_names(name: str, precision: Precision, made: Prototype) -> None:
    """The names are those of the float twin, plus the scales of quantized activations."""
    names = set(made.state_dict())
    assert {role_of(n) for n in names} == {"extractor", "predictor"}
    assert float_names(name) <= names
    extra = names - float_names(name)
    assert bool(extra) is (precision.act_bits not in (None, 1))
    assert not any(n.endswith((".weight", ".bias")) for n in extra)


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_embeddings_stay_float_and_everything_else_is_one_bit(name: str) -> None:
    from quant.layers import is_quantized

    for layer_name, layer in make(name, Precision(1, None)).named_modules():
        if not isinstance(getattr(layer, "weight", None), torch.nn.Parameter):
            continue
        is_float = isinstance(layer, torch.nn.BatchNorm2d | torch.nn.GroupNorm | torch.nn.Embedding)
        assert is_quantized(layer) is not is_float, layer_name


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 9, 13)], ids=str)
@pytest.mark.parametrize("name", IMAGES)
def test_any_image_shape_fits(name: str, shape: tuple[int, ...]) -> None:
    made = build(PrototypeSpec(name, FP32, shape, 5))
    with torch.no_grad():
        assert made(made.example_input(2)).shape == (2, 5)


@pytest.mark.parametrize("name", [name for name in IMAGES if "mlp" not in name])
def test_channels_last_gives_the_same_logits(name: str) -> None:
    made = make(name).eval()
    x = made.example_input(2, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = made(x)
        made.to(memory_format=torch.channels_last)
        torch.testing.assert_close(made(x.to(memory_format=torch.channels_last)), expected, atol=1e-5, rtol=1e-5)


LEAST = {"cnn": 8, "mcmahan_cnn": 4, "resnet8": 4, "resnet32-gn": 4, "vgg9": 8, "shufflenetv2": 8, "mobilenetv2": 8}


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_an_image_that_is_too_small_is_refused_with_the_least_size(name: str, least: int) -> None:
    build(PrototypeSpec(name, FP32, (1, least, least), 5))
    with pytest.raises(ConfigError, match=f"needs images of at least {least}x{least}, got {least}x{least - 1}"):
        build(PrototypeSpec(name, FP32, (1, least, least - 1), 5))


@pytest.mark.parametrize("name", [name for name in IMAGES if "mlp" not in name])
def test_an_input_that_is_no_image_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"takes images \(channels, height, width\), not an input of shape \(20,\)"):
        build(PrototypeSpec(name, FP32, (20,), 5))
