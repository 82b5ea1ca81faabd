"""A contact sheet."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.errors import ConfigError
from edge_agent.samples.contact_sheet import write_contact_sheet
from edge_agent.samples.read import survey_samples
from edge_agent.samples.spec import SourceSpec
from tests.edge_agent.samples.pictures import draw, old

pytestmark = pytest.mark.light


def sheet_of(tmp_path: Path, **spec: object) -> Image.Image:
    source = SourceSpec(**spec)
    _, _, choice = survey_samples(source, tmp_path, None)
    write_contact_sheet(tmp_path / "sheet.png", source, choice, None)
    with Image.open(tmp_path / "sheet.png") as image:
        return image.convert("RGB")


def test_every_class_has_a_row(tmp_path: Path) -> None:
    for name, value in (("cat", 30), ("dog", 220)):
        for i in range(12):
            draw(tmp_path / "p" / name / f"{i}.png", value)
    image = sheet_of(tmp_path, path=str(tmp_path / "p"), kind="folder")
    assert image.size == (120 + 10 * 68, 2 * 68)
    assert max(image.getpixel((130, 30))) < 60 < 200 < min(image.getpixel((130, 100)))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8), (5,), (2, 30)])
def test_arrays_of_any_shape_are_shown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32), y=[0, 1, 1])
    assert sheet_of(tmp_path, path=str(tmp_path / "a.npz")).size[1] == 2 * 68


def test_windows_are_shown_and_nothing_is_an_empty_sheet(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("x,label\n1,a\n2,a\n")
    old(tmp_path / "s.csv")
    assert sheet_of(tmp_path, path=str(tmp_path / "s.csv"), kind="csv", window=2).size[1] == 68
    assert sheet_of(tmp_path, path=str(tmp_path / "no"), kind="folder").size[1] == 68


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    source = SourceSpec(path=str(tmp_path / "no"), kind="folder")
    choice = survey_samples(source, tmp_path, None)[2]
    with pytest.raises(ConfigError, match="--contact-sheet"):
        write_contact_sheet(tmp_path / "absent" / "sheet.png", source, choice, None)
