"""Datasets by name: what is found, what is said when nothing is; and the real files where they are at hand."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from fleet.data import DATASETS, load
from fleet.data.download.sources import SOURCES
from fleet.data.names import CIFAR100
from tests.data_here import needs


def test_the_names_are_these() -> None:
    assert list(DATASETS) == ["digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "ag_news", "sst2"]


def test_every_dataset_that_lies_in_files_can_be_fetched_and_what_is_fetched_can_be_loaded() -> None:
    for known in DATASETS.values():
        fetched = {file.name for file in SOURCES.get(known.name, ())}
        assert not known.variants or any(set(variant.files) == fetched for variant in known.variants), known.name


def test_the_hundred_classes_are_a_hundred_in_alphabetical_order() -> None:
    assert len(CIFAR100) == len(set(CIFAR100)) == 100
    assert list(CIFAR100) == sorted(CIFAR100)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown dataset 'minst'; give a path, .* did you mean 'mnist'"):
        load("minst")


def test_a_dataset_that_is_not_there_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"mnist: not found in .* run 'edgestill data fetch mnist', or set EDGESTILL_DATA"
    ):
        load("mnist")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.touch()
    with pytest.raises(DataError, match="cannot tell its format; give a folder of pictures"):
        load(path)


def test_a_dataset_with_rows_missing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "sst2" / name).write_text("sentence\tlabel\ngood\t1\nbad\t0\n")
    with pytest.raises(DataError, match=r"\(2, 2\) train and test samples, expected \(67349, 872\)"):
        load("sst2")


def test_a_full_copy_is_preferred_to_a_subset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESTILL_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10_subset.npz").touch()
    found = DATASETS["cifar10"].found()
    assert found is not None
    assert found[0].sizes == (20_000, 5_000)
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").touch()
    found = DATASETS["cifar10"].found()
    assert found is not None
    assert found[0].sizes == (50_000, 10_000)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "per_class_train", "first_labels"),
    [
        ("mnist", (5421, 6742), [5, 0, 4, 1, 9]),
        ("fashion_mnist", (6000, 6000), [9, 0, 0, 3, 0]),
        ("cifar10", (2000, 5000), [6, 9, 9, 4, 1]),
        ("cifar100", (100, 500), None),
        ("ag_news", (2400, 30000), None),
        ("sst2", (29780, 37569), [0, 0, 1, 0, 0]),
    ],
)
def test_the_real_files_load(name: str, per_class_train: tuple[int, int], first_labels: list[int] | None) -> None:
    needs(name)
    data = load(name)
    known = DATASETS[name]
    assert data.classes == known.classes
    assert known.shape in (None, data.input_shape)
    counts = np.bincount(data.y_train)
    assert counts.min() >= per_class_train[0]
    assert counts.max() <= per_class_train[1]
    if first_labels is not None:
        assert data.y_train[:5].tolist() == first_labels
    x = data.inputs(data.x_train[:500])
    assert x.dtype == (np.int64 if data.kind == "text" else np.float32)
    if data.kind == "image":
        assert abs(float(x.mean())) < 1.0
        assert 0.3 < float(x.std()) < 1.5
