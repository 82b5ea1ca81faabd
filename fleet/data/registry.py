"""Datasets by name: their metadata, their variants on disk, and the loader of each variant.

A dataset has one or more variants, best first; the first variant whose files are all present is loaded, so a full copy
is preferred to a subset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from core import own_code
from core.errors import ConfigError, DataError, did_you_mean
from fleet.data import cifar, corpora, idx, names
from fleet.data.dataset import Dataset, Kind
from fleet.data.digits import digits
from fleet.data.files import data_folder, find
from fleet.data.folder import image_folder
from fleet.data.given import HUB, hub_dataset, own_data
from fleet.data.npz import npz_file
from fleet.data.table import csv_file
from fleet.data.text import LENGTH, VOCAB

__all__ = ["DATASETS", "Known", "Variant", "load"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of a dataset on disk."""

    files: tuple[str, ...]  # in the dataset's folder
    sizes: tuple[int, int]  # train, test
    read: Callable[[Sequence[Path], int, int], Dataset]  # (paths, vocab, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A named dataset."""

    name: str
    kind: Kind
    shape: tuple[int, ...] | None  # of one sample; None: text, of the requested length
    classes: int
    variants: tuple[Variant, ...] = ()  # empty: the dataset comes with an installed package

    def found(self) -> tuple[Variant, list[Path]] | None:
        """The variant that `load` would use, and its files; None if there is none."""
        for variant in self.variants:
            paths = find(self.name, variant.files)
            if paths:
                return variant, paths
        return None


def _mnist(name: str, class_names: tuple[str, ...]) -> Known:
    variant = Variant(idx.FILES, (60_000, 10_000), lambda paths, *_: idx.mnist_family(name, paths, class_names))
    return Known(name=name, kind="image", shape=(1, 28, 28), classes=10, variants=(variant,))


def _cifar10(paths: Sequence[Path], *_: int) -> Dataset:
    folder = "cifar-10-batches-bin"
    batches = [f"{folder}/data_batch_{i}.bin" for i in range(1, 6)]
    return cifar.cifar_archive(
        "cifar10", paths[0], names.CIFAR10, train=batches, test=f"{folder}/test_batch.bin", records=10_000, labels=1
    )


def _cifar100(paths: Sequence[Path], *_: int) -> Dataset:
    train, test = ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin")
    return cifar.cifar_archive("cifar100", paths[0], names.CIFAR100, train=[train], test=test, records=50_000, labels=2)


def _subset(name: str, class_names: tuple[str, ...]) -> Callable[[Sequence[Path], int, int], Dataset]:
    return lambda paths, *_: cifar.cifar_subset(name, paths[0], class_names)


def _ag_news(paths: Sequence[Path], vocab: int, length: int) -> Dataset:
    return corpora.ag_news(paths, vocab=vocab, length=length)


def _sst2(paths: Sequence[Path], vocab: int, length: int) -> Dataset:
    return corpora.sst2(paths, vocab=vocab, length=length)


def _sst2_zip(paths: Sequence[Path], vocab: int, length: int) -> Dataset:
    return corpora.sst2_zip(paths[0], vocab=vocab, length=length)


_KNOWN = (
    Known(name="digits", kind="image", shape=(1, 8, 8), classes=10),
    _mnist("mnist", names.DIGITS),
    _mnist("fashion_mnist", names.FASHION),
    Known(
        name="cifar10",
        kind="image",
        shape=(3, 32, 32),
        classes=10,
        variants=(
            Variant(("cifar-10-binary.tar.gz",), (50_000, 10_000), _cifar10),
            Variant(("cifar10_subset.npz",), (20_000, 5_000), _subset("cifar10", names.CIFAR10)),
        ),
    ),
    Known(
        name="cifar100",
        kind="image",
        shape=(3, 32, 32),
        classes=100,
        variants=(
            Variant(("cifar-100-binary.tar.gz",), (50_000, 10_000), _cifar100),
            Variant(("cifar100_subset.npz",), (10_000, 0), _subset("cifar100", names.CIFAR100)),
        ),
    ),
    Known(
        name="ag_news",
        kind="text",
        shape=None,
        classes=4,
        variants=(
            Variant(("train.csv", "test.csv"), (120_000, 7_600), _ag_news),
            Variant(("train_subset.csv.gz", "test.csv.gz"), (9_600, 7_600), _ag_news),
        ),
    ),
    Known(
        name="sst2",
        kind="text",
        shape=None,
        classes=2,
        variants=(
            Variant(("train.tsv", "dev.tsv"), (67_349, 872), _sst2),
            Variant(("SST-2.zip",), (67_349, 872), _sst2_zip),
        ),
    ),
)
DATASETS: Mapping[str, Known] = MappingProxyType({known.name: known for known in _KNOWN})


def load(name_or_path: str | Path, *, vocab: int = VOCAB, length: int = LENGTH) -> Dataset:
    """A dataset by name, or a user's dataset by path: a folder of pictures, `.npz`, `.csv` or `.csv.gz`.

    `vocab` and `length` apply to the token ids of text. `hf:NAME` is a dataset of Hugging Face, and a name that a
    program has lent to this process is its own data (`fleet/data/given/`).
    """
    name = str(name_or_path)
    if (own := own_code.found("dataset", name)) is not None:
        return own_data(name, own)
    if name.startswith(HUB):
        return hub_dataset(name.removeprefix(HUB))
    if name in DATASETS:
        return digits() if name == "digits" else _load_known(DATASETS[name], vocab, length)
    path = Path(name).expanduser()
    if path.is_dir():
        return image_folder(path)
    if name.endswith((".csv", ".csv.gz", ".npz")):
        if not path.is_file():
            raise DataError(f"{path}: no such file; check the path")
        return npz_file(path) if name.endswith(".npz") else csv_file(path, vocab=vocab, length=length)
    if path.is_file():
        raise DataError(f"{path}: cannot tell its format; give a folder of pictures, an .npz, a .csv or a .csv.gz")
    raise ConfigError(
        f"unknown dataset {name!r}; give a path, or one of {' '.join(DATASETS)}{did_you_mean(name, DATASETS)}"
    )


def _load_known(known: Known, vocab: int, length: int) -> Dataset:
    variant_here = known.found()
    if variant_here is None:
        raise DataError(
            f"{known.name}: not found in {data_folder() / known.name}; run 'edgestill data fetch {known.name}', "
            "or set EDGESTILL_DATA to the folder that holds it"
        )
    variant, paths = variant_here
    dataset = variant.read(paths, vocab, length)
    sizes = (len(dataset.y_train), len(dataset.y_test))
    if sizes != variant.sizes:
        raise DataError(f"{paths[0]}: {sizes} train and test samples, expected {variant.sizes}; fetch or copy it again")
    return dataset
