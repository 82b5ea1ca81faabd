"""Seeds as values: every random stream is derived from a seed and a purpose. Standard library only.

So a round that is trained again after a crash, a resumed run, another engine or another order of the devices draws the
same numbers, and a device draws the same numbers as in simulation.
"""

from __future__ import annotations

import hashlib

__all__ = ["derive_seed"]


def derive_seed(seed: int, *purpose: object) -> int:
    """A 63-bit seed for `purpose`, such as `("train", round, device)`.

    >>> derive_seed(0, "sample", 1) == derive_seed(0, "sample", 1) != derive_seed(0, "sample", 2)
    True
    """
    text = repr((seed, *purpose)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
