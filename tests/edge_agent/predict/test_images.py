"""Files as inputs: arrays, and pictures as the card wants them."""

import io
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from edge_agent.predict.images import as_array, decode_input
from models.card import InputCard

PIL = pytest.importorskip("PIL.Image")
RGB = InputCard(dtype="uint8", layout="NCHW", shape=(3, 4, 2))
GREY = InputCard(dtype="uint8", layout="NCHW", shape=(1, 4, 2))
WINDOW = InputCard(dtype="float32", layout="NCL", shape=(2, 8))


def picture(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    PIL.fromarray(pixels).save(file, kind)
    return file.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (4, 2, 3), dtype=np.uint8)


def test_a_picture_of_the_right_size_keeps_its_bytes() -> None:
    for kind in ("PNG", "PPM", "BMP"):
        assert decode_input(picture(PIXELS, kind), RGB, "x").tolist() == PIXELS.transpose(2, 0, 1).tolist()


def test_other_pictures_are_resized_and_converted() -> None:
    big = np.full((40, 20, 3), (255, 0, 0), np.uint8)
    assert decode_input(picture(big), RGB, "x").reshape(3, -1).tolist() == [[255] * 8, [0] * 8, [0] * 8]
    assert decode_input(picture(big), GREY, "x").shape == (1, 4, 2)


def test_files_become_one_batch(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(PIXELS))
    np.save(tmp_path / "b.npy", np.stack([PIXELS.transpose(2, 0, 1)] * 2))
    single = as_array(str(tmp_path / "a.png"), RGB)
    assert np.shape(single) == (3, 4, 2)
    both = as_array([tmp_path / "a.png", tmp_path / "b.npy"], RGB)
    assert np.shape(both) == (3, 3, 4, 2)
    assert as_array([[1, 2]], RGB) == [[1, 2]]  # no files


@pytest.mark.parametrize(
    ("data", "card", "told"),
    [
        (b"hello", RGB, r"not an .npy file, and not a readable picture \(cannot identify image file\)$"),
        (picture(PIXELS)[:40], RGB, "not an .npy file, and (not a readable|cut short)"),
        (picture(np.full((4, 2), 1000, np.uint16)), RGB, "more than 8 bits per channel"),
        (picture(PIXELS), WINDOW, "this model takes no pictures"),
        (b"\x93NUMPY\x01\x00garbage", RGB, "not a readable .npy"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(data: bytes, card: InputCard, told: str) -> None:
    with pytest.raises(DataError, match=told) as refused:
        decode_input(data, card, "x.png")
    assert str(refused.value).startswith("x.png: ")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        as_array(tmp_path / "absent.png", RGB)
    with pytest.raises(DataError, match="No such file"):
        as_array(tmp_path / "absent.npy", RGB)


def test_a_picture_that_claims_too_many_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.sources.images.MAX_PIXELS", 7)
    with pytest.raises(DataError, match="the limit is 7"):
        decode_input(picture(PIXELS), RGB, "x.png")
