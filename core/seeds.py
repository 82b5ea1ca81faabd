"""Seeds as values: every draw comes from a seed and what it is for. Standard library only.

So a round that is trained again after a crash, a resumed run, another engine or another order of the devices draws the
same numbers, and a device draws what its simulated twin draws.
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
