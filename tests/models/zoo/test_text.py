"""The bag-of-words classifier."""

import pytest
import torch

from core.errors import ConfigError
from models.zoo import TEXT_BUCKETS
from models.zoo.text import text
from quant.layers import FloatLayers


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return text(FloatLayers(), (4,), tokens=10, embedding=3, hidden=5)


def test_the_latent_is_the_equation() -> None:
    model = net()
    e = model.embedding.weight
    mean = (e[3] + e[7] + e[3]) / 3
    expected = (model.fc.weight @ mean + model.fc.bias).clamp(min=0)
    torch.testing.assert_close(model(torch.tensor([[3, 7, 3, 0]]))[0], expected)


def test_padding_and_the_order_of_words_do_not_matter() -> None:
    model = net()
    a, b = model(torch.tensor([[3, 7, 0, 0]])), model(torch.tensor([[0, 7, 0, 0, 3, 0]]))
    torch.testing.assert_close(a, b)
    assert not torch.equal(a, model(torch.tensor([[3, 6, 0, 0]])))


def test_padding_does_not_matter_even_if_its_embedding_was_noised() -> None:
    model = net()
    before = model(torch.tensor([[3, 7, 0, 0]]))
    with torch.no_grad():
        model.embedding.weight[0] = 9.0
    assert torch.equal(model(torch.tensor([[3, 7, 0, 0]])), before)


def test_an_empty_text_is_the_bias_alone() -> None:
    model = net()
    torch.testing.assert_close(model(torch.zeros(1, 4, dtype=torch.int64))[0], model.fc.bias.clamp(min=0))


def test_the_vocabulary_is_announced() -> None:
    assert text(FloatLayers(), (4,)).tokens == TEXT_BUCKETS == 8192


def test_an_image_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"text takes token ids \(length,\), not an input of shape \(1, 8, 8\)"):
        text(FloatLayers(), (1, 8, 8))
