"""The table of public files."""

import hashlib
from pathlib import Path

import pytest

from fleet.data.download.sources import SOURCES, RemoteFile
from fleet.data.files import data_folder

FILES = [(dataset, file) for dataset, files in SOURCES.items() for file in files]


@pytest.mark.parametrize(("dataset", "file"), FILES, ids=lambda value: getattr(value, "name", value))
def test_digests_have_their_length_and_mirrors_are_folders(dataset: str, file: RemoteFile) -> None:
    kind, digest = file.digest.split(":")
    assert len(digest) == {"md5": 32, "sha256": 64}[kind]
    int(digest, 16)
    assert file.mirrors
    assert all(base.startswith(("http://", "https://")) and base.endswith("/") for base in file.mirrors)
    assert "/" not in file.name


@pytest.mark.data
@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist"])
def test_sizes_and_digests_are_those_of_the_original_files(dataset: str) -> None:
    folder = data_folder() / dataset
    if not (folder / SOURCES[dataset][0].name).is_file():
        pytest.skip(f"{dataset} is not in the data folder; run: edgestill data fetch {dataset}")
    for file in SOURCES[dataset]:
        data = Path(folder, file.name).read_bytes()
        assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (file.size, file.digest)
