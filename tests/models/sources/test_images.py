"""One picture."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.errors import ConfigError, DataError
from models.sources.images import check_picture, decode_picture, open_picture

pytestmark = pytest.mark.light


def test_a_picture_becomes_channels_height_width_grey_or_rgb(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (6, 4), (255, 0, 0)).save(path)
    assert decode_picture(path, (6, 4), grey=False)[:, 0, 0].tolist() == [255, 0, 0]
    grey = decode_picture(path, (3, 2), grey=True)
    assert (grey.shape, grey.dtype, int(grey[0, 0, 0])) == ((1, 2, 3), np.uint8, 76)
    assert decode_picture(Path("b.png"), (6, 4), grey=False, content=io.BytesIO(path.read_bytes())).shape == (3, 4, 6)


def test_a_file_that_is_none_or_cut_short_is_told_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-700])
    with pytest.raises(DataError, match=r"a\.png: cut short or damaged"):
        decode_picture(path, (4, 4), grey=True)
    path.write_bytes(b"text")
    with pytest.raises(DataError, match=r"a\.png: not a readable picture"):
        open_picture(path)


def test_more_than_8_bits_are_not_clipped_unseen(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.full((4, 4), 3000, np.uint16)).save(path)
    with open_picture(path) as image, pytest.raises(DataError, match="more than 8 bits"):
        check_picture(path, image)


def test_without_pillow_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ConfigError, match=r"need Pillow.*edgestill\[images\]"):
        open_picture(Path("a.png"))
