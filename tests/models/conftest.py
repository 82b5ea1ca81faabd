"""A DistilBERT folder small enough for a test, and users' packages with entry points."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

TINY = {"vocab_size": 40, "max_position_embeddings": 16, "dim": 12, "hidden_dim": 20, "n_layers": 2, "n_heads": 3}


@pytest.fixture
def distilbert_folder(tmp_path: Path) -> Path:
    """config.json and model.safetensors of a tiny network with random weights."""
    pytest.importorskip("torch", reason="the network is torch's")
    from safetensors.torch import save_file

    from models.text.distilbert import DistilBert
    from models.text.distilbert_files import DistilBertConfig
    from quant.layers import FloatLayers

    folder = tmp_path / "distilbert"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY | {"model_type": "distilbert", "activation": "gelu"}))
    save_file(DistilBert(FloatLayers(), DistilBertConfig(**TINY)).state_dict(), folder / "model.safetensors")
    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """install(package, source, entry_points): what pip leaves behind, in a folder of its own on sys.path."""

    def install(package: str, source: str, points: dict[str, str]) -> None:
        site = tmp_path / f"site-{package}"
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text(source)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {target}\n" for name, target in points.items())
        (info / "entry_points.txt").write_text(f"[edgestill.models]\n{lines}")
        monkeypatch.syspath_prepend(str(site))

    return install
