"""A folder of pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.errors import DataError
from fleet.data import folder, load
from models.sources import images


def draw(path: Path, size: tuple[int, int] = (6, 4), mode: str = "L", value: object = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)  # type: ignore[arg-type]


def test_a_subfolder_is_a_class_and_small_pictures_keep_their_size(tmp_path: Path) -> None:
    for i in range(5):
        draw(tmp_path / "cat" / f"{i}.png", value=10)
        draw(tmp_path / "dog" / f"{i}.PNG", value=200)
    (tmp_path / "dog" / "notes.txt").write_text("not a picture")
    (tmp_path / ".hidden").mkdir()
    data = load(tmp_path)
    assert (data.input_shape, data.class_names) == ((1, 4, 6), ("cat", "dog"))  # Pillow's sizes are (width, height)
    assert (len(data.y_train), len(data.y_test)) == (8, 2)
    assert {(int(y), int(x.max())) for x, y in zip(data.x_train, data.y_train, strict=True)} == {(0, 10), (1, 200)}


def test_train_and_test_folders_are_kept_apart(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for i in range(count):
            draw(tmp_path / part / "a" / f"{i}.png")
            draw(tmp_path / part / "b" / f"{i}.png")
    data = load(tmp_path)
    assert (len(data.y_train), len(data.y_test)) == (6, 4)


def test_one_coloured_picture_makes_all_of_them_rgb(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "0.png", value=50)
    draw(tmp_path / "b" / "0.png", mode="RGB", value=(1, 2, 3))
    data = load(tmp_path)
    assert data.x_train[:, :, 0, 0].tolist() == [[50, 50, 50], [1, 2, 3]]


@pytest.mark.parametrize("sizes", [((6, 4), (6, 5)), ((100, 80), (100, 80))])
def test_mixed_or_large_pictures_are_resized(tmp_path: Path, sizes: tuple[tuple[int, int], ...]) -> None:
    for i, size in enumerate(sizes):
        draw(tmp_path / "ab"[i] / "0.png", size=size, value=77)
    data = load(tmp_path)
    assert data.input_shape == (1, 32, 32)
    assert np.unique(data.x_train).tolist() == [77]


def test_a_folder_without_pictures_says_what_it_should_be(tmp_path: Path) -> None:
    draw(tmp_path / "loose.png")
    with pytest.raises(DataError, match="no pictures in subfolders; put each class into a subfolder"):
        load(tmp_path)


def test_a_single_class_is_refused(tmp_path: Path) -> None:
    draw(tmp_path / "only" / "0.png")
    with pytest.raises(DataError, match="every sample has the label 'only'"):
        load(tmp_path)


def test_a_file_that_is_no_picture_is_named(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "0.png")
    (tmp_path / "a" / "1.png").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"1\.png: not a readable picture"):
        load(tmp_path)


def test_a_picture_cut_short_is_named(tmp_path: Path) -> None:
    draw(tmp_path / "b" / "0.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60), dtype=np.uint8)).save(tmp_path / "b" / "1.png")
    draw(tmp_path / "a" / "0.png")
    data = (tmp_path / "b" / "1.png").read_bytes()
    (tmp_path / "b" / "1.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"1\.png: cut short or damaged"):
        load(tmp_path)


def test_sixteen_bit_pictures_are_refused_rather_than_clipped(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "0.png", mode="I;16", value=1000)
    with pytest.raises(DataError, match="more than 8 bits per channel"):
        load(tmp_path)


def test_a_picture_of_absurd_size_is_refused_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "a" / "0.png", size=(300, 200))
    monkeypatch.setattr(images, "MAX_PIXELS", 50_000)
    with pytest.raises(DataError, match="300x200 pixels, the limit is 50,000"):
        load(tmp_path)


def test_more_pictures_than_memory_should_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(tmp_path / "a" / "0.png")
    draw(tmp_path / "b" / "0.png")
    monkeypatch.setattr(folder, "MAX_BYTES", 47)
    with pytest.raises(DataError, match="2 pictures would take 48 bytes, the limit is 47"):
        load(tmp_path)
