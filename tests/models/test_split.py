"""The prototype as a module."""

import copy

import torch
from torch import nn

from models.spec import PrototypeSpec
from models.split import Extractor, Prototype, merge_state, slice_state
from quant.layers import FloatLayers
from quant.precision import FP32

LAYERS = FloatLayers()


def prototype(latent: int | None = None) -> Prototype:
    """x (B, 2) -> body 2-3 -> adapter 3-D -> predictor D-2, all weights one, all biases zero."""
    extractor = Extractor(LAYERS.linear(2, 3), 3, LAYERS, latent)
    made = Prototype(PrototypeSpec("mlp", FP32, (2,), 2, latent), extractor, LAYERS.linear(extractor.width, 2))
    for p in made.parameters():
        nn.init.constant_(p, 1.0 if p.ndim == 2 else 0.0)
    return made


def test_logits_are_the_predictors_answer_to_the_latent() -> None:
    x = torch.tensor([[1.0, 2.0]])  # body: 3, 3, 3; adapter to 4: 9, 9, 9, 9; predictor: 36, 36
    assert prototype(4).extractor(x).tolist() == [[9.0, 9.0, 9.0, 9.0]]
    assert prototype(4)(x).tolist() == [[36.0, 36.0]]
    assert prototype()(x).tolist() == [[9.0, 9.0]]


def test_the_adapter_exists_only_where_the_widths_differ() -> None:
    assert "extractor.adapter.weight" in prototype(4).state_dict()
    for same in (prototype(3), prototype(None)):
        assert list(same.state_dict()) == [
            "extractor.body.weight",
            "extractor.body.bias",
            "predictor.weight",
            "predictor.bias",
        ]
    assert (prototype(4).latent, prototype(3).latent, prototype(None).latent) == (4, 3, 3)


def test_the_predictor_of_one_model_can_be_put_into_another() -> None:
    old, new = prototype(4), prototype(4)
    for p in new.parameters():
        nn.init.constant_(p, 0.5)
    old.load_state_dict(merge_state(old.state_dict(), slice_state(new.state_dict(), "predictor")))
    # the old extractor gives 9s; 4 * 9 * 0.5 + 0.5
    assert old(torch.tensor([[1.0, 2.0]])).tolist() == [[18.5, 18.5]]


def test_the_example_input_is_float_or_token_ids_by_what_the_body_says() -> None:
    made = prototype()
    assert made.tokens is None
    assert made.example_input(5).shape == (5, 2)
    assert made.example_input().dtype is torch.float32
    made.extractor.body.tokens = 7
    ids = made.example_input(100, generator=torch.Generator().manual_seed(0))
    assert ids.shape == (100, 2)
    assert ids.dtype is torch.int64
    assert (int(ids.min()), int(ids.max())) == (0, 6)


def test_a_copy_is_independent_and_keeps_its_spec() -> None:
    made = prototype()
    twin = copy.deepcopy(made)
    nn.init.zeros_(twin.predictor.weight)
    assert made(torch.ones(1, 2)).tolist() == [[6.0, 6.0]]
    assert twin.spec == made.spec
