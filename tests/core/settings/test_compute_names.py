"""Names of compute devices, before there is any torch to ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.settings.compute_names import AMP, check_device_name, device_name

pytestmark = pytest.mark.light


@pytest.mark.parametrize("text", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:15"])
def test_devices_that_torch_always_knows(text: str) -> None:
    check_device_name(text)
    assert device_name(f" {text} ") == text


@pytest.mark.parametrize("text", ["gpu", "cuda:", "cuda:x", "cuda:-1", "", "CPU", "npu:0", "a" * 5000, "cuda:1000"])
def test_other_words_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ConfigError, match="give auto, cpu, cuda, cuda:1 or mps") as caught:
        check_device_name(text)
    assert len(str(caught.value)) < 120
    with pytest.raises(ValueError, match=r"^give auto, cpu, cuda, cuda:1 or mps"):
        device_name(text)


def test_a_package_that_registers_an_accelerator_makes_room_for_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "maker-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: maker\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nmaker = maker:register\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert device_name("npu:0") == "npu:0"
    with pytest.raises(ValueError, match="give auto"):
        device_name("NPU")


def test_a_name_that_torch_has_in_this_process_is_known() -> None:
    check_device_name("acc:0", registered="acc")


def test_mixed_precision_is_off_first() -> None:
    assert AMP[0] == "off"
