"""The mirrors, sizes and checksums of the datasets' original files.

MD5 where the publishers give nothing better: it detects damage, not an attacker; the loaders validate all content too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["SOURCES", "RemoteFile"]

_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One published file."""

    name: str
    digest: str  # "sha256:…" or "md5:…"
    mirrors: tuple[str, ...]  # base URLs, tried in this order
    size: int = _LIMIT  # in bytes, or an upper bound


def _files(
    mirrors: tuple[str, ...], table: Mapping[str, tuple[int, str]], kind: str = "sha256"
) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(name, f"{kind}:{digest}", mirrors, size) for name, (size, digest) in table.items())


_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_CIFAR = ("https://www.cs.toronto.edu/~kriz/",)
_NEWS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)
_GLUE = ("https://dl.fbaipublicfiles.com/glue/data/",)

SOURCES: Mapping[str, tuple[RemoteFile, ...]] = MappingProxyType(
    {
        "mnist": _files(
            _MNIST,
            {
                "train-images-idx3-ubyte.gz": (
                    9912422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                "train-labels-idx1-ubyte.gz": (
                    28881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    1648877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    4542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            },
        ),
        "fashion_mnist": _files(
            _FASHION,
            {
                "train-images-idx3-ubyte.gz": (
                    26421880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                "train-labels-idx1-ubyte.gz": (
                    29515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    4422102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    5148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            },
        ),
        "cifar10": _files(_CIFAR, {"cifar-10-binary.tar.gz": (170052171, "c32a1d4ab5d03f1284b67883e8d87530")}, "md5"),
        "cifar100": _files(_CIFAR, {"cifar-100-binary.tar.gz": (168513733, "03b5dce01913d631647c71ecec9e9cb8")}, "md5"),
        "ag_news": _files(
            _NEWS,
            {
                "train.csv": (64 << 20, "b1a00f826fdfbd249f79597b59e1dc12"),
                "test.csv": (1857427, "d52ea96a97a2d943681189a97654912d"),
            },
            "md5",
        ),
        "sst2": _files(_GLUE, {"SST-2.zip": (64 << 20, "9f81648d4199384278b86e315dac217c")}, "md5"),
    }
)
