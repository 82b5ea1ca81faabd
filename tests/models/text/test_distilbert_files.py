"""Reading a DistilBERT folder that may be anything."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.errors import ConfigError, ModelError
from models.text.distilbert_files import read_config, read_weights

NAME = "transformer.layer.0.attention.q_lin.weight"


def change(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def read(folder: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    return dict(read_weights(folder, shapes))


def test_the_sizes_come_from_the_configuration(distilbert_folder: Path) -> None:
    config = read_config(distilbert_folder)
    assert (config.vocab_size, config.dim, config.n_layers, config.n_heads) == (40, 12, 2, 3)
    assert (config.dropout, config.activation, config.pad_token_id) == (0.1, "gelu", 0)


def test_only_the_named_tensors_are_read(distilbert_folder: Path) -> None:
    assert list(read(distilbert_folder, {NAME: (12, 12)})) == [NAME]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder '.*nowhere'"):
        read_config(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(distilbert_folder: Path, name: str) -> None:
    (distilbert_folder / name).unlink()
    with pytest.raises(ConfigError, match=f"has no {name}"):
        read_config(distilbert_folder) if name == "config.json" else read(distilbert_folder, {})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": "wide"}, r"Expected `int`, got `str` - at `\$\.dim`"),
        ({"activation": "swish"}, r"Invalid enum value 'swish' - at `\$\.activation`"),
        ({"n_heads": 5}, "dim 12 cannot be split over 5 heads"),
        ({"n_heads": 0}, r"Expected `int` >= 1 - at `\$\.n_heads`"),
        ({"dropout": 2.0}, r"Expected `float` <= 1\.0 - at `\$\.dropout`"),
        ({"pad_token_id": 1}, "the padding id must be 0"),
    ],
)
def test_a_configuration_that_is_not_ours_is_refused(
    distilbert_folder: Path, fields: dict[str, object], message: str
) -> None:
    change(distilbert_folder, **fields)
    with pytest.raises(ModelError, match=message):
        read_config(distilbert_folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_configuration_that_is_no_configuration_is_refused(distilbert_folder: Path, text: str) -> None:
    (distilbert_folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json: not the configuration of a DistilBERT"):
        read_config(distilbert_folder)


def test_a_missing_tensor_is_named(distilbert_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"tensor 'transformer\.layer\.9\.x' is missing"):
        read(distilbert_folder, {"transformer.layer.9.x": (1,)})


def test_a_missing_tensor_is_named_as_the_checkpoint_would(distilbert_folder: Path) -> None:
    path = distilbert_folder / "model.safetensors"
    save_file({f"distilbert.{name}": value for name, value in load_file(path).items()}, path)
    with pytest.raises(ModelError, match=r"tensor 'distilbert\.nothing' is missing"):
        read(distilbert_folder, {"nothing": (1,)})


def test_a_tensor_of_another_shape_is_named(distilbert_folder: Path) -> None:
    with pytest.raises(ModelError, match=rf"'{NAME}' is \(12, 12\), config.json asks \(12, 13\)"):
        read(distilbert_folder, {NAME: (12, 13)})


def test_a_damaged_file_is_refused(distilbert_folder: Path) -> None:
    path = distilbert_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ModelError, match="not a safetensors file"):
        read(distilbert_folder, {NAME: (12, 12)})
