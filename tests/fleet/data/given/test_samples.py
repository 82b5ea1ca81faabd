"""Samples from arrays, torch's datasets and tables of Hugging Face."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from core.errors import DataError
from fleet.data.given.samples import samples_of

X, Y = np.arange(4 * 9, dtype=np.float32).reshape(4, 3, 3), np.array([0, 1, 1, 2])


class Items(Dataset):
    """As torchvision's: pictures, and names of the classes."""

    classes = ("a", "b", "c")

    def __init__(self, picture: bool) -> None:
        self.picture = picture

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if self.picture:
            return Image.fromarray(X[index].astype(np.uint8)), int(Y[index])
        return torch.from_numpy(X[index])[None], torch.tensor(Y[index])


@pytest.mark.parametrize(
    "thing",
    [(X, Y), [X.tolist(), Y.tolist()], (torch.from_numpy(X), torch.from_numpy(Y))],
    ids=["arrays", "lists", "tensors"],
)
def test_arrays_stay_what_they_are(thing: Any) -> None:
    made = samples_of("mine", thing)
    assert np.array_equal(made.x, X)
    assert made.y.tolist() == Y.tolist()


def test_items_of_a_torch_dataset_are_stacked() -> None:
    pictures, tensors = samples_of("mine", Items(picture=True)), samples_of("mine", Items(picture=False))
    assert (pictures.x.dtype, pictures.x.shape, pictures.names) == (np.uint8, (4, 3, 3), ("a", "b", "c"))
    assert (tensors.x.dtype, tensors.x.shape) == (np.float32, (4, 1, 3, 3))
    assert pictures.y.tolist() == tensors.y.tolist() == Y.tolist()
    assert np.array_equal(samples_of("mine", TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))).x, X)


def test_a_table_says_which_column_is_which() -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features(
        {"id": datasets.Value("int64"), "pic": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    rows = {"id": [1, 2, 3, 4], "pic": [Image.fromarray(x.astype(np.uint8)) for x in X], "kind": Y.tolist()}
    made = samples_of("mine", datasets.Dataset.from_dict(rows, features=kinds))
    assert (made.x.dtype, made.x.shape, made.names) == (np.uint8, (4, 3, 3), ("a", "b", "c"))
    texts = samples_of("mine", datasets.Dataset.from_dict({"text": ["one two", "three"], "label": [0, 1]}))
    assert (texts.x.shape, texts.vocab) == ((2, 64), 8192)
    numbers = samples_of("mine", datasets.Dataset.from_dict({"features": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}))
    assert numbers.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(DataError, match=r"which column has the labels. known: a b; rename one to 'label'"):
        samples_of("mine", datasets.Dataset.from_dict({"a": [1], "b": [1]}))


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (3, "is a int; give arrays"),
        ([[1, 2], [3, 4], [5]], "item 2 is a list"),
        (([[1], [2, 3]], [0, 1]), "samples of different shapes"),
        ([(np.zeros(2), 0), (np.zeros(3), 1), (np.zeros(3), 1)], "samples of different shapes, such as .2,. and .3,."),
    ],
)
def test_anything_else_is_refused_in_one_line(thing: Any, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        samples_of("mine", thing)
    assert "\n" not in str(caught.value)
