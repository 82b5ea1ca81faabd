"""DistilBERT: the network, and its weights from a folder."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.errors import ConfigError
from models.build import build
from models.spec import PrototypeSpec
from models.split import Prototype
from models.text.distilbert import FOLDER, DistilBert
from models.text.distilbert_files import DistilBertConfig
from quant.layers import FloatLayers
from quant.precision import FP32, PRECISIONS, Precision

SPEC = PrototypeSpec("distilbert", FP32, (8,), 4, latent=6)
IDS = torch.tensor([[1, 5, 9, 2, 0, 0, 0, 0], [1, 7, 7, 3, 4, 8, 30, 2]])


def make(folder: Path, precision: Precision = FP32) -> Prototype:
    spec = PrototypeSpec("distilbert", precision, (8,), 4, latent=6)
    return build(spec, generator=torch.Generator().manual_seed(0), options={"folder": folder})


@pytest.mark.parametrize("length", [8, 5])
def test_the_hidden_states_are_those_of_transformers(tmp_path: Path, length: int) -> None:
    transformers = pytest.importorskip("transformers", reason="the reference implementation")
    sizes = {"vocab_size": 40, "max_position_embeddings": 16, "dim": 24, "hidden_dim": 48, "n_layers": 3, "n_heads": 4}
    config = transformers.DistilBertConfig(**sizes, initializer_range=0.3)  # large, so that every layer matters
    torch.manual_seed(0)
    reference = transformers.DistilBertModel(config).eval()
    reference.save_pretrained(tmp_path)
    ids = IDS[:, :length]
    ours = make(tmp_path).extractor.body.eval()
    with torch.no_grad():
        theirs = reference(ids, attention_mask=(ids != 0).long()).last_hidden_state
        torch.testing.assert_close(ours(ids), theirs[:, 0], atol=2e-6, rtol=1e-5)
        assert float(theirs[0, 0].sub(theirs[1, 0]).abs().max()) > 0.1  # the two texts are told apart at all


def test_a_checkpoint_with_a_head_gives_the_same_network(distilbert_folder: Path) -> None:
    plain = make(distilbert_folder).eval()
    path = distilbert_folder / "model.safetensors"
    weights = {f"distilbert.{name}": value for name, value in load_file(path).items()}
    save_file({**weights, "vocab_projector.bias": torch.zeros(40)}, path)  # as in distilbert-base-uncased
    with torch.no_grad():
        assert torch.equal(make(distilbert_folder).eval()(IDS), plain(IDS))


def test_a_half_precision_checkpoint_is_widened(distilbert_folder: Path) -> None:
    path = distilbert_folder / "model.safetensors"
    save_file({name: value.half() for name, value in load_file(path).items()}, path)
    made = make(distilbert_folder)
    name = "transformer.layer.1.ffn.lin1.weight"
    assert torch.equal(made.extractor.body.get_parameter(name), load_file(path)[name].float())


def test_the_environment_names_the_folder(distilbert_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(distilbert_folder))
    made = build(SPEC)
    name = "embeddings.word_embeddings.weight"
    stored = load_file(distilbert_folder / "model.safetensors")[name]
    assert torch.equal(made.extractor.body.get_parameter(name), stored)


def test_without_a_folder_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(ConfigError, match=r"set EDGESTILL_DISTILBERT to a folder with config\.json"):
        build(SPEC)


def test_a_text_longer_than_the_positions_is_refused(distilbert_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"texts of 17 tokens; .* takes 16"):
        build(PrototypeSpec("distilbert", FP32, (17,), 4), options={"folder": distilbert_folder})


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_prototype_trains_in_every_precision(distilbert_folder: Path, precision: Precision) -> None:
    made = make(distilbert_folder, precision)
    assert made.tokens == 40
    assert set(make(distilbert_folder).state_dict()) <= set(made.state_dict())
    logits = made(IDS)
    assert logits.shape == (2, 4)
    logits.square().sum().backward()
    for name, p in made.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
    made.eval()
    with torch.no_grad():
        assert torch.equal(made(IDS), made(IDS))


def test_padding_does_not_matter(distilbert_folder: Path) -> None:
    made = make(distilbert_folder).eval()
    with torch.no_grad():
        torch.testing.assert_close(made(IDS[:1]), made(IDS[:1, :4]))


def test_a_text_of_padding_only_is_finite(distilbert_folder: Path) -> None:
    made = make(distilbert_folder).eval()
    assert torch.isfinite(made(torch.zeros(1, 8, dtype=torch.int64))).all()


def test_the_published_base_model_has_66_million_parameters() -> None:
    config = DistilBertConfig(
        vocab_size=30522, max_position_embeddings=512, dim=768, hidden_dim=3072, n_layers=6, n_heads=12
    )
    with torch.device("meta"):
        assert sum(p.numel() for p in DistilBert(FloatLayers(), config).parameters()) == 66_362_880
