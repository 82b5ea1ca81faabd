"""Every error that a user or a device can cause.

    EdgestillError                 exit code 1
    ├── ConfigError                3   a flag, a config file or a name is wrong: the user can fix it
    ├── DataError                  4   a dataset or a file of samples is missing or malformed
    ├── WireError                  5   bytes from outside are not what they should be
    │   ├── TopicError                 a topic or an id
    │   ├── TensorError                a tensor message; the text names the tensor
    │   │   └── NonFiniteError         NaN or infinity, which are never sent
    │   ├── EnvelopeError              version, size, kind or fields of an envelope
    │   │   └── SignatureError         the signature, or the key that made it
    │   └── TransferError              a chunk, or the state of a transfer
    ├── ModelError                 6   weights that do not fit a prototype, a graph that does not export
    ├── DeviceError                7   a device sent something unusable; the round continues
    │   └── DivergedError              its training reached NaN or infinity: there is nothing to send
    ├── TransportError             8   the broker cannot be used as asked
    └── RoundError                 1   a round cannot continue: an internal error
        ├── LostError              7   most devices of a round were lost: diverged, or failed otherwise
        └── StorageError               the disk, or a file of the state folder: not caused by a device

A message is one line: what, where, what to do. `raise` these for errors that a user or a device can cause; `assert` is
for bugs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import ClassVar

__all__ = [
    "ConfigError",
    "DataError",
    "DeviceError",
    "DivergedError",
    "EdgestillError",
    "EnvelopeError",
    "LostError",
    "ModelError",
    "NonFiniteError",
    "RoundError",
    "SignatureError",
    "StorageError",
    "TensorError",
    "TopicError",
    "TransferError",
    "TransportError",
    "WireError",
    "did_you_mean",
]


class EdgestillError(Exception):
    """Base of all errors that are reported in one line."""

    exit_code: ClassVar[int] = 1
    settings: tuple[str, ...] = ()  # keys of the settings that it is about, the likeliest first


class ConfigError(EdgestillError):
    """A flag, a config file or a name is wrong."""

    exit_code = 3


class DataError(EdgestillError):
    """A dataset or a file of samples is missing or malformed."""

    exit_code = 4


class WireError(EdgestillError):
    """Bytes from outside are not what they should be."""

    exit_code = 5


class TopicError(WireError):
    """A topic or an id is malformed."""


class TensorError(WireError):
    """A tensor message is malformed; the text names the tensor."""


class NonFiniteError(TensorError):
    """A tensor holds NaN or infinity."""


class EnvelopeError(WireError):
    """An envelope's version, size, kind or fields are wrong."""


class SignatureError(EnvelopeError):
    """A signature does not verify, or the key is not one."""


class TransferError(WireError):
    """A chunk, or the saved state of a transfer, is malformed."""


class ModelError(EdgestillError):
    """Weights do not fit a prototype, or a graph cannot be exported or run."""

    exit_code = 6


class DeviceError(EdgestillError):
    """A device sent something unusable."""

    exit_code = 7


class DivergedError(DeviceError):
    """Local training reached NaN or infinity."""


class TransportError(EdgestillError):
    """The broker cannot be reached or used."""

    exit_code = 8


class RoundError(EdgestillError):
    """A round cannot continue."""


class LostError(RoundError):
    """Most devices of a round were lost."""

    exit_code = 7


class StorageError(RoundError):
    """A file of the state folder is missing or damaged, or cannot be written."""


LONGEST = 100
#: Words of other tools and of papers, and ours for the same thing, the first that is known.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "eta": ("lr",),
    "step_size": ("lr",),
    "mu": ("prox",),
    "proximal_mu": ("prox",),
    "clip_norm": ("clip",),
    "max_grad_norm": ("clip",),
    "gradient_clipping": ("clip",),
    "batch": ("batch_size",),
    "epochs": ("local_epochs",),
    "num_epochs": ("epochs", "local_epochs"),
    "steps": ("local_steps",),
    "num_steps": ("steps", "local_steps"),
    "clients": ("devices",),
    "num_clients": ("devices",),
    "nodes": ("devices",),
    "num_devices": ("devices",),
    "num_rounds": ("rounds",),
    "iterations": ("rounds",),
    "fraction_fit": ("fraction",),
    "participation": ("fraction",),
    "strategy": ("recipe",),
    "algorithm": ("recipe",),
    "aggregator": ("recipe",),
    "model": ("prototypes", "prototype"),
    "models": ("prototypes", "prototype"),
    "arch": ("prototypes", "prototype"),
    "data": ("dataset",),
    "random_seed": ("seed",),
    "attackers": ("attack",),
    "dirichlet_alpha": ("alpha",),
    "backend": ("engine",),
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the synonym or the nearest of `known`, or an empty string."""
    names = list(known)
    same = [name for name in SYNONYMS.get(word.lower().replace("-", "_"), ()) if name in names]
    near = same or difflib.get_close_matches(word[:LONGEST], names, n=1)  # its time grows with the square
    return f"; did you mean {near[0]!r}?" if near else ""
