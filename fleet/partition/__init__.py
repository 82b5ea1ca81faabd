"""Partitions of a dataset by name: pure functions from labels to one array of indices per device.

    iid         equal random pieces                         shards      a few classes per device (McMahan et al. 2017)
    iid-skew    random pieces of unequal size               fedgen      the FedGen paper's, with caps (Zhu et al. 2021)
    dirichlet   Dirichlet by class, with a minimum size     feddf       the FedDF paper's, equal sizes (Lin et al. 2020)
    fedrad      Dirichlet by class, no minimum size         fedrad-iid  IID in three sizes (Sturluson et al. 2021)

Equal seeds give equal indices, and no sample goes to two devices. `fedgen` and `feddf` omit some samples; their modules
document which, and how their test and validation sets are built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from core import own_code
from core.errors import ConfigError, did_you_mean
from core.limits import SAMPLES, Range
from fleet.partition.common import Indices
from fleet.partition.feddf import feddf, feddf_validation
from fleet.partition.fedgen import fedgen, fedgen_test
from fleet.partition.fedrad import fedrad, fedrad_iid, fedrad_server
from fleet.partition.own import own_partition
from fleet.partition.simple import dirichlet, iid, iid_skew, shards

__all__ = [
    "PARTITIONS",
    "Indices",
    "dirichlet",
    "feddf",
    "feddf_validation",
    "fedgen",
    "fedgen_test",
    "fedrad",
    "fedrad_iid",
    "fedrad_server",
    "iid",
    "iid_skew",
    "parse_options",
    "partition",
    "shards",
    "uses_alpha",
]

PARTITIONS: Mapping[str, Callable[..., list[Indices]]] = MappingProxyType(
    {
        "dirichlet": dirichlet,
        "iid": iid,
        "iid-skew": iid_skew,
        "shards": shards,
        "fedgen": fedgen,
        "feddf": feddf,
        "fedrad": fedrad,
        "fedrad-iid": fedrad_iid,
    }
)

_FLAGS = {"name", "labels", "devices", "alpha", "seed"}  # separate parameters, not options


def uses_alpha(name: str) -> bool:
    """Whether the named partition draws from a Dirichlet distribution."""
    return "alpha" in inspect.signature(_known(name)).parameters


def partition(
    name: str, labels: npt.NDArray[np.integer], *, devices: int, alpha: float = 1.0, seed: int = 0, **options: Any
) -> list[Indices]:
    """The named partition; `alpha` is ignored unless it draws from a Dirichlet, unknown options are errors."""
    function = _known(name)
    defaults = {p.name: p.default for p in inspect.signature(function).parameters.values()}
    known = set(defaults) - _FLAGS
    for option, value in options.items():
        if option not in known:
            raise ConfigError(
                f"partition {name}: unknown option {option!r}; it has {', '.join(sorted(known)) or 'none'}"
                f"{did_you_mean(option, known)}"
            )
        expected = type(defaults[option])
        if type(value) is not expected and not (expected is float and type(value) is int):
            raise ConfigError(f"partition {name}: option {option} is {value!r}; give a value like {defaults[option]!r}")
    if seed < 0:
        raise ConfigError(f"partition {name}: seed {seed}; give 0 or more")
    if "alpha" in defaults:
        options["alpha"] = alpha
    return function(labels, devices, seed=seed, **options)


def parse_options(texts: Sequence[str]) -> dict[str, int | float | bool]:
    """Parse the options of a partition from the command line.

    >>> parse_options(["min_size=0", "ratio=0.25", "equal=no"])
    {'min_size': 0, 'ratio': 0.25, 'equal': False}
    """
    return dict(_option(text) for text in texts)


def _option(text: str) -> tuple[str, int | float | bool]:
    name, _, value = text.partition("=")
    if name in _FLAGS:
        raise ConfigError(f"option {text!r}; {name} is not an option of the partition; give --{name}")
    if value in ("yes", "no"):
        return name, value == "yes"
    try:
        number = float(value) if set(value) & set(".einf") else int(value)
    except ValueError:
        wrong = f"option {text[:80]!r}; give NAME=VALUE with a number, yes or no, such as min_size=0"
        raise ConfigError(wrong) from None
    Range(-SAMPLES.most, SAMPLES.most).check(number, f"option {name[:80]}")
    return name, number


def _known(name: str) -> Callable[..., list[Indices]]:
    if name not in PARTITIONS and (own := own_code.found("partition", name)) is not None:
        return own_partition(name, own)
    if name not in PARTITIONS:
        raise ConfigError(f"unknown partition {name!r}; known: {' '.join(PARTITIONS)}{did_you_mean(name, PARTITIONS)}")
    return PARTITIONS[name]
